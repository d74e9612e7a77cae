"""Methods with weights of their own, trained by `vispco train` through the mask engine."""

from vispco.scorers.learned.atp_llava import ATPLLaVA
from vispco.scorers.learned.dynamic_llava import DynamicLLaVA
from vispco.scorers.learned.learned_scorer import LearnedScorer
from vispco.scorers.learned.madtp import MADTP
from vispco.scorers.learned.network import LearnedConfig, LearnedNetwork

__all__ = ["MADTP", "ATPLLaVA", "DynamicLLaVA", "LearnedConfig", "LearnedNetwork", "LearnedScorer"]
