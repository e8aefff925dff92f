"""A model split over GPUs by transformers' tensor parallelism, generating greedily: ranges "prefill"
and "decode" a step, on every rank.

    twinfer trace out=traces/tp -- python3 -m torch.distributed.run --standalone \\
        --nproc_per_node=2 adapters/workloads/tp_generate.py

transformers splits what it loads, so rank 0 writes random weights first, made on its GPU: 15 GB of
bfloat16 for vicuna_7b. They stay in --folder for the next run. --tiny --device cpu rehearses all of
it without a GPU (gloo)."""

import argparse
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
    a = p.parse_args()
    folder = f"{a.folder}-{a.shape}{'-tiny' if a.tiny else ''}"
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
    if rank == 0:
        saved(folder, a.shape, device, a.tiny)
    dist.barrier()
    dtype = torch.bfloat16 if on_gpu else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype,
                                                              tp_plan="auto").eval()
    ids = models.prompt(model, a.prompt)
    w = next(w for n, w in model.named_parameters() if n.endswith("down_proj.weight"))
    part, whole = w.to_local().numel() if hasattr(w, "to_local") else w.numel(), (
        model.config.hidden_size * model.config.intermediate_size)
    if part * world != whole:
        print(f"tp_generate: rank {rank} holds {part} of {whole} weights: transformers "
              f"{transformers.__version__} did not split the model", file=sys.stderr)
        sys.exit(5)
    with torch.no_grad():
        with models.warm_up(device):
            generate(model, ids, 3)
        for _ in range(a.runs):
            dist.barrier()
            generate(model, ids, a.tokens)
            models.synchronize(device)
    if rank == 0:
        print(f"tp_generate: {a.runs} runs of {a.prompt} + {a.tokens} tokens on {world} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
