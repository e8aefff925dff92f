#!/usr/bin/env python3
"""Decode steps of Hugging Face transformers at their fastest: a static cache under
torch.compile(mode="reduce-overhead"), beside the CUDA engine's (bench/gpu/run.sh OUT peers).

    python3 adapters/compiled_decode.py --models qwen3_0_6b llama2_7b --batches 1 64 --context 1024

Models are those of configs/model, with random weights. A step is one token of every sequence behind
--context tokens, with the greedy choice of the next; times are of the GPU, between two events around
each step, the median of --steps. Needs torch, transformers >= 4.56 and yaml.
"""

import argparse
import os
import statistics

import torch
import yaml
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

HERE = os.path.dirname(os.path.abspath(__file__))


def model_of(name, dtype):
    with open(os.path.join(HERE, "..", "configs", "model", name + ".yaml"), encoding="utf-8") as f:
        keys = dict(yaml.safe_load(f)["config"])
    config = AutoConfig.for_model(keys.pop("model_type"), **keys)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval()


def measure(model, batch, context, room, steps, warmup):
    cache = StaticCache(config=model.config, max_cache_len=room)
    ids = torch.randint(0, model.config.vocab_size, (batch, context), device="cuda")
    with torch.inference_mode():
        model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)

        def step(token):
            out = model(token, past_key_values=cache, use_cache=True)
            return out.logits[:, -1:].argmax(-1)

        compiled = torch.compile(step, mode="reduce-overhead")
        token = ids[:, -1:].clone()
        times = []
        for i in range(warmup + steps):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.compiler.cudagraph_mark_step_begin()
            begin.record()
            token = compiled(token).clone()
            end.record()
            end.synchronize()
            if i >= warmup:
                times.append(begin.elapsed_time(end))
    return times


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", nargs="+", default=["qwen3_0_6b", "llama2_7b"])
    p.add_argument("--batches", nargs="+", type=int, default=[1, 64])
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--warmup", type=int, default=12)
    args = p.parse_args()
    for name in args.models:
        model = model_of(name, torch.bfloat16)
        for batch in args.batches:
            torch._dynamo.reset()
            room = args.context + 128
            assert args.steps + args.warmup < 128, "the cache has room for 127 steps"
            times = measure(model, batch, args.context, room, args.steps, args.warmup)
            print(f"{name}-b{batch} transformers compiled: {statistics.median(times):.3f} ms "
                  f"({min(times):.3f} to {max(times):.3f}), {len(times)} steps", flush=True)
            torch.cuda.empty_cache()
        del model


if __name__ == "__main__":
    main()
