"""A model split over GPUs by transformers' tensor parallelism, generating greedily: ranges "prefill"
and "decode" a step, on every rank.

    twinfer trace out=traces/tp -- python3 -m torch.distributed.run --standalone \\
        --nproc_per_node=2 adapters/workloads/tp_generate.py
"""

import argparse
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import transformers

import models


def saved(shape, folder, rank):
    """transformers splits what it loads: rank 0 writes random weights for all."""
    if rank == 0:
        model = models.make(shape, "cpu")
        model.to(torch.bfloat16).save_pretrained(folder)
    dist.barrier()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--shape", default="qwen3_0_6b", choices=models.SHAPES)
    p.add_argument("--tokens", type=int, default=16, help="to generate")
    p.add_argument("--prompt", type=int, default=128)
    p.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "twinfer-tp"))
    a = p.parse_args()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    world = int(os.environ["WORLD_SIZE"])
    if torch.cuda.device_count() < world:
        print(f"tp_generate: {world} GPUs are needed, this machine has {torch.cuda.device_count()}",
              file=sys.stderr)
        sys.exit(4)
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    folder = f"{a.folder}-{a.shape}"
    saved(a.shape, folder, rank)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16,
                                                              tp_plan="auto").eval()
    ids = models.prompt(model, a.prompt)
    with torch.no_grad():
        for run in range(2):  # the first warms up
            with models.region("prefill"):
                out = model(input_ids=ids, use_cache=True)
            past, token = out.past_key_values, out.logits[:, -1:].argmax(-1)
            for _ in range(a.tokens - 1):
                with models.region("decode"):
                    out = model(input_ids=token, past_key_values=past, use_cache=True)
                    token = out.logits[:, -1:].argmax(-1)
            torch.cuda.synchronize()
    if rank == 0:
        print(f"tp_generate: {a.tokens} tokens twice on {world} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
