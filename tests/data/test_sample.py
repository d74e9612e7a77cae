"""Every kind of sample has the members of the `Sample` protocol, and can be given other pictures."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from real.files import base64_of, picture, write_instruct, write_table
from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco.data.files import SampleSet, training_samples
from vispco.data.sample import Sample
from vispco.metrics import read_benchmarks
from vispco.models import load
from vispco.search.calibration_batches import CalibrationBatches

if TYPE_CHECKING:
    from pathlib import Path

MEMBERS = [name for name, _ in inspect.getmembers(Sample) if not name.startswith("_")]


@pytest.fixture
def kinds(tmp_path: Path) -> dict[str, Sample]:
    table = write_table(
        tmp_path / "MME.tsv",
        ["index", "image", "question", "answer"],
        [["0", json.dumps([base64_of(picture(1)), base64_of(picture(2))]), "are they the same?", "no"]],
    )
    path = write_instruct(tmp_path, 2)
    return {
        "drawn": dataset("test", "word", limit=1)[0],
        "benchmark": read_benchmarks({"mme": table})[0],
        "conversation": training_samples(path, tmp_path / "train2017")[0][0],
    }


@pytest.mark.parametrize("kind", ["drawn", "benchmark", "conversation"])
def test_a_sample_has_every_member_of_the_protocol(kinds, kind):
    assert "score" in MEMBERS
    sample = kinds[kind]
    assert [name for name in MEMBERS if not hasattr(sample, name)] == []
    assert sample.num_images == len(sample.images)
    assert sample.area == sum(image.width * image.height for image in sample.images)
    assert isinstance(sample.history, tuple)


@pytest.mark.parametrize("kind", ["drawn", "benchmark", "conversation"])
def test_pictures_and_ids_can_be_replaced(kinds, kind):
    sample = kinds[kind]
    grey = Image.new("RGB", (5, 7))
    other = sample.with_images([grey])
    assert (other.images, other.num_images, other.area) == ((grey,), 1, 35)
    assert (other.id, other.task, other.question, other.answer) == (
        sample.id,
        sample.task,
        sample.question,
        sample.answer,
    )
    assert sample.with_images(()).num_images == 0
    assert sample.with_id("another").id == "another"
    assert sample.with_id("another").question == sample.question


def test_a_search_prepares_batches_of_benchmark_rows(tmp_path):
    """It forgets the pictures of samples whose features it has: `replace(sample, image=...)` failed for these."""
    table = write_table(
        tmp_path / "MME.tsv",
        ["index", "image", "question", "answer"],
        [[str(n), base64_of(picture(n)), "is it red?", "no"] for n in range(2)],
    )
    batches = CalibrationBatches(*load("tiny-gemma"), read_benchmarks({"mme": table}), batch_size=1)
    assert batches[0].encoded.ids == batches[0].encoded.ids == ("mme/0",)


def test_a_turn_of_a_conversation_says_that_it_has_no_metric(kinds):
    with pytest.raises(InvalidInputError, match="has no metric"):
        kinds["conversation"].score("red")


def test_any_sequence_is_a_set_with_nothing_skipped(kinds):
    samples = list(kinds.values())
    assert SampleSet.of(samples).skipped == {}
    assert list(SampleSet.of(samples).for_model(None, None)) == samples
    one = SampleSet(samples)
    assert SampleSet.of(one) is one
