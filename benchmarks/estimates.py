"""What the paper's models take, by `vispco info`'s own figures; writes the tables of docs/real-models.md.

    python benchmarks/estimates.py

A test compares the page with what this gives.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from vispco.models.model_spec import read_config
from vispco.timing.describe_settings import DescribeSettings
from vispco.timing.estimates import describe
from vispco.timing.tables import hours

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "real-models.md"
BEGIN, END = "<!-- estimates: begin -->", "<!-- estimates: end -->"
HUB = {
    "Qwen2.5-VL-3B": "Qwen/Qwen2.5-VL-3B-Instruct",
    "Qwen2.5-VL-7B": "Qwen/Qwen2.5-VL-7B-Instruct",
    "LLaVA-1.5-7B": "llava-hf/llava-1.5-7b-hf",
    "Gemma3-4B": "google/gemma-3-4b-it",
}
GIB = 2**30


def figures(name: str, gpus: int) -> dict:
    config = HERE / "configs" / f"{name}-config.json"
    return describe(read_config(str(config)), name, DescribeSettings(gpus=gpus))


def tables() -> str:
    """The two tables: what a model is, and how long it takes on one GPU and on eight."""
    one = {name: figures(name, 1) for name in HUB}
    eight = {name: figures(name, 8) for name in HUB}
    machine, told = DescribeSettings(), one["Qwen2.5-VL-3B"]["estimates"]
    lines = [
        (
            "| model | hub id | layers | visual tokens, 640 × 480 | prefill TFLOPs, exact | paper's formula | "
            "weights, bfloat16 | KV cache, batch of 16 | the same at 50 % |"
        ),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, data in one.items():
        cache = [16 * data["kv_bytes_at"][budget] / GIB for budget in ("100%", "50%")]
        lines.append(
            f"| {name} | `{HUB[name]}` | {data['layers']} | {data['visual_tokens']} | "
            f"{data['flops']['exact']['100%'] / 1e12:.2f} | {data['flops']['paper']['100%'] / 1e12:.2f} | "
            f"{data['weights_bytes']['bfloat16'] / GIB:.1f} GiB | {cache[0]:.2f} GiB | {cache[1]:.2f} GiB |"
        )
    lines += [
        "",
        *textwrap.wrap(
            f"Hours on GPUs of {machine.tflops:g} TFLOPS at {machine.utilisation:.0%} utilisation and {machine.bandwidth:g} "
            f"TB/s (an NVIDIA H20 in bfloat16), {told['items']:,} questions of {told['answer_tokens']} answer tokens:",
            width=120,
        ),
        "",
        "| model | GPUs | unpruned evaluation | static search, 256 samples | predictor, 30,000 samples | the grid |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in HUB:
        for gpus, data in ((1, one[name]), (8, eight[name])):
            work = data["estimates"]
            grid = f"{hours(work['grid']['hours'])} ({work['grid']['configurations']} configurations)"
            shown = [hours(work[key]["hours"]) for key in ("evaluation", "static_search", "gradient_search")]
            if gpus > 1:
                shown[:2] = ["(one GPU)"] * 2  # these commands use one
            lines.append(f"| {name} | {gpus} | {' | '.join(shown)} | {grid} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with its tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
