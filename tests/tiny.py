"""Small random models of the real transformers classes, and inputs for them: what the engine's laws are tested on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import torch
import transformers as tf

from vispco.cost.formulas import counted_flops

IMAGE, VIDEO, PAD = 5, 6, 0
VOCAB = 64
TEXT = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
}
LAYERS = TEXT["num_hidden_layers"]


def qwen2_5_vl():
    text = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 32,
        "window_size": 16,
        "fullatt_block_indexes": [0],
        "initializer_range": 0.3,
    }
    config = tf.Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=7
    )
    return tf.Qwen2_5_VLForConditionalGeneration(config)


def qwen3_vl():
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    vision = {
        "depth": 3,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 32,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0, 1],
        "initializer_range": 0.3,
    }
    config = tf.Qwen3VLConfig(
        text_config={**TEXT, "head_dim": 8, "rope_parameters": rope},
        vision_config=vision,
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=7,
    )
    return tf.Qwen3VLForConditionalGeneration(config)


def qwen2_vl():
    text = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
    vision = {
        "depth": 1,
        "embed_dim": 16,
        "hidden_size": 32,
        "num_heads": 2,
        "mlp_ratio": 2,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "initializer_range": 0.3,
    }
    config = tf.Qwen2VLConfig(
        text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=7
    )
    return tf.Qwen2VLForConditionalGeneration(config)


CLIP = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
    "initializer_range": 0.3,
}


def llava():
    config = tf.LlavaConfig(
        text_config=tf.LlamaConfig(**TEXT), vision_config=tf.CLIPVisionConfig(**CLIP), image_token_id=IMAGE
    )
    return tf.LlavaForConditionalGeneration(config)


def gemma3(window: int = 12):
    text = tf.Gemma3TextConfig(
        **TEXT,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=window,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    )
    vision = tf.SiglipVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4
    )
    config = tf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=16, image_token_id=IMAGE)
    model = tf.Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight, std=0.5)
    return model


def llava_next():
    config = tf.LlavaNextConfig(
        text_config=tf.LlamaConfig(**TEXT),
        vision_config=tf.CLIPVisionConfig(**CLIP),
        image_token_id=IMAGE,
        image_grid_pinpoints=[[16, 32], [32, 16]],
        image_seq_length=16,
    )
    return tf.LlavaNextForConditionalGeneration(config)


def llava_onevision():
    config = tf.LlavaOnevisionConfig(
        text_config=tf.Qwen2Config(**TEXT),
        vision_config=tf.SiglipVisionConfig(
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=16,
            patch_size=4,
            vision_use_head=False,
        ),
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        image_grid_pinpoints=[[16, 32], [32, 16]],
    )
    return tf.LlavaOnevisionForConditionalGeneration(config)


SMALL_VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def _idefics(config_class, model_class):
    config = config_class(
        text_config=tf.LlamaConfig(**TEXT),
        vision_config={**SMALL_VISION, "image_size": 16, "patch_size": 4},
        image_token_id=IMAGE,
        scale_factor=2,
    )
    return model_class(config)


def idefics3():
    return _idefics(tf.Idefics3Config, tf.Idefics3ForConditionalGeneration)


def smolvlm():
    return _idefics(tf.SmolVLMConfig, tf.SmolVLMForConditionalGeneration)


def internvl():
    config = tf.InternVLConfig(
        text_config=tf.Qwen2Config(**TEXT),
        vision_config={**SMALL_VISION, "image_size": [16, 16], "patch_size": [4, 4]},
        image_token_id=IMAGE,
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    return tf.InternVLForConditionalGeneration(config)


BUILDERS = {
    "qwen2_5_vl": qwen2_5_vl,
    "llava": llava,
    "gemma3": gemma3,
    "qwen3_vl": qwen3_vl,
    "qwen2_vl": qwen2_vl,
    "llava_next": llava_next,
    "llava_onevision": llava_onevision,
    "idefics3": idefics3,
    "smolvlm": smolvlm,
    "internvl": internvl,
}
FIRST_CLASS = ("qwen2_5_vl", "llava", "gemma3", "qwen3_vl")


@cache
def _built(name: str, seed: int):
    torch.manual_seed(seed)
    model = BUILDERS[name]().eval()
    for parameter in model.parameters():  # zero-initialised parts would hide mistakes
        if parameter.dim() > 1 and bool((parameter == 0).all()):
            torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = PAD
    model.generation_config.suppress_tokens = [IMAGE, VIDEO]  # a random model would write placeholders now and then
    return model


def build(name: str, attention: str = "sdpa", seed: int = 0):
    """A tiny random model; the same object for the same name, its attention set as asked."""
    model = _built(name, seed)
    model.set_attn_implementation(attention)
    return model


@dataclass
class Part:
    """A piece of a prompt: text tokens, or one image (or a video for Qwen) of a size."""

    text: list[int] = field(default_factory=list)
    image: tuple[int, int] | None = None
    frames: int = 0


def words(n: int, seed: int) -> Part:
    generator = torch.Generator().manual_seed(seed)
    return Part(text=(torch.randint(8, VOCAB, (n,), generator=generator)).tolist())


def picture(rows: int = 4, columns: int = 4, frames: int = 0) -> Part:
    return Part(image=(rows, columns), frames=frames)


DEFAULT = (words(2, 1), picture(), words(5, 2))


def _pixels(name: str, part: Part, seed: int):
    generator = torch.Generator().manual_seed(seed)
    if name.startswith("qwen"):
        rows, columns = part.image
        frames = max(part.frames, 1)
        return torch.randn(frames * rows * 2 * columns * 2, 3 * 2 * 16, generator=generator)
    if name in ("llava_next", "llava_onevision"):
        return torch.randn(2 + 1, 3, 16, 16, generator=generator)
    return torch.randn(1, 3, 16, 16, generator=generator)


def tokens_of(name: str, part: Part) -> int:
    if name.startswith("qwen"):
        return max(part.frames, 1) * part.image[0] * part.image[1]
    return {
        "llava": 16,
        "gemma3": 16,
        "internvl": 4,
        "idefics3": 4,
        "smolvlm": 4,
        "llava_next": 16 + 4 * 8 + 4,
        "llava_onevision": 16 + 4 * 8 + 4,
    }[name]


def inputs(name: str, samples, side: str = "left", seed: int = 0, device: str = "cpu"):
    """A batch: each sample a sequence of parts; padded on the left or the right."""
    ids, pixels, grids, videos, video_grids, sizes = [], [], [], [], [], []
    for b, sample in enumerate(samples):
        row: list[int] = []
        for p, part in enumerate(sample):
            if part.image is None:
                row += part.text
                continue
            if name == "qwen3_vl" and part.frames:  # its frames stand apart, each behind the mark of its beginning
                row += ([7] + [VIDEO] * (part.image[0] * part.image[1])) * part.frames
            else:
                row += [VIDEO if part.frames else IMAGE] * tokens_of(name, part)
            content = _pixels(name, part, seed * 1000 + b * 10 + p)
            if part.frames:
                videos.append(content)
                video_grids.append([part.frames, part.image[0] * 2, part.image[1] * 2])
            else:
                pixels.append(content)
                grids.append([1, part.image[0] * 2, part.image[1] * 2])
                sizes.append([16, 32])
        ids.append(row)
    width = max(map(len, ids))
    fill = [[PAD] * (width - len(row)) for row in ids]
    table = torch.tensor([f + r if side == "left" else r + f for f, r in zip(fill, ids, strict=True)])
    mask = torch.tensor(
        [
            [0] * len(f) + [1] * len(r) if side == "left" else [1] * len(r) + [0] * len(f)
            for f, r in zip(fill, ids, strict=True)
        ]
    )
    out = {"input_ids": table, "attention_mask": mask}
    if name.startswith("qwen"):
        out["mm_token_type_ids"] = (table == IMAGE).int() + 2 * (table == VIDEO).int()
        if pixels:
            out |= {"pixel_values": torch.cat(pixels), "image_grid_thw": torch.tensor(grids)}
        if videos:
            out |= {"pixel_values_videos": torch.cat(videos), "video_grid_thw": torch.tensor(video_grids)}
    elif pixels:
        if name in ("llava_next", "llava_onevision"):
            out |= {"pixel_values": torch.stack(pixels), "image_sizes": torch.tensor(sizes)}
        elif name in ("idefics3", "smolvlm"):
            most = max(sum(p.image is not None for p in s) for s in samples)
            grid = torch.zeros(len(samples), most, 3, 16, 16)
            it = iter(pixels)
            for b, s in enumerate(samples):
                for k in range(sum(p.image is not None for p in s)):
                    grid[b, k] = next(it)[0]
            out |= {"pixel_values": grid}
        else:
            out |= {"pixel_values": torch.cat(pixels)}
    if name == "gemma3":
        out["token_type_ids"] = (table == IMAGE).long()
    return {k: v.to(device) for k, v in out.items()}


PROMPTS_OF_SIZES = (
    [words(2, 1), picture(4, 4), words(5, 2)],
    [words(2, 1), picture(6, 7), words(9, 2)],
    [words(2, 1), picture(5, 5), words(3, 4), picture(3, 6), words(5, 2)],
)


@torch.no_grad()
def prefill_flops(model, given) -> int:
    """FLOPs of one prefill by torch's counter, without the output head, which no budget is about."""
    with counted_flops() as counter:
        model(**given, logits_to_keep=1)
    text = model.config.get_text_config()
    return counter.get_total_flops() - 2 * len(given["input_ids"]) * text.hidden_size * text.vocab_size
