"""Remaining time of a demo: reference times of its stages on two cores, corrected by the times measured here."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

# Seconds on two cores with the default options; only their proportions matter once a stage is done.
_NOMINAL: Mapping[str, float] = {"load": 6, "search": 88, "sweep": 28, "bench": 19, "examples": 5, "page": 1}
_ALMOST = 0.95  # of a stage that does not say how far it is


class Forecast:
    """Called with the stages of a demo as they begin and advance; tells (done, total, caption) of the whole."""

    def __init__(
        self,
        tell: Callable[[float, float, str], None],
        stages: Mapping[str, float] = _NOMINAL,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tell, self.nominal, self.now = tell, dict(stages), now
        self.took: dict[str, float] = {}  # seconds of the stages that have ended here
        self.over: set[str] = set()  # these, and what an earlier run has finished
        self.stage: str | None = None
        self.began = 0.0
        self.fraction: float | None = None

    def __call__(self, stage: str, fraction: float | None, text: str) -> None:
        """A stage is at `fraction`, None if it does not say; `text` is what is happening."""
        names = list(self.nominal)
        place = names.index(stage)
        if stage != self.stage:
            if self.stage is not None:
                self.took[self.stage] = self.now() - self.began
            self.over = set(names[:place])
            self.stage, self.began = stage, self.now()
        self.fraction = fraction
        left = timedelta(seconds=round(self.left))
        self.tell(self.share, 1.0, f"{place + 1}/{len(names)} {stage}, about {left} left: {text}")

    @property
    def pace(self) -> float:
        """Seconds here for a nominal second: by what is done, and by a stage that says how far it is."""
        took, nominal = sum(self.took.values()), sum(self.nominal[stage] for stage in self.took)
        if self.stage is not None and self.fraction:
            took += self.now() - self.began
            nominal += self.fraction * self.nominal[self.stage]
        return took / nominal if nominal > 0 and took > 0 else 1.0

    @property
    def share(self) -> float:
        """The fraction of the whole that is done, in [0, 1]."""
        finished = sum(self.nominal[stage] for stage in self.over)
        return min(1.0, (finished + self._here()) / sum(self.nominal.values()))

    @property
    def left(self) -> float:
        """Seconds."""
        ahead = sum(seconds for stage, seconds in self.nominal.items() if stage not in self.over)
        return max(0.0, (ahead - self._here()) * self.pace)

    def _here(self) -> float:
        """Nominal seconds of the stage at hand that are done."""
        if self.stage is None:
            return 0.0
        whole = self.nominal[self.stage]
        if self.fraction is not None:
            return self.fraction * whole
        return min((self.now() - self.began) / self.pace, _ALMOST * whole)
