"""A sweep runs every configuration once, records what fails, refuses what is foreign, and can be stopped."""

from __future__ import annotations

import json

import optuna
import pytest

from sweep import broken
from sweep.synthetic import LAYERS, Factory, evaluated, fraction, run_sweep
from vispco.core.errors import InvalidInputError
from vispco.evaluation.frontier import Frontier
from vispco.sweep.pools import WorkerError
from vispco.sweep.study import open_storage


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def run(tmp_path, log):
    """`sweep.run` of a grid of 100 in this process, unless told otherwise."""

    def start(factory=None, **options):
        settings = {"name": "study", "space": "single", "strategy": "grid", "num_layers": LAYERS, "workers": 0}
        settings |= {"directory": tmp_path, "fingerprint": {"model": "tiny", "tasks": ["synthetic"]}}
        return run_sweep(factory or Factory(log), **(settings | options))

    return start


def trials(directory, name="study"):
    return optuna.load_study(study_name=name, storage=open_storage(None, directory).backend).trials


def test_two_workers_evaluate_every_configuration_once(run, log, tmp_path):
    found = run(workers=2)
    assert len(evaluated(log)) == len(set(evaluated(log))) == len(found) == 100
    assert found == run(directory=tmp_path / "inline")


@pytest.mark.parametrize("strategy", ["grid", "random"])
def test_a_finished_sweep_does_nothing_more(run, log, strategy):
    first = run(strategy=strategy, trials=100)
    assert run(strategy=strategy, trials=100) == first
    assert len(evaluated(log)) == 100


def test_more_trials_are_added_to_those_that_were_run(run, log):
    few = run(strategy="random", space="free", trials=10)
    many = run(strategy="random", space="free", trials=25)
    assert len(evaluated(log)) == 25
    assert few.merge(many) == many


@pytest.mark.parametrize("storage", ["journal", "sqlite"])
def test_the_ledger_is_an_ordinary_study(run, tmp_path, storage):
    url = f"sqlite:///{tmp_path}/study.db" if storage == "sqlite" else None
    found = run(strategy="random", trials=8, storage=url)
    study = optuna.load_study(study_name="study", storage=open_storage(url, tmp_path).backend)
    assert [d.name for d in study.directions] == ["MINIMIZE", "MAXIMIZE"]
    assert sorted(t.values[1] for t in study.best_trials) == sorted(p.accuracy for p in found.front)
    assert all({"layer", "keep"} == set(t.params) for t in study.trials)


@pytest.mark.parametrize("strategy", ["random", "tpe", "nsga2"])
@pytest.mark.parametrize("space", ["stages", "kernel:linear"])
def test_a_seed_decides_all(run, tmp_path, strategy, space):
    options = {"strategy": strategy, "space": space, "trials": 16}
    one, again, other = (run(directory=tmp_path / f"{i}", seed=seed, **options) for i, seed in enumerate([1, 1, 2]))
    assert one == again
    assert one != other


def test_search_by_tpe_beats_chance(run, tmp_path):
    options = {"space": "free", "trials": 60}
    chance = run(directory=tmp_path / "random", strategy="random", **options)
    assert run(directory=tmp_path / "tpe", strategy="tpe", **options).hypervolume() > chance.hypervolume()


@pytest.mark.parametrize(
    ("strategy", "space"), [("grid", "single"), ("random", "free"), ("tpe", "stages"), ("tpe", "single")]
)
def test_a_budget_holds_for_every_point(run, strategy, space):
    trials = None if strategy == "grid" else 12
    found = run(strategy=strategy, space=space, trials=trials, budget=(0.5, 0.6), cost=fraction)
    assert len(found) >= 3
    assert all(0.5 <= found.cost(point) <= 0.6 for point in found)


def test_a_schedule_that_a_sampler_comes_upon_again_is_not_evaluated_again(run, log):
    found = run(strategy="tpe", trials=60, num_layers=2)  # there are only 20
    assert len(evaluated(log)) == len(set(evaluated(log))) == len(found) <= 20


