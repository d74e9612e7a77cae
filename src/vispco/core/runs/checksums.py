"""Content that carries its own checksum: JSON objects and lines of journals.

A run that is finished has the checksums of all its files in run.json. What is read before that, when a stopped run goes
on, must know by itself that it is whole: a changed digit would be taken for a result.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_KEY, _KIND = "checksum", "sha256:"
_LINE = re.compile(rb',"crc32":(\d+)}\s*$')  # the last key of a line


class DamagedJournalWarning(UserWarning):
    """Some lines of a journal could not be read and were skipped; what they held is done again."""


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the checksum of its content as one more key."""
    content = {key: value for key, value in data.items() if key != _KEY}
    return {**content, _KEY: _digest(content)}


def is_whole(data: Mapping[str, Any]) -> bool:
    """Whether an object is what was sealed. One without a checksum says nothing about itself and passes."""
    found = data.get(_KEY)
    if not isinstance(found, str) or not found.startswith(_KIND):
        return True
    return found == _digest({key: value for key, value in data.items() if key != _KEY})


def encode_line(entry: Mapping[str, Any]) -> bytes:
    """An object as a line of JSON whose last key is a checksum of the others."""
    text = json.dumps(entry, separators=(",", ":")).encode()
    return text[:-1] + b',"crc32":%d}\n' % zlib.crc32(text)


def decode_line(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None if the line is damaged. Lines of older versions have no checksum."""
    checksum = _LINE.search(line)
    if checksum is not None and zlib.crc32(line[: checksum.start()] + b"}") != int(checksum[1]):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _digest(content: Mapping[str, Any]) -> str:
    # as JSON gives it back: tuples are lists, keys are texts
    plain = json.loads(json.dumps(content))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return _KIND + hashlib.sha256(text.encode()).hexdigest()
