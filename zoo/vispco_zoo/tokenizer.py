"""A closed vocabulary of words, with single characters under it: an unknown word is spelled, never refused."""

from __future__ import annotations

import string
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

from vispco.data.scene import COLORS, COLUMN_HEADERS, ROW_HEADERS, SHAPES
from vispco.models import smol
from vispco_zoo.smol import language_model

_SPECIAL = ("<pad>", "<unk>", "<end>", "<user>", "<assistant>", "<image>", "<image_start>", "<image_end>", "<video>")
PAD, _UNKNOWN, END, USER, ASSISTANT, IMAGE, IMAGE_START, IMAGE_END, VIDEO = _SPECIAL
_WORDS = (
    *(*COLORS, *SHAPES, *(f"{shape}s" for shape in SHAPES if shape != "cross"), "crosses"),
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
_NEWLINE = "\n"


@dataclass(frozen=True, slots=True)
class Markup:
    """The special tokens of a vocabulary, and what stands around a question."""

    special: tuple[str, ...]
    pad: str
    end: str  # of an answer
    image: str
    image_start: str
    image_end: str
    video: str
    opening: tuple[str, ...]  # before the picture
    reply: tuple[str, ...]  # between a question and its answer
    words: tuple[str, ...] = ()  # beside those of the tasks


PLAIN = Markup(_SPECIAL, PAD, END, IMAGE, IMAGE_START, IMAGE_END, VIDEO, (USER,), (ASSISTANT,))
CHATML = Markup(  # as Qwen writes it
    special=(
        *("<|endoftext|>", _UNKNOWN, "<|im_start|>", "<|im_end|>"),
        *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
    ),
    pad="<|endoftext|>",
    end="<|im_end|>",
    image="<|image_pad|>",
    image_start="<|vision_start|>",
    image_end="<|vision_end|>",
    video="<|video_pad|>",
    opening=("<|im_start|>", "user", _NEWLINE),
    reply=("<|im_end|>", _NEWLINE, "<|im_start|>", "assistant", _NEWLINE),
    words=(_NEWLINE, "system", "user", "assistant", "seconds"),
)


CODE_WORDS = {  # words that mean what a label says, for a language model that knows words
    "row": tuple(ROW_HEADERS),
    "column": tuple(COLUMN_HEADERS),
    "index": ("first", "second", "third", "fourth"),
    "size": ("tiny", "small", "medium", "large", "huge"),
    "x": ("left", "left", "center", "center", "right", "right"),
    "y": ("top", "top", "center", "center", "bottom", "bottom"),
}
SMOL = Markup(  # SmolLM2's vocabulary, in which "Ċ" is the newline; a picture as SmolVLM writes it
    special=(),
    pad="<|im_end|>",
    end="<|im_end|>",
    image=smol.IMAGE,
    image_start=smol.GLOBAL,
    image_end=smol.BETWEEN,
    video="",
    opening=("<|im_start|>", "user", "Ċ", smol.BETWEEN),
    reply=("<|im_end|>", "Ċ", "<|im_start|>", "ass", "istant", "Ċ"),
)


def markup(model_type: str) -> Markup:
    """The markup of a class of models, by the `model_type` of its configuration."""
    return {"qwen3_vl": CHATML, "smolvlm": SMOL}.get(model_type, PLAIN)


@lru_cache(maxsize=3)
def token_ids(marks: Markup = PLAIN) -> dict[str, int]:
    """Token to number, of the whole vocabulary; of SmolLM2's, a word of the tasks has the number it has inside a text."""
    if marks is SMOL:
        found: dict[str, int] = language_model()[1].get_vocab()
        words = {*_WORDS, *string.ascii_lowercase, *chain(*CODE_WORDS.values())}
        return found | {word: found[f"Ġ{word}"] for word in words if f"Ġ{word}" in found}
    characters = [*string.ascii_lowercase, *string.digits, *string.punctuation]
    continued = [f"##{character}" for character in characters]
    names = dict.fromkeys((*marks.special, *marks.words, *_WORDS, *characters, *continued))
    return {name: number for number, name in enumerate(names)}


def _chat_template(image: str) -> str:
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


def _chatml_template() -> str:
    """Qwen's: `<|im_start|>user`, the picture between its marks, the question, `<|im_end|>`, each turn on its own line."""
    start, end, begin, close = (CHATML.opening[0], CHATML.end, CHATML.image_start, CHATML.image_end)
    return (
        "{% for message in messages %}" + start + "{{ message['role'] }}\n"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}" + begin + CHATML.image + close + ""
        "{% elif part['type'] == 'video' %}" + begin + CHATML.video + close + ""
        "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
        "{% endfor %}{% endif %}" + end + "\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}" + start + "assistant\n{% endif %}"
    )


# What the chat template writes for an image. Gemma3's processor turns the start token into the whole sequence.
PLACEHOLDERS = {
    "tiny-qwen": f"{IMAGE_START}{IMAGE}{IMAGE_END}",
    "tiny-llava": IMAGE,
    "tiny-gemma": IMAGE_START,
    "tiny-deep": f"{IMAGE_START}{IMAGE}{IMAGE_END}",
}


def build_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a shipped model; they differ in their chat template, and in the special tokens that it writes."""
    if name == smol.NAME:
        return language_model()[1]
    marks = CHATML if name == "tiny-qwen3" else PLAIN
    core = Tokenizer(WordPiece(token_ids(marks), unk_token=_UNKNOWN, max_input_chars_per_word=64))
    core.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(cleanup=False)
    core.add_special_tokens(list(marks.special))
    extra: dict[str, Any] = {
        "image_token": marks.image,
        "video_token": marks.video,
        "boi_token": marks.image_start,
        "eoi_token": marks.image_end,
    }
    if marks is CHATML:
        core.add_tokens([AddedToken(_NEWLINE, normalized=False)])  # words are split at it otherwise, and it is lost
        extra = {"image_token": marks.image, "video_token": marks.video}
        extra |= {"vision_start_token": marks.image_start, "vision_end_token": marks.image_end}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=marks.pad,
        unk_token=_UNKNOWN,
        eos_token=marks.end,
        additional_special_tokens=[token for token in marks.special if token not in (marks.pad, _UNKNOWN, marks.end)],
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
        extra_special_tokens=extra,
    )
    tokenizer.chat_template = _chatml_template() if marks is CHATML else _chat_template(PLACEHOLDERS[name])
    return tokenizer
