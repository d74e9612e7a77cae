"""Evaluated schedules, those of them that nothing beats, and how far one such set is from another."""

from vispco.evaluation.frontier.axis import Axis
from vispco.evaluation.frontier.frontier import Frontier, FrontierInfo, frontier_info
from vispco.evaluation.frontier.point import Point

__all__ = ["Axis", "Frontier", "FrontierInfo", "Point", "frontier_info"]
