"""Presets by name."""

from __future__ import annotations

from vispco.presets.preset import Preset
from vispco.registry import Registry

PRESETS: Registry[Preset] = Registry("method", "vispco.presets")
register = PRESETS.register


def get(name: str) -> Preset:
    """The preset of a method, such as 'pyramiddrop'."""
    return PRESETS.get(name)


def parse(text: str) -> tuple[Preset, str]:
    """A method as a person types it, 'sparsevlm' or 'sparsevlm:64' -> its preset and the name of the setting."""
    name, colon, setting = text.strip().partition(":")
    found = get(name.strip())
    wanted = setting.strip() if colon else found.default
    found.setting(wanted)  # an unknown one is refused here
    return found, wanted
