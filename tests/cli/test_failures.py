"""Every command with a missing file, an unknown name, an unwritable folder: one clear sentence, exit code 1."""

from __future__ import annotations

import warnings

import pytest

from cli.test_config import COMMANDS, SERVERS

MODEL = "tiny-llava"
GONE = "there/is/no/such/thing"
MISSING = {
    "demo": ("--model", GONE),
    "search": (MODEL, "--data", f"{GONE}.json"),
    "sweep": (MODEL, "--tasks", f"mmbench={GONE}.tsv"),
    "evaluate": (MODEL, "--schedule", f"{GONE}.json", "--tasks", "attribute", "--limit", "1"),
    "bench": (MODEL, "--schedule", f"{GONE}.json", "--tasks", "attribute"),
    "compare searches": (GONE,),
    "compare methods": (GONE,),
    "paper": (GONE,),
    "recommend": (MODEL, "--budget", "0.5", "--data", f"{GONE}.jsonl"),
    "check": (f"{GONE}.json",),
    "profile": (GONE,),
    "report": (GONE,),
    "plot": (GONE,),
    "export": (GONE,),
    "info": (f"{GONE}.json",),
    "zoo train": None,  # it reads no file
    "ask": (MODEL, f"{GONE}.png", "what is it?"),
    "train": ("dynamic-llava", GONE),
    "zoo get": None,  # it writes to the cache
    "zoo list": None,
}
UNKNOWN = {
    "demo": (("--scorer", "nose"), "Unknown scorer 'nose'"),
    "search": (
        (MODEL, "--kernel", "popcorn", "--tasks", "attribute", "--samples", "1", "--test", "1"),
        "Unknown kernel 'popcorn'",
    ),
    "sweep": ((MODEL, "--strategy", "hope"), "Unknown strategy 'hope'"),
    "evaluate": ((MODEL, "--tasks", "smelling"), "Unknown task 'smelling'"),
    "bench": ((MODEL, "--scorer", "nose", "--tasks", "attribute"), "Unknown scorer 'nose'"),
    "profile": ((MODEL, "--scorer", "nose", "--tasks", "attribute"), "Unknown scorer 'nose'"),
    "compare searches": (
        (MODEL, "--methods", "luck"),
        "Known searches: autoprune, btp-layers, dop, downsample, evolution, fitprune, g-search, p-sigmoid-bo",
    ),
    "compare methods": ((MODEL, "--methods", "luck"), "luck"),
    "paper": ((MODEL, "--tasks", "smelling"), "Unknown task 'smelling'"),
    "recommend": ((MODEL, "--budget", "half"), "half"),
    "check": (("--scorer", "nose", "llava"), "Unknown scorer 'nose'"),
    "report": None,  # it takes no names
    "plot": (("{run}", "--format", "gif"), "png, svg or pdf"),
    "export": (("{run}", "--budget", "7"), "above 0, up to 1"),
    "info": (("owner/not-here",), "No config could be read"),
    "ask": None,  # a method is read with the model
    "train": (("nose", MODEL), "nose"),
    "zoo train": (("huge-qwen",), "Known models: smol, tiny-deep, tiny-gemma, tiny-llava, tiny-qwen, tiny-qwen3."),
    "zoo get": (("huge-qwen",), "Give smol"),
    "zoo list": None,
}
OUT = {
    "evaluate": "result.json",
    "bench": "bench.json",
    "profile": "profile.json",
    "export": "schedule.json",
    "report": "report.html",
    "ask": "x.png",
}


def assert_refused(done, sentence):
    assert done.code == 1, done.out + done.err
    assert sentence in done.err
    assert done.err.count("error: ") == 1
    assert "Traceback" not in done.err
    assert done.out == ""


def options(command, tmp_path):
    if command in ("check", "info", "zoo list", "zoo get"):
        return ()
    return ("--out", tmp_path / "out" / OUT.get(command, "run"))


def test_the_tables_have_every_command():
    assert {*MISSING, *SERVERS} == {*UNKNOWN, *SERVERS} == set(COMMANDS)


@pytest.mark.parametrize("command", sorted(key for key, value in MISSING.items() if value))
def test_a_missing_file_is_named(invoke, tmp_path, command):
    assert_refused(invoke(*command.split(), *MISSING[command], *options(command, tmp_path)), GONE)


