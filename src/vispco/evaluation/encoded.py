"""From samples to a model's inputs: one prompt each through the processor's chat template, padded on the left.

`batches` puts similar samples together: little of a batch is padding, and answers end at about the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from jinja2.exceptions import TemplateError
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.families import family_of
from vispco.models.frames import FrameProcessor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vispco.data.sample import Sample
    from vispco.pruner.pruner import Pruner

IGNORE = -100
VIDEOS = "pixel_values_videos"
PLACEHOLDERS = ("image_token", "video_token", "boi_token", "eoi_token")  # attributes of processors and tokenizers


@dataclass(frozen=True, eq=False)
class Prompt:
    """One sample as its model reads it, before a batch pads it.

    tensors: the processor's output for this sample alone; `input_ids` is [1, T], others of that shape go with it token
        by token, the rest belongs to the picture. answer: int64 [A], the reference answer with its end token; empty where
        there is no single one.
    num_visual: how many of the T tokens stand for the picture.
    """

    tensors: Mapping[str, Tensor]
    answer: Tensor
    num_visual: int


@dataclass(frozen=True, eq=False)
class Encoded:
    """A batch, on the model's device: `model.generate(**encoded.inputs)`, or `answer_logits(model, encoded)`.

    inputs: `input_ids` and `attention_mask` [B, T], padded on the left, and whatever else the family takes.
    labels: [B, T], the answer's tokens where they stand, -100 elsewhere; None if the answers are not in the batch.
    num_visual, num_text: tokens of each sample's *prompt*; padding and answer are not counted. num_instruction: text tokens
        behind the first visual one.
    """

    ids: tuple[str, ...]
    inputs: dict[str, Any]
    labels: Tensor | None
    num_visual: tuple[int, ...]
    num_text: tuple[int, ...]
    answer_lengths: tuple[int, ...]
    num_instruction: tuple[int, ...]

    @property
    def length(self) -> int:
        return int(self.inputs["input_ids"].shape[1])

    @cached_property
    def answer_mask(self) -> Tensor:
        """Which of the last A places hold an answer token; bool [B, A], A the longest answer. Answers end together."""
        if self.labels is None:
            raise InvalidInputError("This batch was encoded without its answers. Encode it with answers=True.")
        return self.labels[:, self.length - max(self.answer_lengths) :] != IGNORE


def encode(
    model: Any, processor: Any, samples: Sequence[Sample], *, answers: bool = False, pruner: Pruner | None = None
) -> Encoded:
    """Samples -> one batch of model inputs. With `answers`, each reference answer follows its prompt, with labels.

    pruner: the one that they are for, which may make pictures smaller.
    """
    processor = processor if pruner is None else pruner.prepare(processor)
    return collate(model, processor, samples, [read(model, processor, s) for s in samples], answers=answers)


def conversation(sample: Sample, processor: Any = None) -> list[dict[str, Any]]:
    """The chat that ends with the sample's question: the pictures first, then the words.

    processor: the model's; what its tokenizer would take for a special token in the words is kept from being one. Frames of
    a video are shown as one video where it takes videos, else as pictures.
    """
    media = [{"type": "video"}] if shows_video(sample, processor) else [{"type": "image"}] * sample.num_images
    turns: list[dict[str, Any]] = []
    for question, answer in (*sample.history, (sample.question, None)):
        shown = [] if turns else media
        turns.append({"role": "user", "content": [*shown, {"type": "text", "text": _plain_text(question, processor)}]})
        if answer is not None:
            turns.append({"role": "assistant", "content": [{"type": "text", "text": _plain_text(answer, processor)}]})
    return turns


def shows_video(sample: Sample, processor: Any) -> bool:
    """Whether a sample is a video, and the model takes videos."""
    rate = getattr(sample, "frames_per_second", None)  # objects of other packages may not know of videos
    return rate is not None and getattr(processor, "video_processor", None) is not None


def _plain_text(text: str, processor: Any) -> str:
    """The text with a space inside of each special token (`<image>`, `<|im_end|>`), so that it is read as words."""
    if processor is None:
        return text
    for token in _special_tokens(processor):
        while token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def _special_tokens(processor: Any) -> tuple[str, ...]:
    """What a tokenizer reads as one special token, and the placeholders of pictures; longest first."""
    tokenizer = processor.tokenizer
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    found = {*tokenizer.all_special_tokens, *(str(token.content) for token in added if token.special)}
    found |= {str(getattr(holder, name, "")) for holder in (processor, tokenizer) for name in PLACEHOLDERS}
    return tuple(sorted((token for token in found if len(token) > 1 and not token.isspace()), key=len, reverse=True))


def apply_template(processor: Any, chat: Sequence[Mapping[str, Any]], *, prompt: bool = True) -> str:
    """A chat as the model's own template writes it. prompt: with the beginning of the answer.

    Where the template knows pictures alone, a video stands where a picture would, between the same marks.
    """
    video = getattr(processor, "video_token", None)
    try:
        text: str = processor.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=prompt)
        parts = [part for turn in chat if not isinstance(turn["content"], str) for part in turn["content"]]
        kinds = [part["type"] for part in parts if part["type"] in ("image", "video")]
        if "video" not in kinds or not video or video in text:
            return text
        pictures = [_with_pictures(turn) for turn in chat]
        picture = getattr(processor, "placeholder", None) or processor.image_token
        text = processor.apply_chat_template(pictures, tokenize=False, add_generation_prompt=prompt)
        first, *rest = text.split(picture)
        tokens = [video if kind == "video" else picture for kind in kinds]
        return first + "".join(token + part for token, part in zip(tokens, rest, strict=True))
    except (TemplateError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InvalidInputError(
            f"The model's chat template cannot be used: {reason.strip().rstrip('.')}. Give a processor whose "
            "apply_chat_template takes turns with pictures (chat_template.jinja in the model's folder)."
        ) from error


def _with_pictures(turn: Mapping[str, Any]) -> dict[str, Any]:
    """A turn with pictures in place of videos."""
    content = turn["content"]
    if not isinstance(content, str):
        content = [{"type": "image"} if part["type"] == "video" else part for part in content]
    return {**turn, "content": content}


def read(model: Any, processor: Any, sample: Sample) -> Prompt:
    """One sample through the processor: the expensive part (it resizes the picture), worth keeping."""
    chat = conversation(sample, processor)
    text = apply_template(processor, chat)
    begin = processor.tokenizer.bos_token
    options = {"add_special_tokens": False} if begin and text.startswith(begin) else {}
    pictures = list(sample.images)
    shown: dict[str, Any] = {"images": [pictures]}
    if shows_video(sample, processor):  # frames that are all to be used, and how many are a second
        rate = float(sample.frames_per_second or 1.0)
        about = {"total_num_frames": len(pictures), "fps": rate, "frames_indices": list(range(len(pictures)))}
        plain = isinstance(processor.video_processor, FrameProcessor)
        given = {"fps": rate} if plain else {"video_metadata": [about], "do_sample_frames": False}
        shown = {"videos": [pictures], **given}
    found = processor(text=[text], return_tensors="pt", **shown, **options)
    tensors = {name: value for name, value in found.items() if isinstance(value, Tensor)}
    visual = torch.tensor(family_of(model).visual_token_ids(model))
    num_visual = int(torch.isin(tensors["input_ids"], visual).sum())
    answer = torch.empty(0, dtype=torch.long)
    if sample.answer:
        answer = _answer_tokens(model, processor, chat, _plain_text(sample.answer, processor))
    return Prompt(tensors, answer, num_visual)


def _answer_tokens(model: Any, processor: Any, chat: list[dict[str, Any]], answer: str) -> Tensor:
    """An answer as the template writes it after its prompt, up to and with the token that ends a turn. [A]"""
    asked = apply_template(processor, chat)
    reply = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
    whole = apply_template(processor, [*chat, reply], prompt=False)
    text = whole[len(asked) :].rstrip() if whole.startswith(asked) else answer
    tokens: list[int] = processor.tokenizer(text, add_special_tokens=False)["input_ids"]
    ends = end_tokens(model, processor)
    for place, token in enumerate(tokens):
        if token in ends:
            return torch.tensor(tokens[: place + 1])
    return torch.tensor([*tokens, ends[0]])


def end_tokens(model: Any, processor: Any) -> tuple[int, ...]:
    """The tokens that end an answer, the tokenizer's own first."""
    known: Any = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    known = known if isinstance(known, list | tuple) else [known]
    ends = dict.fromkeys(i for i in (processor.tokenizer.eos_token_id, *known) if isinstance(i, int))
    if not ends:
        raise InvalidInputError(
            "Neither the tokenizer nor model.generation_config has an eos token, so no answer would ever end. "
            "Set processor.tokenizer.eos_token."
        )
    return tuple(ends)


