"""The entry point of lmms-eval: a model's name and the path of its class, which is not imported here."""

from __future__ import annotations

from typing import Any


def manifest() -> Any:
    """lmms-eval's description of the model `vispco`."""
    from lmms_eval.models.registry_v2 import ModelManifest  # noqa: PLC0415

    return ModelManifest(model_id="vispco", chat_class_path="vispco.serving.harness.lmms_eval.VispcoModel")
