"""One picture and one question: the answer of a model with all of its visual tokens, and with fewer."""

from vispco.asking.comparison import AnswerComparison, Reply, compare
from vispco.asking.default_pruner import PrunerChoice, default_planner
from vispco.asking.picture_question import PictureQuestion
from vispco.asking.survivor_sheet import draw_sheet

__all__ = ["AnswerComparison", "PictureQuestion", "PrunerChoice", "Reply", "compare", "default_planner", "draw_sheet"]
