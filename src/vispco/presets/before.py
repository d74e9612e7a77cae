"""Methods that choose before the language model. Their labels are honest: as many tokens as they say enter every layer."""

from __future__ import annotations

from vispco.presets.setting import Setting

NOMINAL = {label: Setting.tokens({0: int(label)}) for label in ("192", "128", "64")}
"""The settings that these papers share."""
