"""What does choosing tokens in blocks lose, and what does a choice cost beside the layers that it shortens?

    python benchmarks/selection.py [--parts sets,kl,time] [--items 64]

Choices that depend on those before are made one by one on the host and in blocks on a device (`vispco.scorers.greedy`).
same.SCORER: the share of the exact set that blocks choose, the least over made-up features (random, in clusters, varying
smoothly over a grid) and those of two shipped models' pictures. radius.divprune: the largest distance of a token to the nearest
chosen one, and apart.divprune the smallest distance of two chosen ones, relative to the exact set's. volume.cdpruner: the
root of the determinant ratio, per token. covered.scope: the sum that it maximises. kl.SCORER.MODEL: the KL to the unpruned
model with blocks by that with the exact set, mean over 20, 35 and 50 % of the tokens. time.*: processor time of a choice by
that of one layer of Qwen2.5-VL-3B's size on all tokens, on the host, one thread; share.*: by all of its 36 layers.
selection_share.TOKENS: the largest share of divprune and cdpruner, one by one or in blocks; pruned_share.TOKENS: the same by 36
layers on the tokens that stay, which is what is left of the prefill.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLDecoderLayer, Qwen2_5_VLRotaryEmbedding

import vispco
from figures import Figure, write
from operation_counts import random_context
from vispco import Schedule
from vispco.data import dataset
from vispco.engine.forward import recorded_embeddings
from vispco.evaluation.encoded import encode
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.families import family_of
from vispco.scorers import ScoringContext, VisionRecord, get
from vispco.scorers.cdpruner import _relevance, _scaled
from vispco.scorers.greedy import cosines

MODELS, SCORERS, SHARES = ("tiny-qwen", "tiny-llava"), ("divprune", "cdpruner", "scope"), (0.2, 0.35, 0.5)
SIZES = ((1296, 400), (5000, 1500))
LAYERS = 36
SEED = 0


def made_up(kind: str, number: int, width: int) -> Tensor:
    """Features [1, V, D] of no model; V is a square."""
    generator = torch.Generator().manual_seed(SEED)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    if kind == "random":
        return normal(1, number, width)
    if kind == "clustered":
        return (normal(40, width)[torch.randint(40, (number,), generator=generator)] + 0.4 * normal(number, width))[
            None
        ]
    side = math.isqrt(number)
    coarse = functional.interpolate(normal(1, width, side // 4 + 1, side // 4 + 1), size=(side, side), mode="bilinear")
    return (coarse[0].flatten(1).T + 0.15 * normal(number, width) + normal(width))[None]


@torch.no_grad()
def pictures(name: str, limit: int) -> list[Tensor]:
    """What enters the language model for pictures of the test set: [1, V, D] each."""
    model, processor = vispco.load(name)
    found = []
    for sample in dataset("test", limit=limit):
        inputs = encode(model, processor, [sample]).inputs
        with recorded_embeddings(model) as seen:
            model(**inputs)
        found.append(seen[0][:, family_of(model).layout(model, inputs).visual_index[0]])
    return found


def context_of(states: Tensor, keep: int) -> ScoringContext:
    """One sample with these visual tokens, before the language model."""
    base = random_context(states.shape[1], keep, states.shape[2])
    embeddings = torch.cat([states, base.embeddings[:, states.shape[1] :]], dim=1)
    return replace(base, embeddings=embeddings, vision=VisionRecord(states, base.vision.attention), memo={})


def compared(states: Tensor, keep: int) -> dict[str, float]:
    """How the blocks' sets compare with the exact ones."""
    context, found = context_of(states, keep), {}
    similar = cosines(states)[0].double()
    sets: dict[str, list[Tensor]] = {}
    for scorer in SCORERS:
        sets[scorer] = [get(scorer, exact=exact).select(context).keep[0] for exact in (True, False)]
        exact, blocks = sets[scorer]
        found[f"same.{scorer}"] = float((exact & blocks).sum()) / keep
    radius = [float((1 - similar[chosen].amax(0)).max()) for chosen in sets["divprune"]]
    apart = [float((1 - similar[chosen][:, chosen]).fill_diagonal_(2.0).min()) for chosen in sets["divprune"]]
    found |= {"radius.divprune": radius[1] / radius[0], "apart.divprune": apart[1] / apart[0]}
    relevance = _scaled(_relevance(context), context.live)[0].double()
    kernel = relevance[:, None] * similar * relevance + 1e-6 * torch.eye(len(similar), dtype=torch.float64)
    volume = [float(torch.linalg.slogdet(kernel[chosen][:, chosen])[1]) / keep for chosen in sets["cdpruner"]]
    reached = [float(similar[chosen].amax(0).clamp(min=0).sum()) for chosen in sets["scope"]]
    return found | {
        "volume.cdpruner": math.exp((volume[1] - volume[0]) / 2),
        "covered.scope": reached[1] / reached[0],
    }


