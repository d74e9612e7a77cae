"""One forward pass under a pruner: which tokens are left at which layer.

A pass lives from the entry of the language model to its end. The hooks of `engine.py` call it; it never looks at a model,
only at the tensors that it is handed. `PruningPass` decides which tokens stay. What becomes of the others is said in
`dropping.py` and `masking.py`.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.indexing import take
from vispco.core.layout import TokenLayout
from vispco.engine.attention import Attended, AttentionCall
from vispco.engine.compensation import Compensation
from vispco.engine.gather import Places
from vispco.engine.layer_map import LayerMap
from vispco.engine.plan import Choices, TokenPlan
from vispco.engine.reading import AttentionReader
from vispco.scorers.base import Merge, Scorer, Selection
from vispco.scorers.chain import Chain
from vispco.scorers.context import ScoringContext, VisionRecord

Arguments = dict[str, Any]


@dataclass(eq=False)
class PruningPass:
    """A pass that prunes: the decisions that dropping and masking share.

    plan: methods with a threshold lower its counts. choices: what it asks for. layers: of the model. embeddings: [B, N, D],
    what enters the language model. past: tokens that the cache has seen before. record: keep which tokens were live at
    each layer. injections: features that layers add to visual tokens, see `Family.injections`.
    probe: (layer, hidden [B, M, D], its keyword arguments) -> the attention call that a layer that has not run would make.
    written: how many of the last tokens a generation has written itself. compensation: None for none.
    """

    layout: TokenLayout
    plan: TokenPlan
    chain: Chain
    choices: Choices
    layers: LayerMap
    embeddings: Tensor
    past: int = 0
    vision: VisionRecord | None = None
    record: bool = False
    injections: tuple[Tensor, dict[int, Tensor]] | None = None
    probe: Callable[[int, Tensor, Arguments], AttentionCall] | None = None
    written: int = 0
    compensation: Compensation | None = None

    def __post_init__(self) -> None:
        self.live = self.layout.is_visual_slot
        self.most_live = max(self.layout.num_visual, default=0)
        self.places = Places(None, self.layout)
        self.memo: dict[str, Any] = {}
        self.sizes: Tensor | None = None  # float [B, V], once something was merged
        self.call: AttentionCall | None = None  # the last attention that was listened to, and what was there then:
        self.call_places = self.places
        self.call_live = self.live
        self.entry: tuple[int, Tensor, Arguments] | None = None  # the layer that is about to be entered, and its inputs
        self.previous: Tensor | None = None  # hidden states at the input of the layer before
        self.merge: Merge | None = None
        self.decided = -1  # the last layer whose tokens have been chosen
        self.trace: list[Tensor] | None = [] if self.record else None
        self._counts: Tensor | None = None  # int64 [B, L] on the device; one copy for all choices
        self._columns: Tensor | None = None

    def leaves_mid(self, layer: int) -> bool:
        """Whether tokens leave between the attention and the feed-forward network of a layer."""
        return self.chain.site_at(layer + 1) == "mid" and self.choices.made[layer + 1]

    def listen(self, call: AttentionCall) -> None:
        """Remember an attention call, by which the next choice is made."""
        self.call, self.call_places, self.call_live = call, self.places, self.live

    def attend(self, layer: int, call: AttentionCall) -> Attended:
        """Run the attention call of a layer."""
        if self.choices.read[layer]:
            self.listen(call)
        return call.run()

    def enter_layer(self, layer: int, hidden: Tensor, arguments: Arguments) -> tuple[Tensor, Arguments]:
        """The inputs of a layer: hidden [B, M, D] and its keyword arguments."""
        if layer == 0 and self.layout.gone is not None and not self.choices.falls[0]:
            self._apply(0, Selection(self.live))  # what left inside the vision tower enters no layer
            self.decided = 0
        if self.choices.made[layer] and self.decided < layer:
            self.entry = (layer, hidden, arguments)
            self.decide(layer, hidden)
            self.entry = None
        if self.decided == layer:
            hidden = self._take_effect(layer, hidden)
        if self.choices.states_kept[layer]:
            self.previous = hidden
        if self.trace is not None:
            self.trace.append(self.layout.in_whole(self.live))
        return hidden, arguments

    def enter_ffn(self, layer: int, hidden: Tensor) -> Tensor:
        """The input of a feed-forward network."""
        if self.leaves_mid(layer):
            self.decide(layer + 1, hidden)
        return hidden

    def leave_ffn(self, hidden: Tensor) -> Tensor:
        """The output of a feed-forward network."""
        return hidden

    def leave(self, hidden: Tensor) -> Tensor:
        """The output of the language model: hidden [B, M, D] -> [B, N, D]."""
        return hidden

    def decide(self, layer: int, hidden: Tensor) -> None:
        """Choose the tokens that enter a layer; hidden [B, M, D] are the states where they would leave."""
        scorer = self.chain.scorer_at(layer)
        assert scorer is not None  # noqa: S101 - a choice is made there
        with torch.set_grad_enabled(scorer.differentiable and torch.is_grad_enabled()):
            selection = scorer.select(self._context(layer, scorer, hidden))
            read = self.layout.read_slots
            if read is not None:  # a scorer is not shown these tokens, so it could neither keep nor merge them
                mask = None if selection.mask is None else torch.where(read, 1.0, selection.mask)
                given = selection.scores
                scores = None if given is None else torch.where(read, given.amax(-1, keepdim=True), given)
                selection = replace(selection, keep=selection.keep | read, scores=scores, mask=mask)
        if selection.merge is not None and not scorer.merges:
            raise InvalidInputError(
                f"The scorer {scorer.name!r} merges tokens but does not declare it. Set `merges = True` on its class."
            )
        if scorer.decides_count:
            self._note_counts(layer, selection.keep)
        if self.choices.falls[layer] or selection.merge is not None or selection.mask is not None:
            self._apply(layer, selection)  # else the pass stays as it is, to the bit
        self.live, self.merge, self.decided, self.previous = selection.keep, selection.merge, layer, None
        if layer in self.layers.attentions:
            self.call = None  # else the layer behind this one may be chosen by the same attention
        self.most_live = max(row[layer] for row in self.plan.rows)

    @abstractmethod
    def _apply(self, layer: int, selection: Selection) -> None:
        """Prepare the choice, which takes effect at the entry of `layer`."""

    def _take_effect(self, layer: int, hidden: Tensor) -> Tensor:  # noqa: ARG002
        """The input of a layer whose tokens were chosen: hidden [B, M, D] -> what the layer is handed."""
        return hidden

    def bias_at(self, layer: int) -> Tensor | None:
        """The bias on text's logits for the visual slots that enter a layer: float32 [B, V]; None for nothing."""
        if self.compensation is None:
            return None
        return self.compensation.bias([row[layer] for row in self.plan.rows], self.live, self.sizes)

    def compensated(self, call: AttentionCall) -> AttentionCall:
        """An attention call as the model runs it."""
        return call

    def _note_counts(self, layer: int, keep: Tensor) -> None:
        """Ask the device how many a method with a threshold kept; from here on that bounds the plan."""
        kept, rows = keep.sum(-1).tolist(), np.array(self.plan.rows)
        over = [sample for sample, number in enumerate(kept) if number > rows[sample, layer]]
        if over:
            raise InvalidInputError(
                f"The scorer kept {kept[over[0]]} tokens of sample {over[0]} before layer {layer}, where the plan allows "
                f"{rows[over[0], layer]}. `select` must keep at most `context.counts` tokens."
            )
        rows[:, layer:] = np.minimum(rows[:, layer:], np.array(kept)[:, None])
        self.plan, self._counts = replace(self.plan, counts=torch.from_numpy(rows)), None
        self.choices = Choices.of(self.plan.rows, self.layout.num_visual, self.chain, self.layers)

    def _context(self, layer: int, scorer: Scorer, hidden: Tensor) -> ScoringContext:
        if self._counts is None:
            self._counts = self.plan.counts.to(self.layout.device, non_blocking=True)
        live, counts, read = self.live, self._counts[:, layer], self.layout.read_slots
        if read is not None:  # the scorer chooses among the others
            live, counts = live & ~read, counts - read.sum(-1)
        # which chain of a mixed one chooses for each sample; -1 where one keeps all that it has
        groups = self.plan.groups
        if groups is not None:
            before = self.layout.num_visual if layer == 0 else [row[layer - 1] for row in self.plan.rows]
            falls = [row[layer] < number for row, number in zip(self.plan.rows, before, strict=True)]
            groups = tuple(group if fall else -1 for group, fall in zip(groups, falls, strict=True))
        return ScoringContext(
            layer,
            self.layout,
            live,
            counts,
            self.embeddings,
            self.sizes,
            tuple(row[layer] - few for row, few in zip(self.plan.rows, self.layout.num_read, strict=True)),
            groups,
            hidden=self._states(hidden) if scorer.needs_hidden else None,
            previous_hidden=None if self.previous is None else self._states(self.previous),
            text_hidden=self._states(hidden, self.layout.instruction_index) if scorer.needs_text_hidden else None,
            vision=self.vision or VisionRecord(),
            source=AttentionReader(self) if scorer.needs_attention or scorer.needs_entering else None,
            memo=self.memo,
        )

    def _states(self, hidden: Tensor, positions: Tensor | None = None) -> Tensor:
        """The states at original positions, by default of the visual slots: [B, M, D] -> [B, R, D]; anything for lost tokens."""
        last = hidden.shape[-2] - 1
        if positions is not None:
            places = self.places(positions.clamp(max=self.layout.length - 1)).clamp(max=last)
        else:
            if self._columns is None:  # the same for every choice at this stage
                self._columns = self.places(self.layout.visual_index).clamp(max=last)
            places = self._columns
        if hidden.dim() > 3 and hidden.shape[1] == self.layout.batch_size:  # stacked states
            hidden = hidden[0]
        return take(hidden, places.to(hidden.device))

    def arguments_now(self, layer: int, arguments: Arguments) -> Arguments:  # noqa: ARG002
        """The arguments of a layer for the tokens that are there before the choice takes effect."""
        return arguments

    def hidden_keys(self, live: Tensor) -> Tensor | None:  # noqa: ARG002
        """Keys that are hidden while these visual slots are live: bool [B, K], or None."""
        return None
