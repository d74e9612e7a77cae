"""A preset: a published method as its paper sets it, for any model, and scaled to any budget; presets by name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.registry import Registry
from vispco.core.schedule import Schedule
from vispco.cost import Budget, Cost, Workload, clamp_budget, snap
from vispco.cost.solve import largest_fitting
from vispco.pruner.presets.setting import ChainSetting, PresetStage, Setting
from vispco.scorers import SCORERS, Chain

OWN = "half"
"""The setting of a chain that no paper sets."""
_FRONTS = 64
"""In how many steps stages are moved toward the input, where a budget asks for it."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A method: its scorers by depth, and its published settings by name.

    name: of the method. paper: where it is from. chain: (layer, scorer) pairs at the depth of the settings' model; the first
        scorer inside the language model may choose from its earliest layer on, since the schedule says where it does. '{stages}'
        in a scorer's options stands for the layers of the stages.
    settings: by name, the default first. after: True where the card leaves something open that is our choice here.
    """

    name: str
    paper: str
    chain: tuple[tuple[int, str], ...]
    settings: Mapping[str, Setting]
    after: bool = False

    @property
    def default(self) -> str:
        """The name of the setting that is used where none is given."""
        return next(iter(self.settings))

    def setting(self, name: str | None = None) -> Setting:
        """A setting by name, such as '192'."""
        wanted = self.default if name is None else name
        if wanted not in self.settings:
            raise UnknownNameError(f"setting of {self.name}", wanted, list(self.settings))
        return self.settings[wanted]

    def chain_for(self, num_layers: int, setting: str | None = None) -> Chain:
        """The scorers by depth, for a number of layers."""
        found, chosen = self.setting(setting), {}
        if isinstance(found, ChainSetting) and found.chain is not None:
            return found.chain
        places = [stage.layer for stage in found.for_depth(num_layers)]
        for number, (layer, text) in enumerate(self.chain):
            scorer = Chain.of(text.replace("{stages}", json.dumps(places))).scorers[0]
            first = not any(before > 0 for before, _ in self.chain[:number])
            place = found.layer_for_depth(layer, num_layers)
            chosen[max(1, scorer.earliest_layer) if layer and first else place] = scorer
        return Chain(tuple(sorted(chosen.items(), key=lambda pair: pair[0])))

    def schedule(self, num_layers: int, num_visual: int | Sequence[int], setting: str | None = None) -> Schedule:
        """The published setting by numbers of visual tokens; one number gives one schedule, several one each."""
        stages = self.setting(setting).for_depth(num_layers)
        if isinstance(num_visual, int):
            return Schedule.from_counts(_counts(stages, num_layers, num_visual), num_visual)
        rows = [_counts(stages, num_layers, visual) for visual in num_visual]
        return Schedule.from_counts(torch.stack(rows), num_visual)

    def counts_at_budget(
        self,
        budget: float | Tensor,
        cost: Cost,
        workload: Workload,
        setting: str | None = None,
        *,
        asked: Budget | None = None,
    ) -> Tensor:
        """Whole tokens [B, L] that cost at most the budget, a fraction of the unpruned price, for samples [B].

        The stages stay where they are, and one factor on their shares meets the budget; where all shares but those of 0 have
        grown to 1, what is left raises the others. Where the layers before the first stage cost too much already, the stages
        move toward the input until they do not. A method that removes everything (VTW) moves its stage in either case.
        asked: what the budget comes from, such as 40 ms: a warning names the floor in its unit.
        """
        found = self.setting(setting)
        wanted = torch.as_tensor(budget, dtype=torch.float64).expand(workload.num_visual.shape)
        first = min(found.stages[0].layer, found.earliest)
        wanted = clamp_budget(wanted, replace(workload, earliest_layer=first), cost, asked)
        rows = [
            _fit(found, float(share), cost, workload.each(lambda numbers, place=place: numbers[place]))  # type: ignore[misc]
            for place, share in enumerate(wanted)
        ]
        return torch.stack(rows)

    def at_budget(self, budget: float, cost: Cost, workload: Workload, setting: str | None = None) -> Schedule:
        """The method scaled to a budget (see `counts_at_budget`): one schedule, or one each for a workload [B]."""
        if workload.num_visual.ndim:
            counts = self.counts_at_budget(budget, cost, workload, setting)
            return Schedule.from_counts(counts, workload.num_visual.tolist())
        one = workload.each(lambda numbers: numbers[None])
        return Schedule.from_counts(self.counts_at_budget(budget, cost, one, setting)[0], int(workload.num_visual))


def mean_tokens(counts: Tensor, over: str = "inputs") -> Tensor:
    """Visual tokens of an average layer, by its input or by its output: counts [..., L] -> [...], float64.

    What a layer puts out is what enters the next one; papers that count outputs thereby leave out one full layer.
    """
    if over not in ("inputs", "outputs"):
        raise InvalidInputError(f"over={over!r} was given. Tokens are counted over 'inputs' or 'outputs'.")
    if over == "outputs":
        counts = torch.cat([counts[..., 1:], counts[..., -1:]], dim=-1)
    return counts.double().mean(dim=-1)


def _counts(stages: Sequence[PresetStage], num_layers: int, num_visual: int) -> Tensor:
    counts = torch.full((num_layers,), num_visual)
    for stage in stages:
        counts[stage.layer :] = stage.count(num_visual)
    return counts.cummin(dim=-1).values


def _fit(setting: Setting, budget: float, cost: Cost, sample: Workload) -> Tensor:
    """Whole tokens [L] of one sample."""
    layers = cost.num_layers
    if not int(sample.num_visual):
        return torch.zeros(layers, dtype=torch.int64)
    if not any(stage.keep for stage in setting.stages):
        return _withdrawn(budget, cost, sample, first=min(setting.earliest, setting.stages[0].layer))
    for step in range(_FRONTS, -1, -1):
        stages = setting.for_depth(layers, front=step / _FRONTS)
        pinned = replace(sample, earliest_layer=stages[0].layer)
        if float(cost.lowest_fraction(pinned)) <= budget:
            break
    inside, curve = torch.arange(layers) >= stages[0].layer, torch.ones(layers, dtype=torch.float64)
    for stage in stages:
        curve[stage.layer :] = stage.keep
    limit = budget * float(cost.full(pinned))
    most = 1.0 / min(stage.keep for stage in stages if stage.keep)

    def scaled(factor: Tensor) -> Tensor:
        return torch.where(inside, (curve * factor[..., None]).clamp(max=1.0), 1.0)

    def fits(factor: Tensor) -> Tensor:
        return cost.relaxed(scaled(factor), pinned) <= limit

    ends = torch.zeros((), dtype=torch.float64), torch.full((), most, dtype=torch.float64)
    found = scaled(largest_fitting(fits, *ends))
    allowed = min(budget, 1.0)  # where scoring costs more than pruning saves, `snap` raises it to the floor again
    return snap(found, torch.tensor(allowed, dtype=torch.float64), pinned, cost, fill=False)


def _withdrawn(budget: float, cost: Cost, sample: Workload, first: int) -> Tensor:
    """All tokens in as many layers as the budget allows, none behind."""
    layers = cost.num_layers
    places = torch.arange(layers)
    for layer in range(layers, first, -1):
        counts = (places < layer).long() * sample.num_visual
        if float(cost.fraction_of_counts(counts, sample)) <= budget:
            return counts
    return (places < first).long() * sample.num_visual


PRESETS: Registry[Preset] = Registry("method", "vispco.presets")
register = PRESETS.register


def get(name: str) -> Preset:
    """The preset of a method, such as 'pyramiddrop'."""
    return PRESETS.get(name)


def parse(text: str) -> tuple[Preset, str]:
    """A method as a person types it -> its preset and the name of the setting.

    'sparsevlm', 'sparsevlm:64', or any registered scorer or chain ('divprune+fastv', 'my-scorer(width=2)'), see `ChainSetting`.
    """
    name, colon, setting = (part.strip() for part in text.partition(":"))
    if name in PRESETS:
        found = get(name)
        wanted = setting if colon else found.default
        found.setting(wanted)  # an unknown one is refused here
        return found, wanted
    known = [*PRESETS, *(scorer for scorer in SCORERS if scorer not in PRESETS)]
    if name.replace("-", "_").isidentifier() and name not in known and not colon:
        raise UnknownNameError("method", name, known)
    chain = Chain.of(text.strip())
    return Preset(name=str(chain), paper="none", chain=(), settings={OWN: ChainSetting.of(chain)}, after=True), OWN


def method_chain(method: str, num_layers: int, scorer: str | None = None) -> Chain:
    """The scorers of a published method in a model of `num_layers` layers. scorer: another one that was given; refused."""
    preset, setting = parse(method)
    if scorer not in (None, "fastv"):
        raise InvalidInputError("--method and --scorer were both given. Keep one of them.")
    return preset.chain_for(num_layers, setting)
