"""Pixels: the share of its pixels with which a picture enters a model, and what follows for its grid."""

import math

from vispco.core.errors import InvalidInputError


def check_pixels(share: float) -> float:
    """A share of a picture's pixels in (0, 1]; anything else is refused."""
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0.0 < share <= 1.0:
        raise InvalidInputError(
            f"pixels={share!r} was given. It is the share of its pixels with which a picture enters, above 0 and up to 1, such "
            "as 0.5."
        )
    return float(share)


def shrunk_side(cells: int, share: float) -> int:
    """The side of a grid whose picture enters with a share of its pixels, in cells: at least one."""
    return max(1, round(cells * math.sqrt(share)))


def least_whole_side(cells: int, share: float) -> int:
    """The smallest side that is shrunk to this one: what a budget may count on, where the picture itself is not known."""
    side = cells
    while shrunk_side(side, share) < cells:
        side += 1
    return side
