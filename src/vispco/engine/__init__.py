"""Runs a schedule inside an unmodified transformers model."""

from vispco.engine.attach import Engine, Mode
from vispco.engine.plan import Plan, Planner

__all__ = ["Engine", "Mode", "Plan", "Planner"]
