"""The joint search: chains and shapes together, every sample within its budget, saved and loaded, resumed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from search.random_batches import make_batches, zoo_model
from vispco import Pruner
from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco.engine.forward import recorded_embeddings
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.families import family_of
from vispco.pruner.configurations import Configurations, nearest_level, text_floor
from vispco.pruner.joint_planner import JointMeasuredPlanner, JointPlanner
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.observation import observe
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.joint_table import measure_joint_table
from vispco.search.joint.predictor_fit import fit_joint_predictor
from vispco.search.joint.space import chain_shapes, check_chains, default_chains, joint_kernel, read_chains
from vispco.search.modes import SearchRun, run_mode
from vispco.search.objective import Objective
from vispco.search.run_search import search
from vispco.search.search_spec import Effort, SearchSpec

CHAINS = tuple(Chain.of(name) for name in ("divprune", "fastv", "divprune+fastv", "cdpruner+v2drop"))
SMALL = JointSettings(
    levels=(0.4, 0.7),
    ranking_levels=(0.7,),
    table_levels=(),
    rungs=(3, 6, 6),
    shapes=3,
    chains=2,
    neighbours=4,
    shortlist=(4, 3),
    anchors=2,
)


@pytest.fixture(scope="module")
def made():
    model = tiny.build("qwen2_5_vl")
    objective = Objective(model, "fastv")
    batches = make_batches(count=4)
    table = measure_joint_table(objective, batches, CHAINS, SMALL)
    predictor, held_out = fit_joint_predictor(objective, table)
    return objective, batches, table, predictor, held_out


def test_a_measured_entry_is_the_kl_of_that_chain_alone(made):
    objective, batches, table, _, _ = made
    place = int((table.configurations.level == 0.7).nonzero()[0, 0])
    one = table.configurations.take([place])
    alone = ChainObjectives(Objective(objective.model, one.chains[0]), one.chains).measure(batches[0], one, 0.7)
    torch.testing.assert_close(table.kl[: len(batches[0]), place], alone[0])


def test_every_level_has_configurations_and_every_sample_some_kl(made):
    _, batches, table, predictor, held_out = made
    assert table.configurations.levels == [0.4, 0.7] == sorted(held_out)
    assert bool(table.kl.isfinite().any(-1).all())
    assert len(table.kl) == sum(map(len, batches))
    for level in (0.4, 0.7):
        assert bool(predictor.kept[predictor.level == level].any())


@pytest.mark.parametrize(
    "budget", [0.35, 0.5, 0.8, "mean:0.5,max:0.7", "mean:0.33,max:0.36"]
)  # the last: below any level
def test_every_sample_stays_within_its_budget(made, budget):
    _, batches, _, predictor, _ = made
    planner = JointPlanner(predictor, budget)
    limit = planner.budget.cap or planner.budget.amount
    for batch in batches:
        choice = planner.choose(batch.observation)
        plan = planner.plan(batch.observation, choice)
        for row, group in enumerate(plan.groups or (0,) * len(batch)):
            chain = planner.chains[planner.used[group]]
            size = workload_under(
                chain, planner.cost.dimensions, *batch.sizes[row], planning_flops=plan.planning_flops[row]
            )
            spent = float(planner.cost.bill(plan.counts[row], size)) / float(planner.cost.full(size))
            assert spent <= max(limit, float(planner.cost.lowest_fraction(size))) + 1e-12


def test_a_sample_gets_the_same_configuration_alone_and_in_a_batch(made):
    _, batches, _, predictor, _ = made
    planner = JointPlanner(predictor, 0.5)
    together = planner.choose(batches[0].observation)
    for row in range(len(batches[0])):
        alone = planner.choose(batches[0].observation.take(torch.tensor([row])))
        assert alone.anchor.tolist() == [together.anchor[row]]


@pytest.mark.parametrize("budget", [0.35, 0.5, "mean:0.5,max:0.7"])
def test_a_batch_is_planned_as_its_observation_is(made, budget):
    """What runs before a prefill reads the memory in a few operations; it must say what the predictor says."""
    objective, batches, _, predictor, _ = made
    planner = JointPlanner(predictor, budget)
    for batch in batches:
        with recorded_embeddings(objective.model) as seen, torch.no_grad():
            objective.model(**batch.encoded.inputs)
        layout = family_of(objective.model).layout(
            objective.model, batch.encoded.inputs, answers=batch.encoded.labels != -100
        )
        estimate = planner.reader.estimate(layout, seen[0])
        inside = planner.usable
        wanted = predictor.estimate(observe(layout, seen[0])).numpy()
        np.testing.assert_allclose(estimate[:, inside], wanted[:, inside], rtol=1e-4, atol=1e-6)
        expected = planner.plan(observe(layout, seen[0]), planner.choose(observe(layout, seen[0])))
        for _ in range(2):  # solved, and remembered
            found = planner(layout, seen[0])
            assert torch.equal(found.counts, expected.counts)
            assert found.groups == expected.groups


def test_a_saved_predictor_plans_the_same(made, tmp_path):
    _, batches, _, predictor, _ = made
    predictor.save_pretrained(tmp_path)
    again = JointPredictor.from_pretrained(tmp_path).eval()
    for budget in (0.5, "mean:0.45,max:0.7"):
        before, after = JointPlanner(predictor, budget), JointPlanner(again, budget)
        first = before.plan(batches[0].observation, before.choose(batches[0].observation))
        second = after.plan(batches[0].observation, after.choose(batches[0].observation))
        assert torch.equal(first.counts, second.counts)
        assert first.groups == second.groups


def test_the_bill_counts_every_measured_pass_once():
    model = tiny.build("qwen2_5_vl")
    objective = Objective(model, "fastv")
    batch = make_batches(count=1)[0]
    chains = ChainObjectives(objective, CHAINS[:1])
    pool = chain_shapes(chains.objectives[CHAINS[0]], joint_kernel(), 0.5, torch.tensor([[8, 16, 8, 0]]))
    one = Configurations(CHAINS[:1], torch.zeros(1, dtype=torch.int64), pool.params[:1], torch.tensor([0.5]).double())
    chains.measure(batch, one, 0.5)
    once = objective.spent.measured
    assert once > 0
    chains.measure(batch, one, 0.5)
    assert objective.spent.measured == pytest.approx(2 * once)


def test_a_chain_with_a_first_part_uses_it_and_servable_shapes_prune_once():
    model = tiny.build("qwen2_5_vl")
    size = torch.tensor([[8, 16, 8, 0]])
    pool = chain_shapes(Objective(model, "divprune+fastv"), joint_kernel(), 0.6, size)
    assert bool((pool.curves[:, 0] < 1).all())
    assert bool((chain_shapes(Objective(model, "fastv"), joint_kernel(), 0.6, size).curves[:, 0] == 1).all())
    servable = chain_shapes(Objective(model, "divprune"), joint_kernel(servable=True), 0.6, size, servable=True)
    assert len(servable) == 1
    assert len(set(servable.curves[0].tolist())) == 1
    drawn = joint_kernel(servable=True)(servable.params, tiny.LAYERS, gamma=math.inf)
    assert bool((drawn[:, 0] == drawn[:, -1]).all())


@pytest.mark.parametrize(("budget", "level"), [(0.05, 0.2), (0.29, 0.2), (0.3, 0.4), (0.9, 0.7)])
def test_a_share_is_served_by_the_nearest_level(budget, level):
    assert float(nearest_level(torch.tensor([budget]), [0.4, 0.2, 0.7])[0]) == level


def test_the_search_that_a_user_means():
    assert SearchSpec.choose().mode == "joint"
    assert SearchSpec.choose().chains == default_chains()
    assert SearchSpec.choose("fastv").mode == "predictor"
    assert SearchSpec.choose(None, ["divprune+fastv"]).mode == "predictor"
    assert SearchSpec.choose(mode="static").chain == Chain.of("fastv")
    assert SearchSpec.choose(servable=True).servable
    fixed = SearchSpec.choose(None, ["fastv", "divprune"], compensate=0.5)
    assert [chain.compensate for chain in fixed.chains] == [0.5, 0.5]
    assert fixed.effort.joint.compensations == ()
    assert SearchSpec.choose("fastv", compensate=0.5).chain == Chain.of("compensate=0.5:fastv")
    again = SearchSpec.from_dict(SearchSpec.choose(None, ["fastv", "divprune"], budgets=(0.3,)).to_dict())
    assert [str(chain) for chain in again.chains] == ["fastv", "divprune"]
    assert again.budgets == (0.3,)


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(InvalidInputError, match="begins at layer 1"):
        check_chains(["fastv"], servable=True)
    with pytest.raises(InvalidInputError, match="Keep one of them"):
        SearchSpec.choose("fastv", ["divprune"])
    with pytest.raises(InvalidInputError, match="one scorer"):
        SearchSpec.choose(None, ["divprune", "fastv"], mode="static")
    with pytest.raises(InvalidInputError, match="No scorers"):
        read_chains(" , ")


def test_chains_are_read_with_their_options():
    found = read_chains("fastv, cdpruner(variant=openvino,split=false)+fastv, fastv")
    assert [chain.name for chain in found] == ["fastv", "cdpruner+fastv"]


def test_a_search_without_a_scorer_leaves_a_folder_that_deploys_and_resumes(tmp_path):
    model, processor = zoo_model()
    samples = dataset("calibration", limit=1)[:8]
    effort = Effort(batch_size=4, joint=replace(SMALL, levels=(0.3, 0.6), ranking_levels=(0.3,)))
    asked = {"scorers": CHAINS, "budgets": [0.3, 0.6], "directory": tmp_path / "run", "effort": effort}
    frontier = search(model, processor, samples, **asked)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["mode"] == "joint"
    assert config["scorers"] == [str(chain) for chain in CHAINS]
    for point in frontier.points:
        followed = point.provenance["methods"]
        assert sum(each["share"] for each in followed) == pytest.approx(1.0)
        assert {Chain.of(each["chain"]).with_compensation(0.0) for each in followed} <= set(CHAINS)
    pruner = Pruner.from_pretrained(tmp_path / "run", budget="mean:0.4,max:0.6")
    result = TaskEvaluator(model, processor, samples, batch_size=4, max_new_tokens=1)(pruner)
    assert result.fraction["exact"] <= 0.6
    by_time = Pruner.from_pretrained(tmp_path / "run", budget="0.5t")
    assert isinstance(by_time.schedule, JointMeasuredPlanner)
    assert by_time.chain == by_time.schedule.chain
    pruner.save_pretrained(tmp_path / "saved")
    again = Pruner.from_pretrained(tmp_path / "saved")
    assert again.chain == pruner.chain
    assert PrunerSpec.load(tmp_path / "run").static(0.6).chain.with_compensation(0.0) in CHAINS
    resumed = search(model, processor, samples, **asked)
    assert [(p.accuracy, p.schedule) for p in resumed.points] == [(p.accuracy, p.schedule) for p in frontier.points]


def test_a_candidate_may_read_the_vision_tower():
    model, processor = zoo_model()
    effort = Effort(batch_size=2, joint=replace(SMALL, levels=(0.7,)))
    spec = SearchSpec.of_chains(["divprune", "hiprune"], budgets=(0.7,), effort=effort)
    run = SearchRun.prepare(model, processor, list(dataset("calibration", limit=1))[:4], spec)
    assert run.batches.store.vision == Chain.of("hiprune").needs_vision
    assert {chain.name.rpartition(":")[-1] for chain in run_mode(run).predictor.chains} <= {"divprune", "hiprune"}


def test_cacheable_chains_do_not_read_the_question():
    spec = SearchSpec.choose(cacheable=True)
    assert spec.cacheable
    assert [str(chain) for chain in spec.chains] == ["divprune", "v2drop", "divprune+v2drop"]
    assert SearchSpec.from_dict(spec.to_dict()) == spec
    both = SearchSpec.choose(cacheable=True, servable=True)
    assert [str(chain) for chain in both.chains] == ["divprune", "uniform"]
    with pytest.raises(InvalidInputError, match="reads the question"):
        check_chains(["cdpruner"], cacheable=True)


def test_a_hard_budget_takes_the_kind_of_chain_that_is_best_at_its_level_and_a_mean_the_one_with_all_levels():
    objective = Objective(tiny.build("qwen2_5_vl"), "divprune")
    chains = (Chain.of("divprune"), Chain.of("fitprune"))
    table = measure_joint_table(objective, make_batches(count=2), chains, SMALL)
    predictor, _ = fit_joint_predictor(objective, table)
    first, second = ((predictor.level - level).abs() < 1e-6 for level in (0.4, 0.7))
    predictor.kept[:] = True
    predictor.chain[:] = 0
    predictor.config.chains = [chain.to_dict() for chain in chains]
    predictor.chain[second.nonzero()[0]] = 1  # one level has fitprune, too
    predictor.memory.kl[:] = 0.5
    predictor.memory.kl[:, second.nonzero()[0]] = 0.1
    floor = float(text_floor(*predictor.sizes.median(0).values[:2, None], objective.cost)[0])
    assert JointPlanner(predictor, floor + 0.7 * (1 - floor)).chain == Chain.of("fitprune")
    assert JointPlanner(predictor, floor + 0.4 * (1 - floor)).chain == Chain.of("divprune")
    assert JointPlanner(predictor, "mean:0.6,max:0.9").chain == Chain.of("divprune")
    assert bool(first.any())
