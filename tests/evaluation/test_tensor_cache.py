import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco.core.errors import InvalidInputError
from vispco.evaluation.caches import TensorCache


@settings(max_examples=30, deadline=None)
@given(
    memory=st.integers(0, 400),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 20)), max_size=40),
)
def test_it_is_a_dict_that_never_holds_more_than_it_may(memory, steps):
    cache = TensorCache(memory)
    truth = {}
    for writes, key, size in steps:
        name = f"split/{key}"
        if writes:
            truth[name] = torch.arange(size) + key
            cache.put(name, {"x": truth[name]})
        assert (name in cache) == (name in truth)
        if name in truth:
            assert torch.equal(cache.get(name)["x"], truth[name])
        assert cache.held <= memory
    assert len(cache) == len(truth)


def test_the_least_recently_used_goes_first():
    cache = TensorCache(16)
    for name in "ab":
        cache.put(name, {"x": torch.zeros(2)})
    cache.get("a")
    cache.put("c", {"x": torch.zeros(2)})
    assert set(cache._entries) == {"a", "c"}
    assert cache.on_disk == 1


def test_what_does_not_fit_is_read_back():
    cache = TensorCache(4)
    cache.put("a", {"x": torch.ones(2)})
    assert cache.on_disk == 1
    assert cache.get("a")["x"].tolist() == [1.0, 1.0]


def test_what_is_missing_is_a_key_error_and_negative_memory_is_refused():
    with pytest.raises(KeyError):
        TensorCache().get("nothing")
    with pytest.raises(InvalidInputError, match="memory=-1"):
        TensorCache(-1)
