"""Published methods with their settings, those that choose before the language model first.

Settings are for LLaVA-1.5-7B, which most papers report: 576 visual tokens, 32 layers.
"""

from collections.abc import Mapping

from vispco.pruner.presets.preset import Preset, register
from vispco.pruner.presets.setting import NUM_VISUAL, PresetStage, Setting


def _publish(
    name: str, paper: str, chain: Mapping[int, str], settings: Mapping[str, Setting], *, after: bool = False
) -> None:
    """Register a method: its scorers by layer, and its settings by name; see `Preset`."""
    register(Preset(name=name, paper=paper, chain=tuple(chain.items()), settings=settings, after=after))


def _tokens(layer: int, *numbers: int) -> dict[str, Setting]:
    """A setting for each number of tokens that stay from a layer on."""
    return {str(number): Setting.tokens({layer: number}) for number in numbers}


def _with_centres(*survivors: int) -> Setting:
    """SparseVLM's constants for layers 2, 6 and 15, which it leaves behind: the centres of recycling come on top of them."""
    before, stages = NUM_VISUAL, {}
    for layer, kept in zip((3, 7, 16), survivors, strict=True):
        recycled = int((before - kept) * 0.3) + 1
        before = stages[layer] = kept + int(recycled * 0.1) + 1
    return Setting.tokens(stages, label="outputs")


_NOMINAL = _tokens(0, 192, 128, 64)  # labels that are honest: as many tokens as they say enter every layer
_HALVED = {"half": Setting.shares({8: 0.5, 16: 0.25, 24: 0.125})}

_publish("divprune", "Alvar et al., CVPR 2025", {0: "divprune"}, {"r0.098": Setting.shares({0: 0.098}), **_NOMINAL})
_publish("cdpruner", "Zhang et al., NeurIPS 2025", {0: "cdpruner"}, _NOMINAL, after=True)  # there is no CLIP text tower
_publish("cdpruner-openvino", "CDPruner as OpenVINO GenAI ships it", {0: "cdpruner(variant=openvino)"}, _NOMINAL)
_publish("visionzip", "Yang et al., CVPR 2025", {0: "visionzip"}, _NOMINAL, after=True)  # merged behind the projector
_publish("vispruner", "Zhang et al., ICCV 2025", {0: "vispruner"}, _NOMINAL)
_publish("scope", "NeurIPS 2025", {0: "scope"}, _NOMINAL)
_publish("hiprune", "ACL 2026", {0: "hiprune"}, _NOMINAL)
_publish("uniform", "the baseline of an even grid", {0: "uniform"}, _NOMINAL)
_publish(
    "prumerge",
    "Shang et al., ICCV 2025, with as many tokens as it keeps on average",
    {0: "prumerge(adaptive=false)"},
    _tokens(0, 32),
    after=True,  # one kept token for each of the others
)
_FASTV = {
    "k2-r50": Setting.shares({2: 0.5}),
    "k2-r75": Setting.shares({2: 0.25}),
    "k3-r50": Setting.shares({3: 0.5}),
}
_publish("fastv", "Chen et al., ECCV 2024", {2: "fastv"}, _FASTV)
_SPARSEVLM = {
    "192": _with_centres(300, 200, 110),
    "128": _with_centres(303, 110, 36),
    "96": _with_centres(238, 48, 26),
    "64": _with_centres(66, 30, 17),
}
_publish("sparsevlm", "Zhang et al., ICML 2025", {3: "sparsevlm(recycle=true)"}, _SPARSEVLM)
_publish(
    "sparsevlm-rank",
    "Zhang et al., ICML 2025, the rule of the paper in place of the released constants",
    {3: "sparsevlm(recycle=true,rank=9,bias=6,layers={stages})"},
    {"pope": Setting.shares({3: 1.0, 7: 1.0, 16: 1.0, 20: 1.0})},
)
_publish("pyramiddrop", "Xing et al., CVPR 2025", {8: "pyramiddrop"}, _HALVED)
_publish("vtw", "Lin et al., AAAI 2025", {15: "vtw"}, {"k15": Setting.shares({15: 0.0})})
_HIMAP = {"288-72": Setting.shares({2: 0.5, 8: 0.125})}
_publish("himap", "Yin et al., CVPR 2025", {2: "himap", 8: "himap(rows=visual)"}, _HIMAP)
_AIM = Setting.shares({0: 0.25, **{15 + step: 0.25 * (7 - step) / 8 for step in range(8)}}, num_layers=28)
_publish("aim", "Zhong et al., ICCV 2025", {0: "aim-merge", 15: "aim"}, {"quarter": _AIM})
_publish("topv", "after Yang et al., CVPR 2025", {2: "topv"}, {"half": Setting.shares({2: 0.5})}, after=True)
_publish("dart", "Wen et al., EMNLP 2025", {2: "dart"}, _tokens(2, 128, 192, 64))
_publish("priortr", "PriorTR, ECCV 2026", {3: "priortr(rows=text)"}, _tokens(3, 64, 192, 128))
_publish(
    "btp",
    "after Li et al., NeurIPS 2025; layers, counts and balance are ours",
    {8: "btp(balance=0.3)", 16: "btp(balance=0.6)", 24: "btp(balance=0.9)"},
    _HALVED,
    after=True,
)
_VSCAN = {"64": Setting.tokens({0: 96, 16: 32}, label="inputs")}
_publish("vscan", "Zhang et al., TMLR 2026", {0: "vscan", 16: "vscan-inside"}, _VSCAN)
_LAST = PresetStage(22, 0.0, least=1)
_V2DROP = {
    "llava": Setting((PresetStage(3, 0.5), PresetStage(17, 0.25), _LAST)),
    "qwen2-vl": Setting((PresetStage(3, 0.25), PresetStage(16, 0.0125), _LAST), num_layers=28),
}
_publish("v2drop", "Liu et al., CVPR 2026", {3: "v2drop"}, _V2DROP)
_RANDOM = {"k2-r50": Setting.shares({2: 0.5})}
_publish("random", "the baseline that any method must beat, at FastV's place", {2: "random"}, _RANDOM)

# Methods with weights of their own: they run on models that they were trained for (`vispco train`, or shipped ones). Where
# such a method sets its own thresholds, its setting allows all tokens, and a budget on top is an upper bound.
_DYNAMIC = {"r20": Setting.shares({2: 0.2}, earliest=2)}
_publish("dynamic-llava", "Huang et al., ICLR 2025", {2: "dynamic-llava"}, _DYNAMIC)
_publish("atp-llava", "Ye et al., CVPR 2025", {5: "atp-llava"}, {"own": Setting.shares({5: 1.0})}, after=True)
_MADTP = "Cao et al., CVPR 2024; its threshold rule, for a decoder"
_publish("madtp", _MADTP, {1: "madtp"}, {"own": Setting.shares({1: 1.0})}, after=True)
