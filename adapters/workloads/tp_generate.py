"""A model split over GPUs by transformers' tensor parallelism, generating greedily: ranges "prefill"
and "decode" a step, on every rank.

    twinfer trace out=traces/tp -- python3 -m torch.distributed.run --standalone \\
        --nproc_per_node=2 adapters/workloads/tp_generate.py

transformers splits what it loads, so rank 0 writes random weights first, made on its GPU: 15 GB of
bfloat16 for vicuna_7b. They stay in --folder for the next run. Without accelerate, which transformers
needs for that, --split torch. --tiny --device cpu rehearses all of it without a GPU (gloo)."""

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile

import torch
import torch.distributed as dist
import transformers

import models


def saved(folder, shape, device, tiny):
    """A folder is whole once it has its name."""
    if os.path.isdir(folder):
        return
    part = f"{folder}.{os.getpid()}.part"
    shutil.rmtree(part, ignore_errors=True)
    model = models.make(shape, device, tiny)
    model.to(torch.bfloat16).save_pretrained(part)
    del model
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    os.rename(part, folder)


def splits_itself():
    """transformers' own way needs accelerate."""
    return importlib.util.find_spec("accelerate") is not None


def split_by_transformers(folder, dtype):
    """From 5.18 on the plan has another place."""
    plan = {"tp_plan": "auto"}
    if tuple(int(x) for x in transformers.__version__.split(".")[:2]) >= (5, 18):
        from transformers.distributed import DistributedConfig
        plan = {"distributed_config": DistributedConfig(tp_plan="auto")}
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **plan).eval()


def split_by_torch(shape, device, tiny):
    """The same plan by PyTorch's own tensor parallelism: each process makes the whole model, of the
    same seed, and keeps its part. No weights on disk."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    model = models.make(shape, device, tiny)
    styles = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    plan = {f"model.{name}": styles[style]()
            for name, style in model.config.base_model_tp_plan.items() if style in styles}
    plan["lm_head"] = ColwiseParallel(output_layouts=Replicate())
    mesh = init_device_mesh(device.split(":")[0], (dist.get_world_size(),))
    return parallelize_module(model, mesh, plan)


def generate(model, ids, tokens):
    with models.region("prefill"):
        out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1:].argmax(-1)
    for _ in range(tokens - 1):
        with models.region("decode"):
            out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True,
                        logits_to_keep=1)
            token = out.logits[:, -1:].argmax(-1)
            token.cpu()  # the host sees each token, as a server does


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", default="cuda")
    p.add_argument("--shape", default="vicuna_7b", choices=models.SHAPES)
    p.add_argument("--prompt", type=int, default=128)
    p.add_argument("--tokens", type=int, default=16, help="to generate")
    p.add_argument("--runs", type=int, default=2, help="after one that warms up")
    p.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "twinfer-tp"),
                   help="of the weights; the shape is added to the name")
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--prepare", action="store_true",
                   help="only write the weights, in one process without torch.distributed")
    p.add_argument("--split", default="auto" if splits_itself() else "torch",
                   choices=["auto", "torch"],
                   help="by transformers' tp_plan=\"auto\", or the same plan by PyTorch alone")
    a = p.parse_args()
    folder = f"{a.folder}-{a.shape}{'-tiny' if a.tiny else ''}"
    if a.prepare and a.split == "torch":
        print("tp_generate: nothing to prepare")
        return
    if a.prepare:
        saved(folder, a.shape, "cuda:0" if a.device == "cuda" else "cpu", a.tiny)
        print(f"tp_generate: {folder}")
        return
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    world = int(os.environ["WORLD_SIZE"])
    on_gpu = a.device == "cuda"
    if on_gpu and torch.cuda.device_count() < world:
        print(f"tp_generate: {world} GPUs are needed, this machine has {torch.cuda.device_count()}",
              file=sys.stderr)
        sys.exit(4)
    device = f"cuda:{local}" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(local)
        dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    else:
        dist.init_process_group("gloo")
    if a.split == "torch":
        model = split_by_torch(a.shape, device, a.tiny)
    else:
        if rank == 0:
            saved(folder, a.shape, device, a.tiny)
        dist.barrier()
        model = split_by_transformers(folder, torch.bfloat16 if on_gpu else torch.float32)
    ids = models.prompt(model, a.prompt)
    w = next(w for n, w in model.named_parameters() if n.endswith("down_proj.weight"))
    part, whole = w.to_local().numel() if hasattr(w, "to_local") else w.numel(), (
        model.config.hidden_size * model.config.intermediate_size)
    if part * world != whole:
        print(f"tp_generate: rank {rank} holds {part} of {whole} weights: the model is not split "
              f"(--split {a.split}, transformers {transformers.__version__})", file=sys.stderr)
        sys.exit(5)
    with torch.no_grad():
        with models.warm_up(device):
            generate(model, ids, a.tokens)
        for _ in range(a.runs):
            dist.barrier()
            generate(model, ids, a.tokens)
            models.synchronize(device)
    if rank == 0:
        print(f"tp_generate: {a.runs} runs of {a.prompt} + {a.tokens} tokens on {world} ranks, "
              f"--split {a.split}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
