"""The eight benchmarks by name: their prompts, their metrics, their files."""

from dataclasses import replace

import pytest

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.data.files import Record, Turn
from vispco.metrics import BENCHMARKS, METRICS, AskSettings, Benchmark, benchmark, find, parse_tasks

EIGHT = ["aokvqa", "vizwiz", "seedbench", "mmbench", "mme", "chartqa", "ocrbench", "textvqa"]


def record(question="What is it?", references=("cat",), options=None, hint=""):
    return Record("1", "t", (), (Turn(question, references[0]),), references, options or {}, hint)


def test_they_are_the_papers_eight():
    assert list(BENCHMARKS) == EIGHT


@pytest.mark.parametrize("name", EIGHT)
def test_an_empty_prediction_scores_0_in_each(name):
    entry = BENCHMARKS.get(name)
    for prediction in ("", " ", "\n"):
        assert AskSettings().score(entry, prediction, record(references=("",) * 10, options={"A": ""})) == 0.0
        assert AskSettings().score(entry, prediction, record(references=("A",), options={"A": "yes"})) == 0.0


@pytest.mark.parametrize(
    ("name", "prediction", "references", "options", "score"),
    [
        ("aokvqa", "B", ("B",), {"A": "dog", "B": "cat"}, 1.0),
        ("seedbench", "A dog", ("A",), {"A": "bird", "B": "cat"}, 0.0),
        ("mmbench", "The answer is (A).", ("A",), {"A": "dog", "B": "cat"}, 1.0),
        ("vizwiz", "unanswerable", ("unanswerable",) * 2 + ("x",) * 8, {}, 0.6),
        ("textvqa", "the  Stop!", ("stop",) * 10, {}, 1.0),
        ("mme", "I know", ("No",), {}, 0.0),
        ("chartqa", "1040", ("1000",), {}, 1.0),
        ("chartqa", "1,040", ("1000",), {}, 0.0),  # to the official rule a text
        ("ocrbench", "it says STOP", ("stop",), {}, 1.0),
    ],
)
def test_each_is_scored_by_its_own_metric(name, prediction, references, options, score):
    item = record(references=references, options=options)
    assert AskSettings().score(BENCHMARKS.get(name), prediction, item) == pytest.approx(score)


def test_the_prompt_has_hint_question_options_and_what_to_answer():
    prompt = BENCHMARKS.get("mmbench").prompt(record("Which?", options={"A": "dog", "B": "cat"}, hint="Look left."))
    assert prompt.splitlines() == [
        "Hint: Look left.",
        "Which?",
        "A. dog",
        "B. cat",
        "Answer with the letter of the right option only.",
    ]


def test_the_prompt_does_not_ask_twice():
    question = "Is it a dog? Please answer yes or no."
    assert BENCHMARKS.get("mme").prompt(record(question)) == question
    assert BENCHMARKS.get("ocrbench").prompt(record("What is written?")) == "What is written?"


@pytest.mark.parametrize("typed", ["mmbench", "MMBench", "MMBench_DEV_EN", " mm-bench "])
def test_a_benchmark_is_known_by_any_spelling(typed):
    assert benchmark(typed).name == "mmbench"


def test_an_unknown_one_is_named_with_those_that_are_known():
    with pytest.raises(UnknownNameError, match=r"'docvqa'.*chartqa"):
        benchmark("docvqa")


@pytest.fixture
def root(tmp_path):
    for name in ("MMBench_TEST_EN", "MMBench_DEV_EN", "ChartQA_TEST", "inner/A-OKVQA", "VizWiz_local", "Other"):
        path = tmp_path / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_files_are_found_by_name_with_the_answered_split_first(root):
    found = {name: path.name for name, path in find(root).items()}
    assert found == {
        "aokvqa": "A-OKVQA.tsv",
        "vizwiz": "VizWiz_local.tsv",
        "mmbench": "MMBench_DEV_EN.tsv",
        "chartqa": "ChartQA_TEST.tsv",
    }


def test_a_missing_file_is_named_with_the_names_it_could_have(root, tmp_path):
    with pytest.raises(InvalidInputError, match=r"textvqa.*TextVQA_VAL\.tsv"):
        find(root, ["textvqa", "mmbench"])
    with pytest.raises(InvalidInputError, match="not a folder"):
        find(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="does not have the file"):
        find(tmp_path / "empty")


