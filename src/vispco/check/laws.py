"""The laws of the engine, each run on one model: what holds, what is refused, and what is wrong."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from vispco.check.oracle import oracle_prefill, sliced_prefill
from vispco.check.prompts import ONE, TWO, Prompter, copied
from vispco.check.twin import FIRST_WORD
from vispco.core.errors import VispcoError
from vispco.core.schedule import Schedule
from vispco.engine.layer_map import LayerMap
from vispco.families import family_of
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain

_TOLERANCE = 1e-4  # of the spread of the logits
_NEW = 4
_COMPENSATE = 0.75
_SAMPLES = (ONE, TWO, (1, "picture", 9))


@dataclass(frozen=True)
class Subject:
    """A model on which laws are run.

    scorer: with which tokens are chosen. first: the first layer before which tokens may leave; behind the last layer without
    attention, because before that masking is something else than dropping.
    """

    model: nn.Module
    prompter: Prompter
    scorer: str = "fastv"
    first: int = 1

    @property
    def num_layers(self) -> int:
        return len(family_of(self.model).layers(self.model))

    @property
    def schedule(self) -> Schedule:
        """All tokens up to `first`, then fewer, then fewest."""
        steps = [0.7] * max(self.num_layers - self.first - 1, 0) + [0.3]
        return Schedule(tuple([1.0] * (self.num_layers - len(steps)) + steps))

    def pruner(self, schedule: Schedule | None = None, **options: Any) -> Pruner:
        return Pruner(self.scorer, schedule or self.schedule, **options)


class LawBrokenError(Exception):
    """A law does not hold; the message says by how much."""


def full_retention_is_bit_identical(subject: Subject) -> None:
    inputs = subject.prompter(_SAMPLES)
    whole = _logits(subject, inputs)
    modes: list[Any] = ["drop"]
    with suppress(VispcoError), subject.pruner(mode="mask")(subject.model):
        modes.append("mask")
    for mode in modes:
        kept = _logits(subject, inputs, subject.pruner(Schedule.full(subject.num_layers), mode=mode))
        if not torch.equal(kept, whole):
            raise LawBrokenError(f"with all tokens kept ({mode}) logits differ by {_largest(kept - whole):.1e}")


def masking_equals_dropping(subject: Subject) -> None:
    inputs = subject.prompter(_SAMPLES)
    dropped = _logits(subject, inputs, subject.pruner())
    masked = _logits(subject, inputs, subject.pruner(mode="mask"))
    whole = _logits(subject, inputs)
    text = _text(subject, inputs)
    _compare(dropped, masked, text, "masked and dropped logits")
    if _largest((dropped - whole)[text]) <= _TOLERANCE * _spread(whole):
        raise LawBrokenError("nothing was pruned")


def kept_tokens_are_those_of_eager_attention(subject: Subject) -> None:
    """For FastV, by whose rule the oracle chooses; other scorers keep other tokens."""
    chain = Chain.of(subject.scorer)
    if [scorer.name for scorer in chain.scorers] != ["fastv"]:
        return
    inputs = subject.prompter([ONE])
    pruner = subject.pruner(record=True)
    with torch.no_grad(), pruner(subject.model):
        logits = _call(subject, inputs)
        live = [mask[0].tolist() for mask in pruner.survivors(subject.model)]
    visual = subject.prompter.visual(inputs)[0].nonzero()[:, 0].tolist()
    retention = subject.schedule.retention
    expected, kept = oracle_prefill(subject.model, inputs, visual, retention, compensate=chain.compensate)
    found = [[p for p, alive in zip(visual, mask, strict=True) if alive] for mask in live]
    if found != kept:
        layer = next(i for i, (a, b) in enumerate(zip(found, kept, strict=True)) if a != b)
        same = len(set(found[layer]) & set(kept[layer]))
        raise LawBrokenError(f"{same} of {len(kept[layer])} tokens kept at layer {layer} are the right ones")
    _compare(logits, expected, _text(subject, inputs), "logits and those of the eager model with columns closed")


def dropped_tokens_are_gone_for_layers_without_attention(subject: Subject) -> None:
    """Where masking says nothing: the layers after a drop are handed what is left, as if by hand."""
    if LayerMap.of(family_of(subject.model), subject.model).last_mixing < 0:
        return
    inputs = subject.prompter([ONE])
    schedule = Schedule((0.7, *[0.7] * (subject.num_layers - 2), 0.3))
    pruner = Pruner("random", schedule, record=True)
    with torch.no_grad(), pruner(subject.model):
        logits = _call(subject, inputs)
        live = [mask[0].tolist() for mask in pruner.survivors(subject.model)]
    visual = subject.prompter.visual(inputs)[0].nonzero()[:, 0].tolist()
    gone = [{p for p, alive in zip(visual, mask, strict=True) if not alive} for mask in live]
    kept = [[p for p in range(inputs["input_ids"].shape[1]) if p not in lost] for lost in gone]
    expected = sliced_prefill(subject.model, inputs, kept)
    everything = torch.ones(1, len(kept[-1]), dtype=torch.bool)
    _compare(logits[:, kept[-1]], expected, everything, "logits and those of layers that were handed fewer tokens")


def outputs_that_are_read_are_right(subject: Subject) -> None:
    """Whatever a schedule drops, logits at positions that a caller reads are those of the oracle.

    Prompts that begin with, end with and consist of pictures, and a position inside of a picture that is asked for by index.
    """
    withdrawn = Schedule.withdraw(subject.first, subject.num_layers)
    for sample in (("picture", 4), (3, "picture"), ("picture",), (2, "picture", 1, "picture")):
        inputs = subject.prompter([sample])
        visual = subject.prompter.visual(inputs)[0].nonzero()[:, 0].tolist()
        last = inputs["input_ids"].shape[1] - 1
        named = "logits_to_keep" in inspect.signature(subject.model.forward).parameters
        for asked in ([last], [visual[1], last])[: 1 + named]:
            given = inputs if len(asked) == 1 else {**inputs, "logits_to_keep": torch.tensor(asked)}
            found = _logits(subject, given, subject.pruner(withdrawn))
            if len(asked) > 1 and found.shape[1] != len(asked):
                continue  # this class takes the argument and does not heed it
            found = found[:, -len(asked) :]
            read = [position for position in asked if position in visual]
            expected, _ = oracle_prefill(subject.model, inputs, visual, withdrawn.retention, read=read)
            everything = torch.ones(1, len(asked), dtype=torch.bool)
            what = f"logits that are read of a prompt {sample} and those of the oracle"
            _compare(found, expected[:, asked], everything, what)


def caches_hold_what_the_schedule_says(subject: Subject) -> None:
    inputs = subject.prompter([ONE])
    counts = subject.schedule.counts([int(subject.prompter.visual(inputs).sum())])[0].tolist()
    text = int((~subject.prompter.visual(inputs)).sum())
    with _no_stop(subject.model), subject.pruner()(subject.model):
        out = subject.model.generate(  # type: ignore[operator]
            **copied(inputs), max_new_tokens=1, do_sample=False, return_dict_in_generate=True, pad_token_id=0
        )
    cache = out.past_key_values
    for i, layer in enumerate(cache.layers):
        held = getattr(layer, "keys", None)
        if held is None or held.numel() == 0 or held.dim() != 4:
            continue  # a layer of another kind, or one that shares the keys of an earlier one
        if held.shape[-2] != text + counts[i]:
            raise LawBrokenError(f"layer {i} holds {held.shape[-2]} tokens, and should hold {text + counts[i]}")
        if layer.get_seq_length() != inputs["input_ids"].shape[1]:
            raise LawBrokenError(f"layer {i} says that it has seen {layer.get_seq_length()} tokens")


def a_sample_in_a_batch_equals_it_alone(subject: Subject) -> None:
    for side in ("left", "right"):
        inputs = subject.prompter(_SAMPLES, side=side)
        whole, pruned = _logits(subject, inputs), _logits(subject, inputs, subject.pruner())
        for b in range(len(_SAMPLES)):
            alone, real = subject.prompter.alone(_SAMPLES, b), inputs["attention_mask"][b].bool()
            single = _logits(subject, alone)
            if not _largest(whole[b][real][None] - single) <= _TOLERANCE * _spread(single):
                continue  # the unpruned model itself is not the same in a batch
            single = _logits(subject, alone, subject.pruner())
            what = f"logits of a sample padded on the {side} and alone"
            _compare(pruned[b][real][None], single, _text(subject, alone), what)


def generated_tokens_are_those_of_one_pass(subject: Subject) -> None:
    """Every token that generate() writes is the one that a pruned pass over prompt and answer prefers."""
    inputs = subject.prompter([ONE])
    forced, stepwise = _forced_and_stepwise(subject, inputs, None)
    everything = torch.ones(1, stepwise.shape[1], dtype=torch.bool)
    if _largest(forced - stepwise) > _TOLERANCE * _spread(stepwise):
        everything[:, 1:] = False  # the unpruned model itself reads an answer otherwise than it writes it
    forced, stepwise = _forced_and_stepwise(subject, inputs, subject.pruner(), alone=not everything.all())
    _compare(forced, stepwise, everything, "logits of decoding steps and of one pass")


def attention_is_given_back_by_the_formula(subject: Subject) -> None:
    """With compensation the laws above hold, and logits are those of an eager model whose mask has the bias entry by entry."""
    compensated = replace(subject, scorer=str(Chain.of(subject.scorer).with_compensation(_COMPENSATE)))
    for law in (
        full_retention_is_bit_identical,
        masking_equals_dropping,
        kept_tokens_are_those_of_eager_attention,
        a_sample_in_a_batch_equals_it_alone,
        generated_tokens_are_those_of_one_pass,
    ):
        law(compensated)
    inputs = subject.prompter([ONE])
    if torch.equal(*(_logits(each, inputs, each.pruner()) for each in (subject, compensated))):
        raise LawBrokenError("compensation changed nothing")


def _forced_and_stepwise(
    subject: Subject, inputs: dict[str, Any], pruner: Pruner | None, *, alone: bool = False
) -> tuple[Tensor, Tensor]:
    """Logits [1, n, V] of one pass over prompt and answer (alone: over the prompt), and of the steps that wrote it."""
    with _no_stop(subject.model), nullcontext() if pruner is None else pruner(subject.model):
        out = subject.model.generate(  # type: ignore[operator]
            **copied(inputs),
            max_new_tokens=_NEW,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            pad_token_id=0,
        )
    stepwise = torch.stack(out.logits, dim=1)
    prompt = inputs["input_ids"].shape[1]
    if alone:
        return _logits(subject, inputs, pruner)[:, prompt - 1 :].expand(-1, stepwise.shape[1], -1), stepwise
    longer = _longer(inputs, out.sequences, subject.prompter.answer_type)
    labels = torch.full_like(out.sequences, -100)
    labels[:, prompt:] = out.sequences[:, prompt:]
    return _logits(subject, {**longer, "labels": labels}, pruner)[:, prompt - 1 : -1], stepwise


LAWS: dict[str, Callable[[Subject], None]] = {
    law.__name__: law
    for law in (
        full_retention_is_bit_identical,
        masking_equals_dropping,
        kept_tokens_are_those_of_eager_attention,
        dropped_tokens_are_gone_for_layers_without_attention,
        outputs_that_are_read_are_right,
        caches_hold_what_the_schedule_says,
        a_sample_in_a_batch_equals_it_alone,
        generated_tokens_are_those_of_one_pass,
        attention_is_given_back_by_the_formula,
    )
}


@contextmanager
def _no_stop(model: Any) -> Iterator[None]:
    """Inside the block generation neither ends by itself nor writes placeholders, as a random model might."""
    config = model.generation_config
    before = config.eos_token_id, config.suppress_tokens
    config.eos_token_id = None
    config.suppress_tokens = [*range(FIRST_WORD), *family_of(model).visual_token_ids(model)]
    try:
        yield
    finally:
        config.eos_token_id, config.suppress_tokens = before


def _longer(inputs: dict[str, Any], sequences: Tensor, answer_type: int) -> dict[str, Any]:
    out = {**inputs, "input_ids": sequences, "attention_mask": torch.ones_like(sequences)}
    for key in ("mm_token_type_ids", "token_type_ids", "moe_mm_token_type_ids"):
        if key in inputs:
            room = sequences.shape[1] - inputs[key].shape[1]
            kind = answer_type if key == "token_type_ids" else 0
            out[key] = torch.cat([inputs[key], inputs[key].new_full((len(sequences), room), kind)], dim=1)
    mask = "image_embeds_position_mask"
    if mask in inputs:
        out[mask] = torch.cat(
            [inputs[mask], inputs[mask].new_zeros(len(sequences), sequences.shape[1] - inputs[mask].shape[1])], 1
        )
    return out


@torch.no_grad()
def _call(subject: Subject, inputs: dict[str, Any]) -> Tensor:
    logits: Tensor = subject.model(**copied(inputs), use_cache=False).logits
    return logits


def _logits(subject: Subject, inputs: dict[str, Any], pruner: Pruner | None = None) -> Tensor:
    if pruner is None:
        return _call(subject, inputs)
    with pruner(subject.model):
        return _call(subject, inputs)


def _text(subject: Subject, inputs: dict[str, Any]) -> Tensor:
    mask: Tensor = inputs["attention_mask"].bool() & ~subject.prompter.visual(inputs)
    return mask


def _spread(logits: Tensor) -> float:
    usual = logits[logits.abs() < 1e4]  # some models close part of their vocabulary
    return max(float(usual.std()), 1e-6)


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max())


def _compare(found: Tensor, expected: Tensor, where: Tensor, what: str) -> None:
    off = _largest((found - expected)[where])
    if not off <= _TOLERANCE * _spread(expected):
        raise LawBrokenError(f"{what} differ by {off:.1e}, where logits spread by {_spread(expected):.1e}")
