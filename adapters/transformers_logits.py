#!/usr/bin/env python3
"""Holds the logits of twinfer's engines to those of Hugging Face transformers, on the same random weights.

    python3 adapters/transformers_logits.py [--engine cpu|cuda] [--models qwen3_0_6b,...] [--prompts 1,12,40] ...

For each model `twinfer model init` writes the weights, `twinfer logits` lets the engine continue random prompts, and
transformers computes the same tokens in one pass, in float32 and in the engine's type. The error of a run is the norm
of its difference to transformers' float32 logits over the norm of those. In 16 bits the engine's may be at most
--ratio times that of transformers' run of the same type; in float32 at most --float32. Exits with 1 on a miss.

A model is a group of configs/model, with overrides behind it: llama2_7b:num_hidden_layers=2.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--twinfer", default=os.environ.get("TWINFER", "twinfer"), help="the program")
    p.add_argument("--engine", default="cuda", choices=["cpu", "cuda"])
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="of transformers")
    p.add_argument("--models", default="tiny_qwen3,qwen3_0_6b,llama2_7b:num_hidden_layers=2,bloom_560m")
    p.add_argument("--dtypes", default=None, help="of engine=cuda; bfloat16,float16,float32 when left out")
    p.add_argument("--prompts", default="1,12,40", help="sequences in a batch")
    p.add_argument("--prompt-tokens", type=int, default=192)
    p.add_argument("--tokens", type=int, default=8, help="that each sequence generates")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--ratio", type=float, default=1.25)
    p.add_argument("--float32", type=float, default=1e-5)
    p.add_argument("--work", default=None, help="folder for weights and logits; a temporary one when left out")
    a = p.parse_args()
    if a.dtypes is None:
        a.dtypes = "float32" if a.engine == "cpu" else "bfloat16,float16,float32"
    return a


def run(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}exit code {done.returncode}")


def write_weights(a, spec, work):
    """Folder of the model, made once."""
    name, _, overrides = spec.partition(":")
    folder = os.path.join(work, spec.replace(":", "-").replace("=", "-"))
    if not os.path.isdir(folder):
        words = [f"model.config.{o}" for o in overrides.split(":") if o]
        run([a.twinfer, "model", "init", f"model={name}", *words, f"seed={a.seed}", f"out={folder}"])
    return folder


def engine_logits(a, folder, dtype, prompts, work):
    """What the engine continued: ids [prompts, tokens before the last], logits [prompts, tokens, vocabulary]."""
    out = os.path.join(work, "logits")
    shutil.rmtree(out, ignore_errors=True)
    words = [] if a.engine == "cpu" else [f"engine.dtype={dtype}"]
    run([a.twinfer, "logits", f"model.ref={folder}", f"engine={a.engine}", *words, f"logits.prompts={prompts}",
         f"logits.prompt_tokens={a.prompt_tokens}", f"logits.tokens={a.tokens}", f"seed={a.seed}", f"out={out}"])
    t = load_file(os.path.join(out, "logits.safetensors"))
    return torch.cat([t["prompts"], t["tokens"][:, :-1]], 1).long(), t["logits"]


def load(folder, dtype, device):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model.to(device).eval()


def their_logits(model, ids, n, device):
    rows = []
    with torch.no_grad():
        for part in ids.split(8):  # logits of a whole batch may be large
            rows.append(model(part.to(device), logits_to_keep=n, use_cache=False).logits.float().cpu())
    return torch.cat(rows)


def error(x, reference):
    return ((x.double() - reference.double()).norm() / reference.double().norm()).item()


def check_model(a, spec, work):
    """One row for each type and number of sequences; whether all hold."""
    folder = write_weights(a, spec, work)
    models = {"float32": load(folder, torch.float32, a.device)}
    fine = True
    for dtype in a.dtypes.split(","):
        if dtype not in models:
            models[dtype] = load(folder, getattr(torch, dtype), a.device)
        for prompts in map(int, a.prompts.split(",")):
            ids, ours = engine_logits(a, folder, dtype, prompts, work)
            reference = their_logits(models["float32"], ids, a.tokens, a.device)
            if not (torch.isfinite(ours).all() and ours.shape == reference.shape):
                sys.exit(f"{spec}: logits {tuple(ours.shape)}, {tuple(reference.shape)} were expected, finite")
            own = error(ours, reference)
            if dtype == "float32":
                good, theirs, limit = own <= a.float32, "", f"{a.float32:.0e}"
            else:
                other = error(their_logits(models[dtype], ids, a.tokens, a.device), reference)
                good, theirs, limit = own <= a.ratio * other, f"{other:.3e}", f"{a.ratio:g} x, is {own / other:.2f} x"
            fine = fine and good
            print(f"{spec:34} {a.engine:6} {dtype:9} {prompts:9d} {own:12.3e} {theirs:>14} {limit:>22}  "
                  f"{'ok' if good else 'MISS'}", flush=True)
    return fine


def main():
    a = arguments()
    logging.disable_progress_bar()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    work = a.work or tempfile.mkdtemp(prefix="twinfer-logits-")
    os.makedirs(work, exist_ok=True)
    print(f"{'model':34} {'engine':6} {'dtype':9} {'sequences':>9} {'error':>12} {'transformers':>14} {'limit':>22}")
    try:
        results = [check_model(a, spec, work) for spec in a.models.split(",")]
    finally:
        if not a.work:
            shutil.rmtree(work, ignore_errors=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