def judge_sets(limit: int) -> dict[str, dict[str, float]]:
    found = {
        f"{kind} 400 of 1296": compared(made_up(kind, 1296, 512), 400) for kind in ("random", "clustered", "smooth")
    }
    for name in MODELS:
        shown = pictures(name, limit)
        found[f"{name} pooled, 400 of 1296"] = compared(torch.cat(shown, dim=1)[:, :1296], 400)
        for share in SHARES:
            each = [compared(states, max(2, int(share * states.shape[1]))) for states in shown]
            found[f"{name} {share:.0%}"] = {key: fmean(row[key] for row in each) for key in each[0]}
    return found


def judge_kl(items: int) -> dict[str, list[dict[str, float]]]:
    found = {}
    for name in MODELS:
        model, processor = vispco.load(name)
        samples = dataset("test", limit=items)
        samples = [samples[place * len(samples) // items] for place in range(items)]
        for scorer in SCORERS:
            rows = []
            for share in SHARES:
                schedule = Schedule.single(0, share, len(family_of(model).layers(model)))
                exact, blocks = (
                    TaskEvaluator(model, processor, samples, f"{scorer}(exact={word})", batch_size=16).kl(schedule)
                    for word in ("true", "false")
                )
                rows.append({"share": share, "exact": exact, "blocks": blocks})
            found[f"{scorer}.{name}"] = rows
            print(scorer, name, rows, flush=True)
    return found


def processor_seconds(call: Callable[[], Any], runs: int) -> float:
    """Of one thread, the least of several runs: other work on the machine does not count."""
    found = []
    for _ in range(runs):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


@torch.no_grad()
def judge_time() -> Iterator[dict[str, Any]]:
    config = Qwen2_5_VLTextConfig(
        hidden_size=2048, intermediate_size=11008, num_attention_heads=16, num_key_value_heads=2, num_hidden_layers=1,
        vocab_size=64, rope_parameters={"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1e6},
    )  # fmt: skip
    config._attn_implementation = "sdpa"  # noqa: SLF001 - as a model sets it
    layer, rotary = Qwen2_5_VLDecoderLayer(config, 0).eval(), Qwen2_5_VLRotaryEmbedding(config)
    for number, keep in SIZES:
        states = torch.randn(1, number, 2048)
        positions = rotary(states, torch.arange(number).expand(3, 1, -1))
        few = [part[..., :keep, :] for part in positions]
        one = processor_seconds(lambda: layer(states, position_embeddings=positions), 2)  # noqa: B023
        pruned = processor_seconds(lambda: layer(states[:, :keep], position_embeddings=few), 2)  # noqa: B023
        layers = {"layer": one, "pruned_layer": pruned}
        for scorer in SCORERS:
            for exact in (True, False):
                method = get(scorer, exact=exact)
                spent = processor_seconds(lambda: method.select(context_of(states, keep)), 2)  # noqa: B023
                yield {"tokens": number, "kept": keep, "scorer": scorer, "exact": exact, "seconds": spent, **layers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="sets,kl,time", help="which to run [%(default)s]")
    parser.add_argument("--items", type=int, default=64, help="test items for the KL [%(default)s]")
    asked = parser.parse_args()
    parts, figures, details = asked.parts.split(","), {}, {}
    if "sets" in parts:
        details["sets"] = judge_sets(4)
        for key in next(iter(details["sets"].values())):
            values = [row[key] for row in details["sets"].values()]
            worst = max(values) if key.startswith("radius") else min(values)
            better = "lower" if key.startswith("radius") else "higher"
            figures[key] = Figure(worst, better, None, "share" if key.startswith("same") else "ratio")  # type: ignore[arg-type]
    if "kl" in parts:
        details["kl"] = judge_kl(asked.items)
        for key, rows in details["kl"].items():
            ratio = sum(row["blocks"] for row in rows) / sum(row["exact"] for row in rows)
            figures[f"kl.{key}"] = Figure(ratio, "lower", None, "ratio")
    if "time" in parts:
        details["time"] = []
        for row in judge_time():
            details["time"].append(row)
            print(row, flush=True)
            if row["exact"]:  # what the host runs
                ratio, key = row["seconds"] / row["layer"], f"{row['scorer']}.{row['tokens']}"
                figures[f"time.{key}"] = Figure(ratio, "lower", None, "layers")
                figures[f"share.{key}"] = Figure(ratio / LAYERS, "lower", 0.02, "of the prefill")
        for number, _ in SIZES:
            rows = [row for row in details["time"] if row["tokens"] == number and row["scorer"] != "scope"]
            for name, of, bar in (("selection_share", "layer", 0.02), ("pruned_share", "pruned_layer", None)):
                share = max(row["seconds"] / row[of] for row in rows) / LAYERS
                figures[f"{name}.{number}"] = Figure(share, "lower", bar, "of the prefill")
    write("selection", figures, details, SEED)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
