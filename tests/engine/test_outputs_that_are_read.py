"""A visual token whose output is read never leaves: prompts that end with a picture, labels, and logits asked for by index."""

from __future__ import annotations

import pytest
import torch

from tiny import BUILDERS, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.scorers.base import SCORERS

CLOSE = {"atol": 2e-5, "rtol": 1e-4}
ENDING = (words(3, 1), picture(3, 5))
ALONE = (picture(3, 5),)
INSIDE = (words(3, 1), picture(3, 5), words(4, 2))
VTW = Schedule.withdraw(1, LAYERS)


def logits(model, x, pruner=None, **options):
    with torch.no_grad():
        if pruner is None:
            return model(**x, **options).logits
        with pruner(model):
            return model(**x, **options).logits


@pytest.mark.parametrize("sample", [ENDING, ALONE], ids=["ends with a picture", "is a picture"])
@pytest.mark.parametrize("family", BUILDERS)
def test_the_next_token_of_a_prompt_that_ends_with_its_picture(family, sample):
    """Dropped, its logits were zeros; now they are those of a mask that hides all but the last visual token."""
    model, x = build(family), inputs(family, [sample])
    dropped = logits(model, x, Pruner("random", VTW))[:, -1]
    masked = logits(model, x, Pruner("random", VTW, mode="mask"))[:, -1]
    assert dropped.abs().max() > 0
    torch.testing.assert_close(dropped, masked, **CLOSE)
    pruner = Pruner("random", VTW)
    with torch.no_grad(), pruner(model):
        model(**x)
        assert pruner.token_counts(model)[0, -1] == 1


@pytest.mark.parametrize("scorer", sorted(SCORERS))
def test_no_scorer_drops_the_last_token(scorer):
    """Every registered scorer, from a prompt that ends with its picture, drops down to one token: the last."""
    model, x = build("llava"), inputs("llava", [ENDING])
    try:
        pruner = Pruner(scorer, VTW, record=True)
        with torch.no_grad(), pruner(model):
            found = model(**x).logits[0, -1]
            last = pruner.survivors(model)[-1]
    except Exception as error:  # noqa: BLE001 - learned methods have no weights for this model
        assert "weights" in str(error) or "trained" in str(error)  # noqa: PT017
        return
    assert last[0].tolist() == [False] * (last.shape[1] - 1) + [True]
    assert found.abs().max() > 0


@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("family", ["llava", "gemma3", "qwen2_5_vl"])
def test_labels_on_all_text_keep_the_tokens_that_foretell_it(family, mode):
    """The last visual token foretells the first word behind the picture: the loss is that of the oracle."""
    model, x = build(family), inputs(family, [INSIDE])
    ids = x["input_ids"]
    visual = ids == 5
    labels = torch.where(visual, -100, ids)
    expected = labels.clone()
    pruner = Pruner("random", VTW, mode=mode, record=True)
    with torch.no_grad(), pruner(model):
        loss = model(**x, labels=labels).loss
        kept = pruner.survivors(model)[-1][0]
    read = (expected[0, 1:] != -100)[visual[0, :-1]]
    assert kept.tolist() == read.tolist()
    other = Pruner("random", VTW, mode="mask" if mode == "drop" else "drop")
    with torch.no_grad(), other(model):
        torch.testing.assert_close(model(**x, labels=labels).loss, loss, **CLOSE)


@pytest.mark.parametrize(
    "asked", [torch.tensor([4, 9]), torch.tensor([-1, 6]), 7], ids=["indices", "from the end", "number"]
)
def test_logits_asked_for_by_index_are_right(asked):
    model, x = build("llava"), inputs("llava", [INSIDE])
    found = logits(model, x, Pruner("random", VTW), logits_to_keep=asked)
    hidden = logits(model, x, Pruner("random", VTW, mode="mask"), logits_to_keep=asked)
    torch.testing.assert_close(found, hidden, **CLOSE)
    assert (found.abs().amax(-1) > 0).all()


def test_other_positions_of_a_plain_forward_stay_without_meaning():
    model, x = build("llava"), inputs("llava", [INSIDE])
    found = logits(model, x, Pruner("random", VTW))
    visual = x["input_ids"] == 5
    assert found[~visual].abs().amax(-1).min() > 0
    pruner = Pruner("random", VTW)
    with torch.no_grad(), pruner(model):
        model(**x)
        assert pruner.token_counts(model)[0, -1] == 0


def test_a_padded_batch_knows_the_last_token_of_each_row():
    model = build("llava")
    x = inputs("llava", [ENDING, INSIDE])
    pruner = Pruner("random", VTW)
    with torch.no_grad(), pruner(model):
        model(**x)
        assert pruner.token_counts(model)[:, -1].tolist() == [1, 0]
