"""The examples of CONTRIBUTING are whole files: they have the lines that it promises, they run, and they obey the laws."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch

from docs.pages import ROOT
from search.random_batches import zoo_model
from tiny import DEFAULT, FIRST_CLASS, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule, kernels, metrics
from vispco import cost as costs
from vispco.core.errors import InvalidInputError
from vispco.core.registry import preserved
from vispco.cost import Workload, counts_for_budget
from vispco.data import dataset
from vispco.data.files.record import Record, Turn
from vispco.families import FAMILIES, family_of
from vispco.metrics.protocols import AskSettings
from vispco.search.run_search import search

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PROMISED = {
    "A scorer": 20,
    "A set, before the language model": 40,
    "A method that merges": 60,
    "A threshold of its own": 60,
    "A cost": 80,
    "A kernel": 60,
    "A benchmark": 40,
}
BATCH = [DEFAULT, (words(2, 7), picture(2, 3), words(4, 8))]


def sections() -> dict[str, tuple[int | None, str]]:
    """Of each heading that has an example: the lines that it promises, and the example."""
    found = {}
    for title, body in re.findall(r"^### (.+?)$(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE):
        name, _, promise = title.partition(":")
        block = re.search(r"^```python\n(.*?)^```", body, re.DOTALL | re.MULTILINE)
        if block is not None:
            number = re.search(r"\d+", promise)
            found[name] = (None if number is None else int(number[0]), block[1])
    return found


@pytest.fixture
def run():
    """Run an example as a file; what it registers is gone after the test."""
    known = dict(FAMILIES)

    def execute(name):
        names = {"__name__": "example"}
        exec(compile(sections()[name][1], f"CONTRIBUTING, {name}", "exec", dont_inherit=True), names)  # noqa: S102
        return names

    with preserved():
        yield execute
    FAMILIES.clear()
    FAMILIES.update(known)


BROKEN = """
from dataclasses import dataclass
import torch
from vispco.cost import COSTS, Cost
from vispco.kernels import KERNELS, Kernel
from vispco.metrics.protocols import AskSettings
from vispco.metrics import METRICS
from vispco.pruner.presets import Preset, register as register_preset
from vispco.pruner.presets.setting import Setting
from vispco.scorers import Scorer, register


@register
class Raises(Scorer):
    name = "broken"
    def score(self, context):
        raise RuntimeError


@KERNELS.register
@dataclass(frozen=True, kw_only=True)
class Grows(Kernel):
    name = "broken"
    def parameter_names(self, num_layers): return ("r",)
    def initial(self, num_layers): return torch.zeros(1, dtype=torch.float64)
    def describe(self, params, num_layers): return {"r": 0.5}
    def _curve(self, params, depth, gamma):
        return self._retention(params[..., :1]) * depth / depth.numel()


@COSTS.register
@dataclass(frozen=True)
class Falls(Cost):
    name = "broken"
    def price(self, counts, workload): return 10**6 - counts.sum(-1)


