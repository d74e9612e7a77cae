"""Does a search fit a real model's sizes? Two layers of Qwen2.5-VL-7B with random weights, 5,000 visual tokens, 100-token answers.

    python benchmarks/real_size.py [--samples 3] [--memory 3]

The language model has the hidden size, heads and vocabulary of Qwen2.5-VL-7B, the tower is a small one (it runs once per
picture). `measure_joint_table` goes through levels, rungs and the table, on a CPU, in a process of its own. `peak_gigabytes` is
the peak of that process, weights included. Quality is not judged: random weights have nothing to lose.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from figures import Figure, write
from vispco.evaluation.encoded import IGNORE, Encoded
from vispco.evaluation.kl_meter import KlMeter, log_probabilities, top_log_probabilities
from vispco.scorers import Chain
from vispco.search.batch import run_teacher
from vispco.search.bill import sample_bytes
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.joint_table import measure_joint_table
from vispco.search.objective import Objective

CONFIG = Path(__file__).parent / "configs" / "Qwen2.5-VL-7B-config.json"
LAYERS, TEXT, ANSWER, PICTURE = 2, 64, 100, (1, 140, 144)  # 5,040 tokens after merging
SETTINGS = JointSettings(
    levels=(0.3, 0.6),
    table_levels=(),
    ranking_levels=(0.3,),
    rungs=(1, 2, 2),
    shapes=2,
    chains=1,
    neighbours=2,
    inherited=1,
    shortlist=(2, 2),
    compensations=(),
    anchors=2,
)


def build() -> Any:
    """Two decoder layers of full width, a tower of one small block, bfloat16."""
    config = AutoConfig.from_pretrained(CONFIG)
    config.text_config.num_hidden_layers, config.vision_config.depth = LAYERS, 1
    config.text_config.layer_types = ["full_attention"] * LAYERS
    config.vision_config.fullatt_block_indexes = []
    config.vision_config.hidden_size, config.vision_config.num_heads = 64, 2
    config.vision_config.intermediate_size = 64
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        return AutoModelForImageTextToText.from_config(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def encoded_sample(model: Any, number: int) -> Encoded:
    """A prompt with one picture and an answer of random tokens; the tower's output is computed once."""
    config, generator = model.config, torch.Generator().manual_seed(number)
    visual = PICTURE[0] * PICTURE[1] * PICTURE[2] // 4
    words = torch.randint(100, 10_000, (TEXT + ANSWER,), generator=generator)
    image = [config.vision_start_token_id, *[config.image_token_id] * visual, config.vision_end_token_id]
    ids = torch.cat([words[: TEXT // 2], torch.tensor(image), words[TEXT // 2 :]])[None]
    labels = torch.full_like(ids, IGNORE)
    labels[:, -ANSWER:] = ids[:, -ANSWER:]
    patches = PICTURE[1] * PICTURE[2]
    size = (
        config.vision_config.patch_size**2 * config.vision_config.in_channels * config.vision_config.temporal_patch_size
    )
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == config.image_token_id).long(),
        "pixel_values": torch.randn(patches, size, generator=generator).to(model.dtype),
        "image_grid_thw": torch.tensor([PICTURE]),
    }
    return Encoded((str(number),), inputs, labels, (visual,), (TEXT + 2,), (ANSWER,), (TEXT // 2 + 1,))


def kl_error() -> float:
    """The largest error of the KL from the 512 likeliest of 150,000 tokens, where these hold 99.5 % and more."""
    generator, errors = torch.Generator().manual_seed(0), []
    for sharpness in (6.0, 8.0):
        full = log_probabilities(sharpness * torch.randn(8, 150_000, generator=generator))
        for noise in (0.05, 0.2, 0.5):
            pruned = full + noise * torch.randn(full.shape, generator=generator)
            mask = torch.ones(1, 8, dtype=torch.bool)
            kept = KlMeter()(pruned[None], top_log_probabilities(full)[None], mask)
            errors.append(float((kept - KlMeter()(pruned[None], full[None], mask)).abs()))
    return max(errors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--memory", type=float, default=3.0, help="GiB for what unpruned layers compute")
    parser.add_argument("--into", type=Path, default=None)
    given = parser.parse_args()
    error = kl_error()
    began = time.process_time()
    model = build()
    objective = Objective(model, "divprune", memory=round(given.memory * 2**30))
    batches = [run_teacher(model, encoded_sample(model, number)) for number in range(given.samples)]
    chains = tuple(Chain.of(name) for name in ("divprune", "fastv", "divprune+fastv"))
    table = measure_joint_table(objective, batches, chains, SETTINGS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 2**30
    teacher = batches[0].teacher
    figures = {
        "peak_gigabytes": Figure(peak, "lower", 12, "GiB"),
        "teacher_kilobytes_per_token": Figure(
            teacher.numel() * teacher.element_size() / ANSWER / 1024, "lower", 8, "KiB"
        ),
        "kl_error": Figure(error, "lower", 1e-3, "nats"),
    }
    details = {
        "visual_tokens": int(batches[0].num_visual[0]),
        "answer_tokens": ANSWER,
        "samples": given.samples,
        "configurations": len(table.configurations),
        "processor_seconds": time.process_time() - began,
        "estimated_bytes_of_a_sample": sample_bytes(
            objective.cost.dimensions, batches[0].encoded.inputs["input_ids"].shape[1], ANSWER
        ),
        "weights_bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
    }
    options = {} if given.into is None else {"into": given.into}
    write("real_size", figures, details, seed=0, **options)


if __name__ == "__main__":
    main()
