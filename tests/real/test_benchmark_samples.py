"""Rows of benchmark files through the evaluator: each scored by its own metric, each with an answer to compare with."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter

import pytest
import torch

from real.files import base64_of, picture, write_benchmarks, write_instruct, write_table
from vispco import Schedule
from vispco import models as zoo
from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco.data.files import training_samples
from vispco.data.files.record import Skipped, SkipReport
from vispco.data.files.sampling import draw
from vispco.evaluation import EvaluatorSpec, TaskEvaluator
from vispco.evaluation.encoded import end_tokens
from vispco.evaluation.tally import BRIEF, _skip_entry
from vispco.metrics import AskSettings, read_benchmarks, write_predictions

PEOPLE = ["white"] * 4 + ["red"] * 6


@pytest.fixture(scope="module")
def gemma():
    return zoo.load("tiny-gemma")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_benchmarks(tmp_path_factory.mktemp("LMUData"), rows=3)


@pytest.fixture
def asked(tmp_path):
    """Drawn pictures with the drawn questions as TextVQA rows: the shipped model can answer these."""
    samples = dataset("test", "attribute", limit=4)[:]
    cells = [
        [n, base64_of(s.image), s.question, json.dumps([s.answer] * 3 + PEOPLE[3:])] for n, s in enumerate(samples)
    ]
    return write_table(tmp_path / "TextVQA_VAL.tsv", ["index", "image", "question", "answer"], cells)


def test_each_row_is_scored_by_its_benchmarks_metric(gemma, asked):
    questions = read_benchmarks({"textvqa": asked})
    found = TaskEvaluator(*gemma, questions, details=True)()
    told = found.details["predictions"]
    assert found.tasks[0].accuracy == sum(q.score(told[q.id]) for q in questions) / len(questions)
    assert [q.score("red") for q in questions] == [1.0] * 4
    assert [q.score(q.references[0]) for q in questions] == [pytest.approx(0.9)] * 4
    assert found.tasks[0].n == 4


def test_the_models_own_answer_stands_in_where_people_disagree(gemma, asked):
    model, processor = gemma
    questions = read_benchmarks({"textvqa": asked})
    assert all(question.answer == "" for question in questions)
    evaluator = TaskEvaluator(model, processor, questions, kl=True, details=True)
    full = evaluator()
    assert full.kl == pytest.approx(0.0, abs=1e-9)
    for question in questions:
        tokens = evaluator.store._entries([question])[0]["answer"]
        assert (
            processor.batch_decode([tokens], skip_special_tokens=True)[0].strip()
            == full.details["predictions"][question.id]
        )
        assert (tokens[-1] in end_tokens(model, processor)) or len(tokens) == question.max_new_tokens
    assert evaluator.kl(Schedule.withdraw(1, evaluator.num_layers)) > 1e-4


def test_one_agreed_answer_is_the_one_that_is_forced(root):
    questions = read_benchmarks({"mme": root / "MME.tsv", "vizwiz": root / "VizWiz.tsv"})
    assert {question.task: question.answer for question in questions} == {"mme": "yes", "vizwiz": ""}


def test_an_answer_ends_at_its_own_benchmarks_limit(gemma, root):
    """However long others in its batch may talk."""
    files = {"ocrbench": root / "OCRBench.tsv", "mme": root / "MME.tsv"}
    together = TaskEvaluator(*gemma, read_benchmarks(files, limit=1), details=True)
    alone = TaskEvaluator(*gemma, read_benchmarks({"mme": files["mme"]}, limit=1), details=True)
    assert sorted(together.longest) == [32, 128]
    assert alone().details["predictions"].items() <= together().details["predictions"].items()


def test_a_limit_draws_rows_by_the_seed(root):
    def ids(seed, limit=2):
        return [q.record.id for q in read_benchmarks({"mme": root / "MME.tsv"}, limit=limit, seed=seed)]

    assert ids(0) == ids(0)
    assert len({tuple(ids(seed)) for seed in range(8)}) > 1
    assert ids(0, limit=10) == ["0", "1", "2"]


def test_a_limit_keeps_pairs_whole(tmp_path):
    header = ["index", "image", "question", "answer", "category", "image_path"]
    cells = [
        [str(n), base64_of(picture(n)), "is it red?", "Yes" if n % 2 else "No", "color", f"{n // 2}.png"]
        for n in range(12)
    ]
    table = write_table(tmp_path / "MME.tsv", header, cells)
    for limit, wanted in ((4, 4), (5, 4), (1, 2), (100, 12)):
        ids = [int(q.record.id) for q in read_benchmarks({"mme": table}, limit=limit)]
        assert len(ids) == wanted
        assert all((n ^ 1) in ids for n in ids)
        assert ids == sorted(ids)
    seen = {tuple(q.record.id for q in read_benchmarks({"mme": table}, limit=4, seed=seed)) for seed in range(8)}
    assert len(seen) > 1


@pytest.mark.parametrize("grouped", ["by index", "by g_index"])
def test_a_limit_keeps_the_rotations_of_an_mmbench_question_together(tmp_path, grouped):
    """Three questions of four, three and two rotations; the circular score needs all of one."""
    rotations = {7: 4, 8: 3, 9: 2}
    rows = [(n, n + 1_000_000 * turn) for n, turns in rotations.items() for turn in range(turns)]
    by_column = grouped == "by g_index"
    names = ["index", "image", "question", "A", "B", "answer", *(["g_index"] if by_column else [])]
    cells = [
        [
            place if by_column else index,
            base64_of(picture(0)),
            "what?",
            "white",
            "red",
            "A",
            *([n] if by_column else []),
        ]
        for place, (n, index) in enumerate(rows)
    ]
    table = write_table(tmp_path / "MMBench_DEV_EN.tsv", names, cells)
    for limit, seed in itertools.product(range(1, 10), range(3)):
        kept = read_benchmarks({"mmbench": table}, limit=limit, seed=seed)
        counts = Counter(int(q.record.meta["g_index"]) if by_column else int(q.record.id) % 1_000_000 for q in kept)
        assert all(counts[name] == rotations[name] for name in counts)
        assert len(counts) == 1 or sum(counts.values()) <= limit


def test_mme_and_mmbench_have_figures_of_their_own(gemma, tmp_path):
    header = ["index", "image", "question", "answer", "category", "image_path"]
    cells = [
        [str(n), base64_of(picture(n // 2)), "is it red?", "Yes" if n % 2 else "No", "color", f"{n // 2}.png"]
        for n in range(4)
    ]
    samples = read_benchmarks(
        {"mme": write_table(tmp_path / "MME.tsv", header, cells)}, settings=AskSettings(max_new_tokens=2)
    )
    found = TaskEvaluator(*gemma, samples, score=lambda sample, _: float(sample.record.id != "3"))()
    assert found.accuracy == 0.75
    assert found.details["figures"]["mme"] == {
        "acc+": 0.5,
        "perception points": 125.0,
        "reasoning points": 0.0,
        "color points": 125.0,
    }


def test_a_protocol_changes_prompt_metric_and_length(gemma, asked):
    spec = EvaluatorSpec(model="tiny-gemma", files={"textvqa": asked}, protocol="vlmevalkit", max_new_tokens=3)
    again = EvaluatorSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    sample = again.samples().for_model(*gemma)[0]
    assert sample.question.endswith("Answer the question using a single word or phrase.")
    assert sample.settings.family == "gemma3"
    other = EvaluatorSpec(model="tiny-gemma", files={"textvqa": asked}, max_new_tokens=3)
    assert spec.fingerprint() != other.fingerprint()
    assert other.fingerprint()["metrics"] == {"textvqa": "vqa"}


def test_a_picture_is_scaled_to_whole_cells_of_the_models_tower(asked):
    model, processor = zoo.load("tiny-qwen")
    sides = processor.image_processor.patch_size * processor.image_processor.merge_size
    bounded = read_benchmarks({"textvqa": asked}, settings=AskSettings(min_pixels=9 * sides**2 + 1))
    for sample in bounded.for_model(model, processor):
        assert all(side % sides == 0 for image in sample.images for side in image.size)


def test_what_was_skipped_is_told_in_brief_or_in_full():
    report = SkipReport(used=1)
    for row in range(BRIEF + 3):
        report.add(Skipped("missing image", "a.tsv", row, "there is none"))
    brief, full = (_skip_entry(report, details=details) for details in (False, True))
    assert (len(brief.pop("listed")), len(full.pop("listed"))) == (BRIEF, BRIEF + 3)
    assert brief == full == {"used": 1, "skipped": BRIEF + 3, "reasons": {"missing image": BRIEF + 3}}


def test_pixel_bounds_change_what_the_model_sees(asked):
    sample = read_benchmarks({"textvqa": asked}, settings=AskSettings(min_pixels=100_000, max_pixels=200_000))[0]
    (scaled,) = sample.images
    assert scaled.width * scaled.height >= 100_000


def test_predictions_are_written_as_vlmevalkit_reads_them(gemma, asked, tmp_path):
    samples = read_benchmarks({"textvqa": asked}, settings=AskSettings(max_new_tokens=2))
    found = TaskEvaluator(*gemma, samples, details=True)()
    (written,) = write_predictions(tmp_path / "out.tsv", samples, found.details["predictions"])
    rows = list(csv.DictReader(written.open(newline=""), delimiter="\t"))
    assert {"index", "prediction", "answer", "image_path", "category"} <= set(rows[0])
    assert [row["index"] for row in rows] == [sample.record.id for sample in samples]
    assert json.loads(rows[0]["answer"]) == list(samples[0].references)
    assert [row["prediction"] for row in rows] == [found.details["predictions"][sample.id] for sample in samples]
    drawn = dataset("test", "word,chart", limit=1)[:]
    several = write_predictions(tmp_path / "out.json", drawn, {sample.id: "x" for sample in drawn})
    assert [path.name for path in several] == ["out-word.json", "out-chart.json"]
    assert json.loads(several[0].read_text())[0]["prediction"] == "x"
    with pytest.raises(InvalidInputError, match=r"\.tsv or \.json"):
        write_predictions(tmp_path / "out.xlsx", drawn, {})


def test_a_draw_is_fair():
    counts = [0] * 6
    for seed in range(600):
        for item in draw(range(6), 2, seed):
            counts[item] += 1
    assert min(counts) > 150
    assert max(counts) < 250
    assert draw(range(6), None) == list(range(6))


def test_pictures_are_not_kept(root):
    question = read_benchmarks({"mme": root / "MME.tsv"})[0]
    assert question.image is not question.image
    assert question.sizes == (question.image.size,)


def test_a_spec_carries_files_to_another_process(root, tmp_path):
    spec = EvaluatorSpec(model="tiny-gemma", files={"mme": root / "MME.tsv"}, limit=2, max_new_tokens=1)
    again = EvaluatorSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    assert [s.id for s in again.samples()] == [s.id for s in spec.samples()]
    moved = tmp_path / "MME.tsv"
    moved.write_bytes((root / "MME.tsv").read_bytes())
    other = EvaluatorSpec(model="tiny-gemma", files={"mme": moved}, limit=2, max_new_tokens=1)
    assert other.fingerprint() == spec.fingerprint()  # what is in a file counts, not where it is
    moved.write_text(moved.read_text().replace("yes", "no"))
    assert other.fingerprint() != spec.fingerprint()
    with pytest.raises(InvalidInputError, match="limit is 0"):
        EvaluatorSpec(model="tiny-gemma", files={"mme": moved}, limit=0).build()


def test_turns_are_samples_and_areas_are_equalised(tmp_path):
    path = write_instruct(tmp_path, 6)
    turns, facts = training_samples(path, tmp_path / "train2017")
    assert len(turns) == facts["samples"] == 8
    second = next(sample for sample in turns if sample.history)
    assert (second.question, second.answer) == ("how many are there?", "one")
    assert second.history == (("what color is the circle?", "white"),)
    few, told = training_samples(path, tmp_path / "train2017", downsample=12, limit=5, seed=1)
    assert len(few) == 5
    assert sum(told["areas"]["after"]) == 12
    assert len({sample.id for sample in few}) == 5


def test_several_pictures_of_one_row_are_all_shown(gemma, tmp_path):
    images = json.dumps([base64_of(picture(1)), base64_of(picture(2))])
    table = write_table(
        tmp_path / "MME.tsv", ["index", "image", "question", "answer"], [["0", images, "are they the same?", "no"]]
    )
    questions = read_benchmarks({"mme": table}, settings=AskSettings(max_new_tokens=2))
    evaluator = TaskEvaluator(*gemma, questions, kl=True)
    assert evaluator.store._entries(questions[:1])[0]["num_visual"] == 200
    found = evaluator(Schedule.single(2, 0.5, evaluator.num_layers))
    assert found.fraction["exact"] < 1
    assert torch.isfinite(torch.tensor(found.kl))


def test_a_saved_datasets_folder_is_learned_from(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"image": [picture(n) for n in range(3)], "question": ["what?"] * 3, "answer": ["red", "", "blue"]}
    datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image()).save_to_disk(tmp_path / "set")
    turns, facts = training_samples(tmp_path / "set")
    assert sorted(sample.answer for sample in turns) == ["blue", "red"]
    assert facts["skipped"]["reasons"] == {"no answer": 1}
