"""What is written beside the weights: how they were made, how they learned, what they can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vispco.files import digest_files, write_json, write_text
from vispco.zoo.shipped import CARD

if TYPE_CHECKING:
    from pathlib import Path

BARS = " ▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int = 60) -> str:
    """A curve of numbers in [0, 1] in one line of text."""
    if not values:
        return ""
    step = -(-len(values) // width)
    picked = values[::step]
    return "".join(BARS[round(min(1.0, max(0.0, value)) * (len(BARS) - 1))] for value in picked)


def table(scores: dict[str, float], blank: dict[str, float]) -> str:
    rows = ["| task | accuracy | image blanked |", "|---|---|---|"]
    rows += [f"| {task} | {100 * score:.1f} % | {100 * blank[task]:.1f} % |" for task, score in scores.items()]
    return "\n".join(rows)


def write_card(folder: Path, facts: dict[str, Any], curve: list[dict[str, Any]]) -> None:
    """README.md for people, card.json with the same facts, the curve and the checksums of the files."""
    files = sorted(file.name for file in folder.iterdir() if file.name not in (CARD, "README.md"))
    facts = facts | {"curve": curve, "sha256": digest_files(folder, files)}
    write_json(folder / CARD, facts)
    lines = [f"    {sparkline([entry[task] for entry in curve])}  {task}" for task in facts["accuracy"] if curve]
    late = ",\nand counts higher near the end" if facts["recipe"]["polish"] else ""
    text = f"""# {facts["name"]}

A {facts["architecture"]} of {facts["parameters"]:,} parameters, trained from scratch on the drawn pictures of
`vispco.data`: {facts["layers"]} decoder layers, {facts["visual_tokens"]} visual tokens. It knows nothing else.

    {facts["command"]}

Seed {facts["seed"]}, {facts["steps"]:,} steps, {facts["seconds"] / 60:.0f} minutes of training. The number of threads is part of
the command: another one adds up in another order.

## Accuracy on the test set ({facts["test_items"]} items)

{table(facts["accuracy"], facts["blank"])}

## Curve

Training accuracy from the first answer to the last step, 0 to 100 %. Scenes grow fuller on the way{late}.

{chr(10).join(lines)}

Weights are stored in half precision. `card.json` holds the same facts, the whole curve and the checksums.
"""
    write_text(folder / "README.md", text)
