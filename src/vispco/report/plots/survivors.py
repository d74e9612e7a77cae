"""A picture with the visual tokens that survive: one row for each budget, one column for each layer."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vispco.core.errors import InvalidInputError
from vispco.report.examples import unpack
from vispco.report.payload import Example
from vispco.report.plots import style

Mask = tuple[tuple[bool, ...], ...]  # [rows][columns]
_BUDGETS = (0.9, 0.5, 0.25)


@dataclass(frozen=True)
class _SurvivorsInfo:
    """masks[budget][layer]: which tokens of the grid that layer processes; answers[budget]: what the model says then."""

    image: str  # data URI
    size: tuple[int, int]  # width, height
    budgets: tuple[float, ...]
    layers: tuple[int, ...]
    masks: tuple[tuple[Mask, ...], ...]
    question: str = ""
    unpruned: str = ""
    answers: tuple[str, ...] = ()


def survivors_info(
    example: Example, budgets: Sequence[float] = _BUDGETS, layers: Sequence[int] | None = None
) -> _SurvivorsInfo:
    """For each budget the example's nearest one; by default six layers, evenly spread."""
    if not example.states:
        raise InvalidInputError(f"The example {example.id} was not run at any budget.")
    last = example.layers - 1
    chosen = tuple(layers) if layers is not None else tuple(dict.fromkeys(round(last * k / 5) for k in range(6)))
    states = [min(example.states, key=lambda state: abs(state.budget - budget)) for budget in budgets]
    states = list({state.budget: state for state in states}.values())
    masks = []
    for state in states:
        grid = unpack(state.depth, example.rows, example.columns)
        masks.append(tuple(tuple(tuple(value > layer for value in row) for row in grid) for layer in chosen))
    return _SurvivorsInfo(
        example.image,
        (example.width, example.height),
        tuple(s.budget for s in states),
        chosen,
        tuple(masks),
        example.question,
        example.unpruned,
        tuple(s.answer for s in states),
    )


def _short(answer: str, most: int = 16) -> str:
    """An answer that fits beside a picture."""
    return answer if len(answer) <= most else f"{answer[: most - 1]}…"


def draw_survivors(info: _SurvivorsInfo, path: str | Path) -> Path:
    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    raw = base64.b64decode(info.image.split(",", 1)[1])
    picture = np.asarray(Image.open(io.BytesIO(raw)).convert("RGB"))
    height, width = picture.shape[:2]
    tall = 1.5 * height / width + 0.12
    size = (1.5 * len(info.layers) + 1.2, tall * len(info.budgets) + 0.6)
    with style.canvas(path, size, len(info.layers), len(info.budgets)) as axes:
        if info.question:
            said = f"{info.question}  unpruned: {info.unpruned}"
            axes[0, 0].figure.suptitle(said, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        for row, budget in enumerate(info.budgets):
            for column, layer in enumerate(info.layers):
                plot = axes[row, column]
                mask = Image.fromarray(np.array(info.masks[row][column], dtype=np.uint8) * 255)
                kept = np.asarray(mask.resize((width, height), Image.Resampling.NEAREST))[..., None] > 0
                plot.imshow(np.where(kept, picture, (picture * 0.12 + 255 * 0.88).astype(np.uint8)))
                plot.set_xticks([])
                plot.set_yticks([])
                plot.grid(visible=False)
                plot.spines[:].set_visible(False)
                if row == 0:
                    plot.set_title(f"layer {layer}", fontsize=8.5, fontweight="normal", color=style.SOFT)
                if column == 0:
                    said = f"{budget:.0%}\n{_short(info.answers[row])}" if info.answers else f"{budget:.0%}"
                    plot.set_ylabel(said, rotation=0, ha="right", va="center", labelpad=8)
    return Path(path)