METRICS.register(lambda prediction, item: prediction[0] == item.references[0][0], name="broken")
register_preset(Preset(name="broken", paper="", chain=((2, "broken"),), settings={"half": Setting.shares({2: 0.5})}))
"""


def test_the_commands_that_are_named_fail_for_what_is_broken(tmp_path):
    """A new scorer whose `score` raises, a kernel that grows, a cost that falls, a metric that trips over nothing."""
    commands = dict(re.findall(r"^\| ([a-z, ]+) \| `(tests/.+?)` \|$", PAGE, re.MULTILINE))
    assert list(commands) == ["scorer", "kernel", "cost", "metric, benchmark", "preset"]
    (tmp_path / "broken_plugin.py").write_text(BROKEN)
    paths = [path for command in commands.values() for path in command.split()]
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            "-k",
            "broken",
            "-p",
            "broken_plugin",
            "-p",
            "no:cacheprovider",
            *paths,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    for command in commands.values():
        assert any(f"FAILED {path}" in found for path in command.split()), (command, found[-3000:])


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_has_the_lines_that_are_promised(name):
    promised, code = sections()[name]
    assert promised == PROMISED[name]
    assert len(code.splitlines()) <= promised


def test_nothing_else_is_shown_without_being_run_here():
    assert set(sections()) == {*PROMISED, "A model family"}


@torch.no_grad()
def logits(model, x, pruner=None):
    if pruner is None:
        return model(**x).logits[:, -1]
    with pruner(model):
        return model(**x).logits[:, -1]


@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize(
    ("section", "name", "schedule"),
    [
        ("A scorer", "loud", (0.8, 0.5, 0.5, 0.25)),
        ("A set, before the language model", "corners", (0.5, 0.5, 0.25, 0.25)),
        ("A method that merges", "fold", (1.0, 0.5, 0.5, 0.25)),
        ("A threshold of its own", "coverage", (1.0, 1.0, 0.9, 0.9)),
    ],
)
def test_a_method_obeys_the_laws_of_the_engine(run, family, section, name, schedule):
    run(section)
    model, x = build(family), inputs(family, BATCH)
    pruner = Pruner(name, Schedule(schedule))
    dropped = logits(model, x, pruner)
    whole = Schedule((1.0,) * LAYERS)
    if not pruner.chain.decides_count:  # a threshold prunes what the schedule does not
        assert torch.equal(logits(model, x, Pruner(name, whole)), logits(model, x))
    for row, sample in enumerate(BATCH):
        alone = logits(model, inputs(family, [sample], seed=0), pruner)
        assert alone.isfinite().all()
        if row == 0:
            torch.testing.assert_close(alone[0], dropped[0], atol=1e-4, rtol=1e-3)
    if pruner.chain.merges:
        with pytest.raises(InvalidInputError, match="merg"):
            logits(model, x, Pruner(name, Schedule(schedule), mode="mask"))
    else:
        torch.testing.assert_close(
            logits(model, x, Pruner(name, Schedule(schedule), mode="mask")), dropped, atol=1e-4, rtol=1e-3
        )


def test_a_threshold_keeps_less_than_the_plan_where_less_is_enough(run):
    run("A threshold of its own")
    model, x = build("llava"), inputs("llava", BATCH[:1])
    plan = Schedule((1.0, 1.0, 0.9, 0.9)).counts([16])
    for share, same in ((0.2, False), (1.0, True)):
        pruner = Pruner(f"coverage(share={share})", Schedule((1.0, 1.0, 0.9, 0.9)))
        with torch.no_grad(), pruner(model):
            model(**x)
            kept = pruner.token_counts(model)
        assert bool((kept <= plan).all())
        assert torch.equal(kept, plan) is same


def test_a_cost_meets_its_budget_and_can_be_searched_by(run, tmp_path):
    run("A cost")
    model, processor = zoo_model()
    tiles = costs.get("tiles", model.config)
    assert costs.from_dict(tiles.to_dict()) == tiles
    kernel = kernels.get("linear")
    workload = Workload(torch.tensor([9, 30]), torch.tensor([64, 100]), "entry", 1)
    budget = torch.tensor([0.6, 0.8], dtype=torch.float64)
    params = kernel.initial(tiles.num_layers).expand(2, -1)
    counts = counts_for_budget(kernel, params, budget, workload, tiles)
    assert bool((tiles.fraction_of_counts(counts, workload) <= budget).all())
    samples = dataset("calibration", limit=1)[:2]
    search(model, processor, samples, kernel="single", mode="line", budgets=[0.7], cost="tiles", directory=tmp_path)
    assert Pruner.from_pretrained(tmp_path, budget=0.6).spec.cost["name"] == "tiles"


def test_a_kernel_is_a_curve_whose_budget_can_be_solved(run):
    run("A kernel")
    kernel = kernels.get("cosine", earliest_layer=1)
    params = kernel.initial(12, r=0.3)
    assert kernel.describe(params, 12)["r"] == pytest.approx(0.3)
    curve = kernel(params, 12)
    assert bool((curve.diff() <= 1e-12).all())
    assert float(curve[0]) == 1.0
    assert bool((kernel(params + 1, 12) >= curve).all())
    assert torch.autograd.gradcheck(lambda p: kernel(p, 12), params.clone().requires_grad_())


def test_a_benchmark_is_found_asked_and_scored(run):
    run("A benchmark")
    known = metrics.benchmark("DocVQA_VAL")
    record = Record("1", "docvqa", (), (Turn("Who signed?", "J. Doe"),), ("J. Doe",))
    assert known.prompt(record) == "Who signed?\nAnswer with a few words."
    assert [AskSettings().score(known, text, record) for text in ("J. Doe, in 1998", "nobody")] == [1.0, 0.0]


def test_a_family_is_found_by_the_type_of_a_model(run):
    family = run("A model family")["MyVLM"]
    model = torch.nn.Module()
    model.config = type("Config", (), {"model_type": "my_vlm"})()
    model.decoder = torch.nn.Module()
    model.decoder.layers = torch.nn.ModuleList([torch.nn.Identity()])
    assert isinstance(family_of(model), family)
    assert family_of(model).text_model(model) is model.decoder