def collate(
    model: Any, processor: Any, samples: Sequence[Sample], prompts: Sequence[Prompt], *, answers: bool = False
) -> Encoded:
    """Prompts that were read before -> one batch."""
    if not samples:
        raise InvalidInputError("No samples were given. A batch needs at least one.")
    lengths = tuple(len(p.answer) if answers else 0 for p in prompts)
    sizes = [p.tensors["input_ids"].shape[1] for p in prompts]
    width = max(size + extra for size, extra in zip(sizes, lengths, strict=True))
    inputs: dict[str, Any] = {}
    for name in dict.fromkeys(name for prompt in prompts for name in prompt.tensors):
        values = [p.tensors[name] for p in prompts if name in p.tensors]  # some may show pictures, others a video
        whole = len(values) == len(prompts)
        if whole and any(value.shape == (1, size) for value, size in zip(values, sizes, strict=True)):
            inputs[name] = _padded(name, values, prompts, lengths, width, pad_token(processor))
        else:
            inputs[name] = _stacked(name, values)
    inputs["attention_mask"] = _padded(
        "attention_mask", [torch.ones(1, size, dtype=torch.long) for size in sizes], prompts, lengths, width, 0
    )
    labels = None
    if answers:
        labels = torch.full((len(prompts), width), IGNORE)
        for row, prompt in zip(labels, prompts, strict=True):
            row[width - len(prompt.answer) :] = prompt.answer
    known = torch.tensor(family_of(model).visual_token_ids(model))
    shown = [torch.isin(p.tensors["input_ids"], known) for p in prompts]
    visual = tuple(p.num_visual for p in prompts)
    text = tuple(size - count for size, count in zip(sizes, visual, strict=True))
    device = model.device
    return Encoded(
        tuple(s.id for s in samples),
        {name: value.to(device) for name, value in inputs.items()},
        None if labels is None else labels.to(device),
        visual,
        text,
        lengths,
        tuple(int((~seen & (seen.cumsum(-1) > 0)).sum()) for seen in shown),
    )


