"""The FLOPs of the paper's formula."""

from typing import ClassVar

from vispco.cost.polynomial import PolynomialCost


class Paper(PolynomialCost):
    """24 N D^2 + 4 N^2 D per layer (Section 3.1 and Appendix A): plain attention, and a plain FFN with D_ffn = 4 D."""

    name: ClassVar[str] = "paper"

    @property
    def attention_linear(self) -> int:
        return 8 * self.dimensions.hidden**2

    @property
    def attention_quadratic(self) -> int:
        return 4 * self.dimensions.hidden

    @property
    def ffn_linear(self) -> int:
        return 16 * self.dimensions.hidden**2
