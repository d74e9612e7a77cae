"""vispco in lmms-eval: `--model vispco --model_args pretrained=MODEL,pruner=DIR,budget=0.5`.

With `base=qwen2_5_vl` (or any model of lmms-eval's own that holds a transformers model), that model runs as lmms-eval has
it, pruned; without it, the prompt is made as `vispco evaluate` makes it. Loaded by lmms-eval through the entry point
group `lmms_eval.models`.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch
from lmms_eval import utils
from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.protocol import ChatMessages
from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.data.files.pictures import load_image
from vispco.evaluation.encoded import Prompt, collate, pad_token
from vispco.families import family_of
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruner_spec import BUDGET, PrunerSpec
from vispco.serving.ask import PictureQuestion
from vispco.serving.ask.prompt_inputs import prompt_inputs

_MAX_NEW_TOKENS = 128  # of a task that gives none, as lmms-eval's own models have it


class VispcoModel(lmms):  # type: ignore[misc]  # lmms-eval is untyped
    """Any model that `vispco.load` loads, pruned or not, in lmms-eval's chat interface.

    pretrained: a shipped model, a folder, or a hub id. pruner: the folder of a search; method: a published method or a
    chain; budget: a fraction of the unpruned FLOPs (0.5 where only a pruner or method is given). Without all three the
    model is not pruned. base: a model of lmms-eval's own to prune in place of ours; other arguments go to it.
    """

    is_simple = False

    def __init__(
        self,
        pretrained: str = "tiny-qwen",
        *,
        pruner: str | None = None,
        method: str | None = None,
        budget: float | None = None,
        batch_size: int | str = 1,
        **loading: Any,
    ) -> None:
        super().__init__()
        loading.pop("max_batch_size", None)
        try:
            spec = ModelSpec(pretrained, **{name: value for name, value in loading.items() if value is not None})
        except TypeError as error:
            raise InvalidInputError(
                f"--model_args of vispco: {error}. It takes pretrained, pruner, method, budget, base, dtype, device, "
                "device_map, attn_implementation, revision and trust_remote_code."
            ) from error
        self.model, self.processor = spec.load()
        self.batch_size = int(batch_size) if str(batch_size).isdigit() else 1
        self.pruner = _prune(self.model, pruner, method, budget, self.processor)
        self.processor = self.processor if self.pruner is None else self.pruner.prepare(self.processor)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # accelerate launch, torchrun: lmms-eval shares requests by rank
            from accelerate import Accelerator  # noqa: PLC0415

            self.accelerator = Accelerator()
            self._rank, self._world_size = self.accelerator.process_index, self.accelerator.num_processes

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> Any:
        """A model of ours, or, with `base=NAME`, one of lmms-eval's own with a pruner on it."""
        args = utils.simple_parse_args_string(arg_string)
        base = args.pop("base", None)
        more = {name: value for name, value in (additional_config or {}).items() if value is not None}
        if base is None:
            return cls(**args, **more)
        from lmms_eval.models import get_model  # noqa: PLC0415

        wanted = [args.pop(name, None) for name in ("pruner", "method", "budget")]
        made = get_model(base)(**args, **more)
        _prune(made.model, *wanted)
        return made

    def generate_until(self, requests: list[Any]) -> list[Any]:
        """Answers in the order of the requests; requests of the same settings are batched."""

        def by_length(args: tuple[Any, ...]) -> tuple[int, Any]:
            return -len(args[0]), args[0]

        ordered = utils.Collator(
            [request.args for request in requests], by_length, group_fn=lambda args: args[2], grouping=True
        )
        found: list[Any] = []
        for chunk in ordered.get_batched(n=self.batch_size, batch_fn=None):
            found += self._answer(chunk)
        return list(ordered.get_original(found))

    def _answer(self, chunk: list[tuple[Any, ...]]) -> list[Any]:
        settings = dict(chunk[0][2])
        visual = torch.tensor(family_of(self.model).visual_token_ids(self.model))
        no_answer = torch.empty(0, dtype=torch.long)
        prompts, samples = [], []
        for number, (_, doc_to_messages, _, doc, task, split) in enumerate(chunk):
            turns, images = _chat(ChatMessages(messages=doc_to_messages(self.task_dict[task][split][doc])))
            tensors = prompt_inputs(self.processor, turns, images)
            prompts.append(Prompt(tensors, no_answer, int(torch.isin(tensors["input_ids"], visual).sum())))
            samples.append(PictureQuestion((), "asked by lmms-eval", id=str(number)))
        batch = collate(self.model, self.processor, samples, prompts)
        with torch.no_grad():
            tokens = self.model.generate(
                **batch.inputs, **_generation(settings), pad_token_id=pad_token(self.processor)
            )[:, batch.length :]
        texts = self.processor.batch_decode(tokens, skip_special_tokens=True)
        lengths = (tokens != pad_token(self.processor)).sum(-1).tolist()
        return [
            GenerationResult(text=_cut(text, settings.get("until")), token_counts=TokenCounts(output_tokens=length))
            for text, length in zip(texts, lengths, strict=True)
        ]

    def loglikelihood(self, requests: list[Any]) -> Any:
        raise InvalidInputError(
            f"vispco answers by generation; {len(requests)} requests ask for likelihoods. Use base=."
        )

    def generate_until_multi_round(self, requests: list[Any]) -> Any:
        raise InvalidInputError(
            f"vispco answers one question at a time; {len(requests)} requests have rounds. Use base=."
        )


def _prune(model: Any, run: str | None, method: str | None, budget: float | None, processor: Any = None) -> Any:
    """Put the chosen pruner on a model for good; None where nothing was chosen.

    processor: the one whose pictures will be read as the pruner wants them; without it, one that makes them smaller is
    refused.
    """
    if run is None and method is None and budget is None:
        return None
    spec = PrunerSpec.choose(pruner=run, method=method, budget=BUDGET if budget is None else budget)
    pruner = spec.resolve(model)
    if processor is not None:
        pruner.prepare(processor)
    pruner.apply(model)
    return pruner


def _chat(messages: ChatMessages) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    turns: list[dict[str, Any]] = []
    images: list[Image.Image] = []
    for message in messages.messages:
        parts: list[dict[str, Any]] = []
        for part in message.content:
            if part.type == "text":
                parts.append({"type": "text", "text": part.text})
            elif part.type == "image":
                given = part.url
                images.append(given.convert("RGB") if isinstance(given, Image.Image) else load_image(Path(given)))
                parts.append({"type": "image"})
            else:
                raise InvalidInputError(f"vispco reads text and images; this task has {part.type}. Use base=.")
        turns.append({"role": message.role, "content": parts})
    return turns, images


def _generation(settings: dict[str, Any]) -> dict[str, Any]:
    temperature = float(settings.get("temperature") or 0.0)
    found: dict[str, Any] = {
        "max_new_tokens": int(settings.get("max_new_tokens") or _MAX_NEW_TOKENS),
        "num_beams": int(settings.get("num_beams") or 1),
        "do_sample": temperature > 0.0,
    }
    if temperature > 0.0:
        found["temperature"] = temperature
        with contextlib.suppress(KeyError, TypeError):
            found["top_p"] = float(settings["top_p"])
    return found


def _cut(text: str, until: Any) -> str:
    """What stands before the first of the texts at which a task lets answers end."""
    for end in [until] if isinstance(until, str) else until or ():
        if end:
            text = text.split(end, maxsplit=1)[0]
    return text.strip()
