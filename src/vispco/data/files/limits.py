"""`InputLimits`: how large a picture, a text or a line of a data file may be, and whether pictures may lie elsewhere.

They hold for the whole process and for the workers that it starts, which is why they are kept in the environment.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.data.files.skipped import Skipped

if TYPE_CHECKING:
    from vispco.data.files.record import Record

VARIABLE = "VISPCO_INPUT_LIMITS"
ENDLESS = 10**9  # what tokenizers without a limit have as their longest text, at least


@dataclass(frozen=True)
class InputLimits:
    """What is read of somebody's data; what exceeds a limit is skipped and counted.

    allow_outside: read pictures that a data file names outside of the picture folder, by `../`, an absolute path or a
        symbolic link. max_image_bytes: of one encoded picture. max_text: characters of a question, an answer or an option.
    max_line: bytes of one line of a .jsonl or .tsv file.
    """

    allow_outside: bool = False
    max_image_bytes: int = 1 << 28
    max_text: int = 100_000
    max_line: int = 1 << 28

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or (each.name != "allow_outside" and value < 1):
                raise InvalidInputError(f"{each.name}={value!r} was given. Give a whole number, 1 or more.")

    def use(self) -> None:
        """Make these the limits of this process and of those that it starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def current(cls) -> InputLimits:
        """The limits in force."""
        return _parse(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=4)
def _parse(text: str) -> InputLimits:
    try:
        given = json.loads(text) if text else {}
        return InputLimits(**given)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"The environment variable {VARIABLE} is not what vispco writes. Unset it.") from error


def check_regular(path: Path) -> None:
    """Refuse a pipe, a device or a socket, which might never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidInputError(f"{path} is not a regular file. Give a file or a folder.")


def open_inside(path: str, root: Path, *, allow_outside: bool) -> int | None:
    """A handle on a regular file inside of `root`; None if it is not one. Raises `OSError` if there is none."""
    if not allow_outside:
        real, base = os.path.realpath(path), os.path.realpath(root)
        if not real.startswith(base.rstrip(os.sep) + os.sep):
            return None
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return handle


def too_long(record: Record) -> Skipped | None:
    """Why a record's words exceed the limit on texts, if they do."""
    limit = InputLimits.current().max_text
    texts = {
        "question": [turn.instruction for turn in record.turns],
        "answer": [turn.answer for turn in record.turns],
        "answers": record.references,
        "option": record.options.values(),
        "prompt": [record.prompt, record.hint],
    }
    for name, values in texts.items():
        longest = max(map(len, values), default=0)
        if longest > limit:
            detail = f"its {name} has {longest:,} characters, more than the {limit:,} of --max-text"
            return Skipped("text too long", record.file, record.row, detail, record.id)
    return None


def context_length(processor: Any, model: Any = None) -> int | None:
    """How many tokens a prompt may have, as far as the model's config or its tokenizer says."""
    text = None if model is None else getattr(model.config, "get_text_config", lambda: model.config)()
    known = [
        getattr(text, "max_position_embeddings", None),
        getattr(getattr(processor, "tokenizer", None), "model_max_length", None),
    ]
    return min((size for size in known if isinstance(size, int) and 0 < size < ENDLESS), default=None)


def beyond_context(record: Record, processor: Any, length: int | None) -> Skipped | None:
    """Why a record's words alone do not fit into the model's context, if they do not."""
    words = [record.prompt, record.hint, *record.options.values()]
    words += [text for turn in record.turns for text in (turn.instruction, turn.answer)]
    if length is None or sum(map(len, words)) <= length:  # a token has at least one character
        return None
    tokens = max(len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in words)
    if tokens <= length:
        return None
    detail = f"it has {tokens:,} tokens of text; the model's context has {length:,}"
    return Skipped("beyond the context", record.file, record.row, detail, record.id)
