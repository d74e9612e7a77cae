"""A budget is read as a person writes it, and written so that it is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vispco.core.errors import InvalidInputError
from vispco.cost import Budget, parse_budgets


@pytest.mark.parametrize(
    ("written", "kind", "amount", "cap"),
    [
        (0.5, "flops", 0.5, None),
        (1, "flops", 1.0, None),
        ("0.5", "flops", 0.5, None),
        (" 50% ", "flops", 0.5, None),
        ("40ms", "ms", 40.0, None),
        ("0.04 s", "ms", 40.0, None),
        ("0.6t", "time", 0.6, None),
        ("60%t", "time", 0.6, None),
        ("120MB", "bytes", 120e6, None),
        ("1.5 GiB", "bytes", 1.5 * 2**30, None),
        ("mean:0.2,max:0.5", "flops", 0.2, 0.5),
        ("mean: 20%, max: 50%", "flops", 0.2, 0.5),
        ("mean:0.2", "flops", 0.2, 1.0),
        ("mean:30ms,max:40ms", "ms", 30.0, 40.0),
    ],
)
def test_budgets_are_read(written, kind, amount, cap):
    found = Budget.of(written)
    assert (found.kind, found.cap) == (kind, cap)
    assert found.amount == pytest.approx(amount)


@given(
    st.sampled_from(["flops", "time", "ms", "bytes"]), st.integers(1, 1000), st.one_of(st.none(), st.integers(0, 1000))
)
def test_what_is_written_is_read_again(kind, amount, more):
    scale = 2000 if kind in ("flops", "time") else 1
    made = Budget(kind, amount / scale, None if more is None else (amount + more) / scale)
    assert Budget.of(str(made)) == made
    assert Budget.of(made) is made
    assert Budget.of(made.plain) == made
    assert isinstance(made.plain, float) == (kind == "flops" and more is None)


@pytest.mark.parametrize(
    "wrong",
    ["", "half", "0", "1.5", "-0.2", "0ms", "40 m", "mean:0.5,max:0.2", "mean:40ms", "mean:0.2,max:40ms", None, True],
)
def test_what_is_no_budget_is_refused_with_the_forms_that_are(wrong):
    with pytest.raises(InvalidInputError, match=r"budget"):
        Budget.of(wrong)


def test_several_are_separated_by_commas():
    assert parse_budgets("0.3, 50%,mean:0.2,max:0.5") == [Budget.of(b) for b in (0.3, 0.5, "mean:0.2,max:0.5")]
    assert parse_budgets("0.3,40ms") == [Budget("flops", 0.3), Budget("ms", 40.0)]
    with pytest.raises(InvalidInputError, match="No budget"):
        parse_budgets(" ,")


def test_where_only_a_fraction_is_meant_others_are_refused():
    assert Budget.of("50%").fraction == 0.5
    for other in ("40ms", "0.6t", "mean:0.2,max:0.5"):
        with pytest.raises(InvalidInputError, match="fraction of the FLOPs"):
            Budget.of(other).fraction  # noqa: B018 - refused


def test_tables_call_them_by_short_names():
    labels = [Budget.of(b).label for b in (0.5, "0.6t", "40ms", "120MB", "mean:0.2,max:0.5")]
    assert labels == ["50%", "60% of the time", "40 ms", "120 MB", "mean 20%, at most 50%"]
