"""Methods that choose inside the language model, some of them after a first stage before it."""

from vispco.pruner.presets.preset import Preset, register
from vispco.pruner.presets.setting import NUM_VISUAL, PresetStage, Setting

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
        name="sparsevlm-rank",
        paper="Zhang et al., ICML 2025, the rule of the paper in place of the released constants",
        chain=((3, "sparsevlm(recycle=true,rank=9,bias=6,layers={stages})"),),
        settings={"pope": Setting.shares({3: 1.0, 7: 1.0, 16: 1.0, 20: 1.0})},
    )
)
register(
    Preset(
        name="pyramiddrop",
        paper="Xing et al., CVPR 2025",
        chain=((8, "pyramiddrop"),),
        settings={"half": Setting.shares({8: 0.5, 16: 0.25, 24: 0.125})},
    )
)
register(
    Preset(name="vtw", paper="Lin et al., AAAI 2025", chain=((15, "vtw"),), settings={"k15": Setting.shares({15: 0.0})})
)
register(
    Preset(
        name="himap",
        paper="Yin et al., CVPR 2025",
        chain=((2, "himap"), (8, "himap(rows=visual)")),
        settings={"288-72": Setting.shares({2: 0.5, 8: 0.125})},
    )
)
register(
    Preset(
        name="aim",
        paper="Zhong et al., ICCV 2025",
        chain=((0, "aim-merge"), (15, "aim")),
        settings={
            "quarter": Setting.shares(
                {0: 0.25, **{15 + step: 0.25 * (7 - step) / 8 for step in range(8)}}, num_layers=28
            )
        },
    )
)
register(
    Preset(
        name="topv",
        paper="after Yang et al., CVPR 2025",
        chain=((2, "topv"),),
        settings={"half": Setting.shares({2: 0.5})},
        after=True,
    )
)
register(
    Preset(
        name="dart",
        paper="Wen et al., EMNLP 2025",
        chain=((2, "dart"),),
        settings={label: Setting.tokens({2: int(label)}) for label in ("128", "192", "64")},
    )
)
register(
    Preset(
        name="priortr",
        paper="PriorTR, ECCV 2026",
        chain=((3, "priortr(rows=text)"),),
        settings={label: Setting.tokens({3: int(label)}) for label in ("64", "192", "128")},
    )
)
register(
    Preset(
        name="btp",
        paper="after Li et al., NeurIPS 2025; layers, counts and balance are ours",
        chain=((8, "btp(balance=0.3)"), (16, "btp(balance=0.6)"), (24, "btp(balance=0.9)")),
        settings={"half": Setting.shares({8: 0.5, 16: 0.25, 24: 0.125})},
        after=True,
    )
)
register(
    Preset(
        name="vscan",
        paper="Zhang et al., TMLR 2026",
        chain=((0, "vscan"), (16, "vscan-inside")),
        settings={"64": Setting.tokens({0: 96, 16: 32}, label="inputs")},
    )
)
register(
    Preset(
        name="v2drop",
        paper="Liu et al., CVPR 2026",
        chain=((3, "v2drop"),),
        settings={
            "llava": Setting((PresetStage(3, 0.5), PresetStage(17, 0.25), PresetStage(22, 0.0, least=1))),
            "qwen2-vl": Setting(
                (PresetStage(3, 0.25), PresetStage(16, 0.0125), PresetStage(22, 0.0, least=1)), num_layers=28
            ),
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


# Methods with weights of their own: they run on models that they were trained for (`vispco train`, or shipped ones). Where
# such a method sets its own thresholds, its setting allows all tokens, and a budget on top is an upper bound.
register(
    Preset(
        name="dynamic-llava",
        paper="Huang et al., ICLR 2025",
        chain=((2, "dynamic-llava"),),
        settings={"r20": Setting.shares({2: 0.2}, earliest=2)},
    )
)
register(
    Preset(
        name="atp-llava",
        paper="Ye et al., CVPR 2025",
        chain=((5, "atp-llava"),),
        settings={"own": Setting.shares({5: 1.0})},
        after=True,
    )
)
register(
    Preset(
        name="madtp",
        paper="Cao et al., CVPR 2024; its threshold rule, for a decoder",
        chain=((1, "madtp"),),
        settings={"own": Setting.shares({1: 1.0})},
        after=True,
    )
)
