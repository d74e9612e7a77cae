"""Methods that choose before the language model. Their labels are honest: as many tokens as they say enter every layer."""

from vispco.pruner.presets.preset import Preset, register
from vispco.pruner.presets.setting import Setting

NOMINAL = {label: Setting.tokens({0: int(label)}) for label in ("192", "128", "64")}
"""The settings that these papers share."""


def _published(name: str, paper: str, scorer: str | None = None, *, after: bool = False) -> None:
    """A method at the three numbers of tokens that its paper reports on LLaVA-1.5-7B."""
    register(Preset(name=name, paper=paper, chain=((0, scorer or name),), settings=NOMINAL, after=after))


register(
    Preset(
        name="divprune",
        paper="Alvar et al., CVPR 2025",
        chain=((0, "divprune"),),
        settings={"r0.098": Setting.shares({0: 0.098}), **NOMINAL},
    )
)
_published("cdpruner", "Zhang et al., NeurIPS 2025", after=True)  # there is no CLIP text tower
_published("cdpruner-openvino", "CDPruner as OpenVINO GenAI ships it", "cdpruner(variant=openvino)")
_published("visionzip", "Yang et al., CVPR 2025", after=True)  # merged behind the projector
_published("vispruner", "Zhang et al., ICCV 2025")
_published("scope", "NeurIPS 2025")
_published("hiprune", "ACL 2026")
_published("uniform", "the baseline of an even grid")
register(
    Preset(
        name="prumerge",
        paper="Shang et al., ICCV 2025, with as many tokens as it keeps on average",
        chain=((0, "prumerge(adaptive=false)"),),
        settings={"32": Setting.tokens({0: 32})},
        after=True,  # one kept token for each of the others
    )
)
