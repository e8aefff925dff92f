"""Qwen3-0.6B generates step by step: ranges "generate" > "prefill", "decode" (one a token).

    twinfer trace trace.range=decode out=traces/qwen3 -- python3 adapters/workloads/qwen3_generate.py
"""

import argparse

import torch

import models


def generate(model, ids, tokens):
    with models.region("generate"):
        with models.region("prefill"):
            out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
        for _ in range(tokens - 1):
            with models.region("decode"):
                out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True,
                            logits_to_keep=1)
                token = out.logits[:, -1].argmax(-1, keepdim=True)
                token.cpu()  # the host sees each token, as a server does
    return token


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", default="cuda")
    p.add_argument("--prompt", type=int, default=128, help="tokens")
    p.add_argument("--tokens", type=int, default=32, help="to generate")
    p.add_argument("--runs", type=int, default=3, help="after one that warms up")
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    model = models.make("qwen3_0_6b", a.device, a.tiny)
    ids = models.prompt(model, a.prompt)
    with torch.no_grad():
        with models.warm_up(a.device):  # all of it: libraries prepare for each length of the keys
            generate(model, ids, a.tokens)
        for _ in range(a.runs):
            generate(model, ids, a.tokens)
        models.synchronize(a.device)
    print(f"qwen3_generate: {a.runs} runs of {a.prompt} + {a.tokens} tokens")


if __name__ == "__main__":
    main()
