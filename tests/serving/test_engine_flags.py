"""Flags of engines that run less than a schedule: they meet its budget, and say what they give up."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from vispco import Pruner, Schedule
from vispco.cli.main import app
from vispco.core.errors import InvalidInputError
from vispco.cost import Workload
from vispco.pruner.planner_kinds import cost_of
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under
from vispco.serving.engine_flags import engine_flags

RUN = Path(__file__).parents[1] / "pruner" / "search_runs" / "static"  # fastv on tiny-llava
BUDGETS = (0.3, 0.5, 0.8)


def size_and_cost():
    config = PrunerSpec.load(RUN)
    return config.planner["typical"], cost_of(config)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_share_for_vllm_meets_the_budget_to_the_token(budget):
    found = engine_flags(RUN, budget, "vllm")
    (text, visual), cost = size_and_cost()
    load = workload_under(Chain.of("divprune"), cost.dimensions, text, visual)
    kept = round(found.values["keep"] * visual)
    prices = [float(cost.fraction_of_counts(torch.full((cost.num_layers,), n), load)) for n in (kept, kept + 1)]
    assert prices[0] <= budget < prices[1]
    assert found.fraction == pytest.approx(prices[0])
    assert "VispcoLlavaForConditionalGeneration" in found.flags
    assert any("in place of fastv" in sentence for sentence in found.gives_up)
    assert any("question" in sentence for sentence in found.gives_up)


@pytest.mark.parametrize("budget", BUDGETS)
def test_whole_per_cents_of_openvino_meet_the_budget(budget):
    found = engine_flags(RUN, budget, "openvino")
    ratio = found.values["pruning_ratio"]
    assert isinstance(ratio, int)
    assert 0 <= ratio <= 99
    assert found.fraction <= budget
    assert found.values["relevance_weight"] == 0.5


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_smaller_picture_meets_the_budget_to_the_token(budget):
    found = engine_flags(RUN, budget, "pixels")
    (text, visual), cost = size_and_cost()
    shown = found.values["image_tokens"]

    def price(number):
        return float(cost.full(Workload(torch.tensor(text), torch.tensor(number))))

    assert price(shown) <= budget * price(visual) < price(shown + 1)
    assert "max_pixels" not in found.values  # LLaVA has one size


def test_an_engine_that_is_none_and_a_budget_below_the_text_are_refused():
    with pytest.raises(InvalidInputError, match="Engines are vllm, openvino, pixels"):
        engine_flags(RUN, 0.5, "tgi")
    with pytest.raises(InvalidInputError, match="larger budget"):
        engine_flags(RUN, 0.001, "vllm")


def test_the_command_prints_flags_alone_on_stdout():
    found = CliRunner().invoke(app, ["export", str(RUN), "--budget", "0.5", "--for", "openvino"])
    assert json.loads(found.stdout.strip().splitlines()[-1]) == engine_flags(RUN, 0.5, "openvino").values
    whole = CliRunner().invoke(app, ["export", str(RUN), "--budget", "0.5", "--for", "pixels", "--json"])
    assert json.loads(whole.stdout)["gives_up"]


def test_a_saved_schedule_has_no_size_to_solve_for(tmp_path):
    Pruner("divprune", Schedule((0.5,) * 8)).save_pretrained(tmp_path)
    with pytest.raises(InvalidInputError):
        engine_flags(tmp_path, 0.5, "vllm")
