"""Prompts to the letter, lengths, pixel bounds and metrics of each protocol."""

import pytest
from PIL import Image

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.data.files import Record, Turn
from vispco.data.files.pictures import within_pixels
from vispco.metrics import BENCHMARKS, METRICS, PROTOCOLS, AskSettings, protocol

OPTIONS = {"A": "dog", "B": "cat"}


def record(question="What is it?", references=("cat",), options=None, hint="", **meta):
    return Record("1", "t", (), (Turn(question, references[0]),), references, options or {}, hint, meta=meta)


def asked(name, benchmark, family, row):
    return protocol(name).prompt(BENCHMARKS.get(benchmark), row, family)


@pytest.mark.parametrize("benchmark", ["aokvqa", "seedbench", "mmbench"])
def test_options_as_vlmevalkit_asks_qwen_2_5(benchmark):
    row = record("Which?", options=OPTIONS, hint="Look left.")
    assert asked("vlmevalkit", benchmark, "qwen2_5_vl", row) == (
        "Hint: Look left.\nQuestion: Which?\nOptions:\nA. dog\nB. cat\n"
        "Please select the correct answer from the options above. \n"
    )
    assert asked("vlmevalkit", benchmark, "qwen2_5_vl", record("Which?")) == "Question: Which?\n"


def test_options_as_vlmevalkit_asks_qwen_2():
    row = record("Which?", options=OPTIONS)
    assert asked("vlmevalkit", "mmbench", "qwen2_vl", row).endswith(
        "B. cat\nPlease select the correct answer from the options above."
    )
    assert asked("vlmevalkit", "mmbench", "qwen2_vl", record("哪一个?", options=OPTIONS)).endswith(
        "请直接回答选项字母。"
    )


@pytest.mark.parametrize("name", ["vlmevalkit", "llava"])
def test_options_as_llava_is_asked(name):
    row = record("Which?", options=OPTIONS, hint="Look left.")
    assert asked(name, "mmbench", "llava", row) == (
        "Look left.\nWhich?\nA. dog\nB. cat\nAnswer with the option's letter from the given choices directly."
    )


@pytest.mark.parametrize(
    ("benchmark", "family", "ending"),
    [
        ("textvqa", "qwen2_5_vl", "\nAnswer the question using a single word or phrase."),
        ("chartqa", "llava", "\nAnswer the question using a single word or phrase."),
        ("vizwiz", "qwen2_5_vl", ""),
        ("ocrbench", "llava", ""),
        ("mme", "qwen2_5_vl", ""),
        ("mme", "qwen2_vl", ""),
        ("textvqa", "qwen2_vl", "\nPlease try to answer the question with short words or phrases if possible."),
        ("vizwiz", "qwen2_vl", "\nPlease try to answer the question with short words or phrases if possible."),
    ],
)
def test_open_questions_as_vlmevalkit_asks(benchmark, family, ending):
    assert asked("vlmevalkit", benchmark, family, record()) == f"What is it?{ending}"


def test_open_questions_as_llava_asks():
    word = "\nAnswer the question using a single word or phrase."
    may_refuse = "\nWhen the provided information is insufficient, respond with 'Unanswerable'."
    assert asked("llava", "textvqa", "", record()) == f"What is it?{word}"
    assert asked("llava", "vizwiz", "", record()) == f"What is it?{may_refuse}{word}"
    assert asked("llava", "ocrbench", "", record()) == "What is it?"


