"""What an engine may not do with pruning, and that installing vispco changes nothing."""

import json
import os
import shutil

import pytest

from vispco import models as zoo
from vispco.vllm import options
from vispco.vllm.settings import kept_tokens


@pytest.fixture(autouse=True)
def environment():
    from vllm_plugin.pairs import ENVIRONMENT

    os.environ.update(ENVIRONMENT)


def configured(folder=None, **given):
    from vllm.engine.arg_utils import EngineArgs

    model = str(folder or zoo.path("tiny-qwen3"))
    return EngineArgs(model, **{"dtype": "float32", "max_model_len": 256, **given}).create_engine_config()


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


def test_windows_that_slide_are_refused(tmp_path):
    """vLLM counts the tokens that are left, transformers the positions."""
    folder = tmp_path / "window"
    shutil.copytree(zoo.path("tiny-llava"), folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["sliding_window"] = 64
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="--max-model-len 64"):
        configured(folder, **options("divprune", keep=0.25))
    assert configured(folder, max_model_len=64, **options("divprune", keep=0.25))


def test_another_class_is_refused():
    from vllm.engine.arg_utils import EngineArgs

    with pytest.raises(Exception, match="is not pruned inside vLLM"):
        EngineArgs(str(zoo.path("tiny-gemma")), **options("divprune", keep=0.25)).create_engine_config()


def test_gemma3_is_refused_because_vllm_for_cpus_lets_no_visual_token_see_a_later_one(tmp_path):
    """Without pruning, vLLM's answer is that of transformers under a causal mask, and not that of transformers."""
    import torch
    from vllm import LLM, SamplingParams

    import vispco
    from vispco.data import dataset
    from vispco.evaluation.encoded import apply_template
    from vllm_plugin.random_models import gemma3

    folder, served = gemma3(tmp_path / "gemma")
    llm = LLM(str(served), dtype="float32", max_model_len=256, max_num_seqs=2, block_size=32, enforce_eager=True)
    model, processor = vispco.load(str(folder), dtype=torch.float32)
    (sample,) = dataset("test", "attribute", 1)
    turns = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": sample.question}]}]
    prompt = {"prompt": apply_template(processor, turns), "multi_modal_data": {"image": sample.images[0]}}
    (found,) = llm.generate(prompt, SamplingParams(temperature=0, max_tokens=1, logprobs=5), use_tqdm=False)
    ids = torch.tensor([found.prompt_token_ids])
    pixels = processor.image_processor(images=list(sample.images), return_tensors="pt")["pixel_values"]
    apart = []
    for types in (ids == model.config.image_token_id, torch.zeros_like(ids)):
        with torch.no_grad():
            logits = model(input_ids=ids, pixel_values=pixels, token_type_ids=types.long()).logits[0, -1]
        expected = logits.log_softmax(-1)
        shown = found.outputs[0].logprobs[0].items()
        apart.append(max(abs(each.logprob - float(expected[token])) for token, each in shown))
    llm.llm_engine.engine_core.shutdown()
    assert apart[0] > 100 * 1e-4 > 100 * apart[1]


@pytest.mark.parametrize("most", [1.0, 0.5])
def test_the_encoder_cache_is_sized_for_the_largest_share(most):
    """By the default alone, a request for more would not fit."""
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.encoder_budget import MultiModalBudget

    sizes = MultiModalBudget(configured(**options("divprune", keep=0.25, max_keep=most)), MULTIMODAL_REGISTRY)
    assert sizes.mm_max_toks_per_item == {"image": kept_tokens(256, most)}


@pytest.mark.parametrize(
    ("placeholders", "shown"),
    [([7] * 6, [7] * 2), ([1, 7, 7, 7, 7, 7, 7, 2], [1, 7, 7, 2]), ([7, 7, 7, 9, 7, 7, 7], None), ([7] * 5, None)],
)
def test_a_run_of_placeholders_is_cut_and_several_runs_are_refused(placeholders, shown):
    from types import SimpleNamespace

    import torch
    from vllm.multimodal.processing import PromptReplacement, PromptUpdateDetails

    from vispco.core.errors import InvalidInputError
    from vispco.vllm.processing import PICTURES, PrunedProcessor

    whole = PromptUpdateDetails.select_token_id(placeholders, 7)
    update = PromptReplacement(modality="image", target=[7], replacement=lambda _: whole)
    picture = {PICTURES: SimpleNamespace(data=torch.tensor([2, 1, 2, 3]))}  # two of 2 x 3 tokens are left
    cut = PrunedProcessor()._shortened(update, {"image": [picture]}).replacement
    if shown is None:
        with pytest.raises(InvalidInputError, match="not one run of one placeholder"):
            cut(0)
    else:
        found = cut(0)
        assert found.full == shown
        assert found.is_embed(found.full).tolist() == [token == 7 for token in shown]
