"""One picture and one question: the answer of a model with all of its visual tokens, and with fewer."""

from vispco.serving.ask.comparison import AnswerComparison, Reply, compare
from vispco.serving.ask.picture_question import PictureQuestion
from vispco.serving.ask.survivor_sheet import rows, write_survivors

__all__ = ["AnswerComparison", "PictureQuestion", "Reply", "compare", "rows", "write_survivors"]
