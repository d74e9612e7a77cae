"""`LearnedScorer`: a trained method, with loading of its weights and the gradient path to them.

The network is frozen and in eval mode wherever a pruner runs it. A trainer makes the scorer with its network and puts that
into training mode; then `select` returns a mask that equals its choice and has a gradient towards the
weights, and the engine, masking, multiplies attention by it.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, top_tokens
from vispco.scorers.context import ScoringContext
from vispco.scorers.learned.network import LearnedConfig, LearnedNetwork, find_weights, load_network


@dataclass(frozen=True, eq=False)
class TrainingChoice:
    """One choice of a training pass. layer: before which it was made. kept: [B], the share of the sample's original
    visual tokens that stays, with a gradient.
    """

    layer: int
    kept: Tensor


class LearnedScorer(Scorer):
    """A scorer with a network. Subclasses name the network's class and choose tokens with it.

    weights: the folder of a `vispco train` run or of `save_pretrained`, a hub id, or the name of a shipped model;
        default: what is shipped for the model that is pruned. network: weights that are in memory.
    """

    network_class: ClassVar[type[LearnedNetwork]]
    default_target: ClassVar[float]
    """What a training aims at: a share of the FLOPs or of the visual tokens, see `reached`."""

    def __init__(self, weights: str | None = None, *, network: LearnedNetwork | None = None) -> None:
        self.weights = None if weights is None else str(weights)
        self._network = network
        self.choices: list[TrainingChoice] = []  # of the last training pass, in order
        self._progress = 0.0

    @classmethod
    def fresh(cls, model: Any, *, target: float | None = None, **options: Any) -> Self:
        """The untrained method for a model; options are those of its network."""
        sizes = Dimensions.from_config(model.config)
        known = cls.network_class.defaults(sizes.hidden, sizes.num_layers)
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInputError(
                f"The network of {cls.name!r} does not take {', '.join(unknown)}. It takes {', '.join(known)}."
            )
        config = LearnedConfig(
            method=cls.name,
            model=str(getattr(model.config, "name_or_path", "") or type(model).__name__).rstrip("/").split("/")[-1],
            hidden=sizes.hidden,
            num_layers=sizes.num_layers,
            target=cls.default_target if target is None else target,
            options={**known, **options},
        )
        return cls(network=cls.network_class(config).to(model.device))

    @property
    def network(self) -> Any:
        if self._network is None:
            raise InvalidInputError(f"The method {self.name!r} has no weights yet. Put it on a model with a Pruner.")
        return self._network

    @property
    def is_training(self) -> bool:
        return self._network is not None and self._network.training

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return self.is_training

    def for_model(self, model: Any) -> Scorer:
        """The method with its weights, which must be for a language model of this size."""
        bound = self
        if self._network is None:
            source = find_weights(self.weights, self.name, model)
            bound = type(self)(self.weights, network=load_network(self.network_class, source, model.device))
        config, sizes = bound.network.config, Dimensions.from_config(model.config)
        if config.method != self.name:
            raise InvalidInputError(
                f"The weights {self.weights} are those of {config.method!r}, not of {self.name!r}. Write "
                f"{config.method}(weights=...), or give other weights."
            )
        if (config.hidden, config.num_layers) != (sizes.hidden, sizes.num_layers):
            raise InvalidInputError(
                f"The weights of {self.name!r} were trained for {config.model} ({config.num_layers} layers of width "
                f"{config.hidden}); this model has {sizes.num_layers} of width {sizes.hidden}. Train it for this one: "
                f"`vispco train {self.name} MODEL --out DIR`."
            )
        return bound

    def begin(self, progress: float) -> None:
        """Before a training pass; progress: 0 at the first step, 1 at the last."""
        self.choices, self._progress = [], progress

    @abstractmethod
    def penalty(self, target: float) -> Tensor:
        """The loss term that training adds to the divergence after a pass: the method's own terms, a scalar."""

    def reached(self, share: Tensor, kept: Tensor) -> Tensor:  # noqa: ARG002
        """The quantity that the target is about, for each sample of a pass: [B].

        share: [B], of the unpruned FLOPs. kept: [B, L], of its visual tokens, that each layer processed.
        """
        return share

    def adjust(self, reached: float, target: float, gain: float = 1.0) -> bool:  # noqa: ARG002
        """Move towards the target, given the mean of `reached` over a pass. Returns whether the method has a controller."""
        return False

    def deployed_schedule(self, num_layers: int, target: float) -> Schedule:  # noqa: ARG002
        """The schedule that it is judged with: all tokens where it decides by itself how many stay."""
        return Schedule.full(num_layers)

    def selected(self, context: ScoringContext, wanted: Tensor, scores: Tensor, soft: Tensor) -> Selection:
        """The `wanted` tokens [B, V], or the best-scored of them where a budget allows fewer.

        soft: [B, V] in [0, 1], whose gradient the mask takes in training, straight through the choice.
        """
        wanted = wanted & context.live
        keep = top_tokens(scores.detach(), wanted, context.counts)
        if not self.is_training:
            return Selection(keep, scores)
        mask = keep.float() + torch.where(context.live, soft - soft.detach(), 0.0)
        total = context.layout.is_visual_slot.sum(-1).clamp_min(1)
        self.choices.append(TrainingChoice(context.layer, (mask * context.live).sum(-1) / total))
        return Selection(keep, scores.detach(), mask=mask)

    def states(self, context: ScoringContext) -> Tensor:
        """The visual tokens' states in float32, zeros in slots that are not live: [B, V, D].

        Without a gradient: what a choice does to a later one through the states is left out of the training.
        """
        hidden: Tensor = context.hidden.detach().to(self.network.device).float()
        return hidden.masked_fill(~context.live.to(hidden.device)[..., None], 0.0)
