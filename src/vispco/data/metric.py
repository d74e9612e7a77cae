"""Right or wrong, as the real counterpart of each task has it."""

from __future__ import annotations

from vispco.data.tasks import task as find_task

TOLERANCE = 0.05  # relaxed accuracy of chart questions: a number may be 5 % off


def normalize(text: str) -> str:
    """Case, spaces and a closing full stop do not matter."""
    return " ".join(text.strip().lower().rstrip(".").split())


def exact(prediction: str, answer: str) -> float:
    return float(normalize(prediction) == normalize(answer))


def relaxed(prediction: str, answer: str) -> float:
    try:
        given, wanted = float(normalize(prediction).rstrip("%")), float(normalize(answer).rstrip("%"))
    except ValueError:
        return exact(prediction, answer)
    return float(abs(given - wanted) <= TOLERANCE * abs(wanted) + 1e-9)


METRICS = {"exact": exact, "relaxed": relaxed}


def metric(task: str, prediction: str, answer: str) -> float:
    """1.0 if `prediction` answers a question of `task` rightly, else 0.0."""
    return METRICS[find_task(task).metric](prediction, answer)
