"""Settings of pruning inside vLLM: scorer, share of a picture's tokens that stays, and share that a request may ask for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain, ChainLike, Scorer

KEEP, PRUNE = "vispco_keep", "image_pruning_rate"
"""What a request may give in `mm_processor_kwargs`: the share that stays, or the share that leaves."""
FIELD = "vispco"
"""Where the settings stand in a model's config."""
_BEFORE_LAYERS = "vLLM keeps one table of cache blocks for all layers, so tokens can leave before layer 0 only."
_ALONE = (
    "Give a scorer that chooses before the language model by embeddings alone, such as 'divprune' or 'uniform', or run the "
    "pruner with `vispco serve`."
)
_SIZE = 1e-9  # rounding of 1 - image_pruning_rate


class ServingChoice(TypedDict, total=False):
    """What an operator gives beside a scorer: the share that it keeps, or a pruner and its budget; see `options`."""

    keep: float | None
    pruner: str | Path | None
    budget: float | str | None
    max_keep: float


@dataclass(frozen=True)
class ServingSettings:
    """Options of pruning in an engine.

    scorer: as `Chain.of` reads it. keep: the share of each picture's tokens that stays, for requests that give none.
    max_keep: the largest share that a request may ask for; the encoder cache is sized for it.
    """

    scorer: str
    keep: float
    max_keep: float = 1.0

    def __post_init__(self) -> None:
        _check_servable(Chain.of(self.scorer))
        object.__setattr__(self, "max_keep", _check_share(self.max_keep, "max_keep"))
        object.__setattr__(self, "keep", _check_share(self.keep, "keep", self.max_keep))

    @classmethod
    def choose(cls, scorer: ChainLike | None = None, **choice: Unpack[ServingChoice]) -> Self:
        """From a scorer and the share that it keeps, or from a pruner and a budget."""
        keep, pruner, budget = choice.get("keep"), choice.get("pruner"), choice.get("budget")
        most = choice.get("max_keep", 1.0)
        if scorer is not None and pruner is None:
            if keep is None or budget is not None:
                raise InvalidInputError(
                    "A scorer needs keep, the share of a picture's tokens that stays; budgets are for pruners."
                )
            return cls(str(Chain.of(scorer)), keep, most)
        if scorer is not None or pruner is None:
            raise InvalidInputError(
                "Give a scorer with the share that it keeps (divprune, keep=0.25), or a pruner; not both."
            )
        if keep is not None:
            raise InvalidInputError(f"keep={keep!r} was given beside a pruner, which has its own share. Leave it out.")
        return cls.of_pruner(pruner, budget, most)

    @classmethod
    def of_pruner(cls, source: str | Path, budget: float | str | None = None, max_keep: float = 1.0) -> Self:
        """From a saved pruner or the folder of a search whose drops are all before the language model.

        budget: which of its schedules; a saved schedule has its own. A search that plans for each input is served by
        its one schedule for inputs of a typical size, since an engine must know the count before it has seen the picture.
        """
        config = PrunerSpec.load(source)
        wanted = config.budget if budget is None else budget
        if config.fixed:
            config = config.at(budget)
        elif wanted is None:
            raise InvalidInputError(
                f"{source} works at any budget, and none was given. Give budget=0.5 (--budget 0.5)."
            )
        else:
            config = config.static(wanted)
        return cls(str(config.chain), _share_before_layers(config.schedule, source), max_keep)

    @property
    def chooser(self) -> Scorer:
        """The scorer that chooses before layer 0."""
        return Chain.of(self.scorer).scorers[0]

    def share(self, asked: Mapping[str, Any]) -> float:
        """The share of a request: what its `mm_processor_kwargs` ask for, or the engine's."""
        if KEEP in asked and PRUNE in asked:
            raise InvalidInputError(
                f"Both {KEEP} and {PRUNE} were given. Give the share that stays, or the one that leaves."
            )
        if PRUNE in asked:
            rate = asked[PRUNE]
            if not _is_number(rate) or not 0 <= rate < 1:
                raise InvalidInputError(
                    f"{PRUNE}={rate!r} was given. It is the share of a picture's tokens that leaves: 0 or more, below 1."
                )
            return _check_share(1 - rate, f"1 - {PRUNE}", self.max_keep)
        return _check_share(asked[KEEP], KEEP, self.max_keep) if KEEP in asked else self.keep

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_config(cls, config: Any) -> Self:
        """The settings in the config of a model that vLLM loads."""
        found = getattr(config, FIELD, None)
        if not isinstance(found, Mapping):
            raise InvalidInputError(
                f"The model's config has no {FIELD!r}, so it is not known what to prune. Make the arguments of vLLM with "
                "vispco.vllm.options(...) or `vispco vllm-args MODEL --method divprune --keep 0.25`."
            )
        return cls(str(found.get("scorer")), found.get("keep"), found.get("max_keep", 1.0))  # type: ignore[arg-type]


