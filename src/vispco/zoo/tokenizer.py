"""A closed vocabulary of words, with single characters under it: an unknown word is spelled, never refused."""

from __future__ import annotations

import string
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

from vispco.data.vocabulary import COLORS, SHAPES

PAD, UNKNOWN, END, USER, ASSISTANT, IMAGE, IMAGE_START, IMAGE_END, VIDEO = SPECIAL = (
    "<pad>",
    "<unk>",
    "<end>",
    "<user>",
    "<assistant>",
    "<image>",
    "<image_start>",
    "<image_end>",
    "<video>",
)

WORDS = (
    *COLORS,
    *SHAPES,
    *(f"{shape}s" for shape in SHAPES if shape != "cross"),
    "crosses",
    *[
        "what",
        "where",
        "how",
        "many",
        "is",
        "are",
        "there",
        "the",
        "a",
        "an",
        "in",
        "on",
        "of",
        "color",
        "shape",
        "number",
        "word",
        "value",
        "row",
        "column",
        "sign",
        "bar",
    ],
    *["thing", "things", "biggest", "smallest", "yes", "no", "top", "bottom", "left", "right", "center"],
)


def vocabulary() -> dict[str, int]:
    characters = [*string.ascii_lowercase, *string.digits, *string.punctuation]
    continued = [f"##{character}" for character in characters]
    names = dict.fromkeys((*SPECIAL, *WORDS, *characters, *continued))
    return {name: number for number, name in enumerate(names)}


@lru_cache(maxsize=1)
def token_ids() -> dict[str, int]:
    return vocabulary()


def chat_template(image: str) -> str:
    """`<user> image question <assistant>`; `image` is what the model's family writes for one."""
    return (
        "{% for message in messages %}"
        "{% if message['role'] == 'assistant' %}" + ASSISTANT + "{% else %}" + USER + "{% endif %}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}" + image + "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
        "{% endfor %}{% endif %}"
        "{% if message['role'] == 'assistant' %}" + END + "{% endif %}"
        "{% endfor %}"
        "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
    )


# What the chat template writes for an image. Gemma3's processor turns the start token into the whole sequence.
PLACEHOLDERS = {
    "tiny-qwen": f"{IMAGE_START}{IMAGE}{IMAGE_END}",
    "tiny-llava": IMAGE,
    "tiny-gemma": IMAGE_START,
    "tiny-deep": f"{IMAGE_START}{IMAGE}{IMAGE_END}",
}


def build_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a shipped model; they differ only in what their chat template writes for an image."""
    core = Tokenizer(WordPiece(vocabulary(), unk_token=UNKNOWN, max_input_chars_per_word=64))
    core.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(cleanup=False)
    core.add_special_tokens(list(SPECIAL))
    extra: dict[str, Any] = {
        "image_token": IMAGE,
        "video_token": VIDEO,
        "boi_token": IMAGE_START,
        "eoi_token": IMAGE_END,
    }
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT, IMAGE, IMAGE_START, IMAGE_END, VIDEO],
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
        extra_special_tokens=extra,
    )
    tokenizer.chat_template = chat_template(PLACEHOLDERS[name])
    return tokenizer
