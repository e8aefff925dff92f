"""forward.py MODE [FILE [SECONDS [REPEATS]]]: a model with random weights; nothing is downloaded, one thing at a time is on the GPU.

Without FILE: four steps inside the NVTX range `step`, for `twinfer capture region=step#3`, each of other tokens, which are put in place
before the range begins: a step that repeats the one before would leave memory as it found it, and a replay that did nothing would
pass for it. With FILE: the same step over and over
for SECONDS (5), of the same tokens, synchronized after each, then FILE says when that was and how long a step took (full_model_timing.json), for
`twinfer energy run application=FILE`; `idle` in it are the times before and after at which the program rested, its context open.
That REPEATS (1) times: a % in FILE becomes 1, 2, ...

A step may be repeated at will, and does the same work each time: that of a decode writes its keys and values to the same place.

    bloom         BLOOM-560M, 5 tokens, eager
    qwen3         Qwen3-0.6B, 512 tokens, eager
    decode        Qwen3-0.6B, a decode step behind 1,024 tokens, eager
    compile       four layers of Qwen3-0.6B, 16 tokens, torch.compile with CUDA graphs
    llama         Llama-2-7B, a decode step behind 1,024 tokens, eager
    llama_compile the same, torch.compile with CUDA graphs: next to no gaps

TINY=1: a few small layers, on the CPU where there is no GPU."""

import datetime
import gc
import json
import os
import sys
import time

import torch
from transformers import BloomConfig, BloomForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM, StaticCache

TINY = bool(os.environ.get("TINY"))
GPU = torch.cuda.is_available() or not TINY
DEVICE = "cuda" if GPU else "cpu"
STEPS, SECONDS = 4, 5.0
MOST_TOKEN = 100 if TINY else 1000
REST = 0.3 if TINY else 2.5 # seconds before and after a loop; what counts as idle is their last second


def bloom(layers=24):
    return BloomConfig(vocab_size=250880, hidden_size=1024, n_layer=layers, n_head=16), BloomForCausalLM


def qwen3(layers=28):
    return Qwen3Config(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=layers, num_attention_heads=16,
                       num_key_value_heads=8, head_dim=128, tie_word_embeddings=True), Qwen3ForCausalLM


def llama(layers=32):
    return LlamaConfig(vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=layers, num_attention_heads=32,
                       num_key_value_heads=32, max_position_embeddings=4096), LlamaForCausalLM


def tidy():
    """What PyTorch keeps for later is captured with the rest: of a 7B, whose weights begin as float32, 27 GB."""
    gc.collect()
    if GPU:
        torch.cuda.empty_cache()


def make(config, kind):
    if TINY:
        config.update({"vocab_size": 128, "hidden_size": 128, "num_hidden_layers": 2} if kind is BloomForCausalLM else
                      {"vocab_size": 128, "hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 2,
                       "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32})
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = kind(config).to(torch.bfloat16).eval()
    tidy()
    return model


def tokens(n):
    return torch.randint(0, MOST_TOKEN, (1, n), device=DEVICE)


def finish():
    if GPU:
        torch.cuda.synchronize()


def plain(config, kind, n):
    """A step, and the tokens that it takes: so do all modes."""
    model, ids = make(config, kind), tokens(n)
    return lambda: model(ids, use_cache=False).logits, ids


def stay(cache):
    """Layers of a static cache count the tokens they were given: after 128 decode steps they would be full. From here on they stay
    at this token."""
    for layer in cache.layers:
        if not hasattr(layer, "cumulative_length"): # transformers 4: the position is given with each step
            return
        kind = type(layer)

        class Stays(kind):
            def update(self, keys, values, *_args, **_more):
                at = torch.arange(keys.shape[-2], device=keys.device) + self.cumulative_length
                self.keys.index_copy_(2, at, keys)
                self.values.index_copy_(2, at, values)
                return self.keys, self.values

        layer.__class__ = Stays


def decode(config, kind):
    context = 32 if TINY else 1024
    model = make(config, kind)
    cache = StaticCache(config=config, max_cache_len=context + 128)
    model(tokens(context), past_key_values=cache, use_cache=True, cache_position=torch.arange(context, device=DEVICE))
    token, at = tokens(1), torch.tensor([context], device=DEVICE)
    stay(cache)
    tidy()
    return lambda: model(token, past_key_values=cache, use_cache=True, cache_position=at).logits, token


def compiled(step, ids):
    if not GPU: # nothing to compile for
        return step, ids
    run = torch.compile(step, mode="reduce-overhead")
    for _ in range(3):
        run()
        finish()
    return lambda: run().clone(), ids


MODES = {
    "bloom": lambda: plain(*bloom(), 5),
    "qwen3": lambda: plain(*qwen3(), 512),
    "decode": lambda: decode(*qwen3()),
    "compile": lambda: compiled(*plain(*qwen3(layers=4), 16)),
    "llama": lambda: decode(*llama()),
    "llama_compile": lambda: compiled(*decode(*llama())),
}


def region(step, ids):
    drawn = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        ids.copy_(torch.randint(0, MOST_TOKEN, ids.shape, generator=drawn))
        finish()
        if GPU:
            torch.cuda.nvtx.range_push("step")
        result = step()
        if GPU:
            torch.cuda.nvtx.range_pop()
        finish()
    print(sys.argv[1], result.float().sum().item())


def stamp():
    return datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def loop(step, seconds):
    """Steps for that long; their number and how long it really took."""
    n, begin = 0, time.time()
    while time.time() - begin < seconds:
        step()
        finish()
        n += 1
    return n, time.time() - begin


def rest():
    """The last part of a rest, as two stamps: power falls for seconds after work."""
    time.sleep(REST - REST / 2.5)
    start = stamp()
    time.sleep(REST / 2.5)
    return {"start_timestamp": start, "end_timestamp": stamp()}


def steady(step, file, seconds):
    """The window begins and ends inside the load: a sensor is late by a reading or two."""
    before = rest()
    loop(step, 0.8)
    start = stamp()
    n, took = loop(step, seconds)
    end = stamp()
    loop(step, 0.5)
    after = rest()
    with open(file, "w", encoding="utf-8") as f:
        json.dump({"start_timestamp": start, "end_timestamp": end, "num_runs": n, "full_model_inference_us": took / n * 1e6,
                   "idle": [before, after]}, f)


with torch.no_grad():
    one, its_tokens = MODES[sys.argv[1]]()
    if len(sys.argv) < 3:
        region(one, its_tokens)
    else:
        for i in range(int(sys.argv[4]) if len(sys.argv) > 4 else 1):
            steady(one, sys.argv[2].replace("%", str(i + 1)), float(sys.argv[3]) if len(sys.argv) > 3 else SECONDS)
