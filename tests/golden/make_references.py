#!/usr/bin/env python3
"""Makes the reference data of tests/golden and the tiny tokenizer and prompts of data/.

    python3 -m venv v && v/bin/pip install torch transformers tokenizers safetensors numpy
    v/bin/python tests/golden/make_references.py          # from anywhere; about a minute on one core

Everything is computed by Hugging Face's libraries from random weights and from tokenizers trained on our own
text, so nothing is downloaded, and twinfer is checked against another program instead of against itself.
Hand-written inputs: source/corpus.txt, source/prompts.txt, tokenizer/text.txt. All else is output and is
overwritten. Two runs on one machine give the same bytes; another CPU or another torch may move the last bits
of the logits (the bound to test against is in VERSIONS.txt). Formats are described in README.md beside this file.
"""

import hashlib
import json
import os
import platform
import random
import shutil
import sys
import unicodedata
from pathlib import Path

os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1", HF_HUB_OFFLINE="1",
                  OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # threads would reorder sums

import numpy as np
import safetensors
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (AutoModelForCausalLM, AutoTokenizer, BloomConfig, BloomForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODELS, TOKENIZER, DATA = HERE / "models", HERE / "tokenizer", ROOT / "data"
PROMPT_TOKENS, DECODE_TOKENS, VOCAB = 40, 32, 256
NOTES = []  # lines for VERSIONS.txt


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def write_jsonl(path, rows, ascii_only=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r, ensure_ascii=ascii_only, separators=(",", ":")) + "\n" for r in rows),
                    encoding="utf-8")


# ---------------------------------------------------------------- models

def model_configs():
    """Odd sizes on purpose: heads * head_dim != hidden, widths that no vector length divides, ratios 2 and 3."""
    common = dict(vocab_size=VOCAB, hidden_size=48, bos_token_id=1, eos_token_id=2, dtype="float32",
                  attn_implementation="eager")
    return {
        "qwen3": (Qwen3ForCausalLM, Qwen3Config(
            **common, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=32, rms_norm_eps=1e-6, tie_word_embeddings=True, max_position_embeddings=4096,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6}), 1016),
        "llama": (LlamaForCausalLM, LlamaConfig(
            **common, intermediate_size=88, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
            rms_norm_eps=1e-5, tie_word_embeddings=False, max_position_embeddings=2048,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4}), 1004),
        "llama3": (LlamaForCausalLM, LlamaConfig(
            **common, intermediate_size=72, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=32,
            rms_norm_eps=1e-5, tie_word_embeddings=True, max_position_embeddings=512,
            rope_parameters={"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
                             "high_freq_factor": 4.0, "original_max_position_embeddings": 64}), 1031),
        "qwen2": (Qwen2ForCausalLM, Qwen2Config(
            **common, intermediate_size=88, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
            rms_norm_eps=1e-6, tie_word_embeddings=True, max_position_embeddings=2048,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6}), 1032),
        "mistral": (MistralForCausalLM, MistralConfig(
            **common, intermediate_size=88, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
            rms_norm_eps=1e-5, tie_word_embeddings=False, max_position_embeddings=2048, sliding_window=11,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4}), 1033),
        "mixtral": (MixtralForCausalLM, MixtralConfig(
            **common, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            num_local_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-5, tie_word_embeddings=False,
            max_position_embeddings=2048, sliding_window=None, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
            1033),
        "qwen3_moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig(
            **common, intermediate_size=72, moe_intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=32, num_experts=8, num_experts_per_tok=3, norm_topk_prob=False,
            mlp_only_layers=[1], rms_norm_eps=1e-6, tie_word_embeddings=False, max_position_embeddings=2048,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6}), 1031),
        "qwen3_moe_norm": (Qwen3MoeForCausalLM, Qwen3MoeConfig(
            **common, intermediate_size=72, moe_intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=32, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True,
            rms_norm_eps=1e-6, tie_word_embeddings=False, max_position_embeddings=2048,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6}), 1031),
        "gpt_oss": (GptOssForCausalLM, GptOssConfig(
            **common, intermediate_size=28, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=32,
            num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=9,
            max_position_embeddings=1024, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                             "truncate": False, "original_max_position_embeddings": 32}), 1031),
        "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(
            **common, intermediate_size=72, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=24,
            query_pre_attn_scalar=20, rms_norm_eps=1e-6, tie_word_embeddings=True, sliding_window=10,
            max_position_embeddings=1024, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}), 1031),
        "phi3": (Phi3ForCausalLM, Phi3Config(
            **common, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
            rms_norm_eps=1e-5, tie_word_embeddings=False, max_position_embeddings=512, pad_token_id=0, sliding_window=13,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4}), 1032),
        "bloom": (BloomForCausalLM, BloomConfig(**common, n_layer=2, n_head=4), 1013),
        "bloom_h6": (BloomForCausalLM, BloomConfig(**common, n_layer=2, n_head=6), 1016),
    }


