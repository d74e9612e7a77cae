"""Sweeps: evaluate many schedules, on one machine or several, stop and go on at will, and keep the frontier.

frontier = vispco.sweep.run(factory, name="qwen", space="single", strategy="grid", num_layers=36, directory="runs")
"""

from vispco.sweep.engines import Factory
from vispco.sweep.progress import OnProgress, Progress
from vispco.sweep.runner import run

__all__ = ["Factory", "OnProgress", "Progress", "run"]
