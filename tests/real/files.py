"""Models and data as people have them, in small: `save_pretrained` folders, LLaVA-Instruct, VLMEvalKit tables."""

from __future__ import annotations

import base64
import io
import json
from random import Random

import torch
from PIL import Image, ImageDraw

from vispco_zoo.definitions import build_model
from vispco_zoo.export import save_model

FAMILIES = ("tiny-qwen", "tiny-llava", "tiny-gemma")
LAYERS = 3


def save_small(name, folder):
    """A random model of the family with three decoder layers, its processor beside it."""
    config = build_model(name).config
    config.text_config.num_hidden_layers = LAYERS
    if getattr(config.text_config, "layer_types", None):
        config.text_config.layer_types = config.text_config.layer_types[:LAYERS]
    vision = config.vision_config
    if hasattr(vision, "depth"):
        vision.depth, vision.fullatt_block_indexes = 1, [0]
    else:
        vision.num_hidden_layers = 1
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = type(build_model(name))(config)
    model.generation_config.do_sample = False
    save_model(name, model, folder)
    return folder


def picture(number, size=(60, 40)):
    random = Random(number)
    image = Image.new("RGB", size, tuple(random.randrange(256) for _ in range(3)))
    ImageDraw.Draw(image).ellipse((5, 5, size[0] // 2, size[1] // 2), fill="white")
    return image


def encoded(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def base64_of(image, kind="PNG", **options):
    return base64.b64encode(encoded(image, kind, **options)).decode()


def write_instruct(folder, conversations=8, *, broken=()):
    """llava_instruct.json and train2017/, every third conversation with two turns; `broken` pictures are cut off."""
    images = folder / "train2017"
    images.mkdir(parents=True)
    elements = []
    for number in range(conversations):
        data = encoded(picture(number, (40 + 8 * number, 48)), "JPEG")
        (images / f"{number:012}.jpg").write_bytes(data[: len(data) // 2] if number in broken else data)
        talk = [("human", "<image>\nwhat color is the circle?"), ("gpt", "white")]
        if number % 3 == 0:
            talk += [("human", "how many are there?"), ("gpt", "one")]
        elements.append(
            {
                "id": f"{number:012}",
                "image": f"{number:012}.jpg",
                "conversations": [{"from": role, "value": text} for role, text in talk],
            }
        )
    path = folder / "llava_instruct_150k.json"
    path.write_text(json.dumps(elements))
    return path


def write_table(path, names, rows):
    def quoted(cell):
        return '"' + cell.replace('"', '""') + '"' if any(mark in cell for mark in '"\t\n') else cell

    lines = ["\t".join(names), *("\t".join(quoted(str(cell)) for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_benchmarks(folder, rows=2):
    """All eight of the paper's, under VLMEvalKit's names."""
    folder.mkdir(parents=True, exist_ok=True)
    many = ["white"] * 6 + ["red", "grey", "the white", "unanswerable"]
    choice = ["index", "image", "question", "hint", "A", "B", "answer"]
    plain = ["index", "image", "question", "answer"]
    for name in ("A-OKVQA", "SEEDBench_IMG", "MMBench_DEV_EN"):
        cells = [[n, base64_of(picture(n)), "what color is it?", "", "white", "red", "AB"[n % 2]] for n in range(rows)]
        write_table(folder / f"{name}.tsv", choice, cells)
    answers = {
        "VizWiz": json.dumps(many),
        "TextVQA_VAL": json.dumps(many),
        "MME": "yes",
        "ChartQA_TEST": "12%",
        "OCRBench": json.dumps(["white", "whites"]),
    }
    for name, answer in answers.items():
        cells = [[n, base64_of(picture(n)), "what is it?", answer] for n in range(rows)]
        write_table(folder / f"{name}.tsv", plain, cells)
    return folder
