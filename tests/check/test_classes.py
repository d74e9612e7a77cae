"""The walk over transformers' classes, on a sample of them; all are in benchmarks/families.py."""

import json
from pathlib import Path

import pytest
from transformers import __version__

from vispco.check.check_model import check_model
from vispco.check.twin import classes, twin_of
from vispco.families.unserved import NO_VISUAL_TOKENS, OTHERWISE
from vispco_zoo.class_walk import VARIANTS, check_class, check_variant

SERVED = (
    *("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe_thinker", "qwen3_5", "minicpmv4_6", "gemma4", "gemma3n"),
    *("cohere2_vision", "aya_vision", "exaone4_5", "hunyuan_vl", "llama4", "lfm2_vl", "kimi_k25", "granite4_vision"),
    *("ernie4_5_vl_moe", "nemotron_h_omni", "chameleon", "kosmos-2", "paligemma", "mistral3", "molmo2"),
)
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "families.json"


@pytest.mark.parametrize("model_type", SERVED)
def test_every_law_holds(model_type):
    report = check_class(model_type)
    assert report.verdict == "right", report.why
    assert all(finding.state == "holds" for finding in report.findings)
    assert len(report.findings) >= 6


@pytest.mark.parametrize("name", ["InternVL 3.5 with gpt-oss", "PaliGemma without token types", "SmolVLM with SmolLM3"])
def test_every_law_holds_for_a_variant(name):
    report = check_variant(name)
    assert report.verdict == "right", report.why


@pytest.mark.parametrize("model_type", ["mistral_large4", "unlimited_ocr", "diffusion_gemma"])
def test_what_cannot_be_served_is_refused_in_a_sentence(model_type):
    report = check_model(twin_of(model_type))
    assert report.verdict == "refused"
    assert report.why.endswith(".")


def test_classes_without_visual_tokens_are_classes():
    assert set(NO_VISUAL_TOKENS) | set(OTHERWISE) <= set(classes())


def test_the_walk_was_over_all_classes_and_found_nothing_wrong():
    result = json.loads(RESULTS.read_text(encoding="utf-8"))
    figures = {name: figure["value"] for name, figure in result["figures"].items()}
    assert figures["right"] >= 62
    assert figures["variants_right"] >= 16
    assert figures["wrong"] == figures["obscure_crashes"] == 0
    assert set(result["details"]["variants"]) == set(VARIANTS)
    if result["versions"]["transformers"] == __version__:
        assert set(result["details"]["classes"]) == set(classes())