def kept_tokens(number: int, share: float) -> int:
    """The number of a picture's tokens that stay: as in a `Schedule`, and at least one."""
    return max(1, int(Schedule((share,)).counts([number])[0, 0]))


def _check_share(share: Any, name: str, most: float = 1.0) -> float:
    """Refuse a share that is not a number in (0, 1], or above the allowed one."""
    if not _is_number(share) or not 0 < share <= most + _SIZE:
        limit = "1" if most == 1 else f"{most:g}, the max_keep of this engine"
        raise InvalidInputError(
            f"{name}={share!r} was given. It is the share of a picture's tokens that stays: above 0, at most {limit}."
        )
    return min(float(share), most)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _share_before_layers(schedule: Schedule, source: object = "This schedule") -> float:
    """The one share of a schedule whose drops are all before layer 0."""
    if schedule.per_sample or len(set(schedule.retention)) > 1:
        raise InvalidInputError(
            f"{source} drops tokens inside the language model, or not the same for all samples. {_BEFORE_LAYERS} Search with "
            "`vispco search MODEL --servable`, or run this pruner with `vispco serve`."
        )
    return float(schedule.retention[0])  # type: ignore[arg-type]


def _check_servable(chain: Chain) -> None:
    """Refuse a chain that cannot choose inside vLLM, by what its scorers declare."""
    for reason in _obstacles(chain):
        raise InvalidInputError(f"The scorer {chain.name!r} {reason}")


def is_servable(chain: Chain) -> bool:
    """Whether a chain can choose inside vLLM."""
    return next(_obstacles(chain), None) is None


def _obstacles(chain: Chain) -> Iterator[str]:
    """Why a chain cannot be served, if it cannot."""
    scorer = chain.scorers[0]
    if len(chain.stages) > 1 or chain.earliest_layer > 0 or scorer.needs_previous_hidden:
        yield f"drops tokens inside the language model. {_BEFORE_LAYERS} {_ALONE}"
    if scorer.needs_attention or scorer.needs_entering:
        yield f"reads attention of the language model, which has not run where vLLM asks for the tokens. {_ALONE}"
    if chain.tower:
        yield f"chooses inside the vision tower, which vLLM runs whole. {_ALONE}"
    if chain.compensate:
        yield f"gives attention back by a bias, which vLLM's attention does not take. {_ALONE}"
    if chain.merges:
        yield f"merges tokens, which is not served inside vLLM. {_ALONE}"
    if chain.decides_count:
        yield f"decides by the picture how many tokens stay; vLLM must know the number before it has seen it. {_ALONE}"
    if chain.needs_vision:
        yield f"reads the inside of the vision tower, which vLLM's towers do not show. {_ALONE}"
    if scorer.reads_question:
        yield f"reads the question, which vLLM's vision tower is not given. {_ALONE}"
    if type(scorer).for_model is not Scorer.for_model:
        yield f"has weights of its own for a model of transformers. {_ALONE}"
    if chain.allocation == "equal":
        yield "divides tokens equally over pictures. vLLM prunes every picture by its own size: leave 'equal:' out."
