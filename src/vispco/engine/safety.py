"""A check of attention on a model's first prefill: its output must follow from the queries, keys and mask that were read.

On the first prefill of a model, one row of each attention call that is used is computed again from the queries, keys and mask,
multiplied by the values, and compared with what the model's own attention function hands on to the output projection. A model
that does something in between (a bias on the scores, another scale) is refused instead of being read wrongly.
"""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from vispco.core.errors import UnsupportedModelError
from vispco.engine.attention import Attended, AttentionCall, implementation_of
from vispco.engine.rows import attention_logits, attention_weights

_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
_LOOSE = 5e-2  # of half precision
_TRUSTED: WeakKeyDictionary[nn.Module, set[str]] = WeakKeyDictionary()
"""Models on which the rows were right, with the attention implementations under which they were."""


@dataclass(eq=False)
class RowCheck:
    """Compares rows during one forward pass, and says at its end whether they were right. No device is waited for before."""

    model: nn.Module
    errors: dict[int, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def see(self, layer: int, call: AttentionCall, attended: Attended) -> None:
        """Note how far the last row [B, H, d] of a call is from what the model's own function gave, in units of what rounding
        explains.
        """
        if layer in self.errors:
            return
        assert call.value is not None  # noqa: S101 - only recorded calls are without
        output = attended[0]
        batch, _, length, _ = call.query.shape
        rows = torch.full((batch, 1), length - 1, device=call.query.device)
        sees = (attention_logits(call, rows)[:, :, 0] > torch.finfo(torch.float32).min / 2).any(-1)  # [B, H]
        weights = attention_weights(call, rows)[:, :, 0]  # [B, H, K]
        values = call.value.float().repeat_interleave(weights.shape[1] // call.value.shape[1], dim=1)
        row = (weights[:, :, None] @ values)[:, :, 0]
        given = output[:, -1].float().reshape(batch, -1)
        if given.shape[1] != row[0].numel():
            self.errors[layer] = torch.tensor(torch.inf)
            return
        precisions, kind = [part.dtype for part in (call.query, call.key, call.value, output)], call.query.device.type
        if torch.is_autocast_enabled(kind):  # rotary embeddings leave float32, which is then rounded all the same
            precisions.append(torch.get_autocast_dtype(kind))
        tolerance = max(_TOLERANCE.get(precision, _LOOSE) for precision in precisions)
        apart = (row - given.view_as(row)).abs().amax(-1)  # [B, H]
        worst = apart.masked_fill(~sees, 0.0).amax()  # a padding token may see no key; its output is not used
        self.errors[layer] = worst / (tolerance * given.abs().amax().clamp(min=1e-6))

    def settle(self) -> None:
        """Refuse the model if a row was wrong; else trust it from now on."""
        if not self.errors:
            return
        worst = torch.stack([error.cpu() for error in self.errors.values()]).tolist()
        wrong = [(layer, error) for layer, error in zip(self.errors, worst, strict=True) if not error <= 1.0]
        if wrong:
            raise UnsupportedModelError(
                f"The attention of layer {wrong[0][0]} of {type(self.model).__name__} does not follow from its queries, keys "
                "and mask alone, so it cannot be read or masked exactly. Use mode='drop' with scorers that read no attention, "
                "such as 'random' or 'divprune', or add a model family."
            )
        _TRUSTED.setdefault(self.model, set()).add(implementation_of(self.model))


def row_check(model: Any) -> RowCheck | None:
    """A check for a language model that is not trusted yet."""
    return None if implementation_of(model) in _TRUSTED.get(model, ()) else RowCheck(model)
