"""All of it on one model: search, a small sweep beside it, times to first token, and a page; `run` continues one."""

from vispco.demo.forecast import Forecast
from vispco.demo.run import Stage, run
from vispco.demo.settings import DemoSettings

__all__ = ["DemoSettings", "Forecast", "Stage", "run"]