def test_vlmevalkit_has_bounds_for_qwen_and_its_own_metrics():
    settings = AskSettings(protocol="vlmevalkit", family="qwen2_5_vl")
    assert settings.pixels(BENCHMARKS.get("mme")) == (1280 * 784, 16384 * 784)
    assert settings.pixels(BENCHMARKS.get("ocrbench")) == (100 * 784, 16384 * 784)
    assert AskSettings(protocol="vlmevalkit", family="llava").pixels(BENCHMARKS.get("mme")) == (None, None)
    assert [settings.metric(BENCHMARKS.get(name)) for name in BENCHMARKS] == [
        "vlmevalkit-option",
        "vlmevalkit-vqa",
        "vlmevalkit-option",
        "vlmevalkit-option",
        "vlmevalkit-yes-no",
        "relaxed",
        "contains",
        "vlmevalkit-vqa",
    ]
    assert settings.answer_length(BENCHMARKS.get("mme")) == 2048
    assert AskSettings(max_new_tokens=5).answer_length(BENCHMARKS.get("mme")) == 5


def test_a_metric_can_be_chosen_by_name():
    settings = AskSettings(metrics={"chartqa": "relaxed-lenient"})
    chart = BENCHMARKS.get("chartqa")
    assert settings.score(chart, "14 euros", record(references=("14",))) == 1.0
    assert AskSettings().score(chart, "14 euros", record(references=("14",))) == 0.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"protocol": "vlmeval"}, UnknownNameError, "vlmevalkit"),
        ({"metrics": {"chartqa": "relax"}}, UnknownNameError, "relaxed"),
        ({"min_pixels": 9, "max_pixels": 4}, InvalidInputError, "min_pixels <= max_pixels"),
        ({"min_pixels": -1}, InvalidInputError, "1 <= min_pixels"),
    ],
)
def test_wrong_settings_are_refused_in_words(options, error, message):
    with pytest.raises(error, match=message):
        AskSettings(**options)


@pytest.mark.parametrize(
    ("size", "bounds", "multiple", "wanted"),
    [
        ((100, 50), (None, None), 28, (100, 50)),
        ((100, 50), (1, 10**6), 28, (112, 56)),
        ((100, 50), (100 * 784, None), 28, (420, 224)),
        ((2000, 1000), (None, 64 * 784), 28, (308, 140)),
        ((2000, 1000), (None, 500_000), 1, (1000, 500)),
    ],
)
def test_pictures_are_scaled_to_their_bounds(size, bounds, multiple, wanted):
    assert within_pixels(Image.new("RGB", size), *bounds, multiple).size == wanted


@pytest.mark.parametrize(
    ("metric", "prediction", "references", "options", "score"),
    [
        ("vlmevalkit-option", "The picture shows an animal, so I would say B", ("B",), OPTIONS, 1.0),
        ("vlmevalkit-option", "B is what I would say about this picture", ("B",), OPTIONS, 0.0),
        ("vlmevalkit-option", "a cat", ("B",), OPTIONS, 1.0),
        ("vlmevalkit-option", "A and B", ("B",), OPTIONS, 0.0),
        ("vlmevalkit-option", "Z, so the answer is b", ("B",), OPTIONS, 0.0),  # Z is VLMEvalKit's letter for none
        ("vlmevalkit-option", "The correct answer is **B**. It has whiskers and a long tail.", ("B",), OPTIONS, 1.0),
        ("vlmevalkit-option", "Cannot determine the answer. B", ("B",), OPTIONS, 0.0),
        ("vlmevalkit-yes-no", "No. 5 yes", ("Yes",), {}, 0.0),
        ("vlmevalkit-yes-no", "no idea", ("No",), {}, 1.0),
        ("vlmevalkit-vqa", "5.", ("5",) * 10, {}, 0.0),
        ("vlmevalkit-vqa", "a cat", ("cat",) * 2 + ("dog",) * 8, {}, (2 * 1 / 3 + 8 * 2 / 3) / 10),
    ],
)
def test_vlmevalkits_own_rules(metric, prediction, references, options, score):
    assert METRICS.get(metric)(prediction, record(references=references, options=options)) == pytest.approx(score)


def test_every_protocol_asks_every_benchmark():
    for name in PROTOCOLS:
        for benchmark in BENCHMARKS:
            assert "What is it?" in asked(name, benchmark, "gemma3", record(options=OPTIONS))
