"""IPCV: V2Drop inside the vision tower, with all that left rebuilt at its end: the language model sees as many as ever.

A cell that left is what it was, plus the mean change since then of its 10 nearest cells that stayed.
Faithful: score and rebuilding. Not faithful: blocks behind the cut attend to what is left, also the first seven, where IPCV
rebuilds the others in each block; neighbours are of the same picture. In the language model it is V2Drop.
"""

from vispco.scorers.base import register
from vispco.scorers.layer_ratings import V2Drop


@register
class IPCV(V2Drop):
    """The rating of V2Drop; what leaves inside the vision tower is rebuilt."""

    name = "ipcv"
    rebuilds = True
