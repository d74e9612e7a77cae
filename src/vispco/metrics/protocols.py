"""Protocols: how a harness asks and scores a benchmark, so that figures can be compared with those of others.

| name | prompts, answer lengths, pixel bounds, metrics |
|---|---|
| `ours` | those of the benchmark's own file |
| `vlmevalkit` | VLMEvalKit's for the benchmark and the model's family (commit e8e78f0) |
| `llava` | those of LLaVA-1.5's evaluation, which lmms-eval uses as well |
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.data.files.record import Record
from vispco.metrics.benchmark import Benchmark
from vispco.metrics.metric import METRICS, Item

_CHINESE = re.compile("[\u4e00-\u9fff]")
_SINGLE_WORD = "\nAnswer the question using a single word or phrase."
_FROM_ABOVE = "Please select the correct answer from the options above."
_LETTER_DIRECTLY = "\nAnswer with the option's letter from the given choices directly."
_QWEN = ("qwen2_vl", "qwen2_5_vl")
_QWEN_TOKEN = 28 * 28  # pixels of one visual token

Pixels = tuple[int | None, int | None]  # fewest, most


class EvaluationProtocol(ABC):
    """The way in which a benchmark is asked and scored. `family` is the model's `config.model_type`; empty if it is not known."""

    name: ClassVar[str]

    @abstractmethod
    def prompt(self, benchmark: Benchmark, record: Record, family: str) -> str:
        """The text of the user's message, after the pictures."""

    def max_new_tokens(self, benchmark: Benchmark) -> int:
        """The longest answer."""
        return benchmark.max_new_tokens

    def metric(self, benchmark: Benchmark) -> str:
        """The name of the metric."""
        return benchmark.metric

    def pixels(self, benchmark: Benchmark, family: str) -> Pixels:  # noqa: ARG002
        """The fewest and most pixels of a picture; None where the model's processor decides."""
        return None, None

    def chat_template(self, family: str) -> str | None:  # noqa: ARG002
        """A Jinja chat template in place of the processor's own; None to keep that."""
        return None


class _Ours(EvaluationProtocol):
    """The prompts of the benchmarks' own files."""

    name = "ours"

    def prompt(self, benchmark: Benchmark, record: Record, family: str) -> str:  # noqa: ARG002
        return benchmark.prompt(record)


class _VlmEvalKit(EvaluationProtocol):
    """VLMEvalKit. Qwen2-VL and LLaVA have prompts of their own there; every other model gets those of the dataset."""

    name = "vlmevalkit"
    METRICS: ClassVar = {"option": "vlmevalkit-option", "yes-no": "vlmevalkit-yes-no", "vqa": "vlmevalkit-vqa"}

    def prompt(self, benchmark: Benchmark, record: Record, family: str) -> str:
        if benchmark.kind_of(record) == "options":
            return _option_prompt(record) if family == "llava" else self._listed_options(record, family)
        if family == "qwen2_vl" and benchmark.kind_of(record) != "yes-no":
            return f"{record.question}\nPlease try to answer the question with short words or phrases if possible."
        return record.question + (_SINGLE_WORD if benchmark.kind_of(record) == "words" else "")

    def _listed_options(self, record: Record, family: str) -> str:
        lines = [f"Hint: {record.hint}"] if record.hint else []
        lines.append(f"Question: {record.question}")
        if record.options:
            lines += ["Options:", *(f"{letter}. {text}" for letter, text in record.options.items())]
        text = "\n".join(lines) + "\n"
        if family != "qwen2_vl":
            return text + (f"{_FROM_ABOVE} \n" if record.options else "")
        ending = "请直接回答选项字母。" if _CHINESE.search(text) else _FROM_ABOVE
        return (text + (ending if record.options else "")).rstrip()

    def max_new_tokens(self, benchmark: Benchmark) -> int:  # noqa: ARG002
        return 2048

    def metric(self, benchmark: Benchmark) -> str:
        return self.METRICS.get(benchmark.metric, benchmark.metric)

    def pixels(self, benchmark: Benchmark, family: str) -> Pixels:
        if family not in _QWEN:
            return None, None
        return (100 if benchmark.name == "ocrbench" else 1280) * _QWEN_TOKEN, 16384 * _QWEN_TOKEN

    def chat_template(self, family: str) -> str | None:
        return _LLAVA_CHAT if family == "llava" else None


