"""`vispco paper`: its commands are commands, and its tables and statements are those of the runs."""

import csv
import json
from dataclasses import asdict, replace

import pytest
import typer

from cli.invoking import Invoke
from report.invented import evaluate, searched, swept, write_run
from vispco.cli import main
from vispco.compare.methods.table import MethodTable, MethodTableRow
from vispco.core.schedule import Schedule
from vispco.evaluation.frontier import Frontier
from vispco.report.paper.paper_page import write_paper
from vispco.report.paper.paper_steps import (
    BUDGETS,
    KERNELS,
    METHODS,
    PaperSettings,
    kernel_folder,
    plan,
    searched_folder,
)
from vispco.report.paper.paper_tables import PaperRuns

TASKS = ("counting", "word", "chart", "position")


def searched_at(skill: float) -> Frontier:
    """The invented frontier with the paper's budgets."""
    points = searched(skill=skill).points[-len(BUDGETS) :]
    return Frontier(replace(point, provenance={"budget": b}) for point, b in zip(points, sorted(BUDGETS), strict=True))


def timed(name: str, ms: float) -> dict:
    return {
        "configuration": name,
        "ttft_ms": {"p50": ms},
        "parts_ms": {"vision": 2.0},
        "speedup": {"ttft": 10.0 / ms},
        "decode_tokens_per_second": 100.0,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a model with invented results: every search has its own skill, sampled schedules are 10 points worse."""
    out = tmp_path_factory.mktemp("paper") / "invented-vl"
    names = ["joint", *map(searched_folder, METHODS), *(kernel_folder(name) for name in KERNELS)]
    for name in dict.fromkeys(names):
        write_run(out / name, whole=name in ("joint", "vispco-fastv"), examples=2)
        for each in ("comparison.json", "grid.frontier.json"):
            (out / name / each).unlink(missing_ok=True)
        searched_at(0.8 if name == "kernel-single" else 1.0).save(out / name / "frontier.json")
    (out / "grid").mkdir()
    swept().save(out / "grid" / "fastv.frontier.json")
    write_run(out / "searches", examples=1)
    rows = []
    for method in METHODS:
        for budget in BUDGETS[:-1]:
            found = evaluate(Schedule.full(12), 1)
            accuracy = next(p.accuracy for p in searched_at(1.0).points if p.provenance["budget"] == budget) - 0.1
            by_task = {task.task: (task.accuracy, task.low, task.high) for task in found.tasks}
            rows.append(MethodTableRow(method=method, kind="sampled", budget=budget, accuracy=accuracy, deviation=0.01, tasks=by_task))  # fmt: skip
    (out / "sampled").mkdir()
    MethodTable(tuple(rows)).save(out / "sampled" / "methods.json")
    (out / "learned").mkdir()
    own = replace(rows[0], method="aim", kind="scaled", budget=0.5, fraction=0.48)
    MethodTable((own,)).save(out / "learned" / "methods.json")
    times = {"rows": [timed("unpruned", 10.0), timed("fastv 50%", 8.0), timed("joint 50%", 5.0)]}
    (out / "bench.json").write_text(json.dumps(times))
    return out


@pytest.mark.parametrize("step", plan("tiny-qwen", __import__("pathlib").Path("runs"), PaperSettings(trials=3, samples=2), ("--dtype", "float32")), ids=lambda step: step.label)  # fmt: skip
def test_every_step_is_a_command_with_options_that_it_has(step):
    command, words = typer.main.get_command(main.app), list(step.command)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    context = command.make_context("step", words)
    assert context.params["model"] == "tiny-qwen" or context.params["name"] == "tiny-qwen"


def test_tables_have_every_method_budget_and_curve(folder):
    tables = PaperRuns("invented-vl", folder).tables()
    (columns, first), (_, searches), (_, times), (_, curves) = tables.values()
    assert searches[-1][:2] == ("aim", "48.0")
    assert columns == ("budget", "method", "average", *TASKS)
    assert len(first) == 1 + len(BUDGETS) * (2 * len(METHODS) + 1)
    assert {len(row) for _, rows in tables.values() for row in rows} >= {len(columns)}
    assert all(len(row) == len(own) for own, rows in tables.values() for row in rows)
    assert [row[0] for row in curves] == list(KERNELS)
    assert [row[3] for row in times] == ["1.00", "1.25", "2.00"]


def test_statements_are_what_the_runs_say(folder):
    found = {each.claim: each for each in PaperRuns("invented-vl", folder).statements()}
    gain = found["VisPCO is better than sampled configurations at 50% of the FLOPs"]
    assert gain.measured.startswith("+10.0 points")
    assert gain.holds == "yes"
    assert found["VisPCO is better than sampled configurations at 10% of the FLOPs"].holds == "not measured"
    single = found["multi-step curves beat a single layer at 10%"]
    runs = PaperRuns("invented-vl", folder)
    own, other = runs.at("vispco-fastv", 0.1), runs.at("kernel-single", 0.1)
    assert single.measured.startswith(f"{100 * (own.accuracy - other.accuracy):+.1f} points")
    assert found["a search takes 1/48 of the grid's time"].holds == "no"


def test_the_summary_tells_every_statement_once_under_its_verdict(folder):
    runs = PaperRuns("invented-vl", folder)
    text = runs.summary()
    assert all(text.count(f"{each.claim} ({each.measured})") == 1 for each in runs.statements())
    held = [each for each in runs.statements() if each.holds == "yes"]
    assert f"{len(held)} hold: {held[0].claim}" in text


def test_the_page_the_json_the_latex_and_the_csv_say_the_same(folder, tmp_path):
    page = write_paper([("invented-vl", folder), ("other-vl", folder)], tmp_path)
    data = json.loads((tmp_path / "paper.json").read_text())
    text, latex = page.read_text(), (tmp_path / "paper.tex").read_text()
    for title, table in data["models"]["invented-vl"]["tables"].items():
        number = title.split(".")[0].lower().replace(" ", "-")
        with (tmp_path / f"invented-vl-{number}.csv").open() as file:
            assert list(csv.reader(file)) == [table["columns"], *table["rows"]]
        assert title in text
        assert f"% {title}" in latex
    assert data["tables"]["Table 3. Models at 50% of the FLOPs"]["rows"][1][0] == "other-vl"
    for claim in data["models"]["invented-vl"]["statements"]:
        assert claim["measured"].replace("'", "&#x27;") in text
    assert text.count("data:image/png;base64,") >= 1 + 2 * 6


def test_what_is_finished_is_not_run_again(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "tiny-qwen").symlink_to(folder)
    steps = plan("tiny-qwen", tmp_path / "tiny-qwen", PaperSettings(), ())
    (tmp_path / "steps.json").write_text(json.dumps([{"command": list(step.command)} for step in steps]))
    done = Invoke(monkeypatch, capsys)("paper", "tiny-qwen", "--out", tmp_path)
    assert done.code == 0, done.err
    assert "step 1" not in done.err
    assert "paper.html is ready" in done.out


def test_a_step_that_fails_ends_it_with_a_sentence_and_keeps_what_was_done(tmp_path, monkeypatch, capsys):
    wrong = Invoke(monkeypatch, capsys)("paper", "tiny-qwen", "--tasks", "nothing", "--out", tmp_path / "one")
    assert wrong.code == 1
    assert "nothing" in wrong.err
    (tmp_path / "steps.json").write_text(json.dumps({"mine": 1}))
    foreign = Invoke(monkeypatch, capsys)("paper", "tiny-qwen", "--out", tmp_path)
    assert foreign.code == 1
    assert "Choose another folder" in foreign.err
    assert asdict(PaperSettings())["test"] == 16
