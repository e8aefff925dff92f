"""Two processes on two GPUs: tensor-parallel MLP steps with an all-reduce each, a range a step.

    twinfer trace out=traces/nccl -- python3 -m torch.distributed.run --standalone \\
        --nproc_per_node=2 adapters/workloads/nccl_steps.py
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist

import models


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", default="cuda")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--hidden", type=int, default=4096)
    p.add_argument("--tokens", type=int, default=512)
    a = p.parse_args()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    world = int(os.environ["WORLD_SIZE"])
    on_gpu = a.device == "cuda"
    if on_gpu and torch.cuda.device_count() < world:
        print(f"nccl_steps: {world} GPUs are needed, this machine has "
              f"{torch.cuda.device_count()}", file=sys.stderr)
        sys.exit(4)
    device = f"cuda:{local}" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    dtype = torch.bfloat16 if on_gpu else torch.float32
    x = torch.randn(a.tokens, a.hidden, device=device, dtype=dtype)
    up = torch.randn(a.hidden, 4 * a.hidden // world, device=device, dtype=dtype) / 64
    down = torch.randn(4 * a.hidden // world, a.hidden, device=device, dtype=dtype) / 64
    for step in range(a.steps):
        with models.region("step"):
            y = torch.relu(x @ up) @ down
            with models.region("all_reduce"):
                dist.all_reduce(y)
            x = y / y.abs().max().clamp(min=1)
    models.synchronize(device)
    if rank == 0:
        print(f"nccl_steps: {a.steps} steps on {world} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
