"""Trains the methods of `vispco.scorers.learned` through the mask engine."""

from vispco.search.learned.scorer_trainer import ScorerSettings, ScorerTrainer
from vispco.search.learned.train_scorer import train_scorer

__all__ = ["ScorerSettings", "ScorerTrainer", "train_scorer"]