def test_tasks_are_parsed_from_what_a_user_types(root):
    chart = root / "a,b" / "c.tsv"
    chart.parent.mkdir()
    chart.touch()
    other = root / "Other.tsv"
    assert parse_tasks(f"chartqa={chart}, MMBench={other},") == ({"chartqa": chart, "mmbench": other}, {})
    inner = root / "inner" / "A-OKVQA.tsv"
    assert parse_tasks(f"aokvqa,chartqa={chart}", root) == ({"aokvqa": inner, "chartqa": chart}, {})
    assert set(parse_tasks("all", root)[0]) == {"aokvqa", "vizwiz", "mmbench", "chartqa"}


def test_tasks_of_ones_own_have_any_name_and_any_metric(root):
    other = root / "Other.tsv"
    assert parse_tasks(f"mine={other},my-charts={other}:relaxed,mmbench={other}:exact") == (
        {"mine": other, "my-charts": other, "mmbench": other},
        {"my-charts": "relaxed", "mmbench": "exact"},
    )
    with pytest.raises(UnknownNameError, match=r"metric 'nearly'.*exact"):
        parse_tasks(f"mine={other}:nearly")
    with pytest.raises(InvalidInputError, match=r"'mmbnch'.*mmbnch=PATH:answer"):
        parse_tasks(f"mmbnch={other}")
    assert parse_tasks(f"mmbnch={other}:answer")[0] == {"mmbnch": other}


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ("", "No task"),
        (",", "No task"),
        ("mmbench", "mmbench=PATH"),
        ("mmbench=", "does not exist"),
        ("mmbench=/no/such.tsv", r"no/such\.tsv' does not exist"),
        ("docvqa=x", "'x' does not exist"),
        ("=x", "Unknown benchmark"),
    ],
)
def test_bad_tasks_are_named(tasks, sentence):
    with pytest.raises((InvalidInputError, UnknownNameError), match=sentence):
        parse_tasks(tasks)


def scored(rows):
    return [(replace(record(), id=index, meta=meta), score) for index, meta, score in rows]


def test_mme_gives_points_for_answers_and_for_pictures_with_both_right():
    def row(number, category, picture, score):
        return (str(number), {"category": category, "image_path": picture}, score)

    rows = [
        row(1, "color", "1.png", 1.0),
        row(2, "color", "1.png", 1.0),
        row(3, "color", "2.png", 1.0),
        row(4, "color", "2.png", 0.0),
        row(5, "code_reasoning", "1.png", 1.0),
        row(6, "code_reasoning", "1.png", 0.0),
    ]
    figures = BENCHMARKS.get("mme").figures(scored(rows))
    assert figures == {
        "acc+": pytest.approx(1 / 3),
        "perception points": pytest.approx(75 + 50),
        "reasoning points": pytest.approx(50 + 0),
        "color points": pytest.approx(125),
        "code_reasoning points": pytest.approx(50),
    }


def test_mmbench_counts_a_question_only_if_every_rotation_is_right():
    rows = [("7", {}, 1.0), ("1000007", {}, 1.0), ("8", {}, 1.0), ("1000008", {}, 0.0), ("2000008", {}, 1.0)]
    assert BENCHMARKS.get("mmbench").figures(scored(rows)) == {"circular": 0.5}
    named = [("x1", {"g_index": "5"}, 1.0), ("x2", {"g_index": "5"}, 0.0), ("x3", {}, 1.0)]
    assert BENCHMARKS.get("mmbench").figures(scored(named)) == {"circular": 0.5}


def test_a_package_adds_a_benchmark_with_its_own_metric(monkeypatch):
    """As an entry point of the groups `vispco.benchmarks` and `vispco.metrics` does."""
    monkeypatch.setattr(BENCHMARKS, "_items", dict(BENCHMARKS._items))
    monkeypatch.setattr(METRICS, "_items", dict(METRICS._items))

    @METRICS.register(name="length")
    def length(prediction, item):
        return float(len(prediction) == len(item.references[0]))

    BENCHMARKS.register(Benchmark("lengths", "Lengths", "text", "length", "How long?", ("Lengths",)))
    assert AskSettings().score(BENCHMARKS.get("lengths"), "dog", record()) == 1.0
    assert benchmark("Lengths").prompt(record()).endswith("How long?")


def test_a_task_given_twice_is_refused(root):
    with pytest.raises(InvalidInputError, match="given twice"):
        parse_tasks(f"mmbench={root / 'Other.tsv'},mmbench", root)
