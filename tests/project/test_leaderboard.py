"""Entries of the leaderboard: all of them are sound, their page is up to date, and a wrong one is refused in a sentence."""

import importlib
import json
import sys
from dataclasses import asdict, replace

import pytest

from project.sources import ROOT
from vispco.core.errors import InvalidInputError
from vispco.evaluation.leaderboard import LeaderboardEntry, LeaderboardRow
from vispco.evaluation.spec import weights_digest

sys.path.append(str(ROOT / "benchmarks"))
leaderboard = importlib.import_module("leaderboard")
sys.path.pop()  # benchmarks have names of packages: search, time

UNPRUNED = LeaderboardRow(method="unpruned", kind="unpruned", budget=None, fraction=1, accuracy=0.9, low=0.8, high=0.95)
ROW = replace(UNPRUNED, method="fastv", kind="scaled", budget=0.5, fraction=0.49, accuracy=0.85)
ENTRY = LeaderboardEntry(
    command="compare methods", model="tiny-qwen", weights="a", tasks={"word": 20}, rows=(UNPRUNED, ROW)
)


def test_the_page_is_written_from_the_entries_of_the_repository():
    found = leaderboard.entries()
    assert {entry.command for entry in found.values()} == {"search", "compare methods"}
    assert leaderboard.page(found) == leaderboard.PAGE.read_text(encoding="utf-8")


def test_the_entries_of_shipped_models_are_about_the_weights_that_are_shipped():
    for name, entry in leaderboard.entries().items():
        if leaderboard.can_rerun(entry):
            assert entry.weights == weights_digest(entry.model), name


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "other"}, "format"),
        ({"version": 9}, "newer vispco"),
        ({"command": "sweep"}, "writes no entry"),
        ({"tasks": {"word": 0}}, "number of items"),
        ({"rows": []}, "unpruned"),
        ({"rows": [asdict(UNPRUNED), asdict(ROW), asdict(ROW)]}, "twice"),
        ({"rows": [asdict(UNPRUNED), {**asdict(ROW), "accuracy": 0.99}]}, "outside of its interval"),
        ({"rows": [asdict(UNPRUNED), {**asdict(ROW), "budget": 50}]}, "share from 0 to 1"),
        ({"rows": [asdict(UNPRUNED), {**asdict(ROW), "kind": "best"}]}, "published"),
        ({"rows": [asdict(UNPRUNED), {"method": "fastv"}]}, "not a leaderboard entry"),
    ],
)
def test_a_wrong_entry_is_refused_in_a_sentence(change, told, tmp_path):
    path = tmp_path / "entry.json"
    path.write_text(json.dumps({"format": "vispco-leaderboard", "version": 1, **asdict(ENTRY), **change}))
    with pytest.raises(InvalidInputError, match=told):
        LeaderboardEntry.load(path)


def test_an_entry_is_found_again_or_not():
    same = replace(ENTRY, rows=(UNPRUNED, replace(ROW, accuracy=0.86)))
    assert leaderboard.differences(ENTRY, same) == []
    worse = replace(ENTRY, rows=(UNPRUNED, replace(ROW, accuracy=0.81)))
    assert "0.850" in leaderboard.differences(ENTRY, worse)[0]
    dearer = replace(ENTRY, rows=(UNPRUNED, replace(ROW, fraction=0.5)))
    assert leaderboard.differences(ENTRY, dearer)
    assert "only" in leaderboard.differences(ENTRY, replace(ENTRY, rows=(UNPRUNED, replace(ROW, budget=0.4))))[0]


@pytest.mark.parametrize("options", [{"tasks": "mine=mine.jsonl"}, {"data": "mine.jsonl"}])
def test_what_nobody_else_has_is_not_run_again(options):
    assert leaderboard.can_rerun(ENTRY)
    assert not leaderboard.can_rerun(replace(ENTRY, options=options))
    assert not leaderboard.can_rerun(replace(ENTRY, model="Qwen/Qwen2.5-VL-3B-Instruct"))
