"""What a search found, as the flags of an engine that can run less of it: one share before the language model, or fewer pixels.

An engine that prunes before the language model alone keeps one share of the tokens in all layers; one that only has a cap on
pixels shows the model a smaller picture. Both are solved for the same budget, and what they give up is said.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vispco.core.errors import InvalidInputError
from vispco.cost import Cost, Workload
from vispco.pruner.planner_kinds import cost_of
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under
from vispco.vllm.engine_arguments import arguments, config_of
from vispco.vllm.settings import check_servable

ENGINES = ("vllm", "openvino", "pixels")
DEFAULT = "divprune"
"""Who chooses inside vLLM where the search's own scorer cannot."""


@dataclass(frozen=True)
class EngineFlags:
    """Flags of an engine. flags: as its command line or config has them. values: the same as data.

    fraction, full_fraction: of the unpruned FLOPs that they come to, and that the full schedule does, for an input of a
    typical size. gives_up: sentences.
    """

    engine: str
    flags: str
    values: dict[str, Any]
    fraction: float
    full_fraction: float
    gives_up: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "gives_up": list(self.gives_up)}


def engine_flags(run: str | Path, budget: float, engine: str) -> EngineFlags:
    """The flags of an engine for what a search found at a budget.

    engine: 'vllm' (vispco's plugin), 'openvino' (OpenVINO GenAI's CDPruner), or 'pixels' (a cap on the picture, for engines
    without pruning).
    """
    if engine not in ENGINES:
        raise InvalidInputError(f"--for {engine} was given. Engines are {', '.join(ENGINES)}.")
    source = PrunerSpec.load(run)
    config, cost = source.static(budget), cost_of(source)
    text, visual = source.planner["typical"]
    if engine == "pixels":
        return _pixels(config, cost, budget, (text, visual))
    own = _served_as_it_is(config) if engine == "vllm" else None
    chain = own or Chain.of(DEFAULT if engine == "vllm" else _openvino_chain(_chain_of(config)))
    share = _share(chain, cost, budget, (text, visual))
    full = _fraction(_chain_of(config), config, cost, (text, visual))
    if engine == "vllm":
        given = arguments(config.model, chain, keep=share)
        flags = " ".join(word if word.startswith("--") else f"'{word}'" for word in given)
        values: dict[str, Any] = {"scorer": str(chain), "keep": share}
    else:
        ratio = math.ceil(100 * (1 - share) - 1e-9)  # whole per cents, so that the budget holds
        share, weight = 1 - ratio / 100, chain.scorers[0].to_dict().get("relevance_weight", 0.5)
        values = {"pruning_ratio": ratio, "relevance_weight": weight}
        flags = json.dumps(values)
    size = workload_under(chain, cost.dimensions, text, visual)
    counts = torch.full((cost.num_layers,), math.ceil(share * visual - 1e-6))
    reached = float(cost.fraction_of_counts(counts, size))
    return EngineFlags(engine, flags, values, reached, full, _losses(source, config, chain, share))


def _served_as_it_is(config: PrunerSpec) -> Chain | None:
    """The chain of a schedule that vLLM can run, or None."""
    try:
        check_servable(_chain_of(config))
    except InvalidInputError:
        return None
    return config.chain


def _chain_of(config: PrunerSpec) -> Chain:
    """The chain of a static schedule, which has one."""
    return Chain.of(config.chain or DEFAULT)


def _openvino_chain(chain: Chain) -> Chain:
    """CDPruner as OpenVINO has it, with the weight of a chain that is one."""
    first = chain.scorers[0]
    weight = first.to_dict().get("relevance_weight", 0.5) if first.name == "cdpruner" else 0.5
    return Chain.of(f"cdpruner(variant=openvino,relevance_weight={weight})")


def _share(chain: Chain, cost: Cost, budget: float, size: tuple[int, int]) -> float:
    """The largest share of tokens before layer 0 that meets the budget, the choice paid for."""
    text, visual = size
    counts = torch.arange(visual + 1)[:, None].expand(-1, cost.num_layers)
    load = workload_under(chain, cost.dimensions, text, visual)
    fits = (cost.fraction_of_counts(counts, load) <= budget).nonzero()[:, 0]
    if not len(fits) or int(fits[-1]) == 0:
        raise InvalidInputError(
            f"At a budget of {budget:g} no visual token is left before the language model: text alone costs "
            f"{float(cost.fraction_of_counts(counts[0], load)):.2f}. Give a larger budget."
        )
    return int(fits[-1]) / visual


def _fraction(chain: Chain, config: PrunerSpec, cost: Cost, size: tuple[int, int]) -> float:
    """What the full schedule costs at a size."""
    counts = config.schedule.counts([size[1]])[0]
    return float(cost.fraction_of_counts(counts, workload_under(chain, cost.dimensions, *size)))


def _pixels(config: PrunerSpec, cost: Cost, budget: float, size: tuple[int, int]) -> EngineFlags:
    """A smaller picture: fewer tokens enter, and nobody chooses."""
    text, visual = size
    shown = torch.arange(1, visual + 1)
    prices = torch.stack([cost.full(Workload(torch.tensor(text), number)) for number in shown]).double() / float(
        cost.full(Workload(torch.tensor(text), torch.tensor(visual)))
    )
    fits = (prices <= budget).nonzero()[:, 0]
    if not len(fits):
        raise InvalidInputError(f"At a budget of {budget:g} no visual token is left. Give a larger budget.")
    number = int(shown[fits[-1]])
    vision = config_of(config.model).get("vision_config") or {}
    values: dict[str, Any] = {"image_tokens": number}
    if "spatial_merge_size" in vision:
        values["max_pixels"] = number * (vision["patch_size"] * vision["spatial_merge_size"]) ** 2
    sentences = [
        f"The full schedule sees the whole picture of {visual} tokens; here the picture is smaller, and small things are gone.",
        "Nothing is chosen: no scorer runs.",
    ]
    if "max_pixels" not in values:
        sentences.append("The model shows every picture at one size: this needs an engine with a cap of its own.")
    full = _fraction(_chain_of(config), config, cost, size)
    return EngineFlags("pixels", json.dumps(values), values, float(prices[fits[-1]]), full, tuple(sentences))


def _losses(source: PrunerSpec, config: PrunerSpec, chain: Chain, share: float) -> tuple[str, ...]:
    """What one share before the language model gives up against what was found."""
    kept = config.schedule.tensor().view(-1)
    found = []
    if len(set(kept.tolist())) > 1:
        found.append(
            f"The full schedule keeps {kept[0]:.0%} of the tokens at layer 0 and {kept[-1]:.0%} at the last; the engine keeps "
            f"{share:.0%} in all layers."
        )
    if str(config.chain) != str(chain):
        found.append(f"Tokens are chosen by {chain} in place of {config.chain}.")
    if _chain_of(config).reads_question and not chain.reads_question:
        found.append("The choice does not read the question.")
    if source.kind in ("predictor", "joint"):
        found.append("Every input gets the same share, where the search chooses a configuration for each.")
    return tuple(found) or ("Nothing: the engine runs what was found.",)
