"""Different chains for different samples of one batch: each sample is pruned as it would be alone."""

import pytest
import torch

from tiny import FIRST_CLASS, LAYERS, build, inputs, picture, words
from vispco import InvalidInputError, Pruner, Schedule
from vispco.engine.plan import TokenPlan
from vispco.scorers import Chain, MixedChain
from vispco.scorers.mixture import chains_of

CHAINS = ("divprune+fastv", "fastv", "cdpruner+v2drop")
CURVES = ((0.5, 0.5, 0.25, 0.1), (1.0, 0.4, 0.4, 0.2), (0.75, 0.5, 0.0, 0.0))


def _samples():
    return [(words(2, 1), picture(), words(3 + number, number + 2)) for number in range(3)]


def _planner(groups):
    def plan(layout, _):
        rows = [Schedule(CURVES[g]).counts([n])[0] for g, n in zip(groups, layout.num_visual, strict=True)]
        return TokenPlan(torch.stack(rows), groups=groups)

    return plan


@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("name", FIRST_CLASS)
def test_each_sample_of_a_batch_follows_its_own_chain(name, mode):
    model, samples = build(name), _samples()
    mixed = Pruner(MixedChain.of_chains(CHAINS), _planner((0, 1, 2)), mode=mode, record=True)
    with torch.no_grad(), mixed(model):
        together = model(**inputs(name, samples)).logits
        kept = mixed.survivors(model)
    for number, (chain, curve) in enumerate(zip(CHAINS, CURVES, strict=True)):
        alone = Pruner(chain, Schedule(curve), mode=mode, record=True)
        with torch.no_grad(), alone(model):
            own = model(**inputs(name, samples)).logits
            expected = alone.survivors(model)
        for layer in range(LAYERS):
            assert torch.equal(kept[layer][number], expected[layer][number])
        torch.testing.assert_close(together[number, -1], own[number, -1], atol=2e-5, rtol=1e-4)


def test_a_mixed_chain_survives_as_data_and_knows_its_parts():
    mixed = MixedChain.of_chains(CHAINS)
    again = MixedChain.of_chains(mixed.to_dict()["mixed"])
    assert again == mixed
    assert [str(chain) for chain in chains_of(mixed)] == list(CHAINS)
    assert mixed.earliest_layer == 0
    assert MixedChain.of_chains(["fastv"]) == Chain.of("fastv")


@pytest.mark.parametrize(
    ("chains", "why"),
    [(["fitprune", "fastv"], "two kinds of places"), (["sparsevlm(recycle=true)", "fastv"], "cannot share a batch")],
)
def test_chains_that_a_batch_cannot_carry_are_refused_in_a_sentence(chains, why):
    with pytest.raises(InvalidInputError, match=why):
        MixedChain.of_chains(chains)


def test_a_plan_that_names_a_chain_that_there_is_not_is_refused():
    model = build("llava")
    for groups in ((0, 1, 3), (0, 1, -1)):
        pruner = Pruner(MixedChain.of_chains(CHAINS), _full(groups))
        with pytest.raises(InvalidInputError, match="the pruner has 3 chains"), pruner(model):
            model(**inputs("llava", _samples()))


def _full(groups):
    return lambda layout, _: TokenPlan(Schedule.full(LAYERS).counts(layout.num_visual), groups=groups)


def test_a_plan_that_starts_before_a_samples_own_chain_is_refused():
    model = build("llava")
    pruner = Pruner(MixedChain.of_chains(CHAINS), _planner((0, 1, 1)))
    curves = list(CURVES)

    def plan(layout, _):
        rows = [Schedule(curves[0]).counts([n])[0] for n in layout.num_visual]
        return TokenPlan(torch.stack(rows), groups=(0, 1, 1))  # fastv cannot choose before layer 0

    pruner.schedule = plan
    with pytest.raises(InvalidInputError, match="prunes before layer 1"), pruner(model):
        model(**inputs("llava", _samples()))
