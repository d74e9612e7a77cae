"""The second turn: another question about the same picture, on the tokens that the first question left."""

from dataclasses import replace

import pytest
import torch

from vispco.compare.methods import ComparisonSetup, TableSettings, fill_table, text_rows
from vispco.compare.methods.second_turn import SecondTurns, _second_questions
from vispco.core.schedule import Schedule
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.evaluation.features import FeatureStore
from vispco.models.loading import load
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain

TASKS = ["attribute", "table"]


@pytest.fixture(scope="module", params=["tiny-qwen", "tiny-llava", "tiny-gemma", "tiny-qwen3"])
def turns(request):
    model, processor = load(request.param)
    samples = list(dataset("test", TASKS, 3))
    layers = model.config.get_text_config().num_hidden_layers
    return SecondTurns(model, processor, samples, FeatureStore(model, processor), layers)


def answers(turns, chain, candidate):
    """By place, through the batches of the class."""
    from vispco.evaluation.candidate import CandidateRun

    run = CandidateRun(candidate, chain, turns.num_layers, len(turns.samples))
    turns.store.require(run.chain.needs_vision)
    return {
        asked.place: answer
        for batch in turns._batches
        for asked, answer in zip(batch, turns._answers(run, batch), strict=True)
    }


def asked_at_once(turns, place, other, pruner=None):
    """The answer of a prefill of the whole conversation, alone."""
    first = turns.samples[place]
    whole = replace(other, images=first.images, history=((first.question, first.answer),))
    inputs = encode(turns.model, turns.processor, [whole]).inputs
    options = {"do_sample": False, "max_new_tokens": turns._limit}
    with torch.no_grad():
        if pruner is None:
            written = turns.model.generate(**inputs, **options)
        else:
            with pruner(turns.model):
                written = turns.model.generate(**inputs, **options)
    return turns.processor.batch_decode(written[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)[0].strip()


def test_the_unpruned_model_answers_as_if_it_read_the_conversation_at_once(turns):
    others = _second_questions(turns.samples)
    assert len(others) >= 4
    found = answers(turns, Chain.of("random"), None)
    assert found == {place: asked_at_once(turns, place, other) for place, other in others.items()}


def test_a_choice_that_does_not_read_the_question_answers_alike_too(turns):
    """divprune keeps the same tokens for one question and for two, so that nothing depends on when it chose."""
    chain, schedule = Chain.of("divprune"), Schedule((0.3,) * turns.num_layers)
    others = _second_questions(turns.samples)
    found = answers(turns, chain, schedule)
    pruner = Pruner(chain, schedule)
    assert found == {place: asked_at_once(turns, place, other, pruner) for place, other in others.items()}


def test_the_first_question_decides_what_the_second_is_answered_on(monkeypatch):
    """The second question enters a pruned cache: nobody chooses again."""
    model, processor = load("tiny-llava")
    samples = list(dataset("test", TASKS, 2))
    turns = SecondTurns(model, processor, samples, FeatureStore(model, processor), 6)
    turns.num_layers = model.config.get_text_config().num_hidden_layers
    chain = Chain.of("fastv")
    chosen = []
    select = type(chain.scorers[0]).select
    monkeypatch.setattr(
        type(chain.scorers[0]),
        "select",
        lambda self, context: chosen.append(len(context.live)) or select(self, context),
    )
    turns.accuracy(chain, Schedule.single(layer=2, keep=0.25, num_layers=turns.num_layers))
    assert sum(chosen) == len(_second_questions(samples))


def test_samples_of_files_ask_again_where_a_later_one_shows_the_same_picture():
    first, other = (each.with_images(each.images) for each in dataset("test", "attribute", 2))  # no scene
    again = replace(first, id="again", question="what color is the sky?", answer="blue")
    found = _second_questions([first, other, again])
    assert {place: sample.question for place, sample in found.items()} == {0: again.question}
    model, processor = load("tiny-llava")
    none = SecondTurns(model, processor, [first, other], FeatureStore(model, processor), 6)
    assert none.accuracy(Chain.of("random"), None) is None


def test_the_table_has_a_column_for_it():
    model, processor = load("tiny-llava")
    tests, calibration = (list(dataset(split, ["attribute"], limit=2)) for split in ("test", "calibration"))
    settings = TableSettings(("fastv", "divprune"), (0.5,), 1, None, (0.5,), rounds=0, compensations=(1.0,))
    table = fill_table(ComparisonSetup(model, processor, tests, calibration), settings)
    for row in table.rows:
        assert (row.second_turn is None) == (row.kind == "sampled"), row.key
    columns, rows = text_rows(table)
    place = columns.index("2nd turn, %")
    assert rows[0][place] == f"{100 * table.rows[0].second_turn:.1f}"
