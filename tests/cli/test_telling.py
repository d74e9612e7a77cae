"""What a command says while it works: on stderr with and without --json, as much as was asked for, and in a log file."""

import io
import json
import logging

import pytest
import typer

from cli.test_config import COMMANDS
from vispco.cli import console, main
from vispco.core.errors import InvalidInputError
from vispco.core.progress_lines import ProgressLines
from vispco.pruner.pruning_options import budgets_of, one_budget, window_of

WORK = ("evaluate", "tiny-qwen", "--tasks", "word", "--limit", "1", "--json")


def test_progress_goes_to_stderr_with_json_and_without_a_terminal(invoke):
    done = invoke(*WORK)
    assert done.code == 0, done.err
    assert json.loads(done.out)["accuracy"] >= 0
    assert "tiny-qwen, unpruned" in done.err
    assert "100 %" in done.err


def test_quiet_says_nothing_and_the_log_file_has_it(invoke, tmp_path):
    log = tmp_path / "logs" / "run.txt"
    done = invoke(*WORK, "--quiet", "--log-file", log)
    assert done.err == ""
    assert "INFO tiny-qwen, unpruned" in log.read_text()


def test_verbose_tells_the_options_and_the_seconds(invoke):
    done = invoke(*WORK, "--verbose")
    assert '"limit": 1' in done.err
    assert "evaluate took" in done.err


def test_an_error_is_in_the_log_file_too(invoke, tmp_path):
    log = tmp_path / "run.txt"
    done = invoke("evaluate", "tiny-qwn", "--log-file", log)
    assert done.code == 1
    assert "ERROR There is no model 'tiny-qwn'" in log.read_text()


def test_quiet_and_verbose_exclude_each_other(invoke):
    assert "Keep one of them" in invoke(*WORK, "--quiet", "--verbose").err


def test_loggers_are_left_as_they_were():
    before = (console.LOGGER.handlers[:], console.LOGGER.level)
    console.begin(verbose=True)
    assert console.LOGGER.level == logging.DEBUG
    console.end()
    assert console.LOGGER.handlers == [handler for handler in before[0] if handler not in console._HANDLERS]
    assert console.LOGGER.level == logging.NOTSET


def test_lines_come_at_the_beginning_now_and_then_and_at_the_end(caplog, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("vispco.core.progress_lines.time.monotonic", lambda: now[0])
    lines = ProgressLines()
    with caplog.at_level(logging.INFO, logger="vispco.progress"):
        for done in range(101):
            now[0] = done * 0.5
            lines.tell(done, 100, "work")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "0 %: work"
    assert said[-1] == "100 %, after 0:00:50: work"
    assert len(said) == 6
    assert said[2] == "40 %, 0:00:30 left: work"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_budget_and_budgets_are_understood_wherever_one_is(name):
    command = typer.main.get_command(main.app)
    for word in name.split():
        command = command.commands[word]
    known = {opt for parameter in command.params for opt in parameter.opts}
    assert ("--budget" in known) == ("--budgets" in known)


@pytest.mark.parametrize(("text", "found"), [("0.5", 0.5), ("50%", 0.5), (" 30 % ", 0.3)])
def test_per_cent_is_understood(text, found):
    assert one_budget(text) == pytest.approx(found)
    assert budgets_of(f"{text},0.9") == pytest.approx([found, 0.9])
    assert window_of(f"{text},90%") == pytest.approx((found, 0.9))
    assert window_of(text) == pytest.approx((0.0, found))


@pytest.mark.parametrize("text", ["0.3,0.5", "half", "2"])
def test_what_is_not_one_budget_is_a_sentence(text):
    with pytest.raises(InvalidInputError):
        one_budget(text)


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("search tiny-qwn", "tiny-qwen"),
        ("info tiny-qwn.json", ""),
        ("search tiny-qwen --mode jiont", "joint"),
        ("search tiny-qwen --scorer fastv --mode static --solver projecton", "projection"),
        ("search tiny-qwen --scorer fastv --kernel stepz", "steps"),
        ("search tiny-qwen --scorer fastw", "fastv"),
        ("sweep tiny-qwen --strategy gird", "grid"),
        ("evaluate tiny-qwen --tasks countng", "counting"),
        ("evaluate tiny-qwen --dtype bfloat61", "bfloat16"),
        ("evaluate tiny-qwen --attn-implementation sdap", "sdpa"),
        ("serve tiny-qwen --log-level waring", "warning"),
        ("zoo train tiny-qwn", "tiny-qwen"),
        ("serach tiny-qwen", "search"),
    ],
)
def test_a_wrong_name_is_told_before_a_model_is_loaded_with_the_nearest(words, near, invoke, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def loaded(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("transformers.AutoModelForImageTextToText.from_pretrained", loaded)
    done = invoke(*words.split())
    assert done.code in (1, 2)
    assert "a model was loaded" not in done.err
    if near:
        assert f"Did you mean '{near}'?" in done.err


def test_a_logging_configuration_of_another_library_does_not_silence_it(invoke):
    for name in ("vispco", "vispco.said", console.PROGRESS.name):
        logging.getLogger(name).disabled = True  # as dictConfig does unless it is told not to
    assert "tiny-qwen, unpruned" in invoke(*WORK).err


def test_a_sentence_is_broken_between_words_on_a_terminal_alone(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    sentence = (
        "Give another folder with --out, or runs/a-name-that-is-longer-than-the-terminal-is-wide/report.html now."
    )
    lines = console.fill_lines(sentence, Terminal()).splitlines()
    assert " ".join(lines) == sentence
    assert [line for line in lines if len(line) > 40 and " " in line] == []
    assert console.fill_lines(sentence, io.StringIO()) == sentence
