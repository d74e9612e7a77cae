"""What the engine cannot serve exactly is refused before any layer runs, in a sentence that says what to do."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

from tiny import DEFAULT, IMAGE, LAYERS, build, inputs
from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError, UnknownNameError, UnsupportedModelError

SCHEDULE = Schedule((1.0, 0.5, 0.5, 0.25))
PRUNER = Pruner("fastv", SCHEDULE)


@pytest.fixture
def never_runs():
    """A model none of whose decoder layers may run. (generate() itself encodes pictures before it calls the model.)"""
    model = build("llava")

    def fail(*_):
        pytest.fail("a layer ran before the refusal")

    handles = [layer.register_forward_pre_hook(fail) for layer in model.model.language_model.layers]
    yield model
    for handle in handles:
        handle.remove()


def test_a_static_cache_is_refused(never_runs):
    x = inputs("llava", [DEFAULT])
    with PRUNER(never_runs):
        with pytest.raises(UnsupportedModelError, match="cache that grows"):
            never_runs.generate(**x, max_new_tokens=2, cache_implementation="static", disable_compile=True)
        cache = StaticCache(config=never_runs.config, max_cache_len=64)
        with pytest.raises(UnsupportedModelError, match="StaticLayer"):
            never_runs(**x, past_key_values=cache)


def test_a_cache_of_an_unknown_kind_is_refused(never_runs):
    with PRUNER(never_runs), pytest.raises(UnsupportedModelError, match="DynamicCache"):
        never_runs(**inputs("llava", [DEFAULT]), past_key_values=[(torch.zeros(1), torch.zeros(1))])


def test_an_offloaded_cache_is_refused(never_runs):
    from transformers import DynamicCache

    cache = DynamicCache()
    cache.offloading = True
    with PRUNER(never_runs), pytest.raises(UnsupportedModelError, match="offload"):
        never_runs(**inputs("llava", [DEFAULT]), past_key_values=cache)


def test_flex_attention_is_refused():
    model = build("llava")
    model.model.language_model.config._attn_implementation = "flex_attention"
    try:
        with pytest.raises(UnsupportedModelError, match="set_attn_implementation"):
            PRUNER.apply(model)
    finally:
        model.set_attn_implementation("sdpa")


def test_chunked_prefill_is_refused(never_runs):
    x = inputs("llava", [DEFAULT])
    with PRUNER(never_runs), pytest.raises(UnsupportedModelError, match="chunked prefill"):
        never_runs.generate(**x, max_new_tokens=2, prefill_chunk_size=12)


@pytest.mark.parametrize(("setting", "value"), [("prefill_chunk_size", 4), ("cache_implementation", "static")])
def test_a_generation_config_that_cannot_be_served_is_refused_when_the_pruner_is_applied(setting, value):
    model = build("llava")
    setattr(model.generation_config, setting, value)
    try:
        with pytest.raises(UnsupportedModelError, match=f"{setting} is {value!r}"):
            PRUNER.apply(model)
    finally:
        setattr(model.generation_config, setting, None)


def test_a_model_without_pictures_is_refused_by_what_it_lacks():
    config = LlamaConfig(
        vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, pad_token_id=0
    )
    with pytest.raises(UnsupportedModelError, match="language_model, text_model"):
        PRUNER.apply(LlamaForCausalLM(config))


def test_a_model_without_an_image_token_is_refused():
    model = build("llava")
    token = model.config.image_token_id
    model.model.config.image_token_id = None
    try:
        with PRUNER(model), pytest.raises(UnsupportedModelError, match="image_token_id"):
            model(**inputs("llava", [DEFAULT]))
    finally:
        model.model.config.image_token_id = token


def test_attention_that_cannot_be_read_is_refused_by_name():
    model = build("llava")
    layer = model.model.language_model.layers[1].self_attn
    config = layer.config
    del layer.config
    try:
        with pytest.raises(UnsupportedModelError, match="transformers' attention functions"):
            PRUNER.apply(model)
        with Pruner("random", SCHEDULE)(model):
            pass
    finally:
        layer.config = config


def test_a_schedule_of_another_depth_is_refused(never_runs):
    model = never_runs
    x = inputs("llava", [DEFAULT])
    with Pruner("fastv", Schedule.full(LAYERS + 1))(model), pytest.raises(InvalidInputError, match="num_layers=4"):
        model(**x)


def test_a_schedule_for_another_batch_is_refused():
    model = build("llava")
    per_sample = Schedule((SCHEDULE.retention,) * 3)
    with torch.no_grad(), Pruner("fastv", per_sample)(model), pytest.raises(InvalidInputError, match="3"):
        model(**inputs("llava", [DEFAULT, DEFAULT]))


def test_pruning_before_layer_0_needs_a_scorer_that_reads_no_attention():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    early = Schedule((0.5, 0.5, 0.5, 0.5))
    with torch.no_grad(), Pruner("fastv", early)(model), pytest.raises(InvalidInputError, match="r_0 = 1"):
        model(**x)
    with torch.no_grad(), Pruner("random", early)(model):
        cache = model(**x, use_cache=True).past_key_values
    assert [layer.keys.shape[-2] for layer in cache.layers] == [15] * LAYERS


def test_masking_is_for_one_pass():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    with Pruner("fastv", SCHEDULE, mode="mask")(model), pytest.raises(UnsupportedModelError, match="mode='drop'"):
        model.generate(**x, max_new_tokens=3)


def test_placeholders_without_pictures_are_refused(never_runs):
    x = inputs("llava", [DEFAULT])
    del x["pixel_values"]
    with PRUNER(never_runs), pytest.raises(UnsupportedModelError, match="no pictures"):
        never_runs(**x)


def test_merged_embeddings_with_pictures_are_found_as_transformers_finds_them():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    embeds = model.get_input_embeddings()(x["input_ids"])
    with torch.no_grad(), PRUNER(model):
        want = model(**x).logits
        without = {k: v for k, v in x.items() if k != "input_ids"}
        assert torch.equal(model(**without, inputs_embeds=embeds).logits, want)


def test_features_computed_beforehand_give_the_same_as_pixels():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    with torch.no_grad(), PRUNER(model):
        want = model(**x).logits
        image = model.model.get_image_features(x["pixel_values"], return_dict=True)
        got = model(input_ids=x["input_ids"], attention_mask=x["attention_mask"], mm_encoder_outputs={"image": image})
    assert torch.equal(got.logits, want)


def test_a_sample_that_is_all_padding_is_refused_by_its_number():
    model, x = build("llava"), inputs("llava", [DEFAULT, DEFAULT])
    x["attention_mask"][1] = 0
    with PRUNER(model), pytest.raises(InvalidInputError, match="Sample 1"):
        model(**x)


def test_an_unknown_scorer_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="fastv, fitprune"):
        Pruner("fastw", SCHEDULE)
    from vispco.scorers import get

    with pytest.raises(InvalidInputError, match="does not take"):
        get("fastv", recycle=True)


def test_flash_attention_with_a_short_window_is_refused(monkeypatch):
    """Flash attention itself needs a GPU; the refusal does not."""
    from vispco.engine.hooks import engine_on

    model, x = build("gemma3"), inputs("gemma3", [DEFAULT])
    with torch.no_grad(), PRUNER(model):
        monkeypatch.setattr(engine_on(model.model), "_flash", True)
        with pytest.raises(UnsupportedModelError, match="sliding window of 12"):
            model(**x)
    assert int((x["input_ids"] == IMAGE).sum()) == 16
