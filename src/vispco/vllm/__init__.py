"""Pruning inside vLLM: visual tokens leave before the language model, and those that stay keep their positions.

    llm = LLM(model, **vispco.vllm.options("divprune", keep=0.25))
    llm.generate({..., "mm_processor_kwargs": {"vispco_keep": 0.5}})     # a share of its own for a request

Installing vispco changes nothing in vLLM: its models are registered under names of their own, and `options` asks for
them. This package can be imported without vLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from vispco.vllm.engine_arguments import arguments, options
    from vispco.vllm.settings import ServingSettings

__all__ = ["ServingSettings", "arguments", "options"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ServingSettings": "vispco.vllm.settings",
        "arguments": "vispco.vllm.engine_arguments",
        "options": "vispco.vllm.engine_arguments",
    },
)
