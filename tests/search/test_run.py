"""A whole search on a small model: its directory deploys for any budget, and no sample ever goes over it."""

import json
import math
from dataclasses import replace

import pytest
import torch

from search.random_batches import zoo_model
from vispco import Schedule
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.runs.checkpoint_file import load_checkpoint
from vispco.cost import Workload
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.frontier import Frontier
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers.cost import workload_under
from vispco.search import presets
from vispco.search.gradient.static import DescentSettings
from vispco.search.gradient.training_loop import CHECKPOINT
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.run_search import search
from vispco.search.search_spec import SOLVERS, Effort, SearchSpec

SMALL = Effort(
    batch_size=4,
    descent=DescentSettings(starts=2, outer=1, inner=1, explore=3),
    one_chain=JointSettings(
        compensations=(),
        levels=(0.3, 0.6),
        ranking_levels=(0.3,),
        table_levels=(),
        rungs=(4, 4, 8),
        shapes=4,
        shortlist=(3, 2),
        anchors=2,
    ),
    training=TrainingSettings(steps=2, inner=1, save_every=1),
    predictor={"width": 16, "queries": 2},
)
WAYS = [(mode, solver) for mode, solvers in SOLVERS.items() for solver in solvers if mode != "joint"]


def load(folder, budget):
    """What runs: the chain and the planner of a folder at a budget."""
    pruner = PrunerSpec.choose(pruner=str(folder), budget=budget).resolve()
    return pruner.chain, pruner.schedule


@pytest.fixture(scope="module")
def samples():
    return dataset("calibration", limit=1)[:8]


def kernel_of(mode):
    return "single" if mode == "line" else "steps"


@pytest.mark.parametrize(("mode", "solver"), WAYS)
def test_every_way_to_search_leaves_a_directory_that_deploys(mode, solver, samples, tmp_path):
    model, processor = zoo_model()
    frontier = search(
        model,
        processor,
        samples,
        kernel=kernel_of(mode),
        mode=mode,
        solver=solver,
        budgets=[0.5],
        directory=tmp_path,
        effort=SMALL,
    )
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["mode"], config["solver"]) == (mode, solver)
    assert config["spent"]["teacher"] > 0
    assert config["spent"]["total"] > config["spent"]["teacher"]
    assert (tmp_path / "metrics.jsonl").read_text().strip()
    assert Frontier.load(tmp_path / "frontier.json") == frontier
    assert (tmp_path / "predictor" / "model.safetensors").is_file() == (mode == "predictor")
    for budget in (0.35, 0.83):
        assert_within(model, processor, samples, *load(tmp_path, budget), budget)
    schedule = PrunerSpec.load(tmp_path).static(0.6).schedule
    assert isinstance(schedule, Schedule)
    text, visual = config["typical"]
    cost = load(tmp_path, 0.6)[1].cost
    fraction = cost.fraction_of_counts(schedule.counts([visual]), Workload(text, visual))
    assert fraction.item() <= 0.6


def assert_within(model, processor, samples, scorer, planner, budget):
    """No sample over its budget, and none with room for a token more at the layers where it drops."""
    seen = []

    def noted(layout, embeddings):
        plan = planner(layout, embeddings)
        seen.append((layout, plan))
        return plan

    TaskEvaluator(model, processor, samples, scorer, batch_size=4, max_new_tokens=1)(noted)
    cost = planner.cost
    for layout, plan in seen:
        sizes = (torch.from_numpy(column.copy()) for column in layout.prompt_sizes.T)
        own = {"planning_flops": torch.tensor(plan.planning_flops)}
        workload, visual = (
            workload_under(planner.chain, cost.dimensions, *sizes, **own),
            torch.tensor(layout.num_visual),
        )
        counts = plan.counts
        full, floor = cost.full(workload).double(), cost.floor(workload).double()
        allowed = torch.maximum(torch.tensor(budget, dtype=torch.float64), floor / full)
        assert bool((cost.bill(counts, workload) / full <= allowed).all())
        before = torch.cat([visual[:, None], counts[:, :-1]], dim=1)
        for layer in range(counts.shape[1]):
            plateau = (counts == counts[:, layer : layer + 1]).long()
            more = counts + plateau
            room = (
                more[:, layer] < before[:, layer]
            )  # only where a plateau begins; who closes a gap has the choice paid back
            assert not bool((room & (cost.bill(more, workload) / full <= allowed)).any())


def test_the_seed_reaches_a_training_whose_plan_was_not_given(samples, tmp_path):
    model, processor = zoo_model()
    effort = replace(SMALL, batch_size=2, training=None)
    given = {"mode": "predictor", "solver": "projection", "budgets": [0.5], "effort": effort}
    search(model, processor, samples[:2], seed=7, directory=tmp_path, **given)
    _, counters = load_checkpoint(tmp_path / "training" / CHECKPOINT)
    assert counters["plan"]["seed"] == 7


def test_a_saved_predictor_deploys_by_itself(samples, tmp_path):
    model, processor = zoo_model()
    search(model, processor, samples, mode="predictor", budgets=[0.5], directory=tmp_path, effort=SMALL)
    scorer, planner = load(tmp_path / "predictor", 0.4)
    assert scorer.name == "fastv"
    assert_within(model, processor, samples, scorer, planner, 0.4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "magic"}, "static"),
        ({"mode": "static", "solver": "table"}, "projection"),
        ({"budgets": [0.0]}, "fraction"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        search(None, None, [], **wrong)


@pytest.mark.parametrize("budget", [0.0, 1.5, math.nan])
def test_a_budget_outside_of_its_range_is_refused(budget, tmp_path):
    with pytest.raises(InvalidInputError, match="fraction"):
        load(tmp_path, budget)


def test_a_folder_that_is_no_search_is_told(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InvalidInputError, match="not the directory of a search"):
        PrunerSpec.load(tmp_path).static(0.5)


def test_presets_are_the_papers_tables():
    class Config:
        model_type = "qwen2_5_vl"

    assert presets.for_model(Config, "single") == presets.get("qwen")
    assert presets.for_model(Config, "multi-step").epsilon == 0.05
    assert presets.for_model(Config, "exponential").rate == 5e-5
    Config.model_type = "gemma3"
    assert (presets.for_model(Config, "linear").lam, presets.for_model(Config, "linear").rate) == (1, 5e-4)
    Config.model_type = "llava"
    assert presets.for_model(Config, "steps").alpha == 10
    assert (presets.get("text").alpha, presets.get("text").rate) == (2, 4e-4)
    kept = SearchSpec.of(preset="text").to_dict()
    assert SearchSpec.from_dict({**kept, "preset": {**kept["preset"], "newer": 1}}).preset == presets.get("text")
    with pytest.raises(UnknownNameError, match="qwen"):
        presets.get("none")
