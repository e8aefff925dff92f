"""BLOOM-560M generates with transformers' own loop: one range "generate" around each call.

    twinfer trace out=traces/bloom -- python3 adapters/workloads/bloom_generate.py
"""

import argparse

import torch

import models


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", default="cuda")
    p.add_argument("--prompt", type=int, default=5, help="tokens")
    p.add_argument("--tokens", type=int, default=32, help="to generate")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    model = models.make("bloom_560m", a.device, a.tiny)
    ids = models.prompt(model, a.prompt)
    with torch.no_grad():
        for run in range(a.runs):
            with models.region("warmup" if run == 0 else "generate"):
                out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                     max_new_tokens=a.tokens, min_new_tokens=a.tokens)
            models.synchronize(a.device)
    print(f"bloom_generate: {a.runs} runs of {a.prompt} + {out.shape[1] - a.prompt} tokens")


if __name__ == "__main__":
    main()
