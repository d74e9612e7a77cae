"""Candidates on a real model: FLOPs and bytes are exact, times are of the right parts, the model is as it was."""

import json
import subprocess
import sys

import pytest
import torch

from vispco import Pruner, Schedule, cost, load
from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.evaluation.spec import EvaluatorSpec
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain, MixedChain
from vispco.scorers.cost import workload_under
from vispco.scorers.mixture import chains_of
from vispco.timing import BenchSettings, time_candidates
from vispco.timing.candidate_options import CandidateOptions
from vispco.timing.memory import Peak, _peak_in_child_process
from vispco.timing.prefill import _PartClock, count_flops, kv_bytes, time_parts

LAYERS = 8
HALF = PrunerSpec.of_schedule("fastv", Schedule.single(2, 0.25, LAYERS))


@pytest.fixture(scope="module")
def ground():
    model, processor = load("tiny-llava")
    return model, processor, list(dataset("test", "attribute", limit=2))


@pytest.fixture(scope="module")
def rows(ground):
    seen = []
    found = time_candidates(
        *ground, {"half": HALF}, BenchSettings(rounds=2, new_tokens=3), on_progress=lambda *told: seen.append(told[:2])
    )
    assert seen[-1] == (12, 12)  # (2 rounds + 1) x 2 prompts x 2 candidates
    return found


def test_the_unpruned_model_comes_first_and_is_its_own_reference(rows):
    first = rows[0]
    assert (first.configuration, first.scorer, first.flops) == ("unpruned", None, 1.0)
    assert set(first.speedup.values()) == {1.0}
    assert first.parts_ms["predictor"] == first.parts_ms["scoring"] == 0.0


def test_flops_and_what_they_imply_are_the_cost_models(rows, ground):
    model, processor, samples = ground
    exact = cost.get("exact", model.config)
    pruned = whole = 0
    for sample in samples:
        encoded = encode(model, processor, [sample])
        workload = workload_under(
            Chain.of("fastv"), exact.dimensions, encoded.num_text, encoded.num_visual, encoded.num_instruction
        )
        whole += int(exact.full(workload).sum())
        pruned += int(exact.bill(HALF.schedule.counts(list(encoded.num_visual)), workload).sum())
    assert rows[1].flops == pruned / whole
    assert rows[1].speedup["language_implied"] == whole / pruned
    assert 1.0 < rows[1].speedup["ttft_implied"] < rows[1].speedup["language_implied"]  # the vision tower stays


def test_the_cache_holds_what_the_cost_model_says(rows, ground):
    model, processor, samples = ground
    cache, sizes = cost.get("kv-bytes", model.config), []
    for sample in samples:
        encoded = encode(model, processor, [sample])
        counts = HALF.schedule.counts(list(encoded.num_visual))
        sizes.append(int(cache.price(counts, cost.Workload(encoded.num_text, encoded.num_visual))[0]))
    assert rows[1].kv_bytes == round(sum(sizes) / len(sizes))
    assert rows[1].kv_bytes < rows[0].kv_bytes


def test_times_are_there_for_every_part(rows):
    pruned = rows[1]
    assert all(pruned.parts_ms[part] > 0 for part in ("vision", "scoring", "language"))
    assert pruned.ttft_ms["p95"] >= pruned.ttft_ms["p50"] > 0
    assert pruned.decode_tokens_per_second > 0
    assert json.loads(json.dumps(pruned.to_dict()))["scorer"] == "fastv"


def test_the_parts_see_the_same_cache_as_a_plain_forward_pass(ground):
    model, processor, samples = ground
    encoded = encode(model, processor, samples[:1])
    with torch.no_grad():
        plain = model(**encoded.inputs, use_cache=True)
    assert time_parts(model, encoded, None).kv_bytes == kv_bytes(plain.past_key_values)
    assert count_flops(model, encoded, HALF.resolve()) < count_flops(model, encoded, None)


@pytest.mark.parametrize(
    "named",
    [["single:2:0.5", "single:2:0.5"], ["single:2:0.5", "single:2:0.5", "full"]],
)
def test_names_must_differ(ground, named):
    with pytest.raises(InvalidInputError, match="a name twice"):
        CandidateOptions(schedule=named).candidates()
    with pytest.raises(InvalidInputError, match="Give it another name"):
        time_candidates(*ground, {"unpruned": HALF})


def test_a_race_needs_prompts_and_rounds(ground):
    with pytest.raises(InvalidInputError, match="No samples"):
        time_candidates(*ground[:2], [], {"half": HALF})
    with pytest.raises(InvalidInputError, match="new_tokens=1"):
        BenchSettings(new_tokens=1)


def test_the_child_is_told_what_to_measure_and_its_failure_is_a_sentence(monkeypatch):
    spec, told = EvaluatorSpec(model="tiny-llava", tasks=("attribute",), limit=1), {}

    def run(command, **given):
        told.update(command=command, given=json.loads(given["input"]))
        return subprocess.CompletedProcess(command, 0, 'noise\n{"whole": 5, "raised": 2}\n', "")

    monkeypatch.setattr(subprocess, "run", run)
    assert _peak_in_child_process(spec, HALF) == Peak(5, 2)
    assert told["command"] == [sys.executable, "-m", "vispco.timing.memory"]
    assert EvaluatorSpec.from_dict(told["given"]["spec"]) == spec
    assert PrunerSpec.from_dict(told["given"]["pruner"]) == HALF
    failed = subprocess.CompletedProcess([], 9, "", "out of memory\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="ended with code 9: out of memory"):
        _peak_in_child_process(spec, HALF)


def test_a_process_of_its_own_knows_its_peak():
    spec = EvaluatorSpec(model="tiny-llava", tasks=("attribute",), limit=1)
    peak = _peak_in_child_process(spec, HALF)
    assert peak.whole > 50 * 2**20  # torch alone is more
    assert 0 <= peak.raised < peak.whole


def test_a_watched_pruner_keeps_the_chains_of_a_mixed_one():
    mixed = Pruner(MixedChain.of_chains(["divprune+fastv", "fastv"]), Schedule.full(4))
    watched = _PartClock(torch.device("cpu")).watch(mixed)
    assert chains_of(watched.chain) == chains_of(mixed.chain)
    assert [layer for layer, _ in watched.chain.stages] == [0, 1]
