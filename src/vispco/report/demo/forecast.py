"""Remaining time of a demo: reference times of its stages on two cores, corrected by the times measured here."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

# Seconds on two cores with the default options; only their proportions matter once a stage is done.
NOMINAL: Mapping[str, float] = {"load": 6, "search": 88, "sweep": 28, "bench": 19, "examples": 5, "page": 1}
ALMOST = 0.95  # of a stage that does not say how far it is


class Forecast:
    """Follows stages as they begin, advance and end; gives the finished fraction and the seconds left."""

    def __init__(self, stages: Mapping[str, float] = NOMINAL, now: Callable[[], float] = time.monotonic) -> None:
        self.nominal, self.now = dict(stages), now
        self.done: dict[str, float] = {}
        self.skipped: set[str] = set()
        self.stage: str | None = None
        self.began, self.fraction = 0.0, None

    fraction: float | None

    def on(self, tell: Callable[[float, float, str], None]) -> Callable[[str, float | None, str], None]:
        """What a demo tells (stage, how much of it is done, text), told on as (done, total, caption) of the whole."""
        names = list(self.nominal)

        def advance(stage: str, fraction: float | None, text: str) -> None:
            place = names.index(stage)
            if stage != self.stage:
                self.end()
                self.skipped |= {earlier for earlier in names[:place] if earlier not in self.done}
                self.begin(stage)
            self.moved(fraction)
            left = timedelta(seconds=round(self.left))
            tell(self.share, 1.0, f"{place + 1}/{len(names)} {stage}, about {left} left: {text}")

        return advance

    def begin(self, stage: str) -> None:
        self.stage, self.began, self.fraction = stage, self.now(), None

    def moved(self, fraction: float | None) -> None:
        self.fraction = fraction

    def end(self) -> None:
        if self.stage is not None:
            self.done[self.stage] = self.now() - self.began
            self.stage = None

    def skip(self, stage: str) -> None:
        """It was done before."""
        self.skipped.add(stage)

    @property
    def pace(self) -> float:
        """Seconds here for a nominal second: by what is done, and by a stage that says how far it is."""
        took, nominal = sum(self.done.values()), sum(self.nominal[stage] for stage in self.done)
        if self.stage is not None and self.fraction:
            took += self.now() - self.began
            nominal += self.fraction * self.nominal[self.stage]
        return took / nominal if nominal > 0 and took > 0 else 1.0

    @property
    def share(self) -> float:
        """The fraction of the whole that is done, in [0, 1]."""
        whole = sum(self.nominal.values())
        finished = sum(self.nominal[stage] for stage in {*self.done, *self.skipped})
        return min(1.0, (finished + self._here()) / whole)

    @property
    def left(self) -> float:
        """Seconds."""
        ahead = sum(n for s, n in self.nominal.items() if s not in self.done and s not in self.skipped)
        return max(0.0, (ahead - self._here()) * self.pace)

    def _here(self) -> float:
        """Nominal seconds of the stage at hand that are done."""
        if self.stage is None:
            return 0.0
        whole = self.nominal[self.stage]
        if self.fraction is not None:
            return self.fraction * whole
        return min((self.now() - self.began) / self.pace, ALMOST * whole)