def randomize(model, seed):
    """A one-filled norm or a zero bias would hide a missing one, so all of them are random too. The last norm gets
    both signs: with a tied head a positive one makes every token predict itself."""
    rng = np.random.default_rng(seed)
    for name, p in sorted(model.named_parameters()):
        x = rng.standard_normal(tuple(p.shape))
        if name.endswith("bias"):
            x *= 0.1
        elif name.endswith("sinks"):
            x *= 1.5
        elif "experts" in name:  # wide enough to reach gpt-oss's limit of 7
            x *= 1.2 if model.config.model_type == "gpt_oss" and "gate_up" in name else 0.3
        elif p.dim() > 1:
            x *= 0.3 if "embed" in name or "lm_head" in name else 0.15
        elif model.config.model_type == "gemma3_text":  # the weight of a norm is what is above 1
            x = 0.2 * x if not name.endswith("model.norm.weight") else x - 1
        elif not name.endswith(("model.norm.weight", "ln_f.weight")):
            x = 1 + 0.2 * x
        p.data.copy_(torch.from_numpy(x))


@torch.no_grad()
def reference(model, seed):
    """Prefill, then greedy steps with a KV cache: decode_logits[i] is what feeding decode_ids[i] gives."""
    ids = torch.from_numpy(np.random.default_rng(seed).integers(3, VOCAB, PROMPT_TOKENS))
    out = model(ids[None], use_cache=True)
    prefill, cache, last = out.logits[0], out.past_key_values, out.logits[0, -1]
    decode_ids, decode_logits = [], []
    for _ in range(DECODE_TOKENS):
        token = last.argmax()
        out = model(token.view(1, 1), past_key_values=cache, use_cache=True)
        cache, last = out.past_key_values, out.logits[0, -1]
        decode_ids.append(token)
        decode_logits.append(last)
    return {"input_ids": ids, "prefill_logits": prefill.contiguous(), "decode_ids": torch.stack(decode_ids),
            "decode_logits": torch.stack(decode_logits)}


@torch.no_grad()
def check(name, model, ref):
    """The cached steps against one forward over everything, and float32 against float64: the noise floor."""
    ids = torch.cat([ref["input_ids"], ref["decode_ids"]])
    logits = torch.cat([ref["prefill_logits"], ref["decode_logits"]])
    whole = model(ids[None]).logits[0]
    exact = model.double()(ids[None]).logits[0]
    model.float()
    top = logits[PROMPT_TOKENS - 1:-1].topk(2).values
    facts = {"f32_vs_f64": (exact - logits).abs().max().item(), "steps_vs_whole": (whole - logits).abs().max().item(),
             "largest_logit": logits.abs().max().item(), "smallest_greedy_margin": (top[:, 0] - top[:, 1]).min().item()}
    assert facts["f32_vs_f64"] < 1e-4 and facts["steps_vs_whole"] < 1e-4
    assert facts["smallest_greedy_margin"] > 1e-2, "another seed: a near tie would make the greedy ids a matter of luck"
    assert len(ref["decode_ids"].unique()) > 8, "another seed: the continuation only repeats itself"
    NOTES.append(f"{name}: " + ", ".join(f"{k} {v:.2g}" for k, v in facts.items()))


