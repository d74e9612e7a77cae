"""From a finished training run to a folder that any transformers program can load, with a card that describes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForImageTextToText

from vispco.core.errors import InvalidInputError
from vispco.core.runs import files
from vispco.data.dataset import dataset
from vispco.models.processor import load_processor
from vispco.models.shipped import CARD
from vispco.models.smol import join
from vispco_zoo.answers import accuracy, with_pixels
from vispco_zoo.definitions import build_image_processor, definition
from vispco_zoo.layer_removal import KL, POINTS, measure_layer_removal
from vispco_zoo.smol import write_parts
from vispco_zoo.tokenizer import build_tokenizer
from vispco_zoo.wordings import reworded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.data.sample import Sample

_README = "README.md"
_FEWER_PIXELS = (0.5, 0.25)  # shares of the pixels that a model trained at many sizes is measured with, too
_REMOVAL_ITEMS = 64  # test items per task that each layer is left out on
_BARS = " ▁▂▃▄▅▆▇█"


def save_model(name: str, model: Any, folder: Path) -> None:
    """Configuration, half-precision weights, tokenizer and image processor, under the names that a hub model has."""
    kind = definition(name)
    folder.mkdir(parents=True, exist_ok=True)
    if kind.pretrained:  # the language model and its tokenizer are fetched, not shipped
        write_parts(model, folder)
    else:
        model.to(torch.float16).save_pretrained(folder)
        model.to(torch.float32)
        build_tokenizer(name).save_pretrained(folder)
        _edit(folder / "tokenizer_config.json", processor_class=kind.processor_class)
    build_image_processor(name).save_pretrained(folder)
    _edit(folder / "preprocessor_config.json", processor_class=kind.processor_class)
    if kind.video_processor_class:
        shutil.copy(folder / "preprocessor_config.json", folder / "video_preprocessor_config.json")
        _edit(folder / "video_preprocessor_config.json", video_processor_type=kind.video_processor_class)
    options = {"processor_class": kind.processor_class, **kind.processor_options}
    files.write_json(folder / "processor_config.json", options, indent=2)


def _edit(file: Path, **values: Any) -> None:
    found = json.loads(file.read_text())
    files.write_text(file, json.dumps(found | values, indent=2, sort_keys=True) + "\n")


def check_destination(folder: Path) -> list[str]:
    """Names of the files in `folder` that an earlier export wrote; raise if there is anything else in it."""
    if not folder.exists():
        return []
    written = [*_listed(folder), CARD, _README] if (folder / CARD).is_file() else []
    others = sorted(file.name for file in folder.iterdir() if file.name not in written)
    if others:
        raise InvalidInputError(
            f"{folder} holds files that no training wrote ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''}). "
            "They would be mixed with the model: take another --out, or move them away."
        )
    return [name for name in written if (folder / name).is_file()]


def _listed(folder: Path) -> dict[str, str]:
    """The files that the card of a folder lists, with their checksums. A card that lists other places lists nothing."""
    try:
        found = json.loads((folder / CARD).read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    plain = isinstance(found, dict) and all(name == Path(name).name and name not in ("", "..") for name in found)
    return found if plain else {}


def publish(source: Path, folder: Path) -> None:
    """Move the files of `source` to `folder`, in place of an earlier export. The card comes first: it lists the rest."""
    before, listed = check_destination(folder), _listed(folder)
    folder.mkdir(parents=True, exist_ok=True)
    moved = sorted((file.name for file in source.iterdir()), key=lambda name: name != CARD)
    for name in moved:
        shutil.move(source / name, folder / name)
    for name in set(before) - set(moved):
        if files.digest_file(folder / name) == listed.get(name):  # a file that was changed since is not ours to delete
            (folder / name).unlink()


def export(trainer: Any, folder: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Save the model of a run, measure what was saved on the test set, and write its card. Returns the card's facts."""
    check_destination(folder)
    trainer.out.mkdir(parents=True, exist_ok=True)
    unfinished = trainer.out / files.temporary_name("export")
    try:
        save_model(trainer.name, trainer.model, unfinished)
        facts = _measure(trainer, unfinished, limit)
        curve = files.read_json_lines(trainer.curve, what="curve") if trainer.curve.exists() else []
        thin = [entry for entry in curve if entry["step"] > trainer.plan.warmup]
        _write_card(unfinished, facts, thin[:: max(1, len(thin) // 100)])
        publish(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return facts


def _measure(trainer: Any, folder: Path, limit: int | None) -> dict[str, Any]:
    """The facts of the card: how the model was made, and what the saved weights can do."""
    pretrained, whole = definition(trainer.name).pretrained, folder
    if pretrained:
        whole = trainer.out / "joined"
        join(folder, whole)
    model = AutoModelForImageTextToText.from_pretrained(whole, dtype=torch.float32).eval()
    processor = load_processor(whole)
    samples = dataset("test", limit=limit)[:]

    def scores(given: Sequence[Sample], **options: Any) -> dict[str, float]:
        return {task: round(value, 4) for task, value in accuracy(model, processor, given, **options).items()}

    facts = {
        "name": trainer.name,
        "architecture": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "layers": model.config.text_config.num_hidden_layers,
        "visual_tokens": definition(trainer.name).visual_tokens,
        "command": f"OMP_NUM_THREADS={torch.get_num_threads()} vispco zoo train {trainer.name} --seed {trainer.seed}",
        "seed": trainer.seed,
        "steps": trainer.progress.step,
        "seconds": round(trainer.progress.seconds),
        "recipe": trainer.plan.to_dict(),
        "test_items": len(samples),
        "accuracy": scores(samples),
        "blank": scores(samples, blank=True),
    }
    if pretrained:
        facts["reworded"] = scores(reworded(samples))
        facts["progress"] = vars(trainer.progress)
    if trainer.plan.resampled:
        facts["fewer_pixels"] = {f"{share:g}": scores(with_pixels(samples, share)) for share in _FEWER_PIXELS}
    if trainer.plan.growth is not None:  # do the added layers do anything?
        few = dataset("test", limit=min(limit or _REMOVAL_ITEMS, _REMOVAL_ITEMS))[:]
        found = measure_layer_removal(model, build_image_processor(trainer.name), few)
        facts["removal_items"] = len(few)
        facts["removal"] = [[round(entry.points, 2), round(entry.kl, 5)] for entry in found]
        facts["layers_that_matter"] = round(sum(entry.matters for entry in found) / len(found), 4)
    return facts


def _sparkline(values: list[float]) -> str:
    """A curve of numbers in [0, 1] in one line of text."""
    picked = values[:: -(-len(values) // 60)]
    return "".join(_BARS[round(min(1.0, max(0.0, value)) * (len(_BARS) - 1))] for value in picked)


def _accuracy_table(scores: dict[str, float], blank: dict[str, float], fewer: dict[str, dict[str, float]]) -> str:
    """Accuracy by task as Markdown. fewer: the same with a share of the pixels, by that share."""
    columns = {"accuracy": scores, **{f"{float(share):.0%} of the pixels": found for share, found in fewer.items()}}
    columns["image blanked"] = blank
    rows = [f"| task | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    rows += [
        f"| {task} | {' | '.join(f'{100 * found[task]:.1f} %' for found in columns.values())} |" for task in scores
    ]
    return "\n".join(rows)


def _removal_table(facts: dict[str, Any]) -> str:
    """What the removal of each layer costs as Markdown; empty if it was not measured."""
    if "removal" not in facts:
        return ""
    rows = [f"| {i} | {points:.1f} | {kl:.4f} |" for i, (points, kl) in enumerate(facts["removal"])]
    return f"""
## What each layer does

One layer at a time is left out, on {facts["removal_items"]} test items with teacher-forced answers. The table has the points of
accuracy that this costs, and KL(without the layer || whole model) of the answers. {facts["layers_that_matter"]:.0%} of the layers
cost more than {POINTS} points or {KL} of KL.

| layer | points | KL |
|---|---|---|
{chr(10).join(rows)}
"""


def _write_card(folder: Path, facts: dict[str, Any], curve: list[dict[str, Any]]) -> None:
    """README.md for people, card.json with the same facts, the curve and the checksums of the files."""
    names = sorted(file.name for file in folder.iterdir() if file.name not in (CARD, _README))
    facts = facts | {"curve": curve, "sha256": files.digest_files(folder, names)}
    files.write_json(folder / CARD, facts)
    lines = [f"    {_sparkline([entry[task] for entry in curve])}  {task}" for task in facts["accuracy"] if curve]
    late = ",\nand counts higher near the end" if facts["recipe"]["polish"] else ""
    growth = facts["recipe"]["growth"]
    origin = "trained from scratch on" if growth is None else f"grown from `{growth['model']}` and trained on with"
    knows = " It knows nothing else."
    if "reworded" in facts:
        origin = "SmolLM2-135M-Instruct with a tower, a connector and an adapter that were trained on"
        knows = " The language model is not in this folder: `vispco zoo get smol` fetches it."
    text = f"""# {facts["name"]}

A {facts["architecture"]} of {facts["parameters"]:,} parameters, {origin} the drawn pictures of
`vispco.data`: {facts["layers"]} decoder layers, {facts["visual_tokens"]} visual tokens.{knows}

    {facts["command"]}

Seed {facts["seed"]}, {facts["steps"]:,} steps, {facts["seconds"] / 60:.0f} minutes of training. The number of threads is part of
the command: another one adds up in another order.

## Accuracy on the test set ({facts["test_items"]} items)

{_accuracy_table(facts["accuracy"], facts["blank"], facts.get("fewer_pixels", {}))}
{_removal_table(facts)}
## Curve

Training accuracy from the first answer to the last step, 0 to 100 %. Scenes grow fuller on the way{late}.

{chr(10).join(lines)}

Weights are stored in half precision. `card.json` holds the same facts, the whole curve and the checksums.
"""
    files.write_text(folder / _README, text)
