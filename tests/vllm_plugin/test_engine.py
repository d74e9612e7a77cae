"""What an engine may not do with pruning, and that installing vispco changes nothing."""

import os

import pytest

from vispco import models as zoo
from vispco.vllm import options
from vispco.vllm.settings import kept_tokens


@pytest.fixture(autouse=True)
def environment():
    from vllm_plugin.pairs import ENVIRONMENT

    os.environ.update(ENVIRONMENT)


def configured(**given):
    from vllm.engine.arg_utils import EngineArgs

    return EngineArgs(str(zoo.path("tiny-qwen3")), dtype="float32", max_model_len=256, **given).create_engine_config()


def test_nothing_changes_until_it_is_asked_for():
    plain = configured()
    assert plain.model_config.architecture == "Qwen3VLForConditionalGeneration"
    pruned = configured(**options("divprune", keep=0.25))
    assert pruned.model_config.architecture == "VispcoQwen3VLForConditionalGeneration"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"pipeline_parallel_size": 2}, "pipeline_parallel_size=2"),
        ({"enforce_eager": False}, "enforce_eager=True"),
        ({"enable_mm_embeds": True}, "enable_mm_embeds"),
        ({"video_pruning_rate": 0.5}, "own pruning of videos"),
        ({"mm_processor_kwargs": {"vispco_keep": 0.3}}, "vispco_keep was given for the engine"),
        (
            {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2}},
            "Speculative decoding",
        ),
    ],
)
def test_what_was_not_tested_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        configured(**{**options("divprune", keep=0.25), **given})


def test_another_class_is_refused():
    from vllm.engine.arg_utils import EngineArgs

    with pytest.raises(Exception, match="is not pruned inside vLLM"):
        EngineArgs(str(zoo.path("tiny-gemma")), **options("divprune", keep=0.25)).create_engine_config()


@pytest.mark.parametrize("most", [1.0, 0.5])
def test_the_encoder_cache_is_sized_for_the_largest_share(most):
    """By the default alone, a request for more would not fit."""
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.encoder_budget import MultiModalBudget

    sizes = MultiModalBudget(configured(**options("divprune", keep=0.25, max_keep=most)), MULTIMODAL_REGISTRY)
    assert sizes.mm_max_toks_per_item == {"image": kept_tokens(256, most)}
