"""Towers and layers of real sizes: is a cut tower as much faster as its FLOPs say, and faster than cutting the layers alone?

Random weights, float32, one thread, processor time; a part of the blocks and layers, in the proportion of the model. Unpruned and
pruned prefills take turns, pixels in, first word out; figures are medians of the ratios of the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from figures import Figure
from vispco import Pruner, Schedule
from vispco.cost import Dimensions, Exact, Workload
from vispco.engine import tower_cut
from vispco.engine.passes import PruningPass
from vispco.families import family_of
from vispco.pruner.pruner_spec import PrunerSpec

CONFIGS = Path(__file__).parent / "configs"
SIZES = {"Qwen2.5-VL-3B": (8, 9), "Gemma3-4B": (8, 10)}  # blocks of 32 and 27, layers of 36 and 34
CUT, BUDGET, TEXT, IMAGE = 2, 0.4, 60, 5  # a quarter of the blocks sees all patches
"""CUT: the block before which cells leave. TEXT: tokens beside the picture. IMAGE: the token of a picture."""


def build(name: str) -> Any:
    """A model of these sizes, with fewer blocks and layers and a small vocabulary."""
    config = AutoConfig.from_pretrained(CONFIGS / f"{name}-config.json")
    blocks, layers = SIZES[name]
    text, vision = config.text_config, config.vision_config
    text.num_hidden_layers, text.layer_types, text.vocab_size = layers, text.layer_types[:layers], 1000
    text.bos_token_id, text.eos_token_id, text.pad_token_id = 1, 2, 0
    config.image_token_id = IMAGE
    if name.startswith("Qwen"):
        vision.depth, vision.fullatt_block_indexes = blocks, [7]  # every eighth block sees the whole picture
        config.video_token_id, config.vision_start_token_id, config.vision_end_token_id = 6, 7, 8
    else:
        vision.num_hidden_layers, config.boi_token_index, config.eoi_token_index = blocks, 7, 8
    torch.manual_seed(0)
    return AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()


def prompt(name: str) -> dict[str, Any]:
    """One picture of 1,296 (1008 x 1008 pixels) or 256 tokens (896 x 896), and text behind it."""
    generator = torch.Generator().manual_seed(1)
    visual = 1296 if name.startswith("Qwen") else 256
    ids = torch.cat([torch.full((visual,), IMAGE), torch.randint(20, 1000, (TEXT,), generator=generator)])[None]
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "logits_to_keep": 1, "use_cache": True}
    if name.startswith("Qwen"):
        pixels = {"pixel_values": torch.randn(4 * visual, 1176, generator=generator)}
        pixels |= {"image_grid_thw": torch.tensor([[1, 72, 72]]), "mm_token_type_ids": (ids == IMAGE).int()}
    else:
        pixels = {"pixel_values": torch.randn(1, 3, 896, 896, generator=generator)}
        pixels["token_type_ids"] = (ids == IMAGE).int()
    return given | pixels


@contextmanager
def choice_clock() -> Iterator[list[float]]:
    """Adds up what choices take, in the tower and in the language model."""
    taken = [0.0]

    def timed(own: Any) -> Any:
        def choose(*args: Any) -> Any:
            start = time.process_time()
            found = own(*args)
            taken[0] += time.process_time() - start
            return found

        return choose

    tower, layers = timed(tower_cut.choose_cells), timed(PruningPass.decide)
    with mock.patch.object(tower_cut, "choose_cells", tower), mock.patch.object(PruningPass, "decide", layers):
        yield taken


@torch.no_grad()
def measure(name: str, rounds: int) -> dict[str, Any]:
    """Seconds of prefills and of the choices in them, round by round."""
    torch.set_num_threads(1)
    model, given = build(name), prompt(name)
    cut = PrunerSpec.choose(scorer=f"divprune@tower.{CUT}+divprune", budget=f"{BUDGET}p").resolve(model)
    price, layers = Exact(Dimensions.from_config(model.config)), SIZES[name][1]
    layout = family_of(model).layout(model, given)
    tower, language = int(layout.tower_flops[0]), int(price.full(Workload(TEXT, layout.num_visual[0])))
    with cut(model):
        model(**given)
        counts = cut.token_counts(model)
        spent = int(cut.tower_flops(model)[0]) + int(price.bill(counts, cut.workload(model))[0])
    alone = Pruner("uniform", Schedule.stages({0: int(counts[0, -1]) / layout.num_visual[0]}, layers))
    rows: list[dict[str, float]] = []
    for number in range(rounds + 1):
        row = {}
        for kind, pruner in (("unpruned", None), ("cut", cut), ("language model alone", alone)):
            with choice_clock() as choosing, nullcontext() if pruner is None else pruner(model):
                start = time.process_time()
                model(**given)
                row[kind] = time.process_time() - start
            if kind == "cut":
                row["choices"] = choosing[0]
        rows += [row] if number else []  # the first one warms up
        print(name, row, flush=True)
    return {
        "blocks": SIZES[name][0],
        "layers": layers,
        "visual_tokens": layout.num_visual[0],
        "cut": {"block": CUT, "retention": cut.tower, "counts": counts[0].tolist()},
        "tower_share": tower / (tower + language),
        "flops": spent / (tower + language),
        "seconds": rows,
    }


def figures_of(sizes: dict[str, Any]) -> dict[str, Figure]:
    """The figures of each size that was measured."""
    found = {}
    for name, each in sizes.items():

        def median(above: str, below: str, rows: Any = each["seconds"]) -> float:
            return statistics.median(row[above] / row[below] for row in rows)

        found[f"ttft_speedup.40p.{name}"] = Figure(median("unpruned", "cut") * each["flops"], "higher", 0.9, "ratio")
        found[f"ttft_vs_llm_only.{name}"] = Figure(median("language model alone", "cut"), "higher", 1.25, "ratio")
        found[f"selection_share.{name}"] = Figure(median("choices", "cut"), "lower", 0.02, "fraction")
    return found