def test_a_configuration_that_fails_is_recorded_and_the_sweep_goes_on(run, log, tmp_path):
    found = run(Factory(log, fails_at=0.51, nan_at=0.26))
    assert len(found) == 90
    errors = [t.user_attrs["error"] for t in trials(tmp_path) if t.state.name == "FAIL"]
    assert sum("ZeroDivisionError: no such number as 0.51" in error for error in errors) == 5
    assert sum("cannot be recorded: The accuracy of the point config=grid:" in error for error in errors) == 5
    run(Factory(log))
    assert len(evaluated(log)) == 100, "a failure is not tried again"


def test_an_evaluator_that_cannot_be_built_ends_the_sweep(run):
    for workers in (0, 1):
        with pytest.raises(WorkerError, match="could not be built: OSError: no such model"):
            run(broken.factory, workers=workers)


def test_a_study_of_something_else_is_refused_with_both_named(run):
    run(strategy="random", trials=3)
    with pytest.raises(InvalidInputError, match=r"'study' in .* has model='tiny'; this one has model='large'"):
        run(strategy="random", trials=3, fingerprint={"model": "large", "tasks": ["synthetic"]})
    with pytest.raises(InvalidInputError, match=r"has space='single'; this one has space='free'"):
        run(strategy="random", trials=3, space="free")
    assert len(run(strategy="random", trials=3, space="free", name="other")) == 3


def test_a_study_that_is_not_ours_is_refused(run, tmp_path):
    study = optuna.create_study(
        storage=open_storage(None, tmp_path).backend, study_name="study", directions=["minimize", "maximize"]
    )
    study.ask()
    with pytest.raises(InvalidInputError, match="was not made by vispco"):
        run()


def test_an_interrupt_leaves_a_usable_frontier_and_loses_nothing(run, log, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(Factory(log, interrupts_at=30))
    saved = Frontier.load(tmp_path / "study.frontier.json")
    assert len(saved) == 30
    found = run()
    assert found == run(directory=tmp_path / "uninterrupted")
    assert Frontier.load(tmp_path / "study.frontier.json") == found


def test_progress_counts_and_shows_the_best(run, log):
    seen = []
    run(Factory(log, fails_at=0.51), on_progress=seen.append)
    assert [p.settled for p in seen] == sorted(p.settled for p in seen)
    assert (seen[0].settled, seen[0].eta, seen[0].best) == (0, None, {})
    last = seen[-1]
    assert (last.done, last.failed, last.total, last.running, last.eta) == (95, 5, 100, 0, 0.0)
    assert [last.best[b].accuracy for b in sorted(last.best)] == sorted(p.accuracy for p in last.best.values())
    assert set(last.best) == {0.5, 0.75, 1.0}  # nothing costs a quarter
    assert seen[0].line == "0/100 configurations, 0 running"
    assert last.line.startswith(
        f"100/100 configurations, 0 running, 5 failed; best by budget: 50%: {last.best[0.5].accuracy:.4f}, "
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"strategy": "random", "trials": 0}, "trials=0 was given"),
        (
            {"storage": "postgresql://me:secret@127.0.0.1:9/db"},
            r"postgresql://me:\*\*\*@127.0.0.1:9/db cannot be reached",
        ),
        ({"storage": "sqlite:////nowhere/at/all.db"}, "cannot be opened: No such file or directory"),
        ({"storage": "nonsense://"}, "nonsense:// cannot be opened: Can't load plugin"),
        ({"storage": "/proc/journal.log"}, "journal /proc/journal.log cannot be opened"),
        ({"budget": (0.0, 0.2), "cost": fraction}, "below the floor"),
        ({"budget": (0.2, 0.4)}, "without `cost`"),
        ({"name": "../up"}, "it names a file"),
        ({"workers": -1}, "workers=-1"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_input_is_answered_with_one_sentence(run, options, sentence):
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        run(**options)
    assert "\n" not in str(caught.value)


def test_the_frontier_file_names_the_study_and_the_configuration(run, tmp_path):
    run(strategy="random", trials=1)
    data = json.loads((tmp_path / "study.frontier.json").read_text())
    assert data["points"][0]["provenance"] == {"study": "study", "config": "random:0"}