def published(name, config):
    """gpt_oss and gemma3 are written in the form of transformers 4, as their published files are."""
    if name == "gpt_oss":
        d = hub_config(config)
        return {**d, "experts_per_token": d["num_experts_per_tok"], "swiglu_limit": 7.0}
    if name == "gemma3":
        d = config.to_dict()
        ropes = d.pop("rope_parameters")
        d.pop("layer_types")
        d.update(rope_theta=ropes["full_attention"]["rope_theta"], rope_local_base_freq=ropes["sliding_attention"]["rope_theta"],
                 rope_scaling={"rope_type": "linear", "factor": ropes["full_attention"]["factor"]},
                 sliding_window_pattern=3, torch_dtype=d.pop("dtype"))
        return {k: v for k, v in d.items() if v is not None and k not in DEFAULTS}
    return None


DEFAULTS = ("layer_types", "pad_token_id", "_name_or_path", "chunk_size_feed_forward", "id2label", "label2id",
            "is_encoder_decoder", "output_attentions", "output_hidden_states", "return_dict", "problem_type")


def hub_config(config):
    """The form of transformers 4, in which nearly all published config.json files are written."""
    d = config.to_dict()
    rope = d.pop("rope_parameters")
    theta = rope.pop("rope_theta")
    d.update(rope_theta=theta, rope_scaling=rope if rope["rope_type"] != "default" else None, torch_dtype=d.pop("dtype"))
    for key in DEFAULTS:
        if key != "layer_types" or d["model_type"] != "gpt_oss":
            d.pop(key, None)
    return d


def make_models():
    for name, (cls, config, seed) in model_configs().items():
        where = MODELS / name
        model = cls._from_config(config, experts_implementation="eager").eval()
        randomize(model, seed)
        ref = reference(model, seed + 100)
        check(name, model, ref)
        model.save_pretrained(where)
        (where / "generation_config.json").unlink()
        if published(name, config):
            write_json(where / "config.json", published(name, config))
        save_file(ref, where / "reference.safetensors")
        if name == "bloom_h6":  # the published BLOOM files have no "transformer." in front of their names
            tensors = load_file(where / "model.safetensors")
            save_file({k.removeprefix("transformer."): v for k, v in tensors.items()}, where / "model.safetensors",
                      metadata={"format": "pt"})
        if name == "qwen3":
            sharded = MODELS / "qwen3_sharded"
            model.save_pretrained(sharded, max_shard_size="120KB")
            (sharded / "generation_config.json").unlink()
            write_json(sharded / "config.json", hub_config(config))
            verify_model(sharded, ref)
        verify_model(where, ref)
    make_dtypes()


@torch.no_grad()
def verify_model(where, ref):
    """What lies on disk, loaded anew, must give the same bits."""
    model = AutoModelForCausalLM.from_pretrained(where, attn_implementation="eager", experts_implementation="eager",
                                                 dtype=torch.float32).eval()
    assert torch.equal(model(ref["input_ids"][None], use_cache=True).logits[0], ref["prefill_logits"]), where


def make_dtypes():
    """Every dtype the reader takes. All of `small.*` hold what small.f32 holds; what
    reading `edge.x` as float32 must give, bit for bit, is `edge.x.expected`."""
    small = torch.tensor([[0.0, 1.0, -1.0, 2.0, -3.0], [7.0, -8.0, 64.0, 100.0, -128.0], [5.0, 10.0, -20.0, 33.0, 127.0]])
    half = torch.tensor([0.0, -0.0, 2.0 ** -24, 2.0 ** -14, -(2.0 ** -15), 1 / 3, 65504.0, float("inf"), -float("inf")])
    brain = torch.tensor([0.0, -0.0, 1e-40, -1e-38, 1 / 3, -3.14159, 3.38e38, float("inf"), -float("inf")])
    kinds = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
             "i32": torch.int32, "i16": torch.int16, "i8": torch.int8}
    tensors = {f"small.{k}": small.to(t) for k, t in kinds.items()}
    tensors.update({"edge.f16": half.half(), "edge.f16.expected": half.half().float(),
                    "edge.bf16": brain.bfloat16(), "edge.bf16.expected": brain.bfloat16().float(),
                    "scalar.f32": torch.tensor(0.5), "empty.f32": torch.zeros(0, 4),
                    "flags.u8": torch.tensor([0, 1, 255], dtype=torch.uint8), "flags.bool": torch.tensor([True, False])})
    save_file(tensors, MODELS / "dtypes.safetensors", metadata={"format": "pt"})


