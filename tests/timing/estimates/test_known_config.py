"""What `vispco info` says of a config without transformers is what it says with it; and nothing heavy is imported."""

import json
import subprocess
import sys

import pytest

from project.sources import ROOT
from vispco.cli.info import read_config, read_preprocessor
from vispco.core import schedule
from vispco.models.model_source import LoadError
from vispco.timing.estimates import DescribeSettings, describe
from vispco.timing.estimates.known_config import MODELS, known_config
from vispco.timing.estimates.work import BATCH, BUDGETS, HALF, PASSES, RATIOS, Descent

FILES = {
    path.parent.name if path.name == "config.json" else path.stem: path
    for path in (*ROOT.glob("src/vispco/zoo/weights/*/config.json"), *ROOT.glob("benchmarks/configs/*.json"))
}
SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
# Short files, as hubs have them: what is left out has the value of transformers' class.
SHORT = {
    "llava as on the hub": {
        "model_type": "llava", "torch_dtype": "float16", "vocab_size": 32064, "tie_word_embeddings": False,
        "text_config": {"model_type": "llama", "vocab_size": 32064, "torch_dtype": "float16"},
        "vision_config": {
            "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "image_size": 336,
            "num_hidden_layers": 24, "num_attention_heads": 16, "patch_size": 14, "vocab_size": 32000,
        },
    },
    "llava without parts": {"model_type": "llava"},
    "llava of qwen2, tied, several feature layers": {
        "model_type": "llava", "vision_feature_layer": [-2, -1], "multimodal_projector_bias": False,
        "vision_feature_select_strategy": "full",
        "text_config": {"model_type": "qwen2", "tie_word_embeddings": True, **SMALL, "num_key_value_heads": 2},
        "vision_config": {"model_type": "siglip_vision_model", **SMALL, "image_size": 64, "patch_size": 16},
    },
    "gemma3 as on the hub": {
        "model_type": "gemma3", "torch_dtype": "bfloat16", "mm_tokens_per_image": 256,
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {
            "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "image_size": 896,
            "num_hidden_layers": 27, "num_attention_heads": 16, "patch_size": 14, "vision_use_head": False,
        },
    },
    "gemma3 by default": {"model_type": "gemma3"},
    "qwen2-vl, flat": {
        "model_type": "qwen2_vl", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "use_sliding_window": False, "max_window_layers": 28, "sliding_window": 32768,
        "vision_config": {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "hidden_size": 1536,
                          "model_type": "qwen2_vl"},
    },
    "qwen3-vl by default": {"model_type": "qwen3_vl"},
    "qwen3-vl as on the hub": {
        "model_type": "qwen3_vl", "tie_word_embeddings": True,
        "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 2560, "intermediate_size": 9728, "dtype": "bfloat16",
                        "num_hidden_layers": 36, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
        "vision_config": {"model_type": "qwen3_vl", "depth": 24, "hidden_size": 1024, "intermediate_size": 4096,
                          "num_heads": 16, "out_hidden_size": 2560, "deepstack_visual_indexes": [5, 11, 17]},
    },
    "qwen2.5-vl with a sliding window": {
        "model_type": "qwen2_5_vl",
        "text_config": {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 2, **SMALL,
                        "num_key_value_heads": 2, "dtype": "float16"},
    },
}  # fmt: skip


def both(data, folder):
    """What is said of a config without and with transformers."""
    (folder / "config.json").write_text(json.dumps(data))
    at = DescribeSettings(visual=None if data["model_type"] != "gemma3" else 100)
    quick, beside = known_config(data), read_preprocessor(str(folder))
    assert quick is not None
    return describe(quick, "m", at, beside), describe(read_config(str(folder)), "m", at, beside)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_says_the_same_without_transformers(name, tmp_path):
    quick, whole = both(json.loads(FILES[name].read_text()), tmp_path)
    assert quick == whole


@pytest.mark.parametrize("name", SHORT)
def test_what_a_file_leaves_out_has_the_value_of_transformers(name, tmp_path):
    quick, whole = both(SHORT[name], tmp_path)
    assert quick == whole


def test_every_known_type_is_compared():
    compared = {json.loads(path.read_text())["model_type"] for path in FILES.values()}
    assert compared | {data["model_type"] for data in SHORT.values()} == set(MODELS)


@pytest.mark.parametrize(
    "data",
    [
        {"model_type": "paligemma"},
        {"model_type": "llava", "text_config": {"model_type": "mixtral"}},
        {"model_type": "llava", "text_config": {"model_type": "llama", "attention_bias": True}},
        {"model_type": "llava", "auto_map": {"AutoConfig": "code.Config"}},
        {"model_type": "llava", "quantization_config": {}},
        {"model_type": "llava", "dtype": "float8_e4m3fn"},
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "use_bidirectional_attention": True}},
        {"model_type": "qwen2_5_vl", "vision_config": {"patch_size": [14, 14]}},
        {"model_type": "qwen3_vl", "vision_config": {"deepstack_visual_indexes": 3}},
        {"model_type": "gemma3", "text_config": {"hidden_size": "many", "head_dim": 64}},
        {"model_type": "gemma3", "text_config": {"num_hidden_layers": 2, "layer_types": ["full_attention"]}},
    ],
)
def test_what_is_not_known_is_left_to_transformers(data):
    assert known_config(data) is None


def test_defaults_of_the_searches_are_stated_as_they_are():
    from vispco.search import modes
    from vispco.search import search_spec as spec
    from vispco.search.gradient.static import DescentSettings
    from vispco.sweep import spaces

    plan = DescentSettings()
    stated = Descent(plan.starts, plan.outer, plan.inner, plan.batches, len(plan.lengths), plan.explore)
    assert (schedule.HALF, modes.PASSES, spec.BUDGETS, spaces.RATIOS) == (HALF, PASSES, BUDGETS, RATIOS)
    assert spec.Effort().batch_size == BATCH
    assert stated == Descent()


@pytest.mark.parametrize("given", ["tiny-qwen", "benchmarks/configs/LLaVA-1.5-7B-config.json"])
def test_info_imports_neither_torch_nor_transformers(given):
    code = (
        "import sys; sys.argv = ['vispco', 'info', sys.argv[1], '--json']\n"
        "from vispco.cli import main\n"
        "main.app(standalone_mode=False)\n"
        "print(*(name for name in ('torch', 'transformers', 'scipy', 'optuna') if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, given], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout)["layers"] in (10, 32)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    "data",
    [
        {"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": "wide"}},
        {"model_type": "llava", "text_config": 7},
        {"model_type": 5},
        [1, 2],
    ],
    ids=["a field of a wrong type", "a number for a part", "a number for the type", "a list"],
)
def test_a_config_that_cannot_be_one_is_refused_in_a_sentence(data, tmp_path):
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(data))
    with pytest.raises(LoadError, match=r"No config could be read from .*wrong\.json"):
        read_config(str(file))
