"""A misspelt name of any kind: the sentence names the nearest, and those of the first table are refused at once."""

import subprocess
import sys
from importlib import import_module

import pytest

from project.sources import ROOT
from vispco.cli.early_refusal import MEASURES
from vispco.core.declared_names import DECLARATIONS, declared_names, declared_solvers, shipped_models

# Refused before torch or transformers is imported.
AT_ONCE = {
    "search tiny-qwn": "tiny-qwen",
    "sweep tiny-llva": "tiny-llava",
    "evaluate tiny-gema": "tiny-gemma",
    "ask tiny-qwn photo.png what": "tiny-qwen",
    "play tiny-qwn": "tiny-qwen",
    "serve tiny-qwn": "tiny-qwen",
    "bench tiny-qwn": "tiny-qwen",
    "profile tiny-qwn": "tiny-qwen",
    "train madtp tiny-qwn": "tiny-qwen",
    "demo --model tiny-qwn": "tiny-qwen",
    "compare searches tiny-qwn": "tiny-qwen",
    "compare methods tiny-qwn": "tiny-qwen",
    "info tiny-qwn": "tiny-qwen",
    "zoo train tiny-qwn": "tiny-qwen",
    "search tiny-qwen --mode jiont": "joint",
    "demo --mode statik": "static",
    "search tiny-qwen --solver projecton": "projection",
    "search tiny-qwen --kernel stepz": "steps",
    "demo --kernel stepz": "steps",
    "search tiny-qwen --scorer fastw": "fastv",
    "search tiny-qwen --scorers fastv,divprun+fastv": "divprune",
    "sweep tiny-qwen --scorer divprune@0+fastw@3": "fastv",
    "evaluate tiny-qwen --scorer fastw": "fastv",
    "bench tiny-qwen --scorer fastw": "fastv",
    "check tiny-qwen --scorer fastw": "fastv",
    "profile tiny-qwen --scorer fastw": "fastv",
    "search tiny-qwen --cost exakt": "exact",
    "compare searches tiny-qwen --cost papr": "paper",
    "sweep tiny-qwen --strategy gird": "grid",
    "sweep tiny-qwen --space stagez": "stages",
    "sweep tiny-qwen --space kernel:stepz": "steps",
    "sweep tiny-qwen --engine locl": "local",
    "evaluate tiny-qwen --split tets": "test",
    "evaluate tiny-qwen --tasks countng": "counting",
    "evaluate tiny-qwen --method pyramidrop": "pyramiddrop",
    "ask tiny-qwen photo.png what --method sparsvlm": "sparsevlm",
    "bench tiny-qwen --method pyramidrop@0.5": "pyramiddrop",
    "compare methods tiny-qwen --methods fastv,pyramidrop": "pyramiddrop",
    "compare methods tiny-qwen --search vispco-halvng": "vispco-halving",
    "compare searches tiny-qwen --searches tpe-jont": "tpe-joint",
    "compare searches tiny-qwen --measure acuracy": "accuracy",
    "train madpt tiny-qwen": "madtp",
    "evaluate tiny-qwen --protocol vlmevalkt": "vlmevalkit",
    "evaluate tiny-qwen --allocation equl": "equal",
    "evaluate tiny-qwen --dtype bfloat61": "bfloat16",
}
# Refused before a model is loaded.
LATER = {
    "evaluate tiny-qwen --attn-implementation sdap": "sdpa",
    "evaluate tiny-qwen --device cud": "cuda",
    "evaluate tiny-qwen --tasks mmbnch=file.tsv": "mmbench",
    "evaluate tiny-qwen --tasks mme={tsv} --metrics mme=yesno": "yes-no",
    "evaluate tiny-qwen --method sparsevlm:912": "192",
    "search tiny-qwen --preset qwn": "qwen",
    "search tiny-qwen --set lamm=1": "lam",
    "search tiny-qwen --set joint.shaps=3": "shapes",
    "plot {run} --format pngg": ".png",
    "serve tiny-qwen --log-level waring": "warning",
    "check qwen3_vll": "qwen3_vl",
    "evaluate tiny-qwen --config {config}": "scorer",
    "serach tiny-qwen": "search",
    "compare serches tiny-qwen": "searches",
}
HEAVY = ("torch", "transformers", "scipy", "optuna", "numpy")
RUN_ALL = f"""
import contextlib, io, sys
from vispco.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv, told = ["vispco", *line.split()], io.StringIO()
    with contextlib.redirect_stderr(told):
        try:
            main.run()
        except SystemExit as left:
            code = left.code
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    print(code, ",".join(loaded) or "nothing", " ".join(told.getvalue().split()), sep="|", flush=True)
"""


@pytest.fixture(scope="module")
def told():
    """By command: exit code, what heavy was imported, and what it said; one process for all."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL], input="\n".join(AT_ONCE), capture_output=True, text=True, check=True, cwd=ROOT
    )
    return dict(zip(AT_ONCE, (line.split("|", 2) for line in done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("words", AT_ONCE)
def test_a_wrong_name_is_refused_before_anything_heavy_is_imported(words, told):
    code, imported, said = told[words]
    assert f"Did you mean '{AT_ONCE[words]}'?" in said
    assert (code, imported) == ("1", "nothing")


@pytest.mark.parametrize("words", LATER)
def test_other_wrong_names_are_refused_before_a_model_is_loaded(words, invoke, run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "transformers.AutoModelForImageTextToText.from_pretrained", lambda *_, **__: pytest.fail("a model was loaded")
    )
    tsv, config = tmp_path / "MME.tsv", tmp_path / "options.yaml"
    tsv.write_text("index\timage\tquestion\tanswer\n")
    config.write_text("scorr: fastv\n")
    done = invoke(*words.format(tsv=tsv, run=run, config=config).split())
    assert done.code in (1, 2)
    assert f"Did you mean '{LATER[words]}'?" in done.err


KINDS = [kind for kind, where in DECLARATIONS.items() if where.registry]


@pytest.fixture(scope="module")
def read():
    """By kind: the names that are read where nothing is imported."""
    code = f"from vispco.core.declared_names import declared_names\nfor kind in {KINDS}: print(*declared_names(kind))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(zip(KINDS, map(str.split, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_read_are_those_that_are_registered(kind, read):
    module, _, attribute = DECLARATIONS[kind].registry.partition(":")
    registered = list(getattr(import_module(module), attribute))
    assert sorted(read[kind]) == sorted(registered)
    assert declared_names(kind) == registered  # once it is imported, it answers itself


def test_solvers_models_learned_methods_groups_and_measures_are_those_that_there_are():
    from typing import get_args

    from vispco import models as zoo
    from vispco.compare.searches.calibration import Measure
    from vispco.data.tasks import SEVERAL, TASKS
    from vispco.scorers import SCORERS, LearnedScorer
    from vispco.search.search_spec import SOLVERS

    assert set(declared_solvers()) == {solver for solvers in SOLVERS.values() for solver in solvers}
    assert shipped_models() == zoo.names()
    assert get_args(Measure) == MEASURES
    assert set(declared_names("learned")) == {n for n in SCORERS if issubclass(SCORERS.get(n), LearnedScorer)}
    assert set(declared_names("task-groups")) == {task.group for task in (*TASKS.values(), *SEVERAL.values())}