@pytest.mark.parametrize("command", sorted(key for key, value in UNKNOWN.items() if value))
def test_an_unknown_name_is_told_with_what_is_known(invoke, tmp_path, command, run):
    arguments, sentence = UNKNOWN[command]
    given = [run if argument == "{run}" else argument for argument in arguments]
    assert_refused(invoke(*command.split(), *given, *options(command, tmp_path)), sentence)


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"check", "info", "zoo list", "zoo get", *SERVERS}))
def test_a_folder_that_cannot_be_written_is_told_before_any_work(invoke, tmp_path, command, monkeypatch, run):
    monkeypatch.setattr("vispco.models.loading.load", lambda *_, **__: pytest.fail("a model was loaded"))
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    given = {"report": (run,), "plot": (run,), "export": (run,), "demo": ()}
    first = {**given, "ask": (MODEL, "x.png", "what?"), "train": ("dynamic-llava", MODEL)}
    first |= {"recommend": (MODEL, "--budget", "0.5")}
    first = first.get(command, (MODEL,))
    assert_refused(invoke(*command.split(), *first, "--out", blocked / "x" / "y.json"), "Nothing can be written")


@pytest.mark.parametrize("command", ["search", "sweep", "plot", "compare searches"])
def test_a_command_that_is_refused_leaves_no_folder(invoke, tmp_path, command):
    wrong = {
        "search": (MODEL, "--budgets", "1.7"),
        "sweep": (MODEL, "--strategy", "hope"),
        "plot": (tmp_path / "empty",),
        "compare searches": (MODEL, "--methods", "luck"),
    }
    (tmp_path / "empty").mkdir()
    assert invoke(*command.split(), *wrong[command], "--out", tmp_path / "deep" / "out").code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


@pytest.mark.parametrize("command", ["search", "bench", "demo"])
@pytest.mark.parametrize("budgets", ["0.0", "0.5,1.7", ","])
def test_a_budget_out_of_range_is_told_before_any_work(invoke, tmp_path, command, budgets, monkeypatch):
    monkeypatch.setattr("vispco.models.loading.load", lambda *_, **__: pytest.fail("a model was loaded"))
    model = () if command == "demo" else (MODEL,)
    done = invoke(command, *model, "--budgets", budgets, *options(command, tmp_path))
    assert_refused(done, "Give a fraction of the unpruned FLOPs (0.5 or 50%)")


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        ("empty", "holds no config.json, so it is neither the directory of a search nor a saved predictor"),
        ("model", "is a model (llava), not what a search found"),
        ("gone", "gone"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "bench"])
def test_a_folder_that_no_search_has_filled_is_no_pruner(invoke, tmp_path, command, folder, sentence):
    (tmp_path / "empty").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llava"}')
    budget = ("--budget", "0.5") if command == "evaluate" else ()
    small = ("--tasks", "attribute", *(("--limit", "1") if command == "evaluate" else ()))
    done = invoke(command, MODEL, "--pruner", tmp_path / folder, *budget, *small, *options(command, tmp_path))
    assert_refused(done, sentence)
    assert "search" in done.err


@pytest.mark.parametrize("model", ["gone.json", "folder/gone.json", "./gone", "gone"])
def test_a_config_that_is_not_there_is_not_looked_for_on_the_hub(invoke, model, monkeypatch):
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", lambda *_, **__: pytest.fail("the hub was asked"))
    assert_refused(invoke("info", model), f"{model} does not exist. Give a shipped model")
    sentence = f"{model} does not exist. Give a shipped model" if "/g" in model[2:] else f"There is no model {model!r}"
    assert_refused(invoke("sweep", model), sentence)


def test_kinds_of_names_have_their_plurals():
    from vispco.core.errors import UnknownNameError

    told = [str(UnknownNameError(kind, "x", ["b", "a"])) for kind in ("search", "strategy", "task")]
    assert [text.split(". ")[1] for text in told] == [
        "Known searches: a, b.",
        "Known strategies: a, b.",
        "Known tasks: a, b.",
    ]


def test_an_error_that_nobody_foresaw_is_a_sentence_too(invoke, monkeypatch):
    monkeypatch.setattr("vispco.models.shipped.names", lambda: 1 / 0)
    done = invoke("zoo", "list")
    assert_refused(done, "ZeroDivisionError: division by zero")
    assert "--debug" in done.err


def test_a_traceback_is_there_for_those_who_ask(invoke, monkeypatch):
    monkeypatch.setenv("VISPCO_DEBUG", "1")
    monkeypatch.setattr("vispco.models.shipped.names", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        invoke("zoo", "list")


def test_a_warning_is_one_line_for_each_budget(invoke, monkeypatch):
    from vispco.cost import BudgetWarning

    def names():
        for budget, floor in ((0.2, 0.21), (0.2, 0.23), (0.3, 0.31)):
            warnings.warn(f"A budget of {budget} lies under the floor of {floor}.", BudgetWarning, stacklevel=1)
        return []

    monkeypatch.setattr("vispco.models.shipped.names", names)
    monkeypatch.setattr("vispco.cli.main._NOTED", set())
    done = invoke("zoo", "list", "--json")
    assert done.code == 0
    assert done.err.splitlines() == [
        "note: A budget of 0.2 lies under the floor of 0.21.",
        "note: A budget of 0.3 lies under the floor of 0.31.",
    ]
