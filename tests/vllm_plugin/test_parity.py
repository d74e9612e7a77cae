"""Inside vLLM a picture keeps the tokens that it keeps in transformers, and the answers have the same probabilities."""

from dataclasses import replace

import pytest

from vispco.data import TASKS, dataset
from vllm_plugin.pairs import SHARES, Request, largest_difference

CLOSE = 1e-4  # log-probabilities, float32


def requests(number, start=0):
    """Questions of all tasks, each at every share, in one batch."""
    per_task = -(-(start + number) // len(TASKS))
    samples = [
        sample for group in zip(*(dataset("test", task, per_task) for task in TASKS), strict=True) for sample in group
    ]
    return [Request(tuple(s.images), s.question, share) for s in samples[start : start + number] for share in SHARES]


def differences(pair, asked):
    engine, reference = pair
    served, expected = engine(asked, reference.processor), [reference(request) for request in asked]
    return served, expected, [largest_difference(*both) for both in zip(served, expected, strict=True)]


def test_kept_sets_and_log_probabilities_are_those_of_transformers(pair):
    engine, reference = pair
    asked = requests(24)
    served, expected, apart = differences(pair, asked)
    same = [
        one.kept == other.kept or reference.decided_by_rounding(request)
        for request, one, other in zip(asked, served, expected, strict=True)
    ]
    assert all(same)
    exact = [one.kept == other.kept for one, other in zip(served, expected, strict=True)]
    assert sum(exact) >= 0.97 * len(exact)  # few pictures hang on rounding
    assert max(gap for gap, sure in zip(apart, exact, strict=True) if sure) < CLOSE
    assert [one.tokens for one in served] == [other.tokens for other in expected]
    lengths = {
        share: sum(one.prompt_length for one, r in zip(served, asked, strict=True) if r.share == share)
        for share in SHARES
    }
    assert lengths[1.0] > lengths[0.5] > lengths[0.25]

    chosen = engine.choices
    again = engine(asked, reference.processor)  # from the caches
    assert max(map(largest_difference, again, expected)) < max(CLOSE, 1.01 * max(apart))
    assert [one.tokens for one in again] == [other.tokens for other in expected]
    assert sum(one.num_cached for one in again) > 0
    assert engine.choices - chosen < len(asked)


def test_two_pictures_of_different_sizes(pair):
    _, reference = pair
    first, second = requests(2)[0].images[0], requests(2)[3].images[0]
    small = second.resize((first.width * 3 // 4, first.height * 2))
    asked = [Request((first, small), "what is the color of the circle?", share) for share in (1.0, 0.5)]
    sizes = [len(kept) for kept in reference(asked[0]).kept]
    if hasattr(reference.processor, "start_image_token"):  # to `size:` a tile is a picture, so that each has one
        asked[1] = replace(asked[1], images=(first.resize((40, 40)), second.resize((44, 44))))
    elif any(size % 2 for size in sizes):  # vispco divides an odd number over both pictures, vLLM rounds each
        asked = asked[:1]
    served, expected, apart = differences(pair, asked)
    assert [one.kept for one in served] == [other.kept for other in expected]
    assert max(apart) < CLOSE


def test_broken_positions_are_noticed(pair, monkeypatch):
    """The control: what the tests above compare depends on where tokens stand."""
    from vispco.vllm import models

    asked = [replace(request, share=0.5) for request in requests(8, start=24)[::3]]
    decode = models.decode_places
    monkeypatch.setattr(models, "decode_places", lambda columns: 0 * decode(columns))
    _, _, apart = differences(pair, asked)
    assert max(apart) > 100 * CLOSE


def test_the_share_that_leaves_is_an_alias(pair):
    engine, reference = pair
    from vllm import SamplingParams

    from vispco.evaluation.encoded import apply_template

    request = requests(1, start=40)[1]
    prompt = {
        "prompt": apply_template(reference.processor, request.turns()),
        "multi_modal_data": {"image": list(request.images)},
    }
    lengths = [
        len(
            engine.llm.generate({**prompt, "mm_processor_kwargs": given}, SamplingParams(max_tokens=1), use_tqdm=False)[
                0
            ].prompt_token_ids
        )
        for given in ({"vispco_keep": 0.25}, {"image_pruning_rate": 0.75}, {})
    ]
    assert lengths[0] == lengths[1] < lengths[2]


@pytest.mark.parametrize(
    "given",
    [{"vispco_keep": 0}, {"vispco_keep": 1.5}, {"vispco_keep": "x"}, {"vispco_keep": 0.5, "image_pruning_rate": 0.5}],
)
def test_a_bad_share_is_refused_and_the_engine_lives_on(pair, given):
    engine, reference = pair
    from vllm import SamplingParams

    from vispco.evaluation.encoded import apply_template

    request = requests(1)[0]
    prompt = {
        "prompt": apply_template(reference.processor, request.turns()),
        "multi_modal_data": {"image": list(request.images)},
    }
    with pytest.raises(ValueError, match=r"was given|were given"):
        engine.llm.generate({**prompt, "mm_processor_kwargs": given}, SamplingParams(max_tokens=1), use_tqdm=False)
    assert engine([request], reference.processor)[0].tokens == reference(request).tokens


def test_a_prompt_that_ends_with_its_picture_is_refused(pair):
    engine, reference = pair
    from vllm import SamplingParams

    request = requests(1)[0]
    token = reference.processor.image_token
    with pytest.raises(ValueError, match="ends with a picture"):
        engine.llm.generate(
            {"prompt": f"look {token}", "multi_modal_data": {"image": list(request.images)}},
            SamplingParams(max_tokens=1),
            use_tqdm=False,
        )
