"""What a profile says: a padded batch takes what its longest sample takes, and pruning pays from some size on."""

from __future__ import annotations

import pytest
import torch

import vispco
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost import Budget, Dimensions, Measured, Workload
from vispco.data import dataset
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.timing.prediction import _flops_share, break_even, measured_cost, predict_batch, said_fraction
from vispco.timing.throughput import QueueSettings, measure_throughput

L = 4
SIZE = Dimensions(
    num_layers=L, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, gated=True, windows=(None,) * L, vocab=9, dtype_bytes=4
)  # fmt: skip
LINE = Measured(SIZE, (0, 1000), (0.0, 10.0), fixed_ms=1.0, drop_ms=0.6)  # 0.01 ms a token and layer


def test_a_batch_takes_what_its_longest_sample_takes_at_each_layer():
    counts = torch.tensor([[10, 10, 2, 2], [4, 4, 4, 4]])
    found = predict_batch(LINE, counts, num_text=[1, 3], num_visual=[10, 4])
    assert found == pytest.approx(1.0 + 0.01 * (11 + 11 + 7 + 7) + 0.6)


def test_pruning_pays_once_it_saves_more_than_a_drop_takes():
    found = break_even(LINE, (1.0, 1.0, 0.5, 0.5), num_text=5)
    assert found == 61, "half of 61 tokens over two layers save 0.61 or 0.6 ms"
    workload = Workload(5, found)
    assert float(LINE.bill(torch.tensor([found, found, 30, 30]), workload)) < float(LINE.full(workload))
    assert break_even(LINE, (1.0, 1.0, 1.0, 1.0), num_text=5) is None


def test_without_a_profile_nothing_is_predicted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert measured_cost(vispco.load("tiny-llava")[0], 1) is None


def test_a_queue_is_answered_in_batches_of_each_size():
    model, processor = vispco.load("tiny-llava")
    layers = model.config.text_config.num_hidden_layers
    half = PrunerSpec.of_schedule("fastv", Schedule.single(1, 0.5, layers))
    settings = QueueSettings(batches=(1, 2), new_tokens=2, rounds=1)
    rows = measure_throughput(model, processor, dataset("test", "attribute", limit=2)[:], {"half": half}, settings)
    assert [(row.configuration, row.batch_size) for row in rows] == [
        ("unpruned", 1), ("half", 1), ("unpruned", 2), ("half", 2)
    ]  # fmt: skip
    assert all(row.requests_per_second > 0 and row.decode_tokens_per_second > 0 for row in rows)
    assert rows[1].kv_bytes < rows[0].kv_bytes < rows[2].kv_bytes


def test_a_queue_that_takes_too_long_ends_after_the_sizes_that_were_begun():
    model, processor = vispco.load("tiny-llava")
    samples = dataset("test", "attribute", limit=8)[:]
    settings = QueueSettings(batches=(1, 2), new_tokens=2, rounds=50, most_seconds=0.0)
    rows = measure_throughput(model, processor, samples, {}, settings)
    assert [row.batch_size for row in rows] == [1]
    assert rows[0].requests_per_second > 0


def test_a_budget_of_time_or_bytes_as_a_share_of_the_flops(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, _ = vispco.load("tiny-llava")
    with pytest.raises(InvalidInputError, match="vispco profile"):
        _flops_share(Budget.of("0.6t"), model, 10, 100)
    shares = [_flops_share(Budget.of(text), model, 10, 100) for text in ("0.4", "1kB", "1GB")]
    assert shares[0] == 0.4
    assert shares[1] < 0.4 < shares[2] == pytest.approx(1.0)
    said = []
    found = [said_fraction(Budget.of(text), model, (10, 100), said.append) for text in ("1GB", "0.3")]
    assert found == [1.0, 0.3]
    assert len(said) == 1
    assert "100 visual tokens" in said[0]
