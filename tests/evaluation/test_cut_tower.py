"""Evaluations of pruners that cut the vision tower: features of a cut are kept by its setting."""

import torch

from vispco import Pruner, Schedule
from vispco.evaluation import TaskEvaluator
from vispco.evaluation.features import FeatureStore
from vispco.families import family_of

from .conftest import layers_of

CHAIN = "divprune@tower.1+fastv"


def cut(model, keep=0.5):
    blocks = family_of(model).tower_shape(model).num_blocks
    return Schedule.single(2, 0.4, layers_of(model)).with_tower({1: keep}, blocks)


def evaluator(pair, samples, **options):
    model, processor = pair
    return TaskEvaluator(model, processor, samples, CHAIN, max_new_tokens=4, details=True, kl=True, **options)


def test_kept_features_of_a_cut_tower_give_the_answers_of_pixels(pair, samples):
    kept = evaluator(pair, samples)
    pixels = FeatureStore(*pair)
    pixels.note = "batches carry pixels"
    found, plain = (each(cut(pair[0])) for each in (kept, evaluator(pair, samples, store=pixels)))
    assert found.details["predictions"] == plain.details["predictions"]
    assert found.fraction == plain.fraction
    torch.testing.assert_close(found.kl, plain.kl, atol=1e-5, rtol=1e-4)


def test_the_tower_runs_once_for_each_setting(pair, samples, vision_calls):
    judge = evaluator(pair, samples)
    half, more = cut(pair[0]), cut(pair[0], 0.7)
    judge.many([None, half, more])
    ran = len(vision_calls)
    again = judge.many([half, Pruner(CHAIN, more), None])
    assert len(vision_calls) == ran
    assert again[0].fraction["exact"] < again[1].fraction["exact"] < again[2].fraction["exact"] == 1.0
    assert again[2].kl < 1e-6 < again[1].kl
