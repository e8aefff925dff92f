"""Small models of several families, for record.py's random cases. Their layers keep what those of the
real ones keep, in the same proportions; sizes are small, so that prompts cross windows and blocks."""

BASE = {
    "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32,
    "intermediate_size": 256, "vocab_size": 1024, "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False,
}


def model(kind, types, **more):
    out = {"model_type": kind, "num_hidden_layers": len(types), **BASE, "layer_types": types, **more}
    return {k: v for k, v in out.items() if v is not None}


FULL, WINDOW, STATE, CHUNKED = "full_attention", "sliding_attention", "linear_attention", "chunked_attention"
LATENT = {
    "q_lora_rank": None, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32,
    "v_head_dim": 32, "head_dim": None, "num_key_value_heads": 8,
}

MODELS = {
    "gpt_oss": model(
        "gpt_oss", [WINDOW, FULL] * 2, num_local_experts=4, num_experts_per_tok=2, sliding_window=128
    ),
    "gemma3": model(
        "gemma3_text", ([WINDOW] * 5 + [FULL]) * 2, sliding_window=64, query_pre_attn_scalar=32,
        rope_local_base_freq=10000.0,
    ),
    "gemma4": model(
        "gemma4_text", ([WINDOW] * 5 + [FULL]) * 2, sliding_window=64, global_head_dim=32,
        num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0, num_kv_shared_layers=0,
        hidden_activation="gelu_pytorch_tanh", vocab_size_per_layer_input=1024,
    ),
    "cohere2": model("cohere2", [WINDOW, WINDOW, WINDOW, FULL], sliding_window=100, layer_norm_eps=1e-5),
    "mistral": {
        **{k: v for k, v in model("mistral", [FULL] * 3).items() if k != "layer_types"},
        "sliding_window": 96,
    },
    "llama4": model(
        "llama4_text", [CHUNKED, CHUNKED, CHUNKED, FULL], attention_chunk_size=128, num_local_experts=4,
        num_experts_per_tok=1, intermediate_size_mlp=256, interleave_moe_layer_step=1, use_qk_norm=True,
        no_rope_layers=[1, 1, 1, 0],
    ),
    "qwen3_next": model(
        "qwen3_next", [STATE, STATE, STATE, FULL] * 2, linear_key_head_dim=16, linear_value_head_dim=16,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_conv_kernel_dim=4, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64,
        decoder_sparse_step=1, partial_rotary_factor=0.25,
    ),
    "nemotron_h": {
        "model_type": "nemotron_h", "num_hidden_layers": 8, **BASE, "hybrid_override_pattern": "M-M-M*M-",
        "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4,
        "expand": 1, "use_bias": False, "mamba_proj_bias": False, "chunk_size": 128,
        "use_conv_bias": True, "mlp_hidden_act": "relu2",
    },
    "kimi_linear": {
        **{k: v for k, v in model("kimi_linear", [FULL] * 4, **LATENT).items() if k != "layer_types"},
        "linear_attn_config": {
            "kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 8, "head_dim": 32,
            "short_conv_kernel_size": 4,
        },
        "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 64, "num_shared_experts": 1,
        "first_k_dense_replace": 1, "moe_layer_freq": 1,
    },
    "deepseek_v4": {
        **{k: v for k, v in model("deepseek_v4", [FULL] * 7).items() if k not in ("layer_types", "intermediate_size")},
        "compress_ratios": [0, 4, 128, 4, 128, 4, 128], "head_dim": 512, "num_key_value_heads": 1, "sliding_window": 128,
        "q_lora_rank": 64, "o_lora_rank": 64, "o_groups": 2, "qk_rope_head_dim": 64, "index_head_dim": 128,
        "index_n_heads": 2, "index_topk": 64, "hc_mult": 2, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 64, "n_shared_experts": 1,
    },
    "deepseek_v3": {
        **{k: v for k, v in model("deepseek_v3", [FULL] * 3, **LATENT).items() if k != "layer_types"},
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "moe_layer_freq": 1,
    },
    "deepseek_v32": {
        **{k: v for k, v in model("deepseek_v32", [FULL] * 3, **LATENT).items() if k != "layer_types"},
        "q_lora_rank": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "index_head_dim": 128,
        "index_n_heads": 4, "index_topk": 64,
    },
}

# Of a random case, how many times as many tokens as 16 a block has, at most, and the most groups: a
# sequence that needs more blocks than there are would wait for ever.
BLOCKS = {
    "gpt_oss": (1, 2), "gemma3": (1, 6), "gemma4": (2, 6), "deepseek_v32": (1, 1), "cohere2": (1, 4), "mistral": (1, 1), "llama4": (1, 4),
    "qwen3_next": (4, 4), "nemotron_h": (2, 5), "kimi_linear": (8, 4), "deepseek_v3": (1, 1),
    "deepseek_v4": (1, 8),
}
