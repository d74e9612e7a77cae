"""Small files in the formats that people have."""

import base64
import io
import json

import pytest
from PIL import Image


@pytest.fixture(scope="session")
def encode():
    """The bytes of a picture in a file format."""

    def to_bytes(image, kind="PNG", **options):
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        return stream.getvalue()

    return to_bytes


@pytest.fixture(scope="session")
def png(encode):
    return encode(Image.new("RGB", (8, 6), (200, 30, 40)))


@pytest.fixture(scope="session")
def cell(png):
    return base64.b64encode(png).decode()


@pytest.fixture
def table(tmp_path):
    """Writes rows of cells as a .tsv, quoting as pandas does, and gives its path."""

    def quoted(text):
        return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in '"\t\n\r') else text

    def write(rows, name="table.tsv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes("".join("\t".join(map(quoted, row)) + "\n" for row in rows).encode(encoding))
        return path

    return write


@pytest.fixture(scope="session")
def header():
    return ["index", "image", "question", "hint", "A", "B", "C", "answer", "category"]


@pytest.fixture
def row(cell):
    """The cells of a good row under `header`, but for what a test changes."""

    def make(index="1", image=cell, question="Which?", hint="", answer="A", category="x"):
        return [index, image, question, hint, "dog", "cat", "", answer, category]

    return make


@pytest.fixture
def instruct(tmp_path, png):
    """Writes conversations as LLaVA-Instruct and gives the reader's two arguments."""

    def write(elements, images=("a.png",)):
        folder = tmp_path / "pictures"
        folder.mkdir(exist_ok=True)
        for name in images:
            (folder / name).write_bytes(png)
        path = tmp_path / "instruct.json"
        path.write_text(elements if isinstance(elements, str) else json.dumps(elements), encoding="utf-8")
        return path, folder

    return write


@pytest.fixture(scope="session")
def talk():
    """A conversation of these messages, the person first."""

    def element(*texts, **more):
        roles = ["human", "gpt"] * len(texts)
        return {
            "conversations": [{"from": role, "value": text} for role, text in zip(roles, texts, strict=False)],
            **more,
        }

    return element
