"""What results add up to."""

import pytest

from vispco.evaluation.result import Evaluation, TaskResult


def test_the_interval_of_an_average_over_one_task_is_that_tasks():
    task = TaskResult.from_scores("word", [1.0] * 9 + [0.0])
    one = Evaluation.from_tasks([task], flops={}, fraction={})
    assert (one.accuracy, one.low, one.high) == (task.accuracy, task.low, task.high)


def test_the_interval_of_two_tasks_is_narrower_and_around_their_mean():
    tasks = [TaskResult.from_scores(name, [1.0] * 8 + [0.0] * 8) for name in ("word", "chart")]
    both = Evaluation.from_tasks(tasks, flops={}, fraction={})
    assert both.accuracy == pytest.approx(0.5)
    assert tasks[0].low < both.low < 0.5 < both.high < tasks[0].high
