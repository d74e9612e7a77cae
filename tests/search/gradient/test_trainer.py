"""The trainer: it lowers its loss, two processes equal one, a killed run resumes to the same numbers, NaN is told."""

import json
import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from search.random_batches import make_trainer
from vispco.core.errors import InvalidInputError
from vispco.core.progress_lines import ProgressBar
from vispco.core.runs.checkpoint_file import load_checkpoint
from vispco.search.gradient.projection import Pricing
from vispco.search.gradient.static import DivergenceError
from vispco.search.gradient.training_loop import CHECKPOINT, _values_text
from vispco.search.gradient.training_settings import batch_index, draw_budgets
from vispco.search.initial_shapes import initial_shapes

SCRIPT = Path(__file__).parents[1] / "train_script.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
solvers = pytest.mark.parametrize("solver", ["lagrangian", "projection"])


def tensors(folder):
    return load_checkpoint(Path(folder) / CHECKPOINT)[0]


@solvers
def test_it_trains_and_tells_what_it_does(solver, tmp_path):
    trainer = make_trainer(tmp_path, solver)
    before = {k: v.clone() for k, v in trainer.module.state_dict().items()}
    history = trainer.run()
    after = trainer.module.state_dict()
    assert len(history) == 6
    assert not torch.equal(before["trunk.2.weight"], after["trunk.2.weight"])
    assert ("violation" in history[-1]) == (solver == "lagrangian")
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(6))
    assert trainer.objective.spent.backward == 2 * trainer.objective.spent.forward > 0


def test_the_lagrangian_drives_the_violation_down():
    trainer = make_trainer(None, "lagrangian", steps=30, inner=5, rate=4e-2)
    history = [record for record in trainer.run() if "violation" in record]
    assert history[-1]["violation"] < 0.5 * history[0]["violation"]


@pytest.mark.parametrize("kernel", ["single", "p-sigmoid", "linear", "exponential", "multi-step"])
def test_no_budget_is_drawn_that_no_curve_of_the_kernel_costs(kernel):
    trainer = make_trainer(None, "lagrangian", kernel=kernel)
    batch, cost = trainer.batches[0], trainer.objective.cost
    lowest = trainer.lowest_budgets(batch)
    prices = Pricing(trainer.objective.workload(batch.sizes), cost)
    pool = initial_shapes(trainer.kernel, cost.num_layers)  # where trainings begin
    low, high, generator = pool.amin(0), pool.amax(0), torch.Generator().manual_seed(0)
    shapes = low + (high - low) * torch.rand(400, pool.shape[1], dtype=torch.float64, generator=generator)
    shapes[:, trainer.kernel.budget_parameter] = 12 * torch.randn(400, dtype=torch.float64, generator=generator)
    curves = [trainer.kernel(shape.expand(len(batch), 2), cost.num_layers) for shape in shapes]
    least = torch.stack([prices.fraction(curve) for curve in curves]).amin(0)
    assert (least >= lowest - 1e-3).all()
    assert (least <= lowest + 0.02).all()
    if kernel == "multi-step":  # its first step leaves two thirds of the tokens to the layers before the second
        assert (lowest > cost.lowest_fraction(prices.workload) + 0.1).all()


def test_two_processes_do_what_one_does(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    make_trainer(one, "lagrangian", 4).run()
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    command += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    subprocess.run([*command, SCRIPT, two, "lagrangian", "4"], check=True, env=ENVIRONMENT, capture_output=True)
    alone, shared = tensors(one), tensors(two)
    assert alone.keys() == shared.keys()
    for name, value in alone.items():
        if name != "statistics":  # sums over one rank, means over two
            assert torch.allclose(value.float(), shared[name].float(), rtol=1e-3, atol=1e-5), name


def test_a_run_that_was_killed_goes_on_to_the_same_numbers(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    make_trainer(whole, "lagrangian").run()
    killed = subprocess.run([sys.executable, SCRIPT, cut, "lagrangian", "6", "5"], check=False, env=ENVIRONMENT)
    assert killed.returncode == -signal.SIGKILL
    again = make_trainer(cut, "lagrangian")
    assert again.step == 4
    again.run()
    expected, found = tensors(whole), tensors(cut)
    assert all(torch.allclose(expected[n].float(), found[n].float(), rtol=1e-5, atol=1e-7) for n in expected)


def test_nan_stops_with_a_sentence_and_the_last_good_checkpoint(tmp_path):
    trainer = make_trainer(tmp_path, "projection")
    own = trainer.loss

    def poisoned(batch, place):
        kl, penalty = own(batch, place)
        return (kl * torch.nan if trainer.step == 3 else kl), penalty

    trainer.loss = poisoned
    with pytest.raises(DivergenceError, match=r"step 3.*last good checkpoint.*Lower the rate"):
        trainer.run()
    found, counters = load_checkpoint(tmp_path / CHECKPOINT)
    assert counters["step"] == 2
    assert all(bool(t.isfinite().all()) for n, t in found.items() if n.startswith("predictor"))


def test_another_plan_does_not_take_over_a_run(tmp_path):
    make_trainer(tmp_path, "projection", 2).run()
    with pytest.raises(InvalidInputError, match="another plan"):
        make_trainer(tmp_path, "projection", 2, inner=3)


def test_a_damaged_checkpoint_is_told(tmp_path):
    (tmp_path / CHECKPOINT).write_bytes(b"nothing")
    with pytest.raises(InvalidInputError, match="delete it to start again"):
        load_checkpoint(tmp_path / CHECKPOINT)


def test_draws_depend_on_seed_and_place_alone():
    assert sorted(batch_index(place, 5, 3) for place in range(5, 10)) == [0, 1, 2, 3, 4]
    floor = torch.tensor([0.2, 0.9], dtype=torch.float64)
    drawn = torch.stack([draw_budgets(place, floor, 1) for place in range(200)])
    assert bool(((drawn >= floor) & (drawn <= 1)).all())
    assert drawn[:, 0].mean().item() == pytest.approx(0.6, abs=0.05)
    assert torch.equal(draw_budgets(7, floor, 1), drawn[7])


def test_the_bar_tells_kl_violation_w_and_lambda():
    out = StringIO()
    with ProgressBar(total=3, console=Console(file=out, force_terminal=True, width=120)) as bar:
        bar.advance(1, _values_text({"kl": 0.123, "violation": 0.01, "w": 2.0, "lambda": 100.0}))
        bar.drawn.refresh()
    assert all(part in out.getvalue() for part in ("KL 0.123", "violation 0.01", "w 2", "λ 100"))
