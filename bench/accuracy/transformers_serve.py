#!/usr/bin/env python3
"""`transformers serve` of a folder with config.json and tokenizer files, for what measures it over HTTP.

    python3 bench/accuracy/transformers_serve.py FOLDER [--load-seed N] [--no-cudnn-attention] [ARG of transformers serve]...

Server, scheduler and kernels are transformers' own. Two things are arranged before it starts, both in this process:

- FOLDER stands alone in a hub cache of its own, under its last name, so that /v1/models lists it: transformers serve lists what is in
  the cache, takes requests for that name only, and fails where there is no cache. Nothing is downloaded.
- Without *.safetensors in FOLDER the weights are random, made on the device, as `--load-format dummy` of vLLM: nothing of the model's
  size is written or read. An end of the sequence would come by chance then, and the server takes no `ignore_eos`, so the model has
  none: each answer is as long as max_tokens says. --load-seed (0) is the seed.

Continuous batching is on unless --no-continuous-batching. --no-cudnn-attention keeps PyTorch's scaled_dot_product_attention from
cuDNN's, which makes a plan for each shape when it first comes.

Needs PyPI's transformers with what its `serving` extra names.
"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile

REVISION = "0" * 40


def hub_of(folder, home):
    """A hub cache that has that one model; its name there."""
    name = folder.name
    repository = home / f"models--{name}"
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    for file in folder.iterdir():
        if file.is_file():
            (snapshot / file.name).symlink_to(file)
    return name


def make_weights(seed):
    """Models are made instead of read, in their own dtype on the device that was asked for."""
    import torch
    from transformers import AutoConfig, GenerationConfig, PreTrainedModel

    def made(cls, name, *_, device_map=None, dtype=None, attn_implementation=None, **_others):
        config = AutoConfig.from_pretrained(name)
        dtype = dtype if isinstance(dtype, torch.dtype) else config.dtype or torch.bfloat16
        if device_map in (None, "auto"):
            device_map = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(seed)
        with torch.device(device_map):
            model = cls._from_config(config, dtype=dtype, attn_implementation=attn_implementation)
        model.config.name_or_path = name
        try:
            model.generation_config = GenerationConfig.from_pretrained(name)
        except OSError:  # it has no such file
            pass
        model.generation_config.eos_token_id = None
        model.config.eos_token_id = None
        return model.eval()

    PreTrainedModel.from_pretrained = classmethod(made)


def option(args, name, default):
    """Takes `name VALUE` out of args."""
    if name not in args:
        return default
    at = args.index(name)
    if at + 1 == len(args):
        raise SystemExit(f"{name} wants a value")
    value = args[at + 1]
    del args[at:at + 2]
    return value


def main(args):
    if not args or args[0].startswith("-"):
        raise SystemExit(__doc__)
    folder = pathlib.Path(args.pop(0)).resolve()
    if not (folder / "config.json").is_file():
        raise SystemExit(f"{folder} has no config.json")
    seed = int(option(args, "--load-seed", "0"))
    if "--no-continuous-batching" not in args and "--continuous-batching" not in args:
        args.insert(0, "--continuous-batching")
    no_cudnn = "--no-cudnn-attention" in args
    if no_cudnn:
        args.remove("--no-cudnn-attention")
    with tempfile.TemporaryDirectory(prefix="transformers-serve-") as home:
        def ended(number, _frame):  # uvicorn stops, then raises the signal again
            shutil.rmtree(home, ignore_errors=True)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

        signal.signal(signal.SIGTERM, ended)
        os.environ.update(HF_HUB_CACHE=home, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
        sys.argv = ["transformers", "serve", hub_of(folder, pathlib.Path(home)), *args]
        from transformers.cli.transformers import main as transformers

        if not any(folder.glob("*.safetensors")):
            make_weights(seed)
        if no_cudnn:
            import torch

            torch.backends.cuda.enable_cudnn_sdp(False)
        transformers()


if __name__ == "__main__":
    main(sys.argv[1:])
