"""Muon for the matrices, Adam for the rest, in one optimizer whose whole state is named tensors.

`torch.optim.Muon` orthogonalises one matrix at a time, and in bfloat16 only; most shipped models were trained in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterable


_WEIGHT_DECAY = 0.02


def orthogonalize(matrices: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration towards the nearest orthogonal matrix, for a stack [K, rows, columns] at once."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x: Tensor = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * (gram @ gram)) @ x
    return x.mT if tall else x


class Muon:
    """Orthogonalised momentum on hidden matrices of equal shape at once; Adam on embeddings, norms, biases, heads."""

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        *,
        dtype: torch.dtype = torch.float32,  # in which updates are orthogonalised
    ) -> None:
        self.parameters = dict(named)
        self.dtype = dtype
        self.first: dict[str, Tensor] = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.second: dict[str, Tensor] = {}
        self.groups: dict[torch.Size, list[str]] = {}
        for name, parameter in self.parameters.items():
            if parameter.ndim == 2 and not any(part in name for part in ("embed", "lm_head", "head.")):
                self.groups.setdefault(parameter.shape, []).append(name)
            else:
                self.second[name] = torch.zeros_like(parameter)
        self.steps = 0

    def zero_grad(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float, slow: dict[str, float] | None = None) -> None:
        """One update; `slow` maps a prefix of names to the share of the rate that they move by."""
        rates = dict.fromkeys(self.parameters, rate)
        for prefix, share in (slow or {}).items():
            rates |= {name: rate * share for name in self.parameters if name.startswith(prefix)}
        self.steps += 1
        for names in self.groups.values():
            found = {name: grad for name in names if (grad := self.parameters[name].grad) is not None}
            if not found:
                continue
            gradients = torch.stack(list(found.values()))
            momentum = torch.stack([self.first[name] for name in found]).lerp_(gradients, 0.05)
            update = orthogonalize(gradients.lerp(momentum, 0.95).to(self.dtype)).float()
            scale = 0.4 * max(update.shape[-2:]) ** 0.5
            for i, name in enumerate(found):
                self.first[name].copy_(momentum[i])
                lr = rates[name]
                self.parameters[name].mul_(1 - lr * _WEIGHT_DECAY).sub_(update[i], alpha=lr * scale)
        beta1, beta2 = 0.9, 0.98
        for name, second in self.second.items():
            parameter = self.parameters[name]
            if parameter.grad is None:
                continue
            first = self.first[name].lerp_(parameter.grad, 1 - beta1)
            second.lerp_(parameter.grad.square(), 1 - beta2)
            corrected = second / (1 - beta2**self.steps)
            parameter.sub_(first / (1 - beta1**self.steps) / (corrected.sqrt() + 1e-8), alpha=rates[name])

    def state(self) -> dict[str, Tensor]:
        first = {f"first.{name}": tensor for name, tensor in self.first.items()}
        return first | {f"second.{name}": tensor for name, tensor in self.second.items()}

    def load(self, state: dict[str, Tensor], steps: int) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
        self.steps = steps
