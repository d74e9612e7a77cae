"""How long a demo will take, by a clock that the test turns."""

import pytest

from vispco.report.demo.forecast import Forecast

STAGES = {"search": 60.0, "sweep": 30.0, "page": 10.0}


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def forecast(clock):
    return Forecast(STAGES, now=lambda: clock[0])


def test_before_anything_is_known_it_takes_what_it_takes_on_two_cores(forecast):
    assert (forecast.share, forecast.left) == (0.0, 100.0)


def test_a_slow_machine_is_noticed_when_a_stage_ends(forecast, clock):
    forecast.begin("search")
    clock[0] = 120.0
    forecast.end()
    assert forecast.left == pytest.approx(80.0)  # twice as slow
    assert forecast.share == pytest.approx(0.6)


def test_a_stage_that_says_how_far_it_is_counts_at_once(forecast, clock):
    forecast.begin("search")
    clock[0] = 60.0
    forecast.moved(0.5)
    assert forecast.left == pytest.approx((30 + 30 + 10) * 2)


def test_a_stage_that_says_nothing_never_seems_done(forecast, clock):
    forecast.begin("search")
    clock[0] = 1e6
    assert forecast.share < 0.6
    assert forecast.left > 0


def test_what_was_done_before_takes_no_time(forecast, clock):
    forecast.skip("search")
    forecast.begin("sweep")
    clock[0] = 3.0
    forecast.moved(0.1)
    assert forecast.left == pytest.approx(27 + 10)
