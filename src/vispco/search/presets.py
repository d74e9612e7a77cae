"""The paper's hyper-parameters, as data: both tables of its appendix, and the values of its text (which differ)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vispco.core.errors import UnknownNameError
from vispco.search.gradient.lagrangian import LagrangianSettings


@dataclass(frozen=True)
class SearchPreset:
    """One row: lambda, alpha, epsilon, beta of Algorithm 1; sigma and T of the relaxation; learning rate, batch size."""

    lam: float = 100.0
    alpha: float = 5.0
    epsilon: float = 0.005
    beta: float = 0.5
    sigma: float = 10.0
    temperature: float = 0.1
    rate: float = 1e-4
    batch_size: int = 16

    def lagrangian(self) -> LagrangianSettings:
        """The part that Algorithm 1 reads."""
        return LagrangianSettings(lam=self.lam, alpha=self.alpha, beta=self.beta, epsilon=self.epsilon)


# Table hyperparams_main: the same for FastV, SparseVLM and FitPrune.
_QWEN = SearchPreset(lam=100, alpha=5, epsilon=0.005, rate=1e-4)
_GEMMA = SearchPreset(lam=1, alpha=5, epsilon=0.005, rate=5e-4)
_LLAVA = SearchPreset(lam=100, alpha=10, epsilon=0.01, rate=5e-5)
# Section "Implementation Details": single-layer pruning on Qwen2.5-VL-3B.
_TEXT = SearchPreset(lam=100, alpha=2, epsilon=0.01, rate=4e-4)

_BY_MODEL = {"qwen": _QWEN, "gemma": _GEMMA, "llava": _LLAVA}
# Table hyperparams_ablation: Qwen2.5-VL-3B by kernel.
_BY_KERNEL = {
    "linear": SearchPreset(lam=100, alpha=5, epsilon=0.01, sigma=1, rate=1e-4),
    "exponential": SearchPreset(lam=100, alpha=10, epsilon=0.005, sigma=1, rate=5e-5),
    "p-sigmoid": SearchPreset(lam=100, alpha=5, epsilon=0.01, sigma=1, rate=1e-4),
    "multi-step": SearchPreset(lam=1, alpha=10, epsilon=0.05, sigma=5, rate=1e-4),
}
# `steps` and `free` are ours: they take the single-layer row of the model.
PRESETS = {"text": _TEXT, **_BY_MODEL, **{f"qwen/{kernel}": row for kernel, row in _BY_KERNEL.items()}}


def get(name: str) -> SearchPreset:
    """A preset by name: 'qwen', 'gemma', 'llava', 'qwen/linear', ..., or 'text'."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, list(PRESETS))
    return PRESETS[name]


def for_model(config: Any, kernel: str) -> SearchPreset:
    """The row of a transformers config and a kernel: the ablation's for Qwen, the model's own elsewhere.

    A model that the paper has not tried gets Qwen's row.
    """
    kind = str(getattr(config, "model_type", "")).lower()
    family = next((name for name in _BY_MODEL if name in kind), "qwen")
    if family == "qwen" and kernel in _BY_KERNEL:
        return _BY_KERNEL[kernel]
    return _BY_MODEL[family]
