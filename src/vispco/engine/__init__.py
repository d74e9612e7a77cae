"""Runs a schedule inside an unmodified transformers model."""

from vispco.engine.call_state import EngineOptions, Mode
from vispco.engine.engine import Engine
from vispco.engine.forward import answers_at, attention_calls, layer_inputs, recorded_embeddings, visual_at
from vispco.engine.hooks import engine_on
from vispco.engine.masking import Relaxation
from vispco.engine.plan import PlanMemory, Planner, TokenPlan
from vispco.engine.wrappers import unwrap

__all__ = [
    "Engine",
    "EngineOptions",
    "Mode",
    "PlanMemory",
    "Planner",
    "Relaxation",
    "TokenPlan",
    "answers_at",
    "attention_calls",
    "engine_on",
    "layer_inputs",
    "recorded_embeddings",
    "unwrap",
    "visual_at",
]
