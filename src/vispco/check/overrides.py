"""What single classes need in order to be made small: by `model_type`, as data.

config: fields of the small config. around: token ids before and after the placeholders of a picture. image_id: the
placeholder, where the config names none.
"""

from __future__ import annotations

from typing import Any

SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
SECTIONS = {"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}}
HALF_ROTARY = {
    "text_config": {
        "head_dim": 16,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
        },
    }
}
VOCABULARY = {"<image>": 5, **{f"IMGIMG{letter}Z": 10 + place for place, letter in enumerate("ABCDEFGH")}}
SMALL_VQ = {
    "embed_dim": 8,
    "num_embeddings": 8,
    "latent_channels": 32,
    "base_channels": 32,
    "channel_multiplier": [1, 1],
}
EIGHT_EXPERTS = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16}
FOUR_WINDOWS = ["window_attention", "full_attention"]

QFORMER = {
    "num_query_tokens": 12,
    "qformer_config": {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "encoder_hidden_size": 16,
        "vocab_size": 96,
    },
    "vision_config": {"hidden_size": 16},
    "text_config": {"word_embed_proj_dim": 32},
}

OVERRIDES: dict[str, dict[str, Any]] = {
    "chameleon": {
        "config": {
            "vocabulary_map": VOCABULARY,
            "image_token_id": 5,
            "vq_config": {**SMALL_VQ, "resolution": 16, "num_res_blocks": 1},
        }
    },
    "cohere_compass": {
        "config": {
            "text_config": {
                "rope_parameters": {
                    "full_attention": None,
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]},
                },
                "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            }
        }
    },
    "cosmos3_edge": {"config": SECTIONS},
    "cosmos3_omni": {"config": SECTIONS},
    "deepseek_ocr2": {
        "config": {
            "text_config": {
                "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
                "n_group": 1,
                "topk_group": 1,
                "num_experts_per_tok": 2,
            }
        }
    },
    "diffusion_gemma": {"config": {"text_config": EIGHT_EXPERTS, "canvas_length": 8}},
    "emu3": {
        "config": {
            "vocabulary_map": {"<image>": 5, **{f"<|visual token {i:06d}|>": 10 + i for i in range(8)}},
            "image_token_id": 5,
            "vq_config": {
                "codebook_size": 8,
                "base_channels": 32,
                "channel_multiplier": [1, 1],
                "attn_resolutions": [8],
            },
        }
    },
    "ernie4_5_vl_moe": {
        "config": {
            "text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
        }
    },
    "fast_vlm": {"config": {"vision_config": SIGLIP}},
    "gemma3n": {
        "config": {
            "audio_config": {"vocab_offset": 88, "vocab_size": 8, "hidden_size": 16, "conf_num_hidden_layers": 1},
            "text_config": {
                "vocab_size_per_layer_input": 80,
                "intermediate_size": [48] * 4,
                "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
                "num_kv_shared_layers": 2,
                "vocab_size": 96,
            },
        },
        "replace": {"vision_config": {**SIGLIP, "vocab_offset": 80, "vocab_size": 8, "rms_norm_eps": 1e-6}},
    },
    "gemma4": {
        "config": {
            "text_config": {
                "num_kv_shared_layers": 2,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
                "per_layer_config": {"1": {"head_dim": 16}, "3": {"head_dim": 16}},
            }
        }
    },
    "glm46v": {"config": SECTIONS},
    "glm4v": {"config": SECTIONS},
    "glm4v_moe": {"config": HALF_ROTARY},
    "glm_ocr": {"config": SECTIONS},
    "glmga": {"config": SECTIONS},
    "granite4_vision": {
        "config": {
            "deepstack_layer_map": [[-1, 1], [-2, 2]],
            "spatial_target_layers": [1, 2, 3, 3],
            "downsample_rate": "1/2",
            "vision_config": {"hidden_size": 64, "num_attention_heads": 2},
        },
        "deepstack_layers": (1, 2),
    },
    "hunyuan_vl": {"config": {"text_config": {"head_dim": 8, **SECTIONS["text_config"]}}, "tokens": 15},  # newlines
    "inkling_mm_model": {
        "config": {
            "text_config": {
                "swa_num_attention_heads": 4,
                "swa_num_key_value_heads": 2,
                "swa_head_dim": 8,
                "sliding_window_size": 64,
                "d_rel": 4,
                "rel_extent": 64,
            },
            "audio_config": {"n_mel_bins": 8, "mel_vocab_size": 16, "text_hidden_size": 32},
            "vision_config": {"text_hidden_size": 32, "n_layers": 1, "patch_size": 4},
        }
    },
    "janus": {
        "config": {
            "vision_config": {"projection_dim": 32},
            "vq_config": {
                "base_channels": 32,
                "channel_multiplier": [1, 1],
                "latent_channels": 32,
                "num_embeddings": 16,
                "projection_dim": 32,
                "image_token_embed_dim": 32,
            },
        }
    },
    "kosmos-2": {
        "masked": True,
        "config": {
            "latent_query_num": 12,
            "text_config": {"embed_dim": 32, "layers": 4, "ffn_dim": 48, "attention_heads": 4, "vocab_size": 96},
            "vision_config": {
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
            },
        },
    },
    "kosmos-2.5": {
        "masked": True,
        "config": {
            "latent_query_num": 12,
            "text_config": {"embed_dim": 32, "layers": 4, "ffn_dim": 48, "attention_heads": 4, "vocab_size": 96},
            "vision_config": {
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "head_dim": 8,
                "patch_embed_hidden_size": 48,
                "max_num_patches": 64,
            },
        },
    },
    "blip-2": {"config": {**QFORMER, "image_token_index": 5}, "inputs": {"pixel_values": (3, 16, 16)}},
    "instructblip": {
        "config": {**QFORMER, "image_token_index": 5},
        "inputs": {"pixel_values": (3, 16, 16), "qformer_input_ids": 4},
    },
    "instructblipvideo": {
        "config": {**QFORMER, "image_token_index": 5, "video_token_index": 6},
        "inputs": {"pixel_values": (4, 3, 16, 16), "qformer_input_ids": 4},
        "image_id": 6,
        "tokens": 48,  # four frames
    },
    "lfm2_vl": {
        "config": {"text_config": {"layer_types": ["full_attention", "conv", "full_attention", "full_attention"]}}
    },
    "paligemma": {"answer_type": 1},  # 0 is the prompt, which sees itself in both directions
    "llama4": {
        "config": {
            "vision_config": {"vision_output_dim": 32, "projector_input_dim": 16, "projector_output_dim": 16},
            "text_config": {"layer_types": ["chunked_attention", "full_attention"] * 2, "no_rope_layers": [1, 0, 1, 0]},
        }
    },
    "molmo2": {
        "config": {"adapter_config": {"vision_feature_layer": [0, 1], "text_hidden_size": 32}, "image_patch_id": 5}
    },
    "muse_glimmer": {"config": {"vision_config": {"layer_types": FOUR_WINDOWS}, "out_hidden_size": 32}},
    "muse_spark": {
        "config": {
            "vision_config": {"layer_types": FOUR_WINDOWS},
            "out_hidden_size": 32,
            "audio_config": {
                "out_hidden_size": 32,
                "hidden_sizes": [8, 8, 8, 8],
                "depths": [1, 1, 1, 1],
                "num_hidden_layers": 4,
            },
            "text_config": {"moe_hidden_size": 16},
        }
    },
    "nemotron_h_omni": {
        "config": {
            "text_config": {
                "n_groups": 2,
                "layers_block_type": ["full_attention", "linear_attention", "moe", "full_attention"],
            }
        }
    },
    "paddleocr_vl": {"config": SECTIONS},
    "perception_lm": {"config": {"vision_config": {**SIGLIP, "model_args": {"embed_dim": 16}}}},
    "qwen2_5_omni_thinker": {
        "config": {**SECTIONS, "vision_start_token_id": 20, "vision_end_token_id": 21},
        "around": ((20,), (21,)),
    },
    "qwen2_5_vl": {"config": SECTIONS},
    "qwen2_vl": {"config": SECTIONS},
    "qwen3_omni_moe_thinker": {
        "config": {**SECTIONS, "vision_start_token_id": 20, "vision_end_token_id": 21},
        "around": ((20,), (21,)),
    },
    "qwen3_vl": {"config": SECTIONS},
    "qwen3_vl_moe": {"config": SECTIONS},
    "qwen4_exp": {
        "config": {
            "text_config": {
                "indexer_n_heads": 2,
                "indexer_kv_heads": 1,
                "indexer_head_dim": 8,
                "indexer_budget": 64,
                "indexer_compress_ratio": 4,
                "hc_lowrank": 8,
                "ple_embed_dim": 8,
            }
        }
    },
    "step3p7": {
        "config": {"text_config": {"sliding_window": 64, "num_sliding_attention_heads": 4, "share_expert_dim": 16}},
    },
}
