"""The attention that tokens receive, read without maps, is what eager attention says."""

import pytest
import torch

import tiny
from compare.searches.conftest import evaluator
from vispco.compare.searches.fitprune_search import _read_received_attention, _received
from vispco.engine import attention_calls
from vispco.families import family_of

PROMPTS = [
    (tiny.words(2, 1), tiny.picture(), tiny.words(5, 2)),
    (tiny.words(4, 3), tiny.picture(4, 5), tiny.words(7, 4)),
]


def naive(attentions, layout):
    """Head-wise maximum of whole maps, then sums over columns: the definition."""
    cross, own = [], []
    for weights in attentions:
        flat = weights.float().amax(1)  # [B, N, N]
        for side, text in ((cross, True), (own, False)):
            rows = torch.zeros(layout.batch_size, max(layout.num_visual))
            for b in range(layout.batch_size):
                visual = layout.visual[b].nonzero()[:, 0]
                after = (layout.real[b] & ~layout.visual[b]).nonzero()[:, 0]
                after = after[after > visual[0]]
                queries = after if text else visual
                got = flat[b][queries][:, visual].sum(0)
                rows[b, : len(visual)] = got if text else got / len(visual)
            side.append(rows)
    return cross, own


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", tiny.FIRST_CLASS)
def test_received_attention_is_that_of_whole_attention_maps(name, side, attention):
    inputs = tiny.inputs(name, PROMPTS, side=side)
    layout = family_of(tiny.build(name)).layout(tiny.build(name), inputs)
    with torch.no_grad():
        told = tiny.build(name, "eager")(**inputs, output_attentions=True, use_cache=False).attentions
        model = tiny.build(name, attention)
        read = []
        with attention_calls(model, lambda _, call: read.append(_received(call, layout))):
            model(**inputs, use_cache=False)
    cross, own = naive(told, layout)
    assert len(read) == tiny.LAYERS
    for (got_cross, got_own), want_cross, want_own in zip(read, cross, own, strict=True):
        torch.testing.assert_close(got_cross, want_cross, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(got_own, want_own, rtol=1e-4, atol=1e-5)


def test_reading_leaves_no_hook_behind_even_after_an_error():
    model = tiny.build("qwen2_5_vl")
    layout = family_of(model).layout(model, tiny.inputs("qwen2_5_vl", PROMPTS))

    def hooks():  # transformers has some of its own
        return [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]

    def implementation():
        return model.model.language_model.layers[0].self_attn.config._attn_implementation

    def fail():
        with attention_calls(model, lambda _, call: _received(call, layout)):
            assert implementation() != before[1]
            raise ZeroDivisionError

    before = hooks(), implementation()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert (hooks(), implementation()) == before


def test_rows_are_in_the_order_of_the_samples_for_any_batches():
    one, two = _read_received_attention(evaluator(batch_size=1)), _read_received_attention(evaluator(batch_size=4))
    assert torch.equal(one.present, two.present)
    assert torch.equal(one.rows, two.rows)
    torch.testing.assert_close(one.cross, two.cross, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(one.own, two.own, rtol=1e-3, atol=1e-5)
    assert one.cross.shape == (4, 10, int(one.present.sum(-1).max()))