# ---------------------------------------------------------------- tokenizers

# The published patterns, letter for letter.
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def read_corpus():
    """id -> (language, paragraph)."""
    corpus = {}
    for block in (HERE / "source/corpus.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n"):
        head, body = block.split("\n", 1)
        _, name, lang = head.split(" ")
        corpus[name] = (lang, body)
    return corpus


def byte_level(texts, vocab_size, pre, leading=(), trailing=(), normalizer=None, extra_words=(), **bpe):
    """A byte-level BPE; `leading` specials take the first ids of the vocabulary, `trailing` ones come after it."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size - len(trailing) - len(extra_words), min_frequency=2, special_tokens=list(leading),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    state = json.loads(t.to_str())["model"]
    for word in extra_words:
        state["vocab"][word] = len(state["vocab"])
    t.model = models.BPE(state["vocab"], [tuple(m) for m in state["merges"]], **bpe)
    t.add_special_tokens([special(s) for s in list(leading) + list(trailing)])
    t.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return t


def special(content, **flags):
    return AddedToken(content, special=True, **{"normalized": False, **flags})


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def make_qwen(texts):
    t = byte_level(texts, 2448, split_then_bytes(QWEN), trailing=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                   normalizer=normalizers.NFC())
    t.add_tokens([AddedToken(x, normalized=False) for x in ("<think>", "</think>")])  # plain, as in Qwen3
    t.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return t


def make_bloom(texts):
    return byte_level(texts, 900, split_then_bytes(BLOOM), leading=["<unk>", "<s>", "</s>", "<pad>"])


def make_gpt2(texts):
    t = byte_level(texts, 700, pre_tokenizers.ByteLevel(add_prefix_space=False), trailing=["<|endoftext|>"])
    # Not in GPT-2: one token for each flag of an added token.
    t.add_special_tokens([special("<mask>", lstrip=True), special("<end>", rstrip=True)])
    t.add_tokens([AddedToken("word", single_word=True, normalized=False)])
    return t


def make_llama3(texts):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    # Words that no merge can build: only ignore_merges finds them.
    words = [pre.pre_tokenize_str(w)[0][0] for w in (" jumps", " lazy", " quick", "Straße", " Deich", "façade")]
    t = byte_level(texts, 800, split_then_bytes(LLAMA3), extra_words=words, ignore_merges=True,
                   trailing=["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    bos = "<|begin_of_text|>"
    t.post_processor = processors.Sequence([t.post_processor, processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, t.token_to_id(bos))])])
    return t


def make_llama(texts, style):
    """SentencePiece's kind: spaces become U+2581, unknown characters become byte tokens; `style` says who puts
    the first U+2581: a normalizer (legacy) or the pre-tokenizer (first, always)."""
    specials, byte_tokens = ["<unk>", "<s>", "</s>"], [f"<0x{i:02X}>" for i in range(256)]
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre_tokenizers.Split(Regex("▁*[^▁]+|▁+"), "isolated")  # merges stay inside words, as spm trains
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1200, min_frequency=2, show_progress=False,
                                                     special_tokens=specials + byte_tokens))
    state = json.loads(t.to_str())["model"]
    t = Tokenizer(models.BPE(state["vocab"], [tuple(m) for m in state["merges"]], unk_token="<unk>", fuse_unk=True,
                             byte_fallback=True))
    if style == "legacy":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=style, split=style == "always")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([special(s) for s in specials])
    if style == "legacy":  # a normalized token is looked for in the normalized text, in its own normalized form
        t.add_tokens([AddedToken("[TOOL]", normalized=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def save_tokenizer(t, path, older=None):
    """`older` rewrites parts as older files on the hub have them; the library must still read the result alike."""
    state = json.loads(t.to_str())
    if older:
        older(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(state, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return Tokenizer.from_file(str(path))


def string_merges(state):
    state["model"]["merges"] = [" ".join(pair) for pair in state["model"]["merges"]]
    state["model"].pop("ignore_merges")


def old_gpt2(state):
    string_merges(state)
    state["pre_tokenizer"].pop("use_regex")  # absent means true


def old_metaspace(state):
    state["pre_tokenizer"].pop("split")  # absent means true
    state["pre_tokenizer"]["add_prefix_space"] = True


def empty_affixes(state):
    state["model"].update(continuing_subword_prefix="", end_of_word_suffix="")  # as Qwen's file: empty, not null


def make_cases():
    """id, text. Escaped to ASCII when written, because editors and git would mend exactly what is tested."""
    lines = (TOKENIZER / "text.txt").read_text(encoding="utf-8").splitlines()
    cases = [("empty", "")] + [(f"line_{i:02d}", s) for i, s in enumerate(lines)]
    for form in ("NFD", "NFKC"):
        other = [(f"{form.lower()}_{i:02d}", unicodedata.normalize(form, s)) for i, s in enumerate(lines)]
        cases += [c for c, s in zip(other, lines) if c[1] != s and (form == "NFD" or "Ⅷ" in s or "ｶ" in s)]
    groups = {
        "space": [
            " ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", "\n\n\n\n", " \n", "\n ", " \n \n ", "\t\t\tx",
            " x", "  x", "   x", "x ", "x  ", "x   ", "a b", "a  b", "a   b", "a\tb", "a \t b", "a\nb",
            "a\n\n b", "a \n b", "a\r\nb\r\n\r\nc", "a\rb", "x\n    y\n\tz\n", "    return 0;\n}\n", "a.\nb",
            "a.\r\n\r\nb", "!\n !", "a\u00a0b", "\u00a0a", "a\u00a0\u00a0b ", "a\u3000b", "\u3000\u3000字",
            "a\u2003b\u2009c", "a\u2028b\u2029c", "a\u0085b", "a\x0bb\x0cc", "a\u1680b", "a\u202fb\u205fc",
            "▁", "▁a ▁b", " ▁ ", "a▁b",
        ],
        "invisible": [
            "a\u200bb", "a\u200cb\u200dc", "\ufeffa", "a\u2060b", "a\u00adb", "\u200e\u200fa", "a\u180eb",
            "a    \u180eb  \u180e", "\x01\x1f\x7f", "a\x1cb\x1db\x1ec", "\ufffd", "\ue000\uf8ff", "\U0010ffff",
            "\ufffe\uffff", "a\u034fb",
        ],
        "compose": [
            "e\u0301", "E\u0301A\u030A", "\u212b \u2126 \u212a", "q\u0307\u0323", "q\u0323\u0307",
            "a\u0323\u0302", "\u1ea5 a\u0302\u0301", "\u1100\u1161\u11a8",
            "\u1112\u1161\u11ab\u1100\u1173\u11af", "\uac00\u11a8", "\u0958 \u0915\u093c", "\u09c7\u09be",
            "\u0344", "\u0387 \u037e", "\u2000a", "が が", "n\u0303o, a\u0308\u0323", "\u0301a", " \u0301",
            "\n\u0301b", "e\u0301" * 6, "\ufb01 \ufb03", "\uf900 \u2f00", "\u0fb3\u0f71",
            "I\u0307 i\u0307 \u0131\u0307", "\U0001d15e",
        ],
        "apostrophe": [
            "'s 't 're 've 'm 'll 'd", "'S'T'RE'VE'M'LL'D", "it'S we'Ll", "don''t", "'sail 'tis 'll",
            "it\u2019s", "x'\u017f", "a'b'c", "''''s", "l'd'll're", "'", "' s", "'1's",
        ],
        "digits": [
            "0", "12", "123", "1234", "12345", "a1b22c333", "1.2.3", "٠١٢٣", "１２３４", "१२३", "²³¹", "½¾", "ⅣⅫ",
            "𝟘𝟙𝟚𝟛", "1 2  3   4", "+1-2*3", "9" * 70,
        ],
        "special": [
            "<|endoftext|>", "a<|endoftext|>b", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
            " <|im_end|> ", "<|im_end|><|im_end|>", "<|im_end", "|im_end|>", "<|IM_END|>",
            "<think>\nso\n</think>\n\n", "<s>", "</s>", "<s>a", "a<s>b", "a <s> b", " <s>", "<s> ", "<s></s>",
            "<unk>", "a<unk>b", "<pad>", "<0x41>", "<0x0A>x", "< s>", "<<s>>", "[TOOL]", "a [TOOL] b",
            "a[TOOL]b", "[TOOL][TOOL]", "<mask>", "a <mask> b", "a  <mask>  b", "a<mask>b", "\n<mask>\n",
            "a <end> b", "a<end>  \n b", "<end><mask>", "word", "a word b", "words", "sword", "word.word",
            "_word", "word\u00e9", "éword é", "<|begin_of_text|>a<|eot_id|>", "e\u0301<|im_end|>\u0301e",
        ],
        "long": [
            "a" * 150, "ab" * 60, "é" * 50, "字" * 30, "😀" * 20, " " * 130, "\n" * 40, "-" * 90, "=-" * 30,
            "a " * 40, "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz" * 2,
        ],
    }
    for group, texts in groups.items():
        cases += [(f"{group}_{i:02d}", s) for i, s in enumerate(texts)]
    corpus, rng = read_corpus(), random.Random(20240607)
    words = [w for s in lines for w in s.split(" ")] + [w for _, body in corpus.values() for w in body.split(" ")]
    gaps = [" "] * 6 + ["", "", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", ", ", "\u200d", "'s ", "\u0301",
                        "<|im_end|>", "</s>"]
    for i in range(60):
        cases.append((f"mix_{i:02d}", "".join(rng.choice(words) + rng.choice(gaps) for _ in range(rng.randint(2, 12)))))
    assert len({c for c, _ in cases}) == len(cases) and len({s for _, s in cases}) == len(cases)
    return cases


def write_expected(kind, t, cases):
    """`decoded` is decode(ids_no_special) with special tokens kept."""
    rows = []
    for name, text in cases:
        ids = t.encode(text).ids
        plain = t.encode(text, add_special_tokens=False).ids
        decoded = t.decode(plain, skip_special_tokens=False)
        rows.append({"id": name, "ids": ids, "ids_no_special": plain, "decoded": decoded})
    write_jsonl(TOKENIZER / f"expected_{kind}.jsonl", rows)
    # Ids in no sensible order, with torn UTF-8 sequences, whole characters, specials, one after another.
    rng, rows = random.Random(7), []
    added = sorted(t.get_added_tokens_decoder())
    size, low = t.get_vocab_size(), 3 if kind.startswith("llama_") else 0
    whole = [t.encode(s, add_special_tokens=False).ids for s in ("é", "字", "😀", " ö", "日本", "👍🏽", "\n\n")]
    while len(rows) < 40:
        ids = []
        for _ in range(rng.randint(1, 9)):
            torn, one = rng.choice(whole), low + rng.randrange(256)
            ids += rng.choice([[rng.choice(added)], torn, torn[:-1], [one], [one], *[[rng.randrange(size)]] * 3])
        decoded, skipped = (t.decode(ids, skip_special_tokens=skip) for skip in (False, True))
        if ids and "\0" not in decoded:  # many a JSON reader refuses \u0000
            rows.append({"id": f"decode_{len(rows):02d}", "ids": ids, "decoded": decoded,
                         "decoded_skip_special": skipped})
    write_jsonl(TOKENIZER / f"decode_{kind}.jsonl", rows)


def make_tokenizers():
    corpus = read_corpus()
    texts = [body for _, body in corpus.values()]
    # The smaller ones see few scripts, so the others fall back to bytes.
    some = [body for lang, body in corpus.values() if lang in ("en", "de", "fr", "tr", "el", "ru", "code")]
    cases = make_cases()
    write_jsonl(TOKENIZER / "cases.jsonl", [{"id": c, "text": s} for c, s in cases], ascii_only=True)
    tiny = DATA / "models/tiny_qwen3"
    made = {
        "qwen": save_tokenizer(make_qwen(texts), tiny / "tokenizer.json", empty_affixes),
        "llama_legacy": save_tokenizer(make_llama(some, "legacy"), TOKENIZER / "llama_legacy/tokenizer.json",
                                       string_merges),
        "llama_first": save_tokenizer(make_llama(some, "first"), TOKENIZER / "llama_first/tokenizer.json"),
        "llama_always": save_tokenizer(make_llama(some, "always"), TOKENIZER / "llama_always/tokenizer.json",
                                       old_metaspace),
        "llama3": save_tokenizer(make_llama3(some), TOKENIZER / "llama3/tokenizer.json"),
        "bloom": save_tokenizer(make_bloom(some), TOKENIZER / "bloom/tokenizer.json"),
        "gpt2": save_tokenizer(make_gpt2(some), TOKENIZER / "gpt2/tokenizer.json", old_gpt2),
    }
    for kind, t in made.items():
        write_expected(kind, t, cases)
        NOTES.append(f"tokenizer {kind}: {t.get_vocab_size()} tokens")
    make_tiny_model(made["qwen"], tiny, cases)


def make_tiny_model(t, where, cases):
    """The model that ships: shape and tokenizer only, the tool makes its weights from a seed."""
    size = t.get_vocab_size()
    config = Qwen3Config(
        architectures=["Qwen3ForCausalLM"], vocab_size=(size + 63) // 64 * 64, hidden_size=256, intermediate_size=768,
        num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4, head_dim=32, rms_norm_eps=1e-6,
        tie_word_embeddings=True, max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=t.token_to_id("<|endoftext|>"), eos_token_id=t.token_to_id("<|im_end|>"), dtype="float32")
    write_json(where / "config.json", hub_config(config))
    flags = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    added = {str(i): {f: getattr(a, f) for f in flags} for i, a in t.get_added_tokens_decoder().items()}
    write_json(where / "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added, "bos_token": None,
        "chat_template": "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                         "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace", "model_max_length": 4096,
        "pad_token": "<|endoftext|>", "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None})
    read = Qwen3Config.from_pretrained(where)
    assert read.rope_parameters["rope_theta"] == 1e6 and read.head_dim == 32 and read.tie_word_embeddings
    other = AutoTokenizer.from_pretrained(where)  # transformers must read the folder as we mean it
    assert all(other(s)["input_ids"] == t.encode(s).ids for _, s in cases)


# ---------------------------------------------------------------- prompts

def make_prompts():
    corpus, rows = read_corpus(), []
    for line in (HERE / "source/prompts.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        instruction, names = line.rsplit("|", 1)
        text = "\n\n".join([instruction] + [corpus[n][1] for n in names.split()])
        rows.append({"prompt_id": f"demo_{len(rows):02d}", "text": text})
    assert len(rows) == 64 and len({r["text"] for r in rows}) == 64
    write_jsonl(DATA / "prompts/demo_prompts.jsonl", rows)
    counts = sorted(len(r["text"].split()) for r in rows)
    NOTES.append(f"demo prompts: 64, words {counts[0]} to {counts[-1]}, median {counts[32]}")


def write_versions():
    tops = (MODELS, TOKENIZER, DATA / "models/tiny_qwen3", DATA / "prompts")
    files = sorted(p for top in tops for p in top.rglob("*") if p.is_file())
    lines = ["Made by make_references.py with", f"python {platform.python_version()}"]
    lines += [f"{m.__name__} {m.__version__}" for m in (torch, transformers, tokenizers, safetensors, np)]
    lines += ["", *NOTES, "", "sha256 and size of every file"]
    lines += [f"{hashlib.sha256(p.read_bytes()).hexdigest()} {p.stat().st_size:7d} {p.relative_to(ROOT)}" for p in files]
    (HERE / "VERSIONS.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def main():
    torch.set_num_threads(1)
    shutil.rmtree(MODELS, ignore_errors=True)
    make_models()
    make_tokenizers()
    make_prompts()
    write_versions()
    return 0


if __name__ == "__main__":
    sys.exit(main())
