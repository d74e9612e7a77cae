"""Where evaluations run: in this process, in others on this machine, or on a Ray cluster."""

from vispco.sweep.engines.inline import InlinePool
from vispco.sweep.engines.local import LocalPool
from vispco.sweep.engines.pool import Factory, Outcome, Pool

ENGINES = ("inline", "local", "ray")

__all__ = ["ENGINES", "Factory", "InlinePool", "LocalPool", "Outcome", "Pool"]
