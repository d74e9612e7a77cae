import pytest
import torch

from vispco.core.errors import InvalidInputError
from vispco.data import DrawnSample
from vispco.evaluation import encode
from vispco.evaluation.encoded import conversation, end_tokens, read
from vispco_zoo.answers import prompt
from vispco_zoo.packed_batch import encode as training_tokens
from vispco_zoo.tokenizer import markup, token_ids


def test_a_batch_is_what_the_processor_makes_of_it_at_once(pair, samples):
    model, processor = pair
    texts = [prompt(processor, sample.question) for sample in samples]
    expected = processor(text=texts, images=[[sample.image] for sample in samples])
    inputs = encode(model, processor, samples).inputs
    assert set(inputs) == set(expected)
    for name, value in inputs.items():
        assert torch.equal(value, torch.as_tensor(expected[name])), name


def test_questions_are_written_as_in_training(pair, samples):
    _, processor = pair
    for sample in samples:
        told = processor.apply_chat_template(conversation(sample), tokenize=False, add_generation_prompt=True)
        assert told == prompt(processor, sample.question)


def test_answers_are_those_of_training_and_end_together(pair, samples):
    model, processor = pair
    batch = encode(model, processor, samples, answers=True)
    for row, ids, sample in zip(batch.labels, batch.inputs["input_ids"], samples, strict=True):
        marks = markup(model.config.model_type)
        wanted = [*training_tokens(sample.answer, marks), token_ids(marks)[marks.end]]
        assert row[row != -100].tolist() == wanted
        assert ids[-len(wanted) :].tolist() == wanted
        assert row[-len(wanted) :].tolist() == wanted
    assert batch.answer_mask.sum(-1).tolist() == list(batch.answer_lengths)
    assert batch.inputs["attention_mask"][:, -1].all()


def test_counts_are_those_of_the_prompt_with_or_without_answers(pair, samples):
    model, processor = pair
    with_answers, without = (encode(model, processor, samples, answers=flag) for flag in (True, False))
    assert with_answers.num_visual == without.num_visual
    assert with_answers.num_text == without.num_text
    real = without.inputs["attention_mask"].sum(-1).tolist()
    assert [t + v for t, v in zip(without.num_text, without.num_visual, strict=True)] == real


def test_earlier_turns_come_before_the_question_and_the_picture_comes_first(qwen, samples):
    model, processor = qwen
    first = samples[0]
    later = DrawnSample("x", first.task, first.images, "how many?", "2", history=(("what color?", "red"),))
    text = processor.apply_chat_template(conversation(later), tokenize=False, add_generation_prompt=True)
    image = "<image_start><image><image_end>"
    assert text == f"<user>{image}what color?<assistant>red<end><user>how many?<assistant>"
    assert read(model, processor, later).num_visual == read(model, processor, first).num_visual


def test_the_end_of_a_turn_is_found_in_the_generation_config_too(qwen):
    model, processor = qwen
    marks = markup(model.config.model_type)
    assert end_tokens(model, processor) == (token_ids(marks)[marks.end],)


def test_bad_batches_are_refused_in_words(qwen, samples):
    model, processor = qwen
    with pytest.raises(InvalidInputError, match="at least one"):
        encode(model, processor, [])
    with pytest.raises(InvalidInputError, match="answers=True"):
        _ = encode(model, processor, samples[:1]).answer_mask
