"""Distribution of image areas in the training data, before and after equalisation."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from vispco.data.files.sampling import AreaSample
from vispco.report.payload import Areas
from vispco.report.plots import style


@dataclass(frozen=True)
class _AreasInfo:
    """Bars from left[i], width[i] wide (pixels), by panel: name and counts."""

    left: tuple[float, ...]
    width: tuple[float, ...]
    panels: tuple[tuple[str, tuple[int, ...]], ...]


def areas_info(sample: AreaSample | Areas) -> _AreasInfo:
    edges = sample.edges
    width = tuple(high - low for low, high in pairwise(edges))
    panels = (("before", tuple(sample.before)), ("after", tuple(sample.after)))
    return _AreasInfo(tuple(edges[:-1]), width, panels)


def draw_areas(info: _AreasInfo, path: str | Path) -> Path:
    with style.canvas(path, (7.6, 3.1), columns=2) as axes:
        for place, (name, counts) in enumerate(info.panels):
            plot = axes[0, place]
            colour = style.COLOURS[4 if name == "before" else 0]
            left, width = ([value / 1e6 for value in values] for values in (info.left, info.width))
            plot.bar(left, counts, width=[w * 0.92 for w in width], align="edge", color=colour)
            plot.set_title(f"{name}, {sum(counts):,} pictures")
            plot.set_xlabel("image area, megapixels")
    return Path(path)
