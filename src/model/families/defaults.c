/* Sizes that a config.json may leave out: those of the model's class in transformers 5.17 then.
 * Flags are 0 and 1. Classes that derive the layers with a dense MLP have their number as
 * first_k_dense_replace here, and those that alternate states with full attention theirs as
 * full_attention_interval. */
#include <stdlib.h>
#include <string.h>

#include "model/families/family.h"

/* clang-format off */
static const struct {
    const char *types, *sizes;
} table[] = {
    {"afmoe",
     "vocab_size=200192 num_attention_heads=16 head_dim=128 max_position_embeddings=16384 "
     "num_experts=64 moe_intermediate_size=1408 num_dense_layers=1 num_experts_per_tok=6 "
     "num_shared_experts=2 sliding_window=1024 global_attn_every_n_layers=4"},
    {"apertus",
     "vocab_size=131072 num_attention_heads=32 max_position_embeddings=65536"},
    {"arcee",
     "vocab_size=32000 num_attention_heads=32 max_position_embeddings=4096"},
    {"aria_text",
     "vocab_size=32000 num_attention_heads=32 max_position_embeddings=2048 num_experts=8 "
     "moe_num_shared_experts=2 moe_topk=2"},
    {"axk1",
     "vocab_size=163840 num_attention_heads=64 num_key_value_heads=64 "
     "max_position_embeddings=32768 num_experts=192 first_k_dense_replace=1 "
     "kv_lora_rank=512 moe_intermediate_size=2048 n_shared_experts=1 num_experts_per_tok=8 "
     "q_lora_rank=1536 qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128"},
    {"bamba",
     "vocab_size=128000 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=262144 mamba_d_conv=4 mamba_d_head=64 mamba_d_state=256 "
     "mamba_n_groups=1 mamba_n_heads=128"},
    {"bitnet",
     "vocab_size=128256 num_attention_heads=20 num_key_value_heads=5 "
     "max_position_embeddings=2048"},
    {"bloom",
     "vocab_size=250880 n_head=8"},
    {"codegen|gptj",
     "vocab_size=50400 n_head=16 rotary_dim=64"},
    {"cohere",
     "vocab_size=256000 num_attention_heads=64 max_position_embeddings=8192"},
    {"cohere2",
     "vocab_size=256000 num_attention_heads=64 max_position_embeddings=8192 "
     "sliding_window=4096"},
    {"cohere2_moe",
     "vocab_size=256000 num_attention_heads=64 head_dim=128 max_position_embeddings=8192 "
     "num_experts=8 num_experts_per_tok=2 sliding_window=4096 sliding_window_pattern=4"},
    {"cwm",
     "vocab_size=128256 num_attention_heads=48 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=131072 sliding_window=8192"},
    {"dbrx",
     "vocab_size=32000"},
    {"deepseek_v2",
     "vocab_size=102400 num_attention_heads=32 max_position_embeddings=2048 num_experts=64 "
     "kv_lora_rank=512 moe_intermediate_size=1407 n_shared_experts=2 q_lora_rank=1536 "
     "qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128"},
    {"deepseek_v3",
     "vocab_size=129280 num_attention_heads=128 num_key_value_heads=128 "
     "max_position_embeddings=4096 num_experts=256 first_k_dense_replace=3 "
     "kv_lora_rank=512 moe_intermediate_size=2048 n_shared_experts=1 num_experts_per_tok=8 "
     "num_nextn_predict_layers=1 q_lora_rank=1536 qk_nope_head_dim=128 qk_rope_head_dim=64 "
     "v_head_dim=128"},
    {"deepseek_v32",
     "vocab_size=129280 num_attention_heads=128 num_key_value_heads=128 head_dim=64 "
     "max_position_embeddings=163840 num_experts=256 index_head_dim=128 index_n_heads=64 "
     "index_topk=2048 kv_lora_rank=512 moe_intermediate_size=2048 n_shared_experts=1 "
     "num_experts_per_tok=8 q_lora_rank=1536 qk_nope_head_dim=128 qk_rope_head_dim=64 "
     "v_head_dim=128 first_k_dense_replace=3"},
    {"deepseek_v4",
     "vocab_size=129280 num_attention_heads=64 num_key_value_heads=1 head_dim=512 "
     "max_position_embeddings=1048576 num_experts=256 hc_mult=4 index_head_dim=128 "
     "index_n_heads=64 index_topk=512 moe_intermediate_size=2048 num_experts_per_tok=6 "
     "num_nextn_predict_layers=1 o_groups=8 o_lora_rank=1024 q_lora_rank=1024 "
     "sliding_window=128"},
    {"diffllama|granite|llama",
     "vocab_size=32000 num_attention_heads=32 max_position_embeddings=2048"},
    {"dots1",
     "vocab_size=152064 num_attention_heads=32 num_key_value_heads=32 "
     "max_position_embeddings=2048 moe_intermediate_size=1408"},
    {"ernie4_5",
     "vocab_size=103424 num_attention_heads=16 num_key_value_heads=2 head_dim=128 "
     "max_position_embeddings=131072"},
    {"ernie4_5_moe",
     "vocab_size=103424 num_attention_heads=20 num_key_value_heads=4 "
     "max_position_embeddings=131072 num_experts=64 moe_intermediate_size=1536 moe_k=6 "
     "moe_layer_start_index=1 moe_num_shared_experts=2"},
    {"exaone4",
     "vocab_size=102400 num_attention_heads=32 num_key_value_heads=32 "
     "max_position_embeddings=2048 sliding_window=4096 sliding_window_pattern=4"},
    {"exaone_moe",
     "vocab_size=102400 num_attention_heads=32 num_key_value_heads=32 "
     "max_position_embeddings=2048 num_experts=64 moe_intermediate_size=1024 "
     "num_experts_per_tok=8 num_shared_experts=1 sliding_window=4096 "
     "sliding_window_pattern=4 first_k_dense_replace=1"},
    {"falcon",
     "vocab_size=65024 num_attention_heads=71 max_position_embeddings=2048 multi_query=1"},
    {"falcon_h1",
     "vocab_size=128000 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=8192 mamba_d_conv=4 mamba_d_head=8 mamba_d_state=256 "
     "mamba_n_groups=1 mamba_n_heads=128 mamba_rms_norm=0"},
    {"falcon_mamba|mamba",
     "vocab_size=50280"},
    {"flex_olmo",
     "vocab_size=100352 num_attention_heads=32 max_position_embeddings=4096 num_experts=7 "
     "num_experts_per_tok=5"},
    {"gemma",
     "vocab_size=256000 num_attention_heads=16 num_key_value_heads=16 head_dim=256 "
     "max_position_embeddings=8192"},
    {"gemma2|vaultgemma",
     "vocab_size=256000 num_attention_heads=8 num_key_value_heads=4 head_dim=256 "
     "max_position_embeddings=8192 sliding_window=4096"},
    {"gemma3_text",
     "vocab_size=262208 num_attention_heads=8 num_key_value_heads=4 head_dim=256 "
     "max_position_embeddings=131072 sliding_window=4096 _sliding_window_pattern=6"},
    {"gemma3n_text",
     "vocab_size=262400 num_attention_heads=8 num_key_value_heads=2 head_dim=256 "
     "max_position_embeddings=32768 altup_num_inputs=4 hidden_size_per_layer_input=256 "
     "laurel_rank=64 num_kv_shared_layers=15 sliding_window=512 "
     "vocab_size_per_layer_input=262144"},
    {"gemma4_text",
     "vocab_size=262144 num_attention_heads=8 num_key_value_heads=4 head_dim=256 "
     "max_position_embeddings=131072 hidden_size_per_layer_input=256 sliding_window=512 "
     "global_head_dim=512"},
    {"gemma4_unified_text",
     "vocab_size=262144 num_attention_heads=8 num_key_value_heads=4 head_dim=256 "
     "max_position_embeddings=262144 sliding_window=1024 global_head_dim=512"},
    {"glm|glm4",
     "vocab_size=151552 num_attention_heads=32 num_key_value_heads=2 head_dim=128 "
     "max_position_embeddings=131072"},
    {"glm4_moe",
     "vocab_size=151552 num_attention_heads=96 num_key_value_heads=8 "
     "max_position_embeddings=131072 num_experts=128 first_k_dense_replace=1 "
     "moe_intermediate_size=1408 n_shared_experts=1 num_experts_per_tok=8"},
    {"glm4_moe_lite",
     "vocab_size=154880 num_attention_heads=20 num_key_value_heads=20 "
     "max_position_embeddings=202752 num_experts=64 kv_lora_rank=512 "
     "moe_intermediate_size=1536 n_shared_experts=1 num_experts_per_tok=4 q_lora_rank=768 "
     "qk_nope_head_dim=192 qk_rope_head_dim=64 v_head_dim=256 first_k_dense_replace=1"},
    {"glm4v_moe_text",
     "vocab_size=151424 num_attention_heads=96 num_key_value_heads=8 "
     "max_position_embeddings=65536 n_routed_experts=128 first_k_dense_replace=1 "
     "moe_intermediate_size=1408 n_shared_experts=1 num_experts_per_tok=8 attention_bias=1"},
    {"glm4v_text",
     "vocab_size=151552 num_attention_heads=32 num_key_value_heads=2 "
     "max_position_embeddings=32768"},
    {"glm5_next_text",
     "vocab_size=154880 num_attention_heads=64 num_key_value_heads=64 "
     "max_position_embeddings=1048576 num_experts=288 hc_mult=4 index_head_dim=128 "
     "index_n_heads=32 index_topk=2048 kv_lora_rank=512 linear_conv_kernel_dim=4 "
     "linear_head_dim=128 linear_num_heads=64 moe_intermediate_size=2048 "
     "n_shared_experts=1 num_experts_per_tok=8 q_lora_rank=1536 qk_nope_head_dim=256 "
     "qk_rope_head_dim=0 v_head_dim=256 first_k_dense_replace=3"},
    {"glm_moe_dsa",
     "vocab_size=154880 num_attention_heads=64 num_key_value_heads=64 head_dim=64 "
     "max_position_embeddings=202752 num_experts=256 index_head_dim=128 index_n_heads=32 "
     "index_topk=2048 kv_lora_rank=512 moe_intermediate_size=2048 n_shared_experts=1 "
     "num_experts_per_tok=8 q_lora_rank=2048 qk_nope_head_dim=192 qk_rope_head_dim=64 "
     "v_head_dim=256 first_k_dense_replace=3"},
    {"glm_ocr_text",
     "vocab_size=59392 num_attention_heads=16 num_key_value_heads=8 "
     "max_position_embeddings=131072"},
    {"gpt-sw3|gpt2",
     "vocab_size=50257 n_head=12 n_positions=1024"},
    {"gpt_bigcode",
     "vocab_size=50257 n_head=12 n_positions=1024 multi_query=1"},
    {"gpt_neo",
     "vocab_size=50257 max_position_embeddings=2048 num_heads=16 window_size=256"},
    {"gpt_neox",
     "vocab_size=50432 num_attention_heads=64 max_position_embeddings=2048"},
    {"gpt_oss",
     "vocab_size=201088 num_attention_heads=64 num_key_value_heads=8 head_dim=64 "
     "max_position_embeddings=131072 num_experts=128 num_experts_per_tok=4 "
     "sliding_window=128"},
    {"granite_swa",
     "vocab_size=100352 num_attention_heads=20 num_key_value_heads=4 "
     "max_position_embeddings=8192 sliding_window=128"},
    {"granitemoe|granitemoeshared",
     "vocab_size=32000 num_attention_heads=32 max_position_embeddings=2048 num_experts=8 "
     "num_experts_per_tok=2"},
    {"granitemoe_swa",
     "vocab_size=32000 num_attention_heads=32 max_position_embeddings=2048 num_experts=8 "
     "num_experts_per_tok=2 sliding_window=128"},
    {"granitemoehybrid",
     "vocab_size=32000 num_attention_heads=32 max_position_embeddings=2048 num_experts=8 "
     "mamba_d_conv=4 mamba_d_head=64 mamba_d_state=256 mamba_n_groups=1 mamba_n_heads=128 "
     "num_experts_per_tok=2 shared_intermediate_size=1024"},
    {"helium",
     "vocab_size=48000 num_attention_heads=20 num_key_value_heads=20 head_dim=128 "
     "max_position_embeddings=4096"},
    {"hunyuan_v1_dense",
     "vocab_size=290943 num_attention_heads=32 max_position_embeddings=2048"},
    {"hunyuan_v1_moe",
     "vocab_size=290943 num_attention_heads=32 max_position_embeddings=2048 num_experts=1 "
     "moe_topk=1"},
    {"hy_v3",
     "vocab_size=120832 num_attention_heads=64 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=131072 num_experts=192 moe_intermediate_size=1536 "
     "num_experts_per_tok=8 num_shared_experts=1 first_k_dense_replace=1"},
    {"hy_v4",
     "vocab_size=120832 num_attention_heads=32 num_key_value_heads=32 head_dim=256 "
     "max_position_embeddings=262144 num_experts=256 hc_mult=4 index_head_dim=128 "
     "index_n_heads=16 index_topk=2048 kv_lora_rank=512 moe_intermediate_size=768 "
     "n_shared_experts=1 num_experts_per_tok=8 q_lora_rank=1536 qk_nope_head_dim=192 "
     "qk_rope_head_dim=64 v_head_dim=256 first_k_dense_replace=1 index_topk_freq=4"},
    {"hyperclovax",
     "vocab_size=32000 num_attention_heads=32 max_position_embeddings=2048 use_post_norm=1"},
    {"jais2",
     "vocab_size=150272 num_attention_heads=26 max_position_embeddings=8192"},
    {"jamba",
     "vocab_size=65536 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=262144 num_experts=16 attn_layer_offset=4 "
     "attn_layer_period=8 expert_layer_offset=1 expert_layer_period=2 "
     "num_experts_per_tok=2"},
    {"kimi_linear",
     "vocab_size=163840 num_attention_heads=32 num_key_value_heads=32 "
     "max_position_embeddings=1048576 num_experts=256 kv_lora_rank=512 "
     "linear_conv_kernel_dim=4 linear_head_dim=128 linear_num_heads=32 "
     "moe_intermediate_size=1024 num_experts_per_token=8 num_shared_experts=1 "
     "qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128 first_k_dense_replace=1"},
    {"laguna",
     "vocab_size=100352 num_attention_heads=48 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=131072 num_experts=256 moe_intermediate_size=512 "
     "num_experts_per_tok=8 shared_expert_intermediate_size=512 first_k_dense_replace=1"},
    {"lfm2",
     "vocab_size=65536 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=128000 block_auto_adjust_ff_dim=1 conv_L_cache=3"},
    {"lfm2_moe",
     "vocab_size=65536 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=128000 num_experts=32 num_dense_layers=2 conv_L_cache=3 "
     "moe_intermediate_size=1792 num_experts_per_tok=4"},
    {"llama4_text",
     "vocab_size=202048 num_attention_heads=40 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=131072 num_experts=16 attention_chunk_size=8192 "
     "num_experts_per_tok=1"},
    {"mamba2",
     "vocab_size=32768 head_dim=64 conv_kernel=4 n_groups=8 num_heads=128 state_size=128"},
    {"mellum",
     "vocab_size=98304 num_attention_heads=32 num_key_value_heads=4 head_dim=128 "
     "max_position_embeddings=131072 num_experts=64 moe_intermediate_size=896 "
     "num_experts_per_tok=8"},
    {"mimo_v2_flash",
     "vocab_size=152576 num_attention_heads=64 num_key_value_heads=4 head_dim=192 "
     "max_position_embeddings=131072 num_experts=256 moe_intermediate_size=2048 "
     "num_experts_per_tok=8 sliding_window=128 v_head_dim=128 first_k_dense_replace=1"},
    {"minicpm3",
     "vocab_size=73448 num_attention_heads=40 num_key_value_heads=40 "
     "max_position_embeddings=32768 kv_lora_rank=256 q_lora_rank=768 qk_nope_head_dim=64 "
     "qk_rope_head_dim=32 tie_word_embeddings=1 v_head_dim=64"},
    {"minimax|mixtral",
     "vocab_size=32000 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=131072 num_experts=8 num_experts_per_tok=2"},
    {"minimax_m2",
     "vocab_size=200064 num_attention_heads=48 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=196608 num_experts=256 num_experts_per_tok=8"},
    {"minimax_m3_vl",
     "vocab_size=200064 num_attention_heads=64 num_key_value_heads=4 head_dim=128 "
     "max_position_embeddings=524288 num_experts_per_tok=4 num_local_experts=128 "
     "shared_intermediate_size=3072"},
    {"minimax_m3_vl_text",
     "vocab_size=200064 num_attention_heads=64 num_key_value_heads=4 head_dim=128 "
     "max_position_embeddings=524288 num_experts=128 num_experts_per_tok=4 "
     "shared_intermediate_size=3072"},
    {"ministral",
     "vocab_size=32000 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=131072 sliding_window=4096"},
    {"ministral3",
     "vocab_size=131072 num_attention_heads=32 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=262144"},
    {"mistral",
     "vocab_size=32000 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=131072 sliding_window=4096"},
    {"mpt",
     "vocab_size=50368"},
    {"muse_glimmer_text",
     "vocab_size=202048 num_attention_heads=32 num_key_value_heads=2 head_dim=128 "
     "max_position_embeddings=131072 sliding_window=2048"},
    {"nanochat",
     "vocab_size=50304 num_attention_heads=6 max_position_embeddings=2048"},
    {"nemotron",
     "vocab_size=256000 num_attention_heads=48 max_position_embeddings=4096"},
    {"nemotron_h",
     "vocab_size=131072 num_attention_heads=32 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=4096 num_experts=8 conv_kernel=4 mamba_head_dim=64 "
     "mamba_num_heads=128 moe_intermediate_size=7688 "
     "moe_shared_expert_intermediate_size=7688 n_groups=8 num_experts_per_tok=2 "
     "ssm_state_size=128"},
    {"olmo|olmo2",
     "vocab_size=50304 num_attention_heads=32 max_position_embeddings=2048"},
    {"olmo3",
     "vocab_size=50304 num_attention_heads=32 max_position_embeddings=2048 "
     "sliding_window=4096"},
    {"olmo_hybrid",
     "vocab_size=100352 num_attention_heads=30 max_position_embeddings=65536 "
     "linear_conv_kernel_dim=4 linear_key_head_dim=96 linear_num_key_heads=30 "
     "linear_num_value_heads=30 linear_value_head_dim=192 full_attention_interval=4"},
    {"olmoe",
     "vocab_size=50304 num_attention_heads=16 max_position_embeddings=4096 num_experts=64 "
     "num_experts_per_tok=8"},
    {"opt",
     "vocab_size=50272 num_attention_heads=12 max_position_embeddings=2048"},
    {"persimmon",
     "vocab_size=262144 num_attention_heads=64 max_position_embeddings=16384"},
    {"phi",
     "vocab_size=51200 num_attention_heads=32 max_position_embeddings=2048"},
    {"phi3",
     "vocab_size=32064 num_attention_heads=32 max_position_embeddings=4096"},
    {"phimoe",
     "vocab_size=32064 num_attention_heads=32 num_key_value_heads=8 "
     "max_position_embeddings=131072 num_experts=16 num_experts_per_tok=2"},
    {"qwen2",
     "vocab_size=151936 num_attention_heads=32 num_key_value_heads=32 "
     "max_position_embeddings=32768"},
    {"qwen2_moe",
     "vocab_size=151936 num_attention_heads=16 num_key_value_heads=16 "
     "max_position_embeddings=32768 num_experts=60 moe_intermediate_size=1408 "
     "num_experts_per_tok=4 shared_expert_intermediate_size=5632"},
    {"qwen2_vl|qwen2_vl_text|qwen2_5_vl|qwen2_5_vl_text",
     "vocab_size=152064 num_attention_heads=64 num_key_value_heads=8 "
     "max_position_embeddings=32768"},
    {"qwen3",
     "vocab_size=151936 num_attention_heads=32 num_key_value_heads=32 head_dim=128 "
     "max_position_embeddings=32768"},
    {"qwen3_5_moe_text",
     "vocab_size=248320 num_attention_heads=16 num_key_value_heads=2 head_dim=256 "
     "max_position_embeddings=32768 num_experts=256 linear_conv_kernel_dim=4 "
     "linear_key_head_dim=128 linear_num_key_heads=16 linear_num_value_heads=32 "
     "linear_value_head_dim=128 moe_intermediate_size=512 num_experts_per_tok=8 "
     "shared_expert_intermediate_size=512 full_attention_interval=4"},
    {"qwen3_5_text",
     "vocab_size=248320 num_attention_heads=16 num_key_value_heads=4 head_dim=256 "
     "max_position_embeddings=32768 linear_conv_kernel_dim=4 linear_key_head_dim=128 "
     "linear_num_key_heads=16 linear_num_value_heads=32 linear_value_head_dim=128 "
     "full_attention_interval=4"},
    {"qwen3_moe",
     "vocab_size=151936 num_attention_heads=32 num_key_value_heads=4 "
     "max_position_embeddings=32768 num_experts=128 moe_intermediate_size=768 "
     "num_experts_per_tok=8"},
    {"qwen3_next",
     "vocab_size=151936 num_attention_heads=16 num_key_value_heads=2 head_dim=256 "
     "max_position_embeddings=32768 num_experts=512 linear_conv_kernel_dim=4 "
     "linear_key_head_dim=128 linear_num_key_heads=16 linear_num_value_heads=32 "
     "linear_value_head_dim=128 moe_intermediate_size=512 num_experts_per_tok=10 "
     "shared_expert_intermediate_size=512 full_attention_interval=4"},
    {"qwen3_vl_moe_text",
     "vocab_size=151936 num_attention_heads=16 num_key_value_heads=16 "
     "max_position_embeddings=128000 num_experts=60 moe_intermediate_size=1408 "
     "num_experts_per_tok=4 tie_word_embeddings=1"},
    {"qwen3_vl_text",
     "vocab_size=151936 num_attention_heads=32 num_key_value_heads=32 head_dim=128 "
     "max_position_embeddings=128000"},
    {"recurrent_gemma",
     "vocab_size=256000 num_attention_heads=10 attention_window_size=2048 conv1d_width=4"},
    {"seed_oss",
     "vocab_size=155136 num_attention_heads=80 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=524288"},
    {"smollm3",
     "vocab_size=128256 num_attention_heads=16 num_key_value_heads=4 "
     "max_position_embeddings=32768"},
    {"solar_open",
     "vocab_size=196608 num_attention_heads=64 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=131072 num_experts=128 moe_intermediate_size=1280 "
     "n_shared_experts=1 num_experts_per_tok=8"},
    {"stablelm",
     "vocab_size=50304 num_attention_heads=32 num_key_value_heads=32 "
     "max_position_embeddings=4096"},
    {"starcoder2",
     "vocab_size=49152 num_attention_heads=24 num_key_value_heads=2 "
     "max_position_embeddings=4096"},
    {"step3p7",
     "vocab_size=128815 num_attention_heads=64 num_key_value_heads=8 head_dim=128 "
     "max_position_embeddings=128000"},
    {"youtu",
     "vocab_size=128256 num_attention_heads=16 num_key_value_heads=16 "
     "max_position_embeddings=131072 kv_lora_rank=512 q_lora_rank=1536 "
     "qk_nope_head_dim=128 qk_rope_head_dim=64 tie_word_embeddings=1 v_head_dim=128"},
};
/* clang-format on */

const char *family_class_sizes(const char *type)
{
    for (size_t i = 0; type && i < sizeof table / sizeof *table; i++)
        if (family_among(table[i].types, type))
            return table[i].sizes;
    return "";
}

bool family_class_size(const char *sizes, const char *names, int64_t *out)
{
    for (const char *p = names; *p;) {
        const size_t n = strcspn(p, "|");
        for (const char *s = sizes; *s;) {
            const size_t key = strcspn(s, "=");
            if (key == n && memcmp(s, p, n) == 0) {
                *out = strtoll(s + key + 1, NULL, 10);
                return true;
            }
            s += strcspn(s, " ");
            s += *s == ' ';
        }
        p += n + (p[n] == '|');
    }
    return false;
}
