"""How long a demo will take, by a clock that the test turns."""

import pytest

from vispco.report.demo.forecast import Forecast

STAGES = {"search": 60.0, "sweep": 30.0, "page": 10.0}


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def told():
    return []


@pytest.fixture
def forecast(clock, told):
    return Forecast(lambda *all_of_it: told.append(all_of_it), STAGES, now=lambda: clock[0])


def test_before_anything_is_known_it_takes_what_it_takes_on_two_cores(forecast):
    assert (forecast.share, forecast.left) == (0.0, 100.0)


def test_a_slow_machine_is_noticed_when_a_stage_ends(forecast, clock, told):
    forecast("search", None, "")
    clock[0] = 120.0
    forecast("sweep", None, "sweeping")
    assert forecast.left == pytest.approx(80.0)  # twice as slow
    assert forecast.share == pytest.approx(0.6)
    assert told[-1] == (pytest.approx(0.6), 1.0, "2/3 sweep, about 0:01:20 left: sweeping")


def test_a_stage_that_says_how_far_it_is_counts_at_once(forecast, clock):
    forecast("search", None, "")
    clock[0] = 60.0
    forecast("search", 0.5, "")
    assert forecast.left == pytest.approx((30 + 30 + 10) * 2)


def test_a_stage_that_says_nothing_never_seems_done(forecast, clock):
    forecast("search", None, "")
    clock[0] = 1e6
    assert forecast.share < 0.6
    assert forecast.left > 0


def test_what_was_done_before_takes_no_time(forecast, clock):
    forecast("sweep", None, "")
    clock[0] = 3.0
    forecast("sweep", 0.1, "")
    assert forecast.left == pytest.approx(27 + 10)