def pad_token(processor: Any) -> int:
    tokenizer = processor.tokenizer
    return int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)


def _padded(
    name: str, values: list[Tensor], prompts: Sequence[Prompt], lengths: tuple[int, ...], width: int, pad: int
) -> Tensor:
    """Rows [1, T_i] -> [B, width]: padding on the left, the answer (if it is wanted) on the right."""
    is_ids = name == "input_ids"
    out = torch.full((len(values), width), pad if is_ids else 0, dtype=values[0].dtype)
    for row, value, prompt, extra in zip(out, values, prompts, lengths, strict=True):
        row[width - extra - value.shape[1] : width - extra] = value[0]
        if extra:
            row[width - extra :] = prompt.answer if is_ids else int(name == "attention_mask")
    return out


def _stacked(name: str, values: list[Tensor]) -> Tensor:
    """Picture tensors one after the other; where their sizes differ (tiles), zeros fill up as processors do."""
    if name == VIDEOS and len({value.shape[1] for value in values if value.dim() == 5}) > 1:
        raise InvalidInputError(
            "Videos of different numbers of frames stand in one batch, which this model cannot take. Use batch_size=1, or give "
            "videos of one length."
        )
    rest = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]
    if any(list(value.shape[1:]) != rest for value in values):
        grown = [value.new_zeros(value.shape[0], *rest) for value in values]
        for room, value in zip(grown, values, strict=True):
            room[tuple(slice(size) for size in value.shape)] = value
        values = grown
    return torch.cat(values)


@dataclass(frozen=True, eq=False)
class SampleBatch:
    """Some samples, and their places among all."""

    rows: tuple[int, ...]
    samples: tuple[Sample, ...]


def batches(samples: Sequence[Sample], size: int, answer_lengths: Sequence[int]) -> list[SampleBatch]:
    """Cut samples into batches by length of the answer, then picture area (which orders visual tokens), then question.

    The cut depends on the samples only, not on their order, so neither does anything that is computed from it.
    """
    if size < 1:
        raise InvalidInputError(f"batch_size={size} was given. Give 1 or more.")
    if not samples:
        raise InvalidInputError("No samples were given. An evaluation needs at least one.")
    ids = [sample.id for sample in samples]
    if len(set(ids)) != len(ids):
        twice = next(key for key in ids if ids.count(key) > 1)
        raise InvalidInputError(f"The sample {twice!r} is there twice. Every sample needs an id of its own.")
    keys = [(length, s.area, len(s.question), s.id) for s, length in zip(samples, answer_lengths, strict=True)]
    order = sorted(range(len(samples)), key=keys.__getitem__)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return [SampleBatch(tuple(part), tuple(samples[row] for row in part)) for part in parts]


def answer_limits(
    model: Any, processor: Any, samples: Sequence[Sample], given: int | None
) -> tuple[list[int], list[int]]:
    """How many tokens each sample's answer may have, and by which length samples are best put together.

    The limit is what was given, or the sample's own (a benchmark's row has one), or what the longest reference takes.
    """
    own: list[int | None] = [sample.max_new_tokens for sample in samples]
    references = [
        len(_answer_tokens(model, processor, conversation(sample), sample.answer)) if limit is None else 0
        for sample, limit in zip(samples, own, strict=True)
    ]
    longest = max(references, default=1)
    limits = [given or limit or longest for limit in own]
    return limits, [limit or length for limit, length in zip(own, references, strict=True)]
