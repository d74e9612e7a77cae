"""FLOPs of vision towers and projectors, against torch's counter."""

import pytest
import torch
import transformers as tf
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import tiny
from vispco.core.errors import UnsupportedModelError
from vispco.cost import Dimensions, Exact, Workload
from vispco.families import family_of
from vispco.families.tower_shape import TowerShape

DESCRIBED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "gemma3", "internvl", "idefics3", "smolvlm")
PROMPTS = {
    "one": [tiny.words(2, 1), tiny.picture(), tiny.words(5, 2)],
    "wide": [tiny.words(2, 1), tiny.picture(3, 7), tiny.words(5, 2)],
    "two": [tiny.words(2, 1), tiny.picture(5, 5), tiny.words(3, 4), tiny.picture(2, 6), tiny.words(5, 2)],
}


def counted(model, given) -> int:
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(**given, logits_to_keep=1)
    return counter.get_total_flops()


def language_model_flops(model, layout) -> int:
    """The decoder layers and the output head."""
    size = Dimensions.from_config(model.config)
    load = Workload(torch.tensor(layout.num_text), torch.tensor(layout.num_visual))
    return int(Exact(size).full(load).sum()) + 2 * len(layout.num_text) * size.hidden * size.vocab


def check(model, given) -> None:
    layout = family_of(model).layout(model, given)
    tower = int(TowerShape.from_config(model.config).sample_flops(layout).sum())
    assert tower > 0
    assert counted(model, given) == tower + language_model_flops(model, layout)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("name", DESCRIBED)
def test_flops_of_the_whole_prefill_equal_what_torch_counts(name, prompt):
    check(tiny.build(name), tiny.inputs(name, [PROMPTS[prompt]]))


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_frames_of_a_video_attend_apart(name):
    check(tiny.build(name), tiny.inputs(name, [[tiny.words(2, 1), tiny.picture(3, 4, frames=3), tiny.words(4, 2)]]))


def windowed():
    torch.manual_seed(0)
    config = tiny.qwen2_5_vl().config
    config.vision_config.depth, config.vision_config.fullatt_block_indexes = 3, [1]
    return tf.Qwen2_5_VLForConditionalGeneration(config).eval()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_windows_are_counted_each_for_itself(prompt):
    model = windowed()
    assert TowerShape.from_config(model.config).windows == (2, None, 2)
    check(model, tiny.inputs("qwen2_5_vl", [PROMPTS[prompt]]))


def test_a_siglip_tower_of_llava_is_counted_with_its_pooling_head():
    torch.manual_seed(0)
    config = tf.LlavaConfig(
        text_config=tf.LlamaConfig(**tiny.TEXT),
        vision_config=tf.SiglipVisionConfig(**tiny.CLIP),
        image_token_id=tiny.IMAGE,
        vision_feature_select_strategy="full",
    )
    check(tf.LlavaForConditionalGeneration(config).eval(), tiny.inputs("llava", [PROMPTS["two"]]))


def test_all_cells_by_number_are_the_whole_tower_and_fewer_cost_less():
    shape = TowerShape.from_config(windowed().config)
    pictures = ((1, 5, 5), (1, 2, 6))
    assert shape.flops(pictures, [37, 37, 37]) == shape.flops(pictures)
    cut = shape.flops(pictures, [37, 20, 20])
    assert cut < shape.flops(pictures)
    segments = shape.segments(pictures)
    spread = [segments[0], [10, 10], [1] * 12 + [0] * 0 + [4, 4]]
    assert shape.flops(pictures, segments=spread) <= cut  # the number alone is charged at its dearest


@pytest.mark.parametrize("name", ["llava_next", "llava_onevision"])
def test_a_tower_that_is_not_described_is_refused_in_a_sentence(name):
    with pytest.raises(UnsupportedModelError, match=r"not counted\. Give a budget of the language model"):
        TowerShape.from_config(tiny.build(name).config)
