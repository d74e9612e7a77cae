"""Evaluated schedules, those of them that nothing beats, and how far one such set is from another."""

from vispco.frontier.axis import Axis
from vispco.frontier.frontier import Frontier, FrontierInfo, frontier_info
from vispco.frontier.point import Point

__all__ = ["Axis", "Frontier", "FrontierInfo", "Point", "frontier_info"]
