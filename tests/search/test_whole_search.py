"""Budgets of the whole prefill: a setting of pictures for each, and the language model under it."""

import pytest
import torch

import tiny
import vispco
from vispco.core.errors import InvalidInputError
from vispco.cost import Budget
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.pruner.picture_setting import PictureSetting
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.search import whole_search
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.modes import SearchRun
from vispco.search.run_search import search
from vispco.search.search_spec import Effort, SearchSpec
from vispco.search.whole_search import TowerSpace

LITTLE = JointSettings(
    rungs=(8, 8, 8),
    shapes=2,
    chains=1,
    neighbours=1,
    inherited=1,
    shortlist=(2, 1),
    anchors=2,
    compensations=(),
)
SPACE = {"blocks": (0.4,), "keeps": (0.5, 0.3), "chains": ("divprune",), "samples": (8, 8), "shapes": 1}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A search of tiny-llava with smaller pictures among its settings, in a folder."""
    monkey = pytest.MonkeyPatch()
    monkey.setattr(whole_search, "TowerSpace", lambda pixels: TowerSpace(pixels=pixels, **SPACE))
    model, processor = vispco.load("tiny-llava")
    spec = SearchSpec.choose(
        scorers=["divprune", "divprune+fastv"],
        budgets=("0.35p", "mean:0.5p"),
        pixels=(1.0, 0.8),
        effort=Effort(batch_size=8, joint=LITTLE),
    )
    folder = tmp_path_factory.mktemp("whole") / "run"
    frontier = search(
        model, processor, list(dataset("calibration", "all", 1)), spec=spec, directory=folder, test=list(dataset("test", "all", 1))
    )  # fmt: skip
    monkey.undo()
    return model, processor, folder, frontier


def test_each_budget_has_a_setting_that_is_saved_and_holds_for_every_sample_by_torchs_counter(found):
    model, processor, folder, frontier = found
    assert [point.provenance["asked"] for point in frontier.points] == ["0.35p", "mean:0.5p,max:1p"]
    assert any("tower" in point.provenance["pictures"] for point in frontier.points)
    assert frontier.points[0].schedule.tower is not None  # one curve through the whole depth
    pruner = vispco.Pruner.from_pretrained(folder, budget="0.35p")
    for sample in dataset("test", "counting", 3, seed=4):
        whole = tiny.prefill_flops(model, encode(model, processor, [sample]).inputs)
        shown = encode(model, processor, [sample], pruner=pruner)
        with pruner(model):
            spent = tiny.prefill_flops(model, shown.inputs)
        assert 0.25 * whole < spent <= 0.35 * whole


def test_a_budget_between_takes_the_nearest_part_and_a_mean_is_kept_about(found):
    model, processor, folder, _ = found
    loaded = PrunerSpec.load(folder)
    assert loaded.at("0.37p").budget == "0.37p"
    assert loaded.at("0.37p").planner["setting"] == loaded.at("0.35p").planner["setting"]
    judge = vispco.evaluation.TaskEvaluator(model, processor, list(dataset("test", "all", 2, seed=4)))
    mean = judge(loaded.at("mean:0.5p").resolve(model))
    assert mean.fraction["prefill"] <= 0.53
    assert loaded.at("mean:0.45p").planner["setting"] == loaded.at("mean:0.5p").planner["setting"]
    with pytest.raises(InvalidInputError, match="searched for budgets of the whole prefill"):
        loaded.at(0.4)


def test_a_part_is_a_pruner_that_can_be_saved_and_plans_the_same(found):
    model, processor, folder, frontier = found
    loaded = PrunerSpec.load(folder)
    loaded.at("0.35p").save(folder.parent / "copy")
    again = PrunerSpec.load(folder.parent / "copy")
    assert again.planner["setting"] == loaded.at("0.35p").planner["setting"]
    encoded = encode(model, processor, list(dataset("test", "word", 2)))
    plans = []
    for spec in (again, loaded.at("0.35p")):
        pruner = spec.resolve(model)
        shown = encode(model, processor, list(dataset("test", "word", 2)), pruner=pruner)
        with pruner(model), torch.no_grad():
            model(**shown.inputs)
            plans.append(pruner.token_counts(model))
    assert torch.equal(*plans)
    assert max(plans[0][0]) < encoded.num_visual[0]
    assert len(frontier.points) == 2


def test_budgets_of_both_kinds_and_other_modes_are_refused():
    with pytest.raises(InvalidInputError, match="Give all of the whole prefill"):
        SearchSpec.choose(budgets=("0.4p", 0.5))
    with pytest.raises(InvalidInputError, match="go together with a joint search"):
        SearchSpec.choose("fastv", budgets=("0.4p",))
    with pytest.raises(InvalidInputError, match="go together with a joint search"):
        SearchSpec.choose(budgets=(0.4,), pixels=(1.0, 0.5))
    spec = SearchSpec.choose(budgets=("0.4p", "mean:0.5p"), pixels=(1.0, 0.5))
    assert SearchSpec.from_dict(spec.to_dict()) == spec


def test_fewer_pixels_and_other_scorers_are_tried_where_a_cut_is_best_and_the_last_comparison_decides(monkeypatch):
    tried = []

    def losses(candidate, budget, samples, shapes):
        """Few samples flatter scope; 75 % of the pixels and half of the cells behind block 2 are best in truth."""
        tried.append((candidate.setting.name, samples, shapes))
        block, scorer = candidate.setting.cut.chain.tower[0] if candidate.setting.cut else (0, None)
        off = abs(candidate.setting.pixels - 0.75) + abs((candidate.setting.retention or (1.0,))[-1] - 0.5)
        lucky = scorer is not None and scorer.name == "scope" and samples == 4
        return torch.full((1, 1), 1.0 + off + (block != 2) - 0.5 * lucky) if block else None

    monkeypatch.setattr(whole_search, "shape_losses", losses)
    model, processor = vispco.load("tiny-llava")
    spec = SearchSpec.choose(budgets=("0.4p",), pixels=(1.0, 0.75))
    run = SearchRun.prepare(model, processor, list(dataset("calibration", "all", 1)), spec)
    space = TowerSpace(pixels=spec.pixels, samples=(4, 8), finalists=2)
    budget = Budget.of("0.4p")
    names = [each.setting.name for each in whole_search.compare_settings(run, processor, space, [budget])[budget]]
    assert names[0] == "75% of the pixels, divprune@tower.2 keeps 50%"
    assert "75% of the pixels, scope@tower.2 keeps 50%" in names
    assert {(name, 8, 1) for name in names} == {each for each in tried if each[1] == 8}
    assert not any("scope" in name and ("tower.1" in name or "75%" not in name) for name, *_ in tried)
    assert len(tried) <= 11 + 2 + 4 + 4


def test_settings_of_pictures_are_data():
    for setting in (PictureSetting(), PictureSetting(0.5), PictureSetting.cut_at("divprune", 2, 0.5, 5)):
        assert PictureSetting.from_dict(setting.to_dict()) == setting
    assert PictureSetting.cut_at("divprune", 2, 0.5, 5).retention == (1.0, 1.0, 0.5, 0.5, 0.5)
    assert Budget.of("mean:0.4p").cap == 1.0
