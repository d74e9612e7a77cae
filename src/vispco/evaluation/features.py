"""The vision tower runs once for each picture: prompts and visual features by sample, kept for every later batch."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vispco.core.errors import InvalidInputError
from vispco.engine.tower_cut import RECORD as CUT_RECORD
from vispco.engine.tower_cut import TowerCut, TowerSetting
from vispco.engine.vision import RECORD, TokenVision, encode_pictures
from vispco.evaluation.caches import GIB, TensorCache
from vispco.evaluation.encoded import VIDEOS, Encoded, Prompt, collate, read
from vispco.families import family_of
from vispco.scorers.base import VisionNeeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.data.sample import Sample

_INPUTS = "inputs."  # prefix of what the processor gave for a prompt
_VISION = "vision."  # prefix of what scorers read of the vision tower
_CUT = "cut."  # prefix of the record of a cut tower
_DEEPSTACK = "deepstack"  # name of what is added after the first layers [levels, tokens, D]
PIXELS = "pixel_"  # prefix of inputs that only the vision tower reads


class FeatureStore:
    """What a model reads of each sample, computed at first use: `store.encode(samples)` is a batch without pictures.

    A sample is known by its `id`: use one store for one set of pictures and one model. `note` says why features are
    not kept, for models whose transformers class cannot take them; their batches carry pixels, and all else holds.
    memory: see `TensorCache`.
    """

    def __init__(self, model: Any, processor: Any, *, memory: int = 2 * GIB) -> None:
        self.model, self.processor = model, processor
        self.base = family_of(model).base(model)
        self.cache = TensorCache(memory)
        self.note = _refusal(model, self.base)
        self.vision = VisionNeeds()
        self._recorded_needs: dict[str, VisionNeeds] = {}  # what was kept of the tower, by sample

    def require(self, needs: VisionNeeds) -> None:
        """Keep also what scorers read of the vision tower. Samples that are known already are encoded once more."""
        self.vision |= needs

    def encode(self, samples: Sequence[Sample], *, answers: bool = False, cut: TowerSetting | None = None) -> Encoded:
        """One batch of model inputs, the picture's features (`mm_encoder_outputs`) in place of its pixels.

        cut: of the vision tower, whose features are kept by the setting.
        """
        entries = self._entries(samples)
        if cut is not None and self.note is None:
            own = self._cut_entries(samples, cut)
            entries = [{**entry, **mine} for entry, mine in zip(entries, own, strict=True)]
        prompts = []
        for entry in entries:
            found = {name.removeprefix(_INPUTS): value for name, value in entry.items() if name.startswith(_INPUTS)}
            prompts.append(Prompt(found, entry["answer"], int(entry["num_visual"])))
        batch = collate(self.model, self.processor, samples, prompts, answers=answers)
        if self.note is None:
            batch.inputs["mm_encoder_outputs"] = self._joined(entries)
        return batch

    def answered(self, samples: Sequence[Sample], answers: Sequence[Tensor]) -> None:
        """Give samples answers of tokens [A], their end token included, in place of a reference that they lack."""
        for sample, entry, answer in zip(samples, self._entries(samples), answers, strict=True):
            self.cache.put(sample.id, {**entry, "answer": answer})

    def _entries(self, samples: Sequence[Sample]) -> list[dict[str, Tensor]]:
        new = {s.id: s for s in samples if s.id not in self.cache or not self._has_record(s)}
        fresh = self._computed(list(new.values())) if new else {}
        for key, entry in fresh.items():
            self.cache.put(key, entry)
        return [fresh[s.id] if s.id in fresh else self.cache.get(s.id) for s in samples]

    @torch.no_grad()
    def _cut_entries(self, samples: Sequence[Sample], cut: TowerSetting) -> list[dict[str, Tensor]]:
        """What a cut tower makes of the samples' pictures: features, and the record of the cut."""
        keys = {sample.id: f"{sample.id} {cut.key}" for sample in samples}
        found = {s.id: self.cache.get(keys[s.id]) for s in samples if keys[s.id] in self.cache}
        new = list({sample.id: sample for sample in samples if sample.id not in found}.values())
        prompts = [read(self.model, self.processor, sample) for sample in new]
        for places in _same_kind(prompts):
            some, asked = [new[place] for place in places], [prompts[place] for place in places]
            with TowerCut(family_of(self.model), self.model, cut):
                made = self._features(some, asked)
            for sample, feature, record in zip(some, *made, strict=True):
                assert feature is not None  # noqa: S101 - `note` says that features are kept
                found[sample.id] = {"feature": feature.cpu(), **{name: value.cpu() for name, value in record.items()}}
                self.cache.put(keys[sample.id], found[sample.id])
        return [found[sample.id] for sample in samples]

    def _has_record(self, sample: Sample) -> bool:
        """Whether all that is required of the tower was kept for a sample that is known."""
        kept = self._recorded_needs.get(sample.id)
        if self.note is not None or (kept is not None and kept | self.vision == kept):
            return True
        if self.vision and not sample.images:
            raise InvalidInputError(
                f"A scorer reads the vision tower, but the picture of sample {sample.id!r} was encoded without it and is "
                "no longer here. Call require(chain.needs_vision) on the FeatureStore before the first batch."
            )
        return not self.vision

    @torch.no_grad()
    def _computed(self, samples: list[Sample]) -> dict[str, dict[str, Tensor]]:
        prompts = [read(self.model, self.processor, sample) for sample in samples]
        features: list[Tensor | None] = [None] * len(samples)
        records: list[dict[str, Tensor]] = [{}] * len(samples)  # what else is kept of each
        for places in _same_kind(prompts) if self.note is None else ():
            found = self._features([samples[place] for place in places], [prompts[place] for place in places])
            for place, feature, record in zip(places, *found, strict=True):
                features[place], records[place] = feature, record
        entries = {}
        for sample, prompt, feature, record in zip(samples, prompts, features, records, strict=True):
            entry = {"answer": prompt.answer, "num_visual": torch.tensor(prompt.num_visual)}
            if VIDEOS in prompt.tensors:
                entry["video"] = torch.tensor(True)
            for name, value in prompt.tensors.items():
                if feature is None or not name.startswith(PIXELS):
                    entry[_INPUTS + name] = value
            if feature is not None:
                entry["feature"] = feature.cpu()
                entry |= {name: value.cpu() for name, value in record.items()}
                self._recorded_needs[sample.id] = self.vision
            entries[sample.id] = entry
        return entries

    def _features(
        self, samples: list[Sample], prompts: list[Prompt]
    ) -> tuple[Sequence[Tensor | None], Sequence[dict[str, Tensor]]]:
        """Each sample's part of the encoder's output; its DeepStack levels, and its part of the record of the tower."""
        inputs = collate(self.model, self.processor, samples, prompts).inputs
        ((kind, out),) = encode_pictures(self.model, inputs, self.vision).items()
        record: TokenVision | None = getattr(out, RECORD, None)
        parts = [{}] * len(samples) if record is None else record.split([prompt.num_visual for prompt in prompts])
        pictures = [1 if kind == "video" else sample.num_images for sample in samples]
        kept = [{_VISION + name: value for name, value in part.items()} for part in parts]
        left: TokenVision | None = getattr(out, CUT_RECORD, None)
        if left is not None:
            for mine, part in zip(kept, left.split([prompt.num_visual for prompt in prompts]), strict=True):
                mine |= {_CUT + name: value for name, value in part.items()}
        features = self._pooled(out, pictures, prompts)
        if self.note is None and getattr(out, "deepstack_features", None) is not None:
            levels = iter(zip(*out.deepstack_features, strict=True))  # of each picture
            for number, mine in zip(pictures, kept, strict=True):
                mine[_DEEPSTACK] = torch.cat([torch.stack(next(levels)) for _ in range(number)], dim=1)
        return features, kept

    def _pooled(self, out: Any, pictures: list[int], prompts: list[Prompt]) -> Sequence[Tensor | None]:
        """Each sample's part of `pooler_output`: [tokens, D], or [tiles, tokens, D] where the family keeps tiles."""
        pooled, count = out.pooler_output, sum(pictures)
        by_picture = all(  # each DeepStack level is a tensor [tokens, D] for each picture
            isinstance(level, list | tuple) and len(level) == count and all(isinstance(part, Tensor) for part in level)
            for level in getattr(out, "deepstack_features", None) or ()
        )
        if not by_picture:
            self.note = (
                f"{type(self.model).__name__} feeds features into several layers in a way that the store does not keep."
            )
        elif isinstance(pooled, Tensor) and pooled.dim() == 3:
            tiles = [p.num_visual // pooled.shape[1] for p in prompts]
            if sum(tiles) == pooled.shape[0]:
                return list(torch.split(pooled, tiles))
        elif isinstance(pooled, list | tuple) and len(pooled) == count:
            parts = iter(pooled)
            return [torch.cat([next(parts) for _ in range(number)]) for number in pictures]
        self.note = self.note or (
            f"The image features of {type(self.model).__name__} cannot be told apart by sample, so they are not kept."
        )
        return [None] * len(prompts)

    def _joined(self, entries: list[dict[str, Tensor]]) -> dict[str, BaseModelOutputWithPooling]:
        found = {}
        for kind in ("image", "video"):
            mine = [entry for entry in entries if ("video" in entry) == (kind == "video")]
            if not mine:
                continue
            # A list for families of many sizes (Qwen), one tensor [tiles, tokens, D] for those of one size. Where videos have
            # different lengths, one row of all tokens: they are only told apart by their places in the prompts.
            pooled: Any = [entry["feature"].to(self.model.device) for entry in mine]
            if pooled[0].dim() > 2:
                same = len({part.shape[1:] for part in pooled}) == 1
                pooled = torch.cat(pooled) if same else torch.cat([part.flatten(0, 1) for part in pooled])[None]
            found[kind] = BaseModelOutputWithPooling(pooler_output=pooled)
            if _DEEPSTACK in mine[0]:
                levels = zip(*(entry[_DEEPSTACK].to(self.model.device) for entry in mine), strict=True)
                found[kind].deepstack_features = list(levels)
            was_cut = any(name.startswith(_CUT) for name in mine[0])
            for prefix, record, kept in ((_VISION, RECORD, bool(self.vision)), (_CUT, CUT_RECORD, was_cut)):
                if kept:
                    own = [{n.removeprefix(prefix): v for n, v in e.items() if n.startswith(prefix)} for e in mine]
                    setattr(found[kind], record, TokenVision.join(own))
        return found


def _same_kind(prompts: Sequence[Prompt]) -> list[list[int]]:
    """Places of prompts that the tower can take at once: pictures, or videos of one length."""
    groups: dict[Any, list[int]] = {}
    for place, prompt in enumerate(prompts):
        video = prompt.tensors.get(VIDEOS)
        key = None if video is None else (video.dim(), video.shape[1:] if video.dim() > 2 else ())
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _refusal(model: Any, base: Any) -> str | None:
    """Why this model's features cannot be handed to it beforehand; None if they can."""
    name = type(model).__name__
    if not hasattr(base, "get_image_features"):
        return f"{name} has no get_image_features, so the vision tower runs again for every batch."
    if "mm_encoder_outputs" not in inspect.signature(model.forward).parameters:
        return f"{name} takes no mm_encoder_outputs, so the vision tower runs again for every batch."
    return None
