"""Family: where a model's parts are and how its visual tokens are found. No pruning here."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.indexing import runs_of
from vispco.core.layout import TokenLayout
from vispco.families.tower_shape import TowerShape
from vispco.families.unserved import NO_VISUAL_TOKENS, OTHERWISE

ImageSizes = tuple[tuple[int, int, int], ...]
_INNER_NAMES = ("model", "decoder", "transformer")
"""Modules in which wrappers of a language model keep it."""
MIXING_KINDS = ("linear_attention", "conv", "mamba", "recurrent", "hybrid", "hybrid_sliding")
"""Kinds of layers in which neighbouring tokens meet outside of attention."""
ALONE_KINDS = ("moe", "mlp")
"""Kinds of layers in which tokens do not meet."""
WITHOUT_ATTENTION = MIXING_KINDS[:4] + ALONE_KINDS


class Family:
    """The generic vision-language model of transformers; a family overrides only what differs from it."""

    model_types: ClassVar[tuple[str, ...]] = ()
    first_class: ClassVar[tuple[str, ...]] = ()
    """Those of `model_types` that every law of the engine is tested on. The others are served through the generic path."""
    text_model_names: ClassVar[tuple[str, ...]] = ("language_model", "text_model")
    picture_inputs: ClassVar[tuple[str, ...]] = (
        "pixel_values",
        "pixel_values_videos",
        "pixel_values_images",
        "image_patches",
        "flattened_patches",
        "image_embeds",
        "mm_encoder_outputs",
        "image_hidden_states",
    )
    attention_names: ClassVar[tuple[str, ...]] = ("self_attn", "attention", "attn", "mixer")
    ffn_names: ClassVar[tuple[str, ...]] = ("mlp", "feed_forward", "ffn", "fc1")
    injection_inputs: ClassVar[tuple[str, str]] = ("visual_pos_masks", "deepstack_visual_embeds")
    """Arguments of the language model by which features are added to visual tokens after its first layers: where, what."""
    call_attributes: ClassVar[tuple[str, ...]] = ("rope_deltas",)
    """What `base(model)` keeps on itself from one pass of a generation to the next; by thread while it is pruned."""
    has_class_token: ClassVar[bool] = False
    """Whether the vision tower puts a class token before the patches."""
    interpolates: ClassVar[bool] = False
    """Whether the tower interpolates its positions for squares of another size than its own."""

    def base(self, model: nn.Module) -> nn.Module:
        """The module that joins pictures and text: it takes `input_ids` and calls the language model."""
        inner = getattr(model, "model", None)
        for found in (inner, model):
            if isinstance(found, nn.Module) and self._text_name(found):
                return found
        if isinstance(inner, nn.Module) and self._known_ids(inner):
            return inner  # pictures and text are joined in the language model itself
        raise UnsupportedModelError(
            f"{type(model).__name__} has none of {', '.join(self.text_model_names)} inside, so its decoder layers "
            "cannot be found. vispco serves transformers' image-text-to-text models; for another kind add a Family."
        )

    def text_model(self, model: nn.Module) -> nn.Module:
        """The module that runs the decoder layers."""
        base = self.base(model)
        name = self._text_name(base)
        found: Any = getattr(base, name) if name else base
        while not isinstance(getattr(found, "layers", None), nn.ModuleList):
            inner = next((m for n in _INNER_NAMES if isinstance(m := getattr(found, n, None), nn.Module)), None)
            if inner is None:
                break
            found = inner
        return found  # type: ignore[no-any-return]

    def layers(self, model: nn.Module) -> nn.ModuleList:
        text = self.text_model(model)
        layers = getattr(text, "layers", None)
        if not isinstance(layers, nn.ModuleList) or not len(layers):
            raise UnsupportedModelError(
                f"The language model {type(text).__name__} has no list of decoder `layers`, which pruning works on."
            )
        return layers

    def layer_kinds(self, model: nn.Module) -> list[str]:
        """The kind of each decoder layer, as its config calls it; 'attention' where the config says nothing."""
        text: Any = self.text_model(model).config
        kinds = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None)
        number = len(self.layers(model))
        return list(kinds[:number]) if kinds and len(kinds) >= number else ["attention"] * number

    def attention(self, layer: nn.Module) -> nn.Module:
        return self._part(layer, *self.attention_names)

    def key_sources(self, model: nn.Module) -> dict[int, int]:  # noqa: ARG002
        """{layer: the earlier layer whose keys and values it uses}, where layers share them."""
        return {}

    def injections(self, arguments: Mapping[str, Any]) -> tuple[Tensor, dict[int, Tensor]] | None:
        """(bool [B, N], {layer: features [T, D]}) that the language model would add at the entry of layers (DeepStack)."""
        where, what = (arguments.get(name) for name in self.injection_inputs)
        if where is None or what is None:
            return None
        return where, {after + 1: features for after, features in enumerate(what)}

    def ffn(self, layer: nn.Module) -> nn.Module:
        return self._part(layer, *self.ffn_names)

    def visual_token_ids(self, model: nn.Module) -> tuple[int, ...]:
        """Ids of the placeholders that pictures and videos take the place of."""
        known: WeakKeyDictionary[nn.Module, tuple[int, ...]] = self.__dict__.setdefault("_ids", WeakKeyDictionary())
        ids = known.get(model) or self._known_ids(self.base(model))
        if not ids:
            raise UnsupportedModelError(
                f"The config of {type(model).__name__} names no image_token_id, so visual tokens cannot be found."
            )
        known[model] = ids  # a config takes long to say them, and every prefill asks
        return ids

    def _known_ids(self, module: nn.Module) -> tuple[int, ...]:
        config: Any = getattr(module, "config", None)
        names = ("image_token_id", "image_token_index", "video_token_id", "video_token_index", "image_patch_id")
        return tuple(dict.fromkeys(i for name in names if isinstance(i := getattr(config, name, None), int)))

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:  # noqa: ARG002
        """Token grid (frames, rows, columns) of each image in order, where it is known."""
        return None

    def num_pictures(self, inputs: Mapping[str, Any], tokens: int) -> int | None:
        """The number of pictures (or tiles) of `tokens` tokens each that come with the inputs; None if unknown."""
        pixels = inputs.get("pixel_values")
        if pixels is not None:
            return len(pixels)
        # `generate()` and evaluations encode pictures beforehand: by picture, or by sample with all of its pictures
        found = getattr((inputs.get("mm_encoder_outputs") or {}).get("image"), "pooler_output", None)
        given = found if isinstance(found, list | tuple) else [found]
        parts = [part for part in given if isinstance(part, Tensor)]
        return sum(part.numel() // part.shape[-1] for part in parts) // tokens if len(parts) == len(given) else None

    def has_pictures(self, inputs: Mapping[str, Any]) -> bool:
        """Whether pictures or videos come with the inputs of `base(model)`."""
        return any(inputs.get(name) is not None for name in self.picture_inputs)

    def has_merged_pictures(self, inputs: Mapping[str, Any]) -> bool:
        """Whether a prompt came as embeddings, together with types that say which of its tokens are visual."""
        types = inputs.get("mm_token_type_ids")
        return inputs.get("input_ids") is None and types is not None and bool(((types == 1) | (types == 2)).any())

    def layout(
        self,
        model: nn.Module,
        inputs: Mapping[str, Any],
        *,
        answers: Tensor | None = None,
        read: Tensor | None = None,
        visual: Tensor | None = None,
        pixels: float = 1.0,
    ) -> TokenLayout:
        """Find the visual tokens of one forward pass with pictures from the inputs of `base(model)`.

        answers, read: see `TokenLayout.build`. visual: bool [B, N], where they are, if the caller knows it. pixels:
        the share of their pixels with which the pictures entered.
        """
        given = self.given(inputs)
        shape = given.shape[:2]
        visual = self.find_visual(model, inputs) if visual is None else visual.to(given.device)
        if visual.shape != shape:
            raise InvalidInputError(
                f"Visual tokens were given for a batch of shape {tuple(visual.shape)}, but the inputs have {tuple(shape)}."
            )
        mask = inputs.get("attention_mask")
        real = mask[:, -shape[1] :] if isinstance(mask, Tensor) and mask.dim() == 2 else None
        if answers is not None and answers.shape != shape:
            answers = None
        elif answers is not None:
            # Training labels may lie on all of the text. What comes before the last picture is no answer about it.
            behind = visual.flip(-1).cumsum(-1).flip(-1) == 0
            answers = answers.to(visual.device) & behind & visual.any(-1, keepdim=True)
        if read is not None:
            read = read.to(visual.device).expand(shape) if read.shape[-1] == shape[1] else None
        # The sizes may lie on a device, and most scorers never ask for them.
        entered = {"pixels": pixels} if self.interpolates else {}
        sizes = functools.partial(self.image_sizes, model, inputs, **entered)
        return TokenLayout.build(
            visual,
            real,
            answers=answers,
            read=read,
            image_sizes=sizes,
            tower=lambda at: self.tower_shape(model).sample_flops(at),
            unshrunk=lambda at: self.tower_shape(model).unshrunk(at),
            pixels=pixels,
        )

    def find_visual(self, model: nn.Module, inputs: Mapping[str, Any]) -> Tensor:
        """Where the visual tokens are: bool [B, N]."""
        ids = inputs.get("input_ids")
        if ids is not None:
            found: Tensor = functools.reduce(torch.logical_or, (ids == known for known in self.visual_token_ids(model)))
            return found
        if self.has_merged_pictures(inputs):
            types: Tensor = inputs["mm_token_type_ids"]
            return (types == 1) | (types == 2)
        # Placeholders among embeddings, recognised as transformers does: by equality with the token's embedding
        embeds, table = self.given(inputs), cast("Any", self.base(model)).get_input_embeddings()
        found = torch.zeros(embeds.shape[:2], dtype=torch.bool, device=embeds.device)
        for token in self.visual_token_ids(model):
            found |= (embeds == table(torch.tensor(token, device=embeds.device))).all(-1)
        return found

    def visual_runs(self, model: nn.Module, inputs: Mapping[str, Any]) -> list[tuple[int, int, int]]:
        """(sample, start, end) of each run of neighbouring visual tokens, on the host."""
        return runs_of(self.find_visual(model, inputs).cpu().numpy())

    def check_served(self, model: nn.Module) -> None:
        """Refuse a class that is known not to work, before anything is looked for in it."""
        config: Any = getattr(model, "config", None)
        kind = getattr(config, "model_type", "")
        if kind in NO_VISUAL_TOKENS:
            raise UnsupportedModelError(
                f"{type(model).__name__} has no visual tokens in its decoder layers: {NO_VISUAL_TOKENS[kind]}. There is "
                "nothing to prune; choose a model whose prompt has placeholders for pictures."
            )
        if kind in OTHERWISE:
            raise UnsupportedModelError(
                f"{type(model).__name__} is not served: {OTHERWISE[kind]}. Run it without a pruner."
            )

    def check_length(self, model: nn.Module, length: int) -> None:
        """Refuse a prompt whose length the model could not be pruned at exactly."""

    def check_without_pictures(self, model: nn.Module, inputs: Mapping[str, Any]) -> None:
        """Refuse a pass without pictures that has placeholders. A single token is never asked about."""
        ids = inputs.get("input_ids")
        if self.given(inputs).shape[1] <= 1:
            return
        if ids is None:
            raise UnsupportedModelError(
                "The prompt came as inputs_embeds without pictures, so its visual tokens cannot be told from text. Pass "
                "input_ids with pixel_values (or mm_encoder_outputs), or say where they are: "
                "`with vispco.engine.visual_at(mask): ...`."
            )
        known = torch.tensor(self.visual_token_ids(model), device=ids.device)
        if bool(torch.isin(ids, known).any()):
            raise UnsupportedModelError(
                "The prompt has image placeholders but no pictures came with it. This happens in chunked prefill "
                "(prefill_chunk_size) or with features merged beforehand; prefill in one piece, with pixel_values "
                "or mm_encoder_outputs."
            )

    def tower_shape(self, model: nn.Module) -> TowerShape:
        """The sizes of the vision tower and the projector; a tower that is not described is refused in a sentence."""
        return TowerShape.from_config(getattr(model, "config", None))

    def check_pixels(self, model: nn.Module, layout: TokenLayout) -> None:
        """Refuse pictures that did not enter with the share of their pixels that a pruner says, where a size tells it."""

    def vision_tower(self, model: nn.Module) -> nn.Module:
        """The module that turns pixels into patches."""
        raise self._no_vision(model)

    def vision_projector(self, model: nn.Module) -> nn.Module:
        """The module that turns the tower's patches into visual tokens."""
        raise self._no_vision(model)

    def vision_attentions(self, model: nn.Module) -> list[nn.Module]:
        """The attention modules of the tower's blocks, in order, up to the last one whose output the projector reads."""
        raise self._no_vision(model)

    def whole_picture_blocks(self, model: nn.Module) -> list[int]:
        """Which of those blocks see the whole picture, not one window of it."""
        return list(range(len(self.vision_attentions(model))))

    def pool_patches(self, model: nn.Module, values: Tensor, call: Mapping[str, Any]) -> Tensor:  # noqa: ARG002
        """Values of the tower's patches, [I, P, ...] or [P, ...] -> their means by visual token, [T, ...].

        `call` holds the arguments with which the tower was called.
        """
        raise self._no_vision(model)

    def check_vision(self, model: nn.Module) -> None:
        """Say before anything runs that the vision tower cannot be read."""
        self.vision_projector(model)
        self.vision_attentions(self.base(model))

    def _no_vision(self, model: nn.Module) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"The vision tower of {type(model).__name__} is not known to vispco, so scorers that read it cannot be used. "
            "Use a scorer of embeddings (e.g. 'divprune') or of attention (e.g. 'fastv'), or add a model family."
        )

    def given(self, inputs: Mapping[str, Any]) -> Tensor:
        """The prompt: token ids [B, N], or embeddings [B, N, D]."""
        given = inputs.get("input_ids")
        given = inputs.get("inputs_embeds") if given is None else given
        if not isinstance(given, Tensor):
            raise InvalidInputError("The model was called with neither input_ids nor inputs_embeds.")
        return given

    def _text_name(self, module: nn.Module) -> str:
        return next((n for n in self.text_model_names if isinstance(getattr(module, n, None), nn.Module)), "")

    def _part(self, layer: nn.Module, *names: str) -> nn.Module:
        part = next((part for name in names if isinstance(part := getattr(layer, name, None), nn.Module)), None)
        if part is None:
            raise UnsupportedModelError(
                f"{type(layer).__name__} has no module `{'` or `'.join(names)}`, which pruning needs here. Add a model family."
            )
        return part