class _LlavaProtocol(EvaluationProtocol):
    """LLaVA-1.5's evaluation: few words, or the letter of an option; VizWiz may say that it cannot answer."""

    name = "llava"

    def prompt(self, benchmark: Benchmark, record: Record, family: str) -> str:  # noqa: ARG002
        if benchmark.kind_of(record) == "options":
            return _option_prompt(record)
        if benchmark.name == "vizwiz":
            insufficient = "\nWhen the provided information is insufficient, respond with 'Unanswerable'."
            return record.question + insufficient + _SINGLE_WORD
        return record.question + ("" if benchmark.kind_of(record) == "text" else _SINGLE_WORD)

    def max_new_tokens(self, benchmark: Benchmark) -> int:  # noqa: ARG002
        return 128


def _option_prompt(record: Record) -> str:
    """LLaVA's multiple choice: hint, question and options on lines of their own, then how to answer."""
    lines = [record.hint] if record.hint else []
    lines += [record.question, *(f"{letter}. {text}" for letter, text in record.options.items())]
    text = "\n".join(lines)
    if _CHINESE.search(text):
        return text + ("\n请直接回答选项字母。" if record.options else "\n请直接回答问题。")
    return text + (_LETTER_DIRECTLY if record.options else "\nAnswer the question directly.")


# VLMEvalKit joins LLaVA's system prompt, " <image> " for each picture and the text.
_LLAVA_CHAT = (
    "A chat between a curious human and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the human's questions. "
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}USER: {% else %}ASSISTANT: {% endif %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %} <image> {% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}"
    "{% if message['role'] == 'user' %} {% else %}</s>{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
)

PROTOCOLS: dict[str, EvaluationProtocol] = {each.name: each for each in (_Ours(), _VlmEvalKit(), _LlavaProtocol())}


def protocol(name: str) -> EvaluationProtocol:
    """A protocol by name."""
    if name not in PROTOCOLS:
        raise UnknownNameError("protocol", name, list(PROTOCOLS))
    return PROTOCOLS[name]


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """The way in which benchmark rows are asked and scored: a protocol, and what differs from it.

    metrics: metrics by benchmark in place of the protocol's: {"chartqa": "relaxed-lenient"}.
    min_pixels, max_pixels: pictures are scaled to between these; None for the protocol's bounds.
    family: the model's `config.model_type`. side_multiple: what sides of scaled pictures are a multiple of. Both are set
    when the model is known.
    """

    protocol: str = "ours"
    metrics: Mapping[str, str] = field(default_factory=dict)
    max_new_tokens: int | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    family: str = ""
    side_multiple: int = 1

    def __post_init__(self) -> None:
        protocol(self.protocol)
        for name in self.metrics.values():
            METRICS.get(name)
        low, high = self.min_pixels, self.max_pixels
        if min(low or 1, high or 1) < 1 or (low and high and low > high):
            raise InvalidInputError(
                f"min_pixels={low}, max_pixels={high}: give numbers with 1 <= min_pixels <= max_pixels."
            )

    def answer_length(self, benchmark: Benchmark) -> int:
        return self.max_new_tokens or protocol(self.protocol).max_new_tokens(benchmark)

    def metric(self, benchmark: Benchmark) -> str:
        return self.metrics.get(benchmark.name) or protocol(self.protocol).metric(benchmark)

    def score(self, benchmark: Benchmark, prediction: str, item: Item) -> float:
        return METRICS.get(self.metric(benchmark))(prediction, item)

    def pixels(self, benchmark: Benchmark) -> Pixels:
        low, high = protocol(self.protocol).pixels(benchmark, self.family)
        return self.min_pixels or low, self.max_pixels or high
