"""What a search found, as the flags of an engine that can run less of it: one share before the language model, or fewer
pixels.

An engine that prunes before the language model alone keeps one share of the tokens in all layers; one that only has a
cap on pixels shows the model a smaller picture. Both are solved for the same budget, and what they give up is said.
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
from vispco.vllm.settings import is_servable

_ENGINES = ("vllm", "openvino", "pixels")
_DEFAULT = "divprune"
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


def engine_flags(run: str | Path, budget: float, engine: str) -> EngineFlags:
    """The flags of an engine for what a search found at a budget.

    engine: 'vllm' (vispco's plugin), 'openvino' (OpenVINO GenAI's CDPruner), or 'pixels' (a cap on the picture, for
    engines without pruning).
    """
    if engine not in _ENGINES:
        raise InvalidInputError(f"--for {engine} was given. Engines are {', '.join(_ENGINES)}.")
    source = PrunerSpec.load(run)
    found, cost = source.static(budget), cost_of(source)
    text, visual = source.planner["typical"]
    own = Chain.of(found.chain or _DEFAULT)
    load = workload_under(own, cost.dimensions, text, visual)
    full = float(cost.fraction_of_counts(found.schedule.counts([visual])[0], load))
    if engine == "pixels":
        values, reached, losses = _pixels(found.model, cost, budget, text, visual)
        return EngineFlags(engine, json.dumps(values), values, reached, full, losses)
    if engine == "vllm":
        chain = own if is_servable(own) else Chain.of(_DEFAULT)
    else:
        options = own.scorers[0].to_dict() if own.scorers[0].name == "cdpruner" else {}
        weight = options.get("relevance_weight", 0.5)
        chain = Chain.of(f"cdpruner(variant=openvino,relevance_weight={weight})")
    load = workload_under(chain, cost.dimensions, text, visual)
    prices = cost.fraction_of_counts(torch.arange(visual + 1)[:, None].expand(-1, cost.num_layers), load)
    count = int((prices <= budget).sum()) - 1  # they grow with the count
    if count < 1:
        raise InvalidInputError(
            f"At a budget of {budget:g} no visual token is left before the language model: text alone costs "
            f"{float(prices[0]):.2f}. Give a larger budget."
        )
    share = count / visual
    if engine == "vllm":
        values = {"scorer": str(chain), "keep": share}
        words = arguments(found.model, chain, keep=share)
        flags = " ".join(word if word.startswith("--") else f"'{word}'" for word in words)
    else:
        ratio = math.ceil(100 * (1 - share) - 1e-9)  # whole per cents, so that the budget holds
        share, values = 1 - ratio / 100, {"pruning_ratio": ratio, "relevance_weight": weight}
        flags = json.dumps(values)
    reached = float(prices[math.ceil(share * visual - 1e-6)])
    return EngineFlags(engine, flags, values, reached, full, _losses(source, found, own, chain, share))


def _pixels(
    model: str, cost: Cost, budget: float, text: int, visual: int
) -> tuple[dict[str, Any], float, tuple[str, ...]]:
    """A smaller picture: fewer tokens enter, and nobody chooses. Flags, their price, and what they give up."""
    full = cost.full(Workload(torch.full((visual,), text), torch.arange(1, visual + 1))).double()
    prices = full / full[-1]
    number = int((prices <= budget).sum())
    if not number:
        raise InvalidInputError(f"At a budget of {budget:g} no visual token is left. Give a larger budget.")
    vision = config_of(model).get("vision_config") or {}
    values: dict[str, Any] = {"image_tokens": number}
    losses = [
        f"The full schedule sees the whole picture of {visual} tokens; here the picture is smaller, and small things are gone.",
        "Nothing is chosen: no scorer runs.",
    ]
    if "spatial_merge_size" in vision:
        values["max_pixels"] = number * (vision["patch_size"] * vision["spatial_merge_size"]) ** 2
    else:
        losses.append("The model shows every picture at one size: this needs an engine with a cap of its own.")
    return values, float(prices[number - 1]), tuple(losses)


def _losses(source: PrunerSpec, found: PrunerSpec, own: Chain, chain: Chain, share: float) -> tuple[str, ...]:
    """What one share before the language model gives up against what was found."""
    kept = found.schedule.tensor().view(-1)
    losses = []
    if len(set(kept.tolist())) > 1:
        losses.append(
            f"The full schedule keeps {kept[0]:.0%} of the tokens at layer 0 and {kept[-1]:.0%} at the last; the engine keeps "
            f"{share:.0%} in all layers."
        )
    if str(own) != str(chain):
        losses.append(f"Tokens are chosen by {chain} in place of {own}.")
    if own.reads_question and not chain.reads_question:
        losses.append("The choice does not read the question.")
    if source.kind in ("predictor", "joint"):
        losses.append("Every input gets the same share, where the search chooses a configuration for each.")
    return tuple(losses) or ("Nothing: the engine runs what was found.",)
