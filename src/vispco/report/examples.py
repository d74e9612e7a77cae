"""Examples for the page: what a real model answers under real pruning, and which tokens each layer still had."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.core.runs.run_folder import RunFolder
from vispco.core.schedule import Schedule
from vispco.data.sample import Sample
from vispco.engine import Planner
from vispco.evaluation.encoded import Encoded, encode, pad_token
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.survivors import as_seen, data_uri, layers_of_tokens, token_grid
from vispco.families import family_of
from vispco.pruner.pruner import Pruner
from vispco.report.payload import Example, ExampleState
from vispco.report.progress import picked
from vispco.report.run_files import read, save_examples
from vispco.scorers import Chain, ChainLike


def pack(depth: Iterable[int]) -> str:
    """One byte per token: how many layers process it."""
    return base64.b64encode(bytes(depth)).decode()


def unpack(depth: str, rows: int, columns: int) -> list[list[int]]:
    """The depth of every token, [rows][columns]."""
    values = base64.b64decode(depth)
    return [list(values[row * columns : (row + 1) * columns]) for row in range(rows)]


_MAX_LAYERS = 255  # a token's depth is one byte


def collect(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    choices: Mapping[float, Schedule | Planner | Pruner],
    scorer: ChainLike = "fastv",
    *,
    max_new_tokens: int = 16,
) -> list[Example]:
    """Each sample unpruned, and at each budget of `choices` under its schedule, planner or pruner; greedy decoding, batch 1."""
    found, chain = [], Chain.of(scorer)
    layers = len(family_of(model).layers(model))
    if layers > _MAX_LAYERS:
        raise InvalidInputError(f"The model has {layers} layers; an example holds {_MAX_LAYERS} at most.")
    for sample in samples:
        encoded = encode(model, processor, [sample])
        place, rows, columns = token_grid(model, encoded)
        unpruned = _answer(model, processor, encoded, max_new_tokens)
        states = []
        for budget, plan in sorted(choices.items()):
            pruner = plan if isinstance(plan, Pruner) else Pruner(chain, plan, record=True)
            shown = encoded if pruner.pixels == 1.0 else encode(model, processor, [sample], pruner=pruner)
            with pruner(model):
                answer = _answer(model, processor, shown, max_new_tokens)
                depth = layers_of_tokens(pruner.survivors(model))
            own, *size = (place, rows, columns) if shown is encoded else token_grid(model, shown)
            grid = depth.new_zeros(size[0] * size[1]).scatter(0, own, depth[: len(own)]).view(1, 1, *size)
            if size != [rows, columns]:  # a smaller picture, drawn over the whole one
                grid = functional.interpolate(grid.float(), (rows, columns), mode="nearest-exact").long()
            states.append(ExampleState(budget, answer, pack(grid.flatten().tolist()), _correct(sample, answer)))
        picture = as_seen(sample.images[0], processor)
        found.append(
            Example(
                id=sample.id,
                image=data_uri(picture),
                width=picture.width,
                height=picture.height,
                question=sample.question,
                reference=sample.answer or ", ".join(dict.fromkeys(sample.references)),
                unpruned=unpruned,
                rows=rows,
                columns=columns,
                layers=layers,
                states=tuple(states),
                task=sample.task,
                scorer=chain.name,
                unpruned_correct=_correct(sample, unpruned),
            )
        )
    return found


def collect_run(
    model: Any, processor: Any, samples: Sequence[Sample], run: str | Path | RunFolder, *, max_new_tokens: int = 16
) -> list[Example]:
    """Examples of what a search found, at the budgets that it searched; written into its folder, too."""
    place = run.path if isinstance(run, RunFolder) else run
    files = read(place)
    budgets = files.config.get("budgets") or []
    if not files.deployable or not budgets:
        raise InvalidInputError(f"{place} is not the folder of a search, so it has no planners to show examples of.")
    asked = dict(zip(budgets, files.config.get("whole") or budgets, strict=True))
    pruners = {float(each): Pruner.from_pretrained(place, budget=asked[each], record=True) for each in budgets}
    chain = next(iter(pruners.values())).chain
    examples = collect(model, processor, samples, pruners, chain, max_new_tokens=max_new_tokens)
    save_examples(examples, run)
    return examples


def add_examples(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    run: str | Path | RunFolder,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """`collect_run`, where it can be done; a page without pictures is better than none, so the reason is only reported."""
    try:
        collect_run(model, processor, samples, run)
    except InvalidInputError as error:
        say(f"no examples: {error}")


def of_each_task(samples: Sequence[Sample], number: int) -> list[Sample]:
    """Samples of all tasks in turn, up to a number."""
    by_task: dict[str, list[Sample]] = {}
    for sample in samples:
        by_task.setdefault(sample.task, []).append(sample)
    depth = max(map(len, by_task.values()), default=0)
    turns = [rows[turn] for turn in range(depth) for rows in by_task.values() if turn < len(rows)]
    return turns[:number]


def choices_of(frontier: Frontier, budgets: Sequence[float]) -> dict[float, Schedule]:
    """The schedule that a frontier picks at each budget that it can afford, where one schedule holds for all samples."""
    points = {budget: picked(frontier, budget) for budget in budgets}
    return {
        budget: point.schedule
        for budget, point in points.items()
        if point is not None and not point.schedule.per_sample and not point.mean_of
    }


def _answer(model: Any, processor: Any, encoded: Encoded, max_new_tokens: int) -> str:
    with torch.no_grad():
        tokens = model.generate(
            **encoded.inputs, max_new_tokens=max_new_tokens, do_sample=False, pad_token_id=pad_token(processor)
        )
    text: str = processor.batch_decode(tokens[:, encoded.length :], skip_special_tokens=True)[0]
    return text.strip()


def _correct(sample: Sample, answer: str) -> bool | None:
    try:
        return sample.score(answer) >= 0.5
    except InvalidInputError:  # a conversation has no metric
        return None
