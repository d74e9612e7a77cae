"""Cost: the price of the tokens that each layer processes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost.dimensions import Dimensions
from vispco.cost.host import HostPricing, as_array, largest_count, largest_number
from vispco.cost.workload import Array, Workload


@dataclass(frozen=True)
class Cost(ABC):
    """Prices whole-token counts of a workload. A subclass sets `name` and `unit` and writes `price`; that is enough.

    `price` must never fall when a count grows. Budgets, solving and filling rely on nothing else. Options of a cost are
    dataclass fields of plain data, so that it can be saved with a run.

    dimensions: of the language model that is priced.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "FLOPs"
    least_saving: ClassVar[float] = 0.0
    """The fraction of the unpruned price that a second or later drop must save to be made. For costs that do not see what a
    drop itself takes.
    """

    dimensions: Dimensions

    @abstractmethod
    def price(self, counts: Tensor, workload: Workload) -> Tensor:
        """The price of whole visual tokens: counts [..., L] (int64) -> [...], int64 or float64."""

    def relaxed(self, retention: Tensor, workload: Workload) -> Tensor:
        """The price of any retention: [..., L] -> [...], float64, differentiable.

        By default `price` is interpolated between the whole tokens around the curve: linear in each simplex of the cube
        around it, in the order of the fractional parts. That is continuous, increases where `price` does, and equals it
        at whole tokens. A cost with a formula overrides it.
        """
        self.check_layers(retention)
        exact, most = workload.visual(retention), workload.num_visual[..., None].to(retention.device)
        below = torch.minimum(exact.detach().floor(), most - 1.0).clamp_min(0.0)
        part = exact - below  # in [0, 1]; 1 only where no token is missing
        order = part.detach().argsort(dim=-1, descending=True, stable=True)  # ties: the earlier layer first
        places = torch.arange(self.num_layers, device=order.device).expand_as(order)
        place = torch.empty_like(order).scatter_(-1, order, places)
        number = torch.arange(self.num_layers + 1, device=order.device).reshape(-1, *[1] * place.ndim)
        corners = below.long() + (place < number)  # [L + 1, ..., L]
        prices = self.price(torch.minimum(corners, most), workload).double()
        rise = prices.diff(dim=0).movedim(0, -1)  # [..., L]
        return prices[0] + (part.gather(-1, order) * rise).sum(dim=-1)

    @property
    def drop_price(self) -> float:
        """The price of a drop besides its tokens; `price` is without it, so that it never falls when a count grows."""
        return 0.0

    @property
    def margin(self) -> float:
        """The share of a budget that planners leave free."""
        return 0.0

    @property
    def flop_price(self) -> float:
        """The price of a FLOP of scoring, in this cost's unit; 0 unless the unit is FLOPs or a subclass overrides it."""
        return 1.0 if self.unit == "FLOPs" else 0.0

    def bill(self, counts: Tensor, workload: Workload) -> Tensor:
        """The price of a whole prefill: `price`, and what choosing the tokens takes (scoring, drops, the plan): [..., L] -> [...].

        This is what a budget is compared with. It may fall when a count grows, where that makes a choice needless.
        """
        price = self.price(counts, workload)
        pricing = HostPricing(self, workload.each(lambda numbers: numbers.expand(price.shape).reshape(-1)))
        if not pricing.charges:
            return price
        rows = as_array(counts.expand(*price.shape, counts.shape[-1]).reshape(-1, counts.shape[-1]))
        return torch.from_numpy(np.asarray(pricing.bill(rows))).reshape(price.shape)

    @property
    def num_layers(self) -> int:
        return self.dimensions.num_layers

    def full(self, workload: Workload) -> Tensor:
        """The price of the unpruned model: [...]."""
        return self.price(workload.full(self.num_layers), workload)

    def floor(self, workload: Workload) -> Tensor:
        """The lowest bill: [...]. Text alone, with all visual tokens in the layers before `earliest_layer`, and the one choice
        between them; or the unpruned model, where that takes more than it saves.
        """
        return torch.from_numpy(HostPricing(self, workload.in_a_row).floor).reshape(workload.shape)

    def fraction(self, retention: Tensor, workload: Workload) -> Tensor:
        """The price of a retention as a fraction of the unpruned model's: [..., L] -> [...], float64, differentiable."""
        return self.relaxed(retention, workload) / self.divisor(workload).to(retention.device)

    def fraction_of_counts(self, counts: Tensor, workload: Workload) -> Tensor:
        """The bill of whole tokens as a fraction of the unpruned model's: [..., L] -> [...], float64."""
        return self.bill(counts, workload).double() / self.divisor(workload)

    def divisor(self, workload: Workload) -> Tensor:
        """The price that fractions refer to: `full`, or 1 where the unpruned model costs nothing: [...], float64."""
        full = self.full(workload).double()
        return torch.where(full > 0, full, 1.0)

    def lowest_fraction(self, workload: Workload) -> Tensor:
        """The floor as a fraction of the unpruned model's price: [...], float64."""
        return torch.from_numpy(HostPricing(self, workload.in_a_row).lowest).reshape(workload.shape)

    def host_price(self, counts: Array, pricing: HostPricing) -> Array:
        """`price` of an array [..., n, L]. A cost with a formula overrides it, so that planning needs no torch."""
        return as_array(self.price(torch.from_numpy(counts), pricing.workload))

    def host_relaxed(self, retention: Array, pricing: HostPricing) -> Array:
        """`relaxed` of an array [..., n, L], overridden alike."""
        return as_array(self.relaxed(torch.from_numpy(retention), pricing.workload))

    def host_most(self, counts: Array, member: Array, room: Array, budget: Array, pricing: HostPricing) -> Array:
        """The number of further tokens that the layers `member` (bool [n, L]) may have together, up to `room` [n]: [n]."""

        def fits(extra: Array) -> Array:
            return pricing.fits(counts + member * extra[..., None], budget)

        return largest_count(fits, room)

    def host_stairs(self, tokens: Array) -> Array:
        """Tokens that layers process, [...], rounded down to where the price has a stair, if there is one just below."""
        return tokens

    def host_share(self, start: Array, direction: Array, budget: Array, pricing: HostPricing) -> Array:
        """The largest s in [0, 1] at which the curve start + s * direction ([n, L] each) costs at most the budget: [n]."""
        limit = budget * pricing.full

        def fits(share: Array) -> Array:
            return pricing.relaxed(start + share[..., None] * direction) <= limit

        return largest_number(fits, np.zeros(len(start)), np.ones(len(start)))

    def check_layers(self, values: Tensor) -> None:
        """Refuse values whose last dimension is not the layers."""
        if values.ndim < 1 or values.shape[-1] != self.num_layers:
            raise InvalidInputError(
                f"Values of shape {list(values.shape)} were given to the cost {self.name!r} of a language model with "
                f"{self.num_layers} layers. Give [..., {self.num_layers}]."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `vispco.cost.from_dict` gives the cost back."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        options = {field.name: _tuples(data[field.name]) for field in fields(cls) if field.name in data}
        return cls(**{**options, "dimensions": Dimensions.from_dict(data.get("dimensions") or {})})


def _tuples(value: Any) -> Any:
    """Lists, as JSON has them, back to tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
