"""Methods that choose inside the language model."""

from __future__ import annotations

from vispco.presets.preset import Preset
from vispco.presets.registry import register
from vispco.presets.setting import NUM_VISUAL, Setting, Stage

register(
    Preset(
        name="fastv",
        paper="Chen et al., ECCV 2024",
        chain=((2, "fastv"),),
        settings={
            "k2-r50": Setting.shares({2: 0.5}),
            "k2-r75": Setting.shares({2: 0.25}),
            "k3-r50": Setting.shares({3: 0.5}),
        },
    )
)


def _with_centres(*survivors: int) -> Setting:
    """SparseVLM's constants for layers 2, 6 and 15, which it leaves behind: the centres of recycling come on top of them."""
    before, stages = NUM_VISUAL, {}
    for layer, kept in zip((3, 7, 16), survivors, strict=True):
        recycled = int((before - kept) * 0.3) + 1
        before = stages[layer] = kept + int(recycled * 0.1) + 1
    return Setting.tokens(stages, label="outputs")


register(
    Preset(
        name="sparsevlm",
        paper="Zhang et al., ICML 2025",
        chain=((3, "sparsevlm(recycle=true)"),),
        settings={
            "192": _with_centres(300, 200, 110),
            "128": _with_centres(303, 110, 36),
            "96": _with_centres(238, 48, 26),
            "64": _with_centres(66, 30, 17),
        },
    )
)
register(
    Preset(
        name="v2drop",
        paper="Liu et al., CVPR 2026",
        chain=((3, "v2drop"),),
        settings={
            "llava": Setting((Stage(3, 0.5), Stage(17, 0.25), Stage(22, 0.0, least=1))),
            "qwen2-vl": Setting((Stage(3, 0.25), Stage(16, 0.0125), Stage(22, 0.0, least=1)), num_layers=28),
        },
    )
)
register(
    Preset(
        name="random",
        paper="the baseline that any method must beat, at FastV's place",
        chain=((2, "random"),),
        settings={"k2-r50": Setting.shares({2: 0.5})},
    )
)
