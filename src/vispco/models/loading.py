"""`vispco.load`: a model and its processor, by the name of a shipped model, a folder, or a hub id."""

import logging
import os
from pathlib import Path
from typing import Any

import torch

from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.core.weights import check_weights, hide_weight_bars, json_problem, pickle_problem
from vispco.models import shipped
from vispco.models.model_spec import HUB, LoadError, check_source

_JOINED = (
    "%s: its own processor cannot be built here (torchvision is missing), so its image processor and its tokenizer were "
    "joined; pictures go through Pillow."
)

_OWN_CODE = (OSError, ValueError, ImportError)  # errors in the code of a model are shown as they are
# a damaged config
_ANY_FILE = (*_OWN_CODE, RuntimeError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError)


def load(
    name: str | Path,
    *,
    dtype: str | torch.dtype = "auto",
    device_map: Any = None,
    attn_implementation: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    strict: bool = True,
) -> tuple[Any, Any]:
    """(model, processor): plain transformers objects, in eval mode.

    name: a shipped model ('tiny-qwen', 'tiny-llava', 'tiny-gemma'), a folder saved by `save_pretrained`, or a hub id.
    `hub:owner/name` is a hub id even if there is a folder of that name. strict: raise if weights are missing, left over, of
    another size or not finite, instead of going on with random or broken ones.
    Weights are read from safetensors only. Code that comes with a model runs only with `trust_remote_code=True`.
    """
    from transformers import AutoModelForImageTextToText  # noqa: PLC0415 - seconds of import, only when needed

    from vispco.models.processor import JoinedProcessor, load_processor  # noqa: PLC0415

    is_shipped, on_hub = str(name) in shipped.LOADABLE, str(name).startswith(HUB)
    name = str(name).removeprefix(HUB)
    source: str | Path = name
    if is_shipped:
        shipped.verify(shipped.WEIGHTS / name)
        source = shipped.path(name)
    elif not on_hub:
        check_source(source)
        if (unsafe := pickle_problem(Path(source))) is not None:
            raise LoadError(unsafe)
        check_weights(Path(source))
    options = {
        "dtype": torch.float32 if is_shipped and dtype == "auto" else dtype,
        "device_map": device_map,
        "attn_implementation": attn_implementation,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
    }
    known = _OWN_CODE if trust_remote_code else _ANY_FILE
    try:
        with hide_weight_bars():
            model, found = AutoModelForImageTextToText.from_pretrained(
                source,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=strict,  # told by _check_loaded, by name
                **{k: v for k, v in options.items() if v is not None},
            )
        at = {} if revision is None else {"revision": revision}
        processor = load_processor(source, trust_remote_code=trust_remote_code, **at)
    except known as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if not trust_remote_code and "trust_remote_code" in str(error):
            raise LoadError(
                f"{name} comes with code of its own, which is not run unasked. Read it, then allow it with "
                "trust_remote_code=True (--trust-remote-code)."
            ) from error
        damaged = json_problem(Path(source))
        if damaged is not None:
            raise LoadError(damaged) from error
        raise LoadError(
            f"{name} could not be loaded: {first.strip()} Give a shipped model ({', '.join(shipped.NAMES)}), a folder "
            "made by save_pretrained (config.json, *.safetensors, tokenizer and processor files), or a hub id that "
            "this machine can reach."
        ) from error
    if strict:
        _check_loaded(name, model, found)
    if not is_shipped and isinstance(processor, JoinedProcessor):
        logging.getLogger("vispco").warning(_JOINED, name)
    return model.eval(), processor


def pick_device(device: str) -> str:
    """A device's name; 'auto' is this process's own GPU if there is one, else what the machine has.

    Of many processes on one machine each takes the GPU of its number: LOCAL_RANK under `accelerate launch`,
    VISPCO_WORKER in a sweep.
    """
    if device == "auto":
        if torch.cuda.is_available():
            number = os.environ.get("LOCAL_RANK") or os.environ.get("VISPCO_WORKER") or "0"
            return f"cuda:{int(number) % torch.cuda.device_count()}"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        near = did_you_mean(device, ("auto", "cpu", "cuda", "mps"))
        raise InvalidInputError(f"device={device!r} was given. Give auto, cpu, cuda, cuda:1 or mps.{near}") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise InvalidInputError(f"device={device!r} was given, but torch sees no GPU here. Give auto or cpu.")
    return device


def _check_loaded(name: str | Path, model: Any, found: dict[str, Any]) -> None:
    """Raise if the weights are not those of the model's config, or if a number in them is not finite."""
    wrong = {
        "missing": sorted(found.get("missing_keys") or ()),
        "left over": sorted(found.get("unexpected_keys") or ()),
        "of another size": sorted(str(entry[0]) for entry in found.get("mismatched_keys") or ()),
    }
    for what, names in wrong.items():
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise LoadError(
                f"The weights of {name} do not fit its config.json: {names[0]}{more} {what}. Restore the files, or load it with "
                "strict=False if you know why."
            )
    held = [(key, each) for key, each in model.named_parameters() if each.device.type != "meta" and each.numel()]
    finite = [bool(torch.isfinite(each).all()) for _, each in held]
    bad = [key for (key, _), good in zip(held, finite, strict=True) if not good]
    if bad:
        raise LoadError(
            f"The weights of {name} are broken: {bad[0]} holds numbers that are not finite. Restore the file, or load the "
            "model in another dtype (bfloat16 in place of float16)."
        )
