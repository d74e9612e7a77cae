import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vispco import Pruner, Schedule, cost
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.data import metric
from vispco.engine import TokenPlan
from vispco.evaluation import TaskEvaluator, encode
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under
from vispco_zoo.answers import answer

from .conftest import layers_of


def same(left, right):
    """All but the time."""
    return left.to_dict() | {"seconds": 0} == right.to_dict() | {"seconds": 0}


def grid(layers):
    return [None, *(Schedule.single(k, r, layers) for k, r in ((1, 0.6), (layers // 2, 0.1), (layers - 1, 0.6)))]


def right_if_short(_, prediction):
    """An untrained model is never right; this gives its scores some variety."""
    return float(len(prediction) % 2)


def test_answers_are_those_of_plain_generation(pair, samples):
    model, processor = pair
    found = TaskEvaluator(model, processor, samples, details=True, batch_size=len(samples), max_new_tokens=8)()
    told = answer(model, processor, [s.image for s in samples], [s.question for s in samples])
    assert found.details["predictions"] == {s.id: text for s, text in zip(samples, told, strict=True)}


def test_scores_are_the_metric_of_each_task(pair, samples):
    model, processor = pair
    wrong, right = (
        TaskEvaluator(model, processor, samples, score=rule)
        for rule in (lambda sample, text: sample.score(text), lambda *_: 1.0)
    )
    assert [task.task for task in right().tasks] == ["attribute", "position", "word", "chart"]
    assert right().accuracy == 1.0
    assert all(task.n == 2 for task in wrong().tasks)
    chart = next(sample for sample in samples if sample.task == "chart")
    assert chart.score(chart.answer) == metric("chart", chart.answer, chart.answer) == 1.0


def test_flops_are_the_cost_models_and_the_fraction_is_per_sample(pair, samples):
    model, processor = pair
    layers = layers_of(model)
    schedule = Schedule.single(2, 0.5, layers)
    found = TaskEvaluator(model, processor, samples, batch_size=3)(schedule)
    batch = encode(model, processor, samples)
    size = cost.Dimensions.from_config(model.config)
    workload = workload_under(Chain.of("fastv"), size, batch.num_text, batch.num_visual, batch.num_instruction)
    for name in ("exact", "paper"):
        prices = cost.get(name, model.config)
        spent = prices.bill(schedule.counts(batch.num_visual), workload).double()
        assert found.flops[name] == pytest.approx(float(spent.mean()))
        each = (spent / prices.full(workload)).sort().values
        assert found.fraction[name] == pytest.approx(float(each.mean()))
        place = next(n for n in range(len(each)) if (n + 1) / len(each) >= 0.95)
        told = {"mean": float(each.mean()), "p95": float(each[place]), "worst": float(each[-1])}
        assert found.details["spending"][name] == pytest.approx(told)
    full = TaskEvaluator(model, processor, samples)()
    assert full.fraction == {"exact": 1.0, "paper": 1.0, "prefill": 1.0}


def test_tokens_that_leave_in_the_middle_of_a_layer_cost_less(qwen, samples):
    model, processor = qwen
    schedule = Schedule.single(2, 0.5, layers_of(model))
    entry, middle = (TaskEvaluator(model, processor, samples, name)(schedule) for name in ("fastv", "fitprune"))
    assert middle.flops["exact"] < entry.flops["exact"]


def test_the_order_of_the_samples_and_the_size_of_a_batch_do_not_matter(pair, samples):
    model, processor = pair
    schedule = Schedule.single(2, 0.3, layers_of(model))
    options = {"details": True, "score": right_if_short, "max_new_tokens": 2}
    first = TaskEvaluator(model, processor, samples, **options)(schedule)
    again = TaskEvaluator(model, processor, samples[::-1], **options)(schedule)
    assert {t.task: t for t in first.tasks} == {t.task: t for t in again.tasks}
    assert (first.details, first.flops, first.accuracy) == (again.details, again.flops, again.accuracy)
    small = TaskEvaluator(model, processor, samples, batch_size=3, **options)(schedule)
    assert small.details == first.details
    assert small.flops == first.flops


def test_the_second_configuration_does_not_run_the_vision_tower(pair, samples, vision_calls):
    model, processor = pair
    evaluator = TaskEvaluator(model, processor, samples, batch_size=3, kl=True)
    evaluator(Schedule.single(2, 0.5, layers_of(model)))
    once = len(vision_calls)
    assert once == 3
    evaluator(Schedule.single(3, 0.25, layers_of(model)))
    evaluator()
    assert len(vision_calls) == once


def test_the_second_configuration_costs_measurably_less(pair, samples):
    """In FLOPs, which no load of the machine can blur."""
    model, processor = pair
    evaluator = TaskEvaluator(model, processor, samples, max_new_tokens=2)
    spent = []
    for _ in range(2):
        with FlopCounterMode(display=False) as counter:
            evaluator()
        spent.append(counter.get_total_flops())
    assert spent[1] < 0.9 * spent[0]


def test_shared_prefixes_give_the_evaluations_of_independent_runs(pair, samples):
    model, processor = pair
    options = {"details": True, "score": right_if_short, "kl": True, "max_new_tokens": 2, "batch_size": 5}
    subjects = grid(layers_of(model))
    evaluator = TaskEvaluator(model, processor, samples, **options)
    alone = [evaluator(subject) for subject in subjects]
    together = evaluator.many(subjects)
    assert not evaluator.prefixes.held
    kept = TaskEvaluator(model, processor, samples, share=1 << 30, **options)
    later = [kept(subject) for subject in subjects]
    assert kept.prefixes.held
    for one, two, three in zip(alone, together, later, strict=True):
        assert same(one, two)
        assert same(one, three)


def test_prefixes_that_do_not_fit_are_not_kept_and_nothing_else_changes(qwen, samples):
    model, processor = qwen
    schedule = Schedule.single(5, 0.5, layers_of(model))
    sizes, limit = [], 5 << 20
    for share in (1 << 30, limit, 0):
        evaluator = TaskEvaluator(model, processor, samples[:4], kl=True, details=True, batch_size=2, share=share)
        found = evaluator(schedule), evaluator.kl(schedule), evaluator(schedule)
        sizes.append(evaluator.prefixes.held)
        assert not evaluator.prefixes._passing
        assert same(found[0], found[2])
        assert found[0].kl == found[1]
    assert sizes[0] > limit >= sizes[1] > sizes[2] == 0


def test_a_planner_and_a_pruner_are_evaluated_like_the_schedule_they_stand_for(qwen, samples):
    model, processor = qwen
    schedule = Schedule.single(2, 0.5, layers_of(model))
    evaluator = TaskEvaluator(model, processor, samples, "fastv", details=True)
    expected = evaluator(schedule)
    assert same(expected, evaluator(lambda layout, _: TokenPlan(schedule.counts(layout.num_visual))))
    assert same(expected, TaskEvaluator(model, processor, samples, "random", details=True)(Pruner("fastv", schedule)))


def test_a_schedule_per_sample_follows_its_samples_into_their_batches(qwen, samples):
    model, processor = qwen
    layers = layers_of(model)
    rows = [Schedule.single(2 + i % 3, 0.1 * (i + 1), layers).retention for i in range(len(samples))]
    evaluator = TaskEvaluator(model, processor, samples, batch_size=3)
    found = evaluator(Schedule(tuple(rows)))
    batch = encode(model, processor, samples)
    counts = torch.cat([Schedule(r).counts([n]) for r, n in zip(rows, batch.num_visual, strict=True)])
    size = cost.Dimensions.from_config(model.config)
    workload = workload_under(Chain.of("fastv"), size, batch.num_text, batch.num_visual, batch.num_instruction)
    spent = cost.get("exact", model.config).bill(counts, workload).double()
    assert found.flops["exact"] == pytest.approx(float(spent.mean()))
    with pytest.raises(InvalidInputError, match="one row for each sample"):
        evaluator(Schedule(tuple(rows[:2])))


def test_progress_counts_every_sample_of_every_subject(qwen, samples):
    model, processor = qwen
    seen = []
    evaluator = TaskEvaluator(model, processor, samples, batch_size=3, progress=lambda *now: seen.append(now))
    evaluator.many([None, Schedule.full(layers_of(model))])
    assert seen[-1] == (16, 16)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_answers_may_be_as_long_as_the_longest_reference(qwen, samples):
    model, processor = qwen
    longest = max(encode(model, processor, samples, answers=True).answer_lengths)
    assert TaskEvaluator(model, processor, samples).max_new_tokens == longest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"share": -1}, "share=-1"),
        ({"samples": []}, "at least one"),
        ({"twice": True}, "there twice"),
    ],
)
def test_bad_settings_are_refused_in_words(qwen, samples, options, message):
    model, processor = qwen
    given = options.pop("samples", samples)
    given = [*given, given[0]] if options.pop("twice", False) else given
    with pytest.raises(InvalidInputError, match=message):
        TaskEvaluator(model, processor, given, **options)


def test_bad_subjects_are_refused_in_words(qwen, samples):
    model, processor = qwen
    evaluator = TaskEvaluator(model, processor, samples)
    with pytest.raises(InvalidInputError, match="num_layers=10"):
        evaluator(Schedule.full(4))
    with pytest.raises(InvalidInputError, match="Give a Schedule"):
        evaluator([1.0, 0.5])
    with pytest.raises(InvalidInputError, match="r_0 = 1"):
        evaluator(Schedule((0.5,) * 10))
    with pytest.raises(UnknownNameError, match="Known scorers"):
        TaskEvaluator(model, processor, samples, "best")
    with pytest.raises(UnknownNameError, match="Known costs"):
        TaskEvaluator(model, processor, samples, costs=("free",))
    assert not model._forward_pre_hooks
