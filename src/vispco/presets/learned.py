"""Methods with weights of their own: they run on models that they were trained for (`vispco train`, or shipped ones).

Where a method sets its own thresholds, how many tokens stay is not the preset's to say: its setting allows all of them,
and a budget on top is an upper bound.
"""

from __future__ import annotations

from vispco.presets.preset import Preset
from vispco.presets.registry import register
from vispco.presets.setting import Setting

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
