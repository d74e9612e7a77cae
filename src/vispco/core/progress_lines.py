"""Progress as occasional log lines, for log files and where there is no terminal for a bar.

Lines go to the logger `vispco.progress`, at level INFO: without a handler they cost nothing and are not shown. The
command line shows them on stderr where it draws no bars, and writes them to `--log-file`.
"""

import logging
import time
from datetime import timedelta

_SECONDS = 10.0  # between two lines
LOGGER = logging.getLogger("vispco.progress")


class ProgressLines:
    """A line when something begins, one every ten seconds, and one when it ends."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self.seconds = seconds
        self._began = time.monotonic()
        self._last: float | None = None
        self._ended = False

    def tell(self, done: float | None, total: float | None, text: str) -> None:
        """Report `done` of `total`, labelled `text`; None where a number is not known."""
        now = time.monotonic()
        ended = bool(total) and done is not None and done >= (total or 0)
        due = self._last is None or now - self._last >= self.seconds or (ended and not self._ended)
        self._ended = ended
        if due:
            self._last = now
            LOGGER.info("%s", progress_line(done, total, text, now - self._began))


def progress_line(done: float | None, total: float | None, text: str, seconds: float) -> str:
    """'42 %, 0:01:10 left: what is happening'."""
    if not total or done is None:
        return text
    share = min(1.0, done / total)
    if share >= 1.0:
        return f"100 %, after {timedelta(seconds=round(seconds))}: {text}"
    left = f", {timedelta(seconds=round(seconds * (1 - share) / share))} left" if share > 0 and seconds >= 1 else ""
    return f"{share:.0%}{left}: {text}".replace("%", " %", 1)
