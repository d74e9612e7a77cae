"""Style and writing of figures: one palette, one set of sizes, whole files only."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError, needs_extra
from vispco.core.runs import files

_WIDE = 1e5  # from here on, an axis shows powers of ten
CREATOR = "vispco-figure"  # in every file, by which it is known as ours
SUFFIXES = (".png", ".svg", ".pdf")
_INK, SOFT, _HAIR = "#1c2129", "#5d6470", "#e5e2da"
COLOURS = ("#0a5c9c", "#c4511a", "#0c8468", "#8d4f96", "#9a7400", "#5d6470")  # as on the report page
MARKERS = ("o", "s", "^", "D", "P", "X")  # runs differ in shape as well as in colour
LINES = ("-", "--", ":", "-.", (0, (4, 2)), (0, (1, 1)))
_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelcolor": SOFT,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _HAIR,
    "grid.linewidth": 0.8,
    "text.color": _INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "ytick.left": False,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "axes.ymargin": 0.08,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.facecolor": "white",
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "vispco",
    "pdf.fonttype": 42,
}


@contextmanager
def canvas(path: str | Path, size: tuple[float, float] = (6.0, 3.8), columns: int = 1, rows: int = 1) -> Iterator[Any]:
    """Axes [rows, columns] to draw on; written to `path` at the end of the block: PNG, SVG or PDF by its suffix."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InvalidInputError(
            f"A figure cannot be written as {target.name!r}. Its name must end in .png, .svg or .pdf."
        )
    with needs_extra("Figures need matplotlib", "plots"):
        import matplotlib as mpl  # noqa: PLC0415 - seconds of import, only where something is drawn
        from matplotlib.figure import Figure  # noqa: PLC0415
    with mpl.rc_context(_RC):
        figure = Figure(figsize=size, layout="constrained")
        yield figure.subplots(rows, columns, squeeze=False)
        # no date inside: the same numbers give the same file
        kind = target.suffix.lower().removeprefix(".")
        metadata = {
            "png": {"Software": CREATOR},
            "svg": {"Date": None, "Creator": CREATOR},
            "pdf": {"CreationDate": None, "Creator": CREATOR},
        }[kind]
        with files.replacing(target) as temporary:
            figure.savefig(temporary, metadata=metadata, format=kind)


def look_of(place: int) -> dict[str, Any]:
    """Colour, line and marker of the curve at a place among several; beyond the last colour marks are hollow."""
    again, place = divmod(place, len(COLOURS))
    return {
        "color": COLOURS[place],
        "linestyle": LINES[(place + again) % len(LINES)],
        "marker": MARKERS[place],
        "markerfacecolor": "white" if again else COLOURS[place],
    }


def stairs(axes: Any, look: int, corners: Sequence[tuple[float, float]], marked: Sequence[tuple[float, float]]) -> None:
    """A frontier as a staircase with a mark on each of its points."""
    own = look_of(look)
    axes.plot(*zip(*corners, strict=True), color=own["color"], linestyle=own["linestyle"], linewidth=1.7)
    axes.scatter(
        *zip(*marked, strict=True),
        s=28,
        color=own["markerfacecolor"],
        marker=own["marker"],
        edgecolors=own["color"] if own["markerfacecolor"] == "white" else "white",
        linewidths=0.8,
        zorder=3,
    )


def legend(axes: Any, entries: Sequence[tuple[str, int]], title: str = "") -> None:
    """Line and mark of each look with its name, in a row over the axes, where nothing is drawn."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    handles = [Line2D([], [], **look_of(look), markersize=5, linewidth=1.7, label=name) for name, look in entries]
    if title:
        handles.insert(0, Line2D([], [], linestyle="", label=f"{title}:"))
    longest = max(len(name) for name, _ in entries)
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=max(1, min(len(handles), 72 // (longest + 8))),
        borderaxespad=0.2,
        columnspacing=1.6,
    )


def percent_axis(axis: Any) -> None:
    """Ticks as percentages, for an axis of fractions."""
    from matplotlib.ticker import PercentFormatter  # noqa: PLC0415

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def log_axis(axis: Any) -> None:
    """A logarithmic axis with plain numbers: 20 and 5,000, not 2 × 10¹; powers of ten where it spans many of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    axis.axes.set_xscale("log")
    low, high = axis.get_view_interval()
    if high / low > _WIDE:
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def label_cost(axes: Any, axis: str) -> None:
    """Label the x axis, which is a cost: `exact:fraction`, `paper:flops` or `seconds`."""
    model, _, unit = axis.partition(":")
    if unit == "fraction":
        axes.set_xlabel(f"FLOPs of the unpruned model ({model})")
        percent_axis(axes.xaxis)
    else:
        axes.set_xlabel(f"FLOPs a sample ({model})" if unit == "flops" else "measured time of an evaluation, s")
