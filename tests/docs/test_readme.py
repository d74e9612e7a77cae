"""What the README and docs/figures.md say is what was measured, and the pictures show the page as it is."""

from __future__ import annotations

import importlib.util
import json

import pytest

from docs.pages import ROOT
from vispco.scorers.base import SCORERS

MOST = 12_000  # bytes of the README
PLAIN = {"better": "higher", "bar": None, "unit": "points"}


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def readme():
    return script("readme")


def section(readme, figures):
    return readme.section("x", {"figures": figures})


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= MOST


def test_the_headline_figures_are_what_the_benchmarks_wrote(readme):
    text = (ROOT / "README.md").read_text()
    assert readme.updated(text, readme.headlines(readme.load())) == text, "run: python benchmarks/readme.py"


def test_the_page_of_figures_is_what_the_benchmarks_wrote(readme):
    text = (ROOT / "docs" / "figures.md").read_text()
    assert readme.page(readme.load()) == text, "run: python benchmarks/readme.py"


def test_there_are_six_headlines_and_they_are_left_out_where_nothing_was_measured(readme):
    assert len([*readme.headline_rows(readme.load())]) == 6
    assert [*readme.headline_rows({})] == []
    alone = {"families": readme.load()["families"]}
    right, every = (alone["families"]["figures"][key]["value"] for key in ("right", "with_visual_tokens"))
    assert [row[1] for row in readme.headline_rows(alone)] == [f"{right} of {every}"]


def test_budgets_that_torch_counted_join_the_headline(readme):
    figures = {"over": {**PLAIN, "value": 0}, "prefills": {**PLAIN, "value": 1234}}
    rows = [*readme.headline_rows(readme.load() | {"budget": {"figures": figures}})]
    assert "0 of 1,234 prefills of every scorer" in rows[-1][2]


@pytest.mark.parametrize(
    ("benchmark", "key", "words"),
    [
        ("protocol", "prompts.Qwen2.5-VL", "prompts that are equal, Qwen2.5-VL"),
        ("protocol", "prompts, LLaVA-1.5", "prompts that are equal, LLaVA-1.5"),
        ("overhead", "ops.plan_joint_mean_cached", "the same plan again, for a mean budget"),
        ("joint", "closed_of_reachable.30", "reachable gap that is closed at 30 % (KL)"),
        ("zoo", "spread_at_50.tiny-qwen", "best over worst of 100 random schedules at 50 %, tiny-qwen"),
        ("unknown", "new_figure.of_mine", "new figure, of mine"),
    ],
)
def test_rows_are_words_and_names_stay_whole(readme, benchmark, key, words):
    assert readme.in_words(benchmark, readme.key_parts(key)) == words


def test_every_figure_that_was_measured_has_a_name(readme):
    named = {name: {readme.key_parts(key) for key in keys} for name, keys in readme.NAMES.items()}
    nameless = []
    for name, data in readme.load().items():
        for key in map(readme.key_parts, data["figures"]):
            beginnings = {form[:n] for form in (key, readme.without_model(key)) for n in range(1, len(key) + 1)}
            if not beginnings & named.get(name, set()):
                nameless.append((name, key))
    assert nameless == [], "name them in benchmarks/figure_names.py"


def test_a_figure_that_misses_its_bar_is_marked_and_counted(readme):
    figures = {
        "good": {"value": 0.95, "better": "higher", "bar": 0.9, "unit": "ratio"},
        "bad": {"value": 0.2, "better": "lower", "bar": 0.1, "unit": "ratio"},
    }
    good, bad = section(readme, figures).splitlines()[-2:]
    assert "not reached" not in good
    assert "not reached" in bad
    assert "1 of 2 figures with a bar reach it. Not reached: 1 of `x`, each named in" in readme.headlines(
        {"x": {"figures": figures}}
    )


def test_models_share_a_row_and_many_items_have_a_table(readme):
    figures = {f"gain.{model}": {**PLAIN, "value": n} for n, model in enumerate(("tiny-qwen", "tiny-gemma"))}
    figures["gain"] = {**PLAIN, "value": 0.5}
    for number, item in enumerate("abcdefghi"):
        figures |= {f"area.{item}.{model}": {**PLAIN, "value": number / 10} for model in ("tiny-a", "tiny-b")}
        figures |= {f"more.{item}.30%": {**PLAIN, "value": -number}} if number else {}
    rows = [line for line in section(readme, figures).splitlines() if line.startswith("|")]
    assert rows[:3] == [
        "|  | tiny-qwen | tiny-gemma | bar |",
        "| --- | ---: | ---: | ---: |",
        "| gain | 0 points | 1 points |  |",
    ]
    assert rows[5] == "| gain, mean over models | 0.5 points |  |"
    assert rows[6] == "|  | area, tiny-a | area, tiny-b | more, 30% |"
    assert rows[8:10] == ["| a | 0 | 0 | – |", "| b | 0.1 | 0.1 | -1 |"]
    assert len(rows) == 17


def test_every_scorer_has_its_line():
    text = (ROOT / "README.md").read_text().partition("## Scorers")[2]
    assert [name for name in SCORERS if f"`{name}`" not in text] == []


def test_the_pictures_show_the_page_with_its_present_headings():
    pictures = script("pictures")
    shown = json.loads(pictures.RECORD.read_text())["headings of the page"]
    assert pictures.page_headings() == shown, "the page has changed: make demo pictures"


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda p: p.stem)
def test_results_have_the_agreed_form(path):
    data = json.loads(path.read_text())
    assert data.keys() >= {"command", "versions", "machine", "seed", "figures", "details"}
    for figure in data["figures"].values():
        assert figure.keys() == {"value", "better", "bar", "unit"}
        assert figure["better"] in ("higher", "lower")
