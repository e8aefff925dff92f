"""vLLM's KV cache specs of a config.json, layer by layer, and the groups that vLLM makes of them.

Specs are instances of vLLM's classes (v1/kv_cache_interface.py), with the numbers that its models
give them (model_executor/layers/attention/*.py, mamba/mamba_utils.py); block sizes of models with
states are set by its platforms/interface.py, _align_hybrid_block_size, and groups by its
v1/core/kv_cache_planning.py. Used by record.py."""

import math
import types

BFLOAT16, FLOAT32, UINT8 = "bfloat16", "float32", "uint8"
SIZES = {BFLOAT16: 2, FLOAT32: 4, UINT8: 1}
DELTA_CHECKPOINT = 64  # FLASHINFER_GDN_CHECKPOINT_ALIGNMENT


class Settings:
    """What the specs depend on."""

    def __init__(self, block=16, prefix=False, max_model_len=65536, tp=1, hybrid=True, chunked=False):
        self.block, self.prefix, self.max_model_len, self.tp = block, prefix, max_model_len, tp
        self.hybrid, self.chunked = hybrid, chunked


def text(config):
    return config.get("text_config") or config


def head_dim(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def shard(heads, tp):
    return max(1, heads // tp)


def layer_types(c):
    """full, window, chunked, state or none for each layer."""
    if "compress_ratios" in c:  # DeepSeek V4: of which layer_specs makes its own
        return ["compressed"] * c["num_hidden_layers"]
    words = {
        "full_attention": "full", "attention": "full", "sliding_attention": "window",
        "chunked_attention": "chunked", "deepseek_sparse_attention": "full", "linear_attention": "state", "mamba": "state",
    }
    if c["model_type"] == "nemotron_h":
        if "layers_block_type" in c:
            return [words.get(x, "none") for x in c["layers_block_type"]]
        return [{"M": "state", "*": "full"}.get(x, "none") for x in c["hybrid_override_pattern"]]
    n = c["num_hidden_layers"]
    if c["model_type"] == "mamba2":
        return ["state"] * n
    if c["model_type"] == "kimi_linear":
        kda = c["linear_attn_config"]["kda_layers"]
        return ["state" if i + 1 in kda else "full" for i in range(n)]
    if "hybrid_layer_pattern" in c:  # MiMo
        return ["window" if x else "full" for x in c["hybrid_layer_pattern"]]
    if "block_configs" in c:  # Nemotron NAS
        return ["none" if b["attention"]["no_op"] or b["attention"]["replace_with_linear"] else "full" for b in c["block_configs"]]
    if c["model_type"] == "mistral":
        return ["window" if c.get("sliding_window") else "full"] * n
    if "layer_types" in c:
        return [words[x] for x in c["layer_types"]]
    return ["full"] * n


def has_states(config):
    return "state" in layer_types(text(config))


def state_of(c, tp):
    """Shapes, types, the alignment of checkpoints inside a prefill, and its blocks."""
    from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator as shapes

    kind = c["model_type"]
    if "linear_key_head_dim" in c:
        s = shapes.gated_delta_net_state_shape(
            tp, c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_key_head_dim"],
            c["linear_value_head_dim"], c["linear_conv_kernel_dim"],
        )
        return s, (BFLOAT16, FLOAT32), "delta"
    if kind == "kimi_linear":
        a = c["linear_attn_config"]
        s = shapes.kda_state_shape(
            tp, a["num_heads"], a["head_dim"], conv_kernel_size=a["short_conv_kernel_size"]
        )
        return s, (BFLOAT16, FLOAT32), None
    heads = c.get("mamba_num_heads") or c["num_heads"]
    dim = c.get("mamba_head_dim") or c["head_dim"]
    s = shapes.mamba2_state_shape(
        tp, heads * dim, c["n_groups"], heads, dim, c.get("ssm_state_size") or c["state_size"],
        c["conv_kernel"],
    )
    ssm = c.get("mamba_ssm_cache_dtype") or (FLOAT32 if kind == "nemotron_h" else BFLOAT16)
    return s, (BFLOAT16, ssm), "anywhere"


def attention_spec(k, c, kind, block, s, layer):
    tp = s.tp
    if "kv_lora_rank" in c:
        return k.MLAAttentionSpec(
            block_size=block, num_kv_heads=1, dtype=BFLOAT16, cache_dtype_str="auto",
            head_size=c["kv_lora_rank"] + c["qk_rope_head_dim"],
        )
    heads = c["num_key_value_heads"]
    if heads is None:
        heads = c["num_attention_heads"] // c["block_configs"][layer]["attention"]["n_heads_in_group"]
    heads, dim, v_dim = shard(heads, tp), head_dim(c), c.get("v_head_dim")
    if kind == "window" and "swa_head_dim" in c:
        heads = shard(c["swa_num_key_value_heads"], tp)
        dim, v_dim = c["swa_head_dim"], c["swa_v_head_dim"]
    if kind == "full" and c.get("global_head_dim"):
        heads = shard(c.get("num_global_key_value_heads") or c["num_key_value_heads"], tp)
        dim = c["global_head_dim"]
    common = dict(block_size=block, num_kv_heads=heads, head_size=dim, head_size_v=v_dim, dtype=BFLOAT16)
    if kind == "window":
        return k.SlidingWindowSpec(**common, sliding_window=c["sliding_window"])
    if kind == "chunked":
        return k.ChunkedLocalAttentionSpec(**common, attention_chunk_size=c["attention_chunk_size"])
    return k.FullAttentionSpec(**common)


def compressed_specs(k, c, s, layer):
    """models/deepseek_v4 (attention.py, compressor.py) with FlashMLA's layout, in the order in which its
    modules register: index keys and what they are made of, the window, entries and what they are made of."""
    ratio = max(1, c["compress_ratios"][layer])
    if ratio not in (1, 4, 128):
        raise ValueError("%d tokens to an entry" % ratio)
    dim, index = c["head_dim"], c["index_head_dim"]
    common = dict(num_kv_heads=1, max_tp_shards=1, alignment=576)
    name, out = "layers.%d" % layer, {}

    def state(width):
        overlap = ratio == 4
        return k.SlidingWindowMLASpec(
            **common, block_size=4 if overlap else 8, head_size=2 * (1 + overlap) * width, dtype=FLOAT32,
            sliding_window=(1 + overlap) * ratio,
        )

    def packed(cls, block, **more):
        return cls(
            **common, block_size=block, head_size=dim, dtype=UINT8, cache_dtype_str="fp8_ds_mla",
            state_content_bytes=584, model_version="deepseek_v4", **more,
        )

    if ratio == 4:
        out[name + ".indexer.k_cache"] = k.MLAAttentionSpec(
            **common, block_size=256, head_size=index + index // 128 * 4, dtype=UINT8, tokens_per_state=ratio,
        )
        out[name + ".indexer.state"] = state(index)
    out[name + ".swa"] = packed(k.SlidingWindowMLASpec, 64, sliding_window=c["sliding_window"])
    if ratio > 1:
        out[name] = packed(k.MLAAttentionSpec, 256, tokens_per_state=ratio)
        out[name + ".state"] = state(dim)
    return out


def align_block_size(k, c, s, cache):
    """platforms/interface.py, _align_hybrid_block_size, of vLLM's own."""
    import vllm.model_executor.layers.mamba.abstract as abstract
    import vllm.model_executor.models as models
    import vllm.platforms.interface as interface

    shapes, dtypes, export = state_of(c, s.tp)
    mla = "kv_lora_rank" in c
    abstract.get_mamba_prefill_checkpoint_alignment = (
        lambda config: DELTA_CHECKPOINT if export == "delta" else None
    )

    class Model:
        get_mamba_state_shape_from_config = staticmethod(lambda config: shapes)
        get_mamba_state_dtype_from_config = staticmethod(lambda config: dtypes)

    class Backend:
        get_supported_kernel_block_sizes = staticmethod(lambda: [16])
        customize_spec = staticmethod(lambda spec: spec)
        is_ssm = staticmethod(lambda: False)

    models.ModelRegistry = types.SimpleNamespace(resolve_model_cls=lambda a, model_config: (Model, a))
    head = c["kv_lora_rank"] + c["qk_rope_head_dim"] if mla else head_dim(c)
    model = types.SimpleNamespace(
        dtype=BFLOAT16, use_mla=mla, architecture="", get_head_size=lambda: head,
        get_num_kv_heads=lambda p: 1 if mla else shard(c["num_key_value_heads"], s.tp),
    )
    config = types.SimpleNamespace(cache_config=cache, model_config=model, parallel_config=None)
    platform = interface.Platform
    platform._find_non_ssm_backends = classmethod(lambda cls, config: [Backend])
    platform._align_hybrid_block_size(config, Backend)


def layer_specs(config, s, cache):
    """{layer name: spec}; sets block sizes in cache."""
    import vllm.v1.kv_cache_interface as k

    c, out = text(config), {}
    kinds = layer_types(c)
    cache.block_size, cache.mamba_page_size_padded = s.block, None
    cache.mamba_cache_mode = "align" if s.prefix else "none"
    cache.mamba_block_size = s.block if s.prefix else s.max_model_len
    if "state" in kinds and "full" in kinds:
        align_block_size(k, c, s, cache)
    for i, kind in enumerate(kinds):
        if kind == "none":
            continue
        if kind == "compressed":
            out.update(compressed_specs(k, c, s, i))
            continue
        name = "layers.%d" % i
        if kind != "state":
            out[name] = attention_spec(k, c, kind, cache.block_size, s, i)
            indexers = c.get("indexer_types")
            sparse = c.get("sparse_attention_config")  # models/minimax_m3/common/indexer.py
            if sparse and sparse["sparse_attention_freq"][i]:
                out[name + ".indexer"] = k.MLAAttentionSpec(
                    block_size=cache.block_size, num_kv_heads=1, dtype=BFLOAT16,
                    head_size=sparse["sparse_index_dim"],
                )
            if c.get("index_head_dim") and (not indexers or indexers[i] == "full"):
                out[name + ".indexer"] = k.MLAAttentionSpec(
                    block_size=cache.block_size, num_kv_heads=1, dtype=UINT8,
                    head_size=c["index_head_dim"] + c["index_head_dim"] // 128 * 4,
                )
            continue
        shapes, dtypes, export = state_of(c, s.tp)
        blocks, alignment = 0, None
        if export == "anywhere":
            blocks, alignment = 1, 1
        elif export == "delta" and s.prefix:
            blocks, alignment = 1, cache.mamba_block_size
        out[name] = k.MambaSpec(
            shapes=tuple(shapes), dtypes=dtypes, block_size=cache.mamba_block_size,
            page_size_padded=cache.mamba_page_size_padded, mamba_cache_mode=cache.mamba_cache_mode,
            num_prefill_checkpoint_blocks=blocks, prefill_checkpoint_alignment=alignment,
        )
    return out


def prepare():
    """Before anything of vLLM's is used here."""
    import vllm.v1.core.kv_cache_planning as planning
    import vllm.v1.core.single_type_kv_cache_manager as managers
    import vllm.v1.kv_cache_interface as k

    k.get_dtype_size = SIZES.get
    planning.get_hisparse_kv_cache_groups = lambda *a: []
    managers.register_all_kvcache_specs(None)


def groups_of(config, s, vllm_config):
    """KVCacheGroupSpec for each group, with one spec for the scheduler, and pages."""
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.kv_cache_interface import KVCacheLayout, UniformTypeKVCacheSpecs

    cache = vllm_config.cache_config
    packed = "compressed" in layer_types(text(config))
    layout = KVCacheLayout.BLHNC if packed else KVCacheLayout.LBNHC
    cache.get_resolved_kv_cache_layout = lambda: layout
    specs = layer_specs(config, s, cache)
    chunked = any(type(x).__name__.startswith("Chunked") for x in specs.values())
    vllm_config.scheduler_config.disable_hybrid_kv_cache_manager = not s.hybrid or (
        chunked and not s.chunked
    )
    groups = planning.get_kv_cache_groups(vllm_config, specs)
    block_bytes = planning._get_kv_cache_bytes_per_block(groups, layout)
    pages = [
        sum(planning._get_per_layer_spec(g, n).page_size_bytes for n in g.layer_names) for g in groups
    ]
    for g in groups:
        if isinstance(g.kv_cache_spec, UniformTypeKVCacheSpecs):
            g.kv_cache_spec = next(iter(g.kv_cache_spec.kv_cache_specs.values()))
    return groups, pages, block_bytes


def describe(groups, pages, block_bytes):
    """As replay.c prints groups."""
    from vllm.v1 import kv_cache_interface as k

    lines = []
    for g, page in zip(groups, pages):
        spec, kind, span = g.kv_cache_spec, "full", 0
        if isinstance(spec, k.SlidingWindowSpec):
            kind, span = "window", spec.sliding_window
        elif isinstance(spec, k.ChunkedLocalAttentionSpec):
            kind, span = "chunked", spec.attention_chunk_size
        elif isinstance(spec, k.MambaSpec):
            kind = "state"
        layers = len({".".join(n.split(".")[:2]) for n in g.layer_names})
        lines.append(
            "%s block %d span %d layers %d page %d" % (kind, spec.block_size, span, layers, page)
        )
    return "\n".join(lines + ["block_bytes %d" % block_bytes, ""])


def block_sizes(groups, cache, vllm_config, num_blocks):
    """(scheduler's, hashes')."""
    from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes
    from vllm.v1.kv_cache_interface import KVCacheConfig

    config = KVCacheConfig(num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=groups)
    if len(groups) == 1:
        size = groups[0].kv_cache_spec.block_size
        return size, size
    if not cache.enable_prefix_caching:
        return math.lcm(*(g.kv_cache_spec.block_size for g in groups)), None
    return resolve_kv_cache_block_sizes(config, vllm_config)
