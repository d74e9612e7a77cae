"""Scorers by depth: how a chain is written, and that each scorer rules where it is in charge."""

from __future__ import annotations

import json

import pytest
import torch

from tiny import DEFAULT, FIRST_CLASS, LAYERS, build, inputs
from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.scorers import Chain, Scorer
from vispco.scorers.baselines import Random
from vispco.scorers.layer_ratings import FastV
from vispco.scorers.sparsevlm import SparseVLM

WRITTEN = {
    "fastv": [(1, FastV())],
    "random+fastv": [(0, Random()), (1, FastV())],
    "fastv@2+random@3": [(2, FastV()), (3, Random())],
    "sparsevlm(recycle=true)": [(1, SparseVLM(recycle=True))],
    "random(seed=3)@1 + sparsevlm( recycle = True )@2": [(1, Random(3)), (2, SparseVLM(recycle=True))],
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_chain_is_what_was_written_and_survives_json(text):
    chain = Chain.of(text)
    assert list(chain.stages) == WRITTEN[text]
    assert Chain.of(json.loads(json.dumps(chain.to_dict()))) == chain
    assert Chain.of(str(chain)) == chain
    assert Chain.of(chain) is chain


def test_a_mapping_from_layers_says_the_same():
    assert Chain.of({0: "random", 3: "fastv", 20: "random(seed=1)"}).stages == (
        (0, Random()),
        (3, FastV()),
        (20, Random(1)),
    )
    assert Chain.of({"0": {"name": "random", "seed": 2}, "1": FastV()}).stages == ((0, Random(2)), (1, FastV()))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("", "is not a scorer"),
        ("fastv+", "is not a scorer"),
        ("fastv@0", "from layer 1 on"),
        ("random@2+fastv@2", "Layers must grow"),
        ("sparsevlm(recycle)", "is not an option"),
        ("fastv(deep=1)", "does not take"),
        ({"first": "fastv"}, "as the layer of a scorer"),
        ({0: "random+fastv"}, "give one scorer there"),
        ([], "empty chain"),
        (3, "was given for a scorer"),
    ],
)
def test_what_is_no_chain_is_refused_in_a_sentence(wrong, why):
    with pytest.raises(InvalidInputError, match=why):
        Chain.of(wrong)


def test_an_unknown_scorer_in_a_chain_is_named():
    with pytest.raises(UnknownNameError, match="fastw"):
        Chain.of("random+fastw")


def test_a_chain_deeper_than_the_model_is_refused_when_it_is_applied():
    with pytest.raises(InvalidInputError, match="layers 0 to 3"):
        Pruner("random+fastv@4", Schedule.full(LAYERS)).apply(build("llava"))


def keeping(name, slots, *, attention=False):
    """A scorer that keeps just these slots, and knows how often it was asked."""

    class Fixed(Scorer):
        needs_attention = attention

        def __init__(self):
            self._asked = []

        def score(self, context):
            self._asked.append(context.layer)
            if attention:
                context.attention("last")
            out = torch.zeros(context.live.shape)
            out[:, slots] = 1.0
            return out

    Fixed.name = name
    return Fixed()


@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_each_scorer_chooses_where_it_is_in_charge(family, mode):
    model, x = build(family), inputs(family, [DEFAULT])
    first, second = keeping("first", list(range(8))), keeping("second", [1, 3, 5, 7], attention=True)
    count = int((x["input_ids"] == 5).sum())
    schedule = Schedule((8 / count, 8 / count, 4 / count, 2 / count))
    pruner = Pruner({0: first, 2: second}, schedule, mode=mode, record=True)
    with torch.no_grad(), pruner(model):
        model(**x)
        live = [mask[0].nonzero()[:, 0].tolist() for mask in pruner.survivors(model)]
    assert live == [list(range(8)), list(range(8)), [1, 3, 5, 7], [1, 3]]
    assert first._asked == [0]
    assert second._asked == [2, 3]


def test_only_what_the_scorer_in_charge_needs_is_computed(monkeypatch):
    from vispco.engine import reading

    read = []
    real = reading.received_attention
    monkeypatch.setattr(reading, "received_attention", lambda *a, **k: read.append(1) or real(*a, **k))
    model, x = build("llava"), inputs("llava", [DEFAULT])
    with torch.no_grad(), Pruner("random+fastv@2", Schedule((0.5, 0.4, 0.3, 0.3)))(model):
        model(**x)
    assert len(read) == 1


def test_before_its_first_scorer_a_chain_prunes_nothing():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    with (
        torch.no_grad(),
        Pruner("fastv@2", Schedule((1.0, 0.5, 0.5, 0.5)))(model),
        pytest.raises(InvalidInputError, match="in charge from layer 2"),
    ):
        model(**x)
