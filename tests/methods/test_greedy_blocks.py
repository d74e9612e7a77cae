"""Choices in blocks take the sequential set wherever no pick of a block stands near a candidate before it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from methods.test_pre_llm import chosen, context_of, made_up
from operation_counts import random_context
from vispco.scorers import cdpruner, divprune, get
from vispco.scorers.greedy import _CANDIDATES

CLOSE = 1e-4  # gains that differ by less are ties, which rounding decides


def families(seed, kinds, members, together):
    """Members turned away from a few centres, each by an angle of its own towards an axis of its own: [n][D], and text.

    together: how much the members lean in one direction, and a token far from all of them, too; the centres lean away.
    """
    generator = np.random.default_rng(seed)
    number = kinds * members
    axes, angles = np.eye(kinds + number + 2), generator.permutation(np.linspace(0.65, 1.15, number))
    away = generator.permutation(np.linspace(0.04, 0.1, kinds))
    centres = [axes[k] - together * away[k] * axes[-1] for k in range(kinds)]
    turned = [np.cos(a) * axes[n % kinds] + np.sin(a) * axes[kinds + n] for n, a in enumerate(angles)]
    states = np.array([*centres, *(state + 0.2 * together * axes[-1] for state in turned)])
    if together:
        states = np.array([*states, axes[-2] + 0.5 * axes[-1]])
    text = np.concatenate([generator.permutation(np.linspace(0.7, 1.0, kinds)), generator.uniform(0, 0.1, number + 2)])
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    return states[generator.permutation(len(states))], text[None]


class Distances:
    """The sequential max-min choice. gain: distance to the nearest taken token, at first to the nearest of all."""

    growth = divprune.GROWTH

    def __init__(self, states, _):
        self.apart = 1 - states @ states.T

    def gains(self, taken):
        others = self.apart + np.diag(np.full(len(self.apart), np.inf))
        found = others[:, taken].min(1) if taken else others.min(1)
        return np.where(np.isin(np.arange(len(found)), taken), -np.inf, found)

    def beside(self, token, before, gains, _):
        return min([gains[token], *(self.apart[token, other] for other in before)])


class Determinants:
    """The sequential determinantal choice. gain: variance of a token that the taken ones do not explain."""

    growth = cdpruner.GROWTH

    def __init__(self, states, text):
        relevance = states @ text.mean(0) / np.linalg.norm(text.mean(0))
        relevance = (relevance - relevance.min() + 1e-6) / (relevance.max() - relevance.min())
        self.kernel = relevance[:, None] * (states @ states.T) * relevance

    def gains(self, taken):
        found = np.array([self._left(token, taken) for token in range(len(self.kernel))])
        return np.where(np.isin(np.arange(len(found)), taken), -np.inf, found)

    def _left(self, token, given):
        if not len(given):
            return self.kernel[token, token]
        row = self.kernel[token, given]
        return self.kernel[token, token] - row @ np.linalg.pinv(self.kernel[np.ix_(given, given)]) @ row

    def beside(self, token, before, _, taken):
        return self._left(token, [*taken, *before])


def sequential(choice, count):
    """The picks one by one, and whether every block was settled: no pick lowered by a candidate before it, and no tie."""
    taken, settled = [], True
    while len(taken) < count:
        size = min(max(1, int(choice.growth * len(taken))), count - len(taken))
        gains, start = choice.gains(taken), list(taken)
        order = np.argsort(-gains, kind="stable")[: _CANDIDATES * size].tolist()
        for _ in range(size):
            now = choice.gains(taken)
            best = int(now.argmax())
            settled &= bool(now[best] - np.delete(now, best).max(initial=-np.inf) > CLOSE)
            if size > 1:
                before = order[: order.index(best)] if best in order else order
                lowered = choice.beside(best, before, gains, start) < gains[best] - CLOSE**2
                settled &= best in order and not lowered
            taken.append(best)
    return taken, settled


def check(method, choice, states, text, count):
    picks, settled = sequential(choice(states, text), count)
    assume(settled)
    seen = made_up(0, [(1, len(states))])
    seen.states, seen.text = states.tolist(), text.tolist()
    context = context_of([seen], [count])
    assert chosen(f"{method}(exact=true)", context)[0] == sorted(picks)
    assert chosen(f"{method}(exact=false)", context)[0] == sorted(picks)


METHODS = [("divprune", Distances, 3, 1.0), ("cdpruner", Determinants, 2, 0.0)]  # name, oracle, most centres, together


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(seed=st.integers(0, 10_000), kinds=st.integers(1, 3), members=st.integers(5, 9), share=st.floats(0.3, 0.9))
@pytest.mark.parametrize(("method", "choice", "most", "together"), METHODS)
def test_a_block_is_what_single_picks_take_where_none_is_near(
    method, choice, most, together, seed, kinds, members, share
):
    states, text = families(seed, min(kinds, most), members, together)
    check(method, choice, states, text, max(5, int(share * len(states))))


@pytest.mark.parametrize(("method", "choice", "most", "together"), METHODS)
def test_the_law_is_not_empty(method, choice, most, together):
    """Blocks of several tokens are settled for many draws, so that the test above compares something."""
    settled = [sequential(choice(*families(seed, most, 8, together)), 12)[1] for seed in range(20)]
    assert sum(settled) >= 5, method


@pytest.mark.parametrize("method", ["divprune", "cdpruner"])
def test_a_choice_in_blocks_holds_one_table_beside_the_cosines(method):
    """No step makes another V x V table: the largest tensors that are allocated are the cosines and the one table."""
    number, tables = 256, []

    class Allocations(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            known = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
            known |= {x.untyped_storage().data_ptr() for x in (kwargs or {}).values() if isinstance(x, torch.Tensor)}
            for made in out if isinstance(out, tuple) else (out,):
                large = isinstance(made, torch.Tensor) and made.is_floating_point() and made.numel() >= number**2
                if large and made.untyped_storage().data_ptr() not in known:
                    tables.append(str(function))
            return out

    context = random_context(number, 60)
    with Allocations():
        get(method, exact=False).select(context)
    assert len(tables) == 2, tables
