#!/usr/bin/env python3
"""A worker (docs/worker-protocol.md) around any causal language model of Hugging Face transformers.

    twinfer bench engine=transformers model=qwen3_0_6b device=cuda

The model comes from twinfer's hello (model.config, or model.ref with its weights), or from --config DIR.
Weights are random from the seed of model.weights=random:SEED unless a folder has some. Every option
below may also be given as +worker.options.NAME=VALUE, which wins.

Batching, both with one left-padded batch and its past_key_values:
  continuous  between two decode steps up to --prefills-per-step waiting requests are computed, each
              by itself, and join the batch; a finished row leaves it at once.
  static      the engine waits until --max-batch requests are there, --max-wait-ms have gone by since
              the first, or no more will come; it computes their prompts together and decodes until the
              longest is done. Rows that are done keep their place.

A token's time is taken when its id is on the host: after the copy that waits for the device. Each
forward pass is an NVTX range, `prefill` or `decode`. Greedy, so tokens repeat from run to run.
Needs torch and transformers >= 4.56; tried with transformers 5.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time
from collections import deque

PROTOCOL = 1


class Refused(Exception):
    """What the user has to be told instead of a traceback, and the remedy."""

    def __init__(self, message, hint=None):
        super().__init__(message)
        self.hint = hint


# ---- lines ------------------------------------------------------------------------------------


class Lines:
    """stdin and stdout as messages. Everything else that prints goes to stderr from here on."""

    def __init__(self):
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.lock = threading.Lock()
        self.inbox = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, **message):
        line = json.dumps(message, separators=(",", ":")) + "\n"
        with self.lock:
            self.out.write(line)
            self.out.flush()

    def _read(self):
        for line in sys.stdin.buffer:
            received = time.monotonic_ns()
            message = json.loads(line)
            if message["type"] == "clock":  # at once, whatever the engine does
                self._answer_clock(message["seq"], received)
            else:
                self.inbox.put(message)
        self.inbox.put({"type": "shutdown"})

    def _answer_clock(self, seq, received):
        with self.lock:
            self.out.write(
                '{"type":"clock","seq":%d,"recv_ns":%d,"send_ns":%d}\n'
                % (seq, received, time.monotonic_ns())
            )
            self.out.flush()


# ---- the model --------------------------------------------------------------------------------


def load_config(options, hello):
    import transformers

    folder = options.config or hello["model"]["dir"]
    if folder:
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    keys = dict(hello["model"]["config"])
    kind = keys.pop("model_type", None)
    if not kind:
        raise Refused("the model has no config with a model_type; --config DIR names one")
    return transformers.AutoConfig.for_model(kind, **keys)


def weights_folder(options, hello):
    weights = hello["model"]["weights"]
    if weights and weights.startswith("random:"):
        return None
    return weights or options.config or hello["model"]["dir"]


def load_model(options, hello, config):
    import torch
    import transformers

    dtype = getattr(torch, options.dtype)
    cls = transformers.AutoModelForCausalLM
    if options.model_class:
        cls = getattr(transformers, options.model_class, None)
        if cls is None:
            raise Refused("transformers has no class " + options.model_class)
    folder = weights_folder(options, hello)
    if folder:
        attention = {"attn_implementation": options.attention} if options.attention else {}
        model = cls.from_pretrained(folder, dtype=dtype, local_files_only=True, **attention)
        model = model.to(options.device)
    else:
        weights = hello["model"]["weights"] or "random:0"
        torch.manual_seed(int(weights.split(":")[1]))
        if options.attention:
            config._attn_implementation = options.attention
        config.dtype = dtype
        make = cls._from_config if options.model_class else cls.from_config
        with torch.device(options.device):
            model = make(config)
        model = model.to(dtype)
    return model.eval()


def context_length(config):
    for name in ("max_position_embeddings", "seq_length", "n_positions"):
        value = getattr(config, name, None)
        if value:
            return int(value)
    return 0


# ---- the batch --------------------------------------------------------------------------------


class Request:
    def __init__(self, message):
        self.id = message["id"]
        self.prompt = message["prompt_ids"]
        self.max_tokens = message["max_tokens"]
        self.ignore_eos = message["ignore_eos"]
        self.tokens = 0
        self.scheduled_ns = None
        self.over = False


class Batch:
    """Rows that decode together: row r of every tensor is rows[r], padded on the left."""

    def __init__(self, model, device):
        import torch

        self.torch = torch
        self.model = model
        self.device = device
        self.cuda = device.startswith("cuda")
        self.eos = self._end_tokens(model.config)
        self.clear()

    @staticmethod
    def _end_tokens(config):
        eos = getattr(config, "eos_token_id", None)
        return set(eos) if isinstance(eos, (list, tuple)) else {eos}

    def clear(self):
        self.rows = []
        self.cache = None
        self.mask = None  # [rows, length of the cache + 1]: 1 = a token
        self.next_ids = None  # [rows, 1]

    # -- the cache as a list of (keys, values), each [rows, heads, length, head size]

    def _layers(self, cache):
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _cache_of(self, layers):
        from transformers import DynamicCache

        cache = DynamicCache()
        for i, (keys, values) in enumerate(layers):
            cache.update(keys, values, i)
        return cache

    # -- one forward pass

    def _forward(self, name, ids, mask, cache):
        """Returns ([row] next ids as a tensor, as a list, cache, (start, end, device) in ns)."""
        torch = self.torch
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        if self.cuda:
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            torch.cuda.nvtx.range_push(name)
            begin.record()
        start_ns = time.monotonic_ns()
        extra = {"position_ids": positions} if self.takes_positions() else {}
        out = self.model(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **extra
        )
        chosen = out.logits[:, -1, :].argmax(-1)
        if self.cuda:
            end.record()
        on_host = chosen.tolist()  # waits for the device
        end_ns = time.monotonic_ns()
        device_ns = None
        if self.cuda:
            torch.cuda.nvtx.range_pop()
            device_ns = int(begin.elapsed_time(end) * 1e6)
        return chosen, on_host, out.past_key_values, (start_ns, end_ns, device_ns)

    def takes_positions(self):
        if not hasattr(self, "_takes_positions"):
            import inspect

            self._takes_positions = (
                "position_ids" in inspect.signature(self.model.forward).parameters
            )
        return self._takes_positions

    def prefill(self, requests):
        """Computes the prompts together and lets them join. Returns (tokens, times)."""
        torch = self.torch
        longest = max(len(r.prompt) for r in requests)
        ids = torch.zeros(len(requests), longest, dtype=torch.long)
        mask = torch.zeros(len(requests), longest, dtype=torch.long)
        for row, r in enumerate(requests):
            ids[row, longest - len(r.prompt) :] = torch.tensor(r.prompt)
            mask[row, longest - len(r.prompt) :] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        chosen, tokens, cache, times = self._forward("prefill", ids, mask, None)
        for r in requests:
            r.scheduled_ns = times[0]
            r.prompt = None
        self._join(requests, self._layers(cache), mask, chosen)
        return tokens, times

    def _join(self, requests, layers, mask, chosen):
        torch = self.torch
        grown = torch.nn.functional.pad(mask, (0, 1), value=1)  # the token that was just chosen
        chosen = chosen[:, None]
        if self.rows:
            ours = self._layers(self.cache)
            length = max(grown.shape[1], self.mask.shape[1])
            layers = [
                tuple(torch.cat([self._pad(a, length - 1), self._pad(b, length - 1)])
                      for a, b in zip(mine, new))
                for mine, new in zip(ours, layers)
            ]
            left = torch.nn.functional.pad
            grown = torch.cat([
                left(self.mask, (length - self.mask.shape[1], 0)),
                left(grown, (length - grown.shape[1], 0)),
            ])
            chosen = torch.cat([self.next_ids, chosen])
        self.rows = self.rows + requests
        self.cache = self._cache_of(layers)
        self.mask = grown
        self.next_ids = chosen

    def _pad(self, tensor, length):
        return self.torch.nn.functional.pad(tensor, (0, 0, length - tensor.shape[2], 0))

    def decode(self):
        """One token for every row. Returns (tokens, times)."""
        chosen, tokens, self.cache, times = self._forward(
            "decode", self.next_ids, self.mask, self.cache
        )
        self.next_ids = chosen[:, None]
        self.mask = self.torch.nn.functional.pad(self.mask, (0, 1), value=1)
        return tokens, times

    def drop(self, keep):
        """Only the rows whose index is in keep stay; padding that no row needs goes too."""
        if not keep:
            self.clear()
            return
        torch = self.torch
        index = torch.tensor(keep, device=self.device)
        mask = self.mask.index_select(0, index)
        spare = int(mask.any(0).int().argmax())
        self.cache = self._cache_of([
            tuple(t.index_select(0, index)[:, :, spare:, :] for t in layer)
            for layer in self._layers(self.cache)
        ])
        self.mask = mask[:, spare:]
        self.next_ids = self.next_ids.index_select(0, index)
        self.rows = [self.rows[i] for i in keep]


# ---- the engine -------------------------------------------------------------------------------


class Engine:
    def __init__(self, lines, options, batch):
        self.lines = lines
        self.options = options
        self.batch = batch
        self.waiting = deque()
        self.drained = False
        self.stop = False
        self.first_waits_since = None

    # -- messages

    def take(self, message):
        kind = message["type"]
        if kind == "submit":
            if not self.waiting:
                self.first_waits_since = time.monotonic()
            self.waiting.append(Request(message))
        elif kind == "cancel":
            self.cancel(message["id"])
        elif kind == "drain":
            self.drained = True
        elif kind == "shutdown":
            self.stop = True

    def cancel(self, request_id):
        for r in list(self.waiting):
            if r.id == request_id:
                self.waiting.remove(r)
                self.finish(r, "cancelled")
        for r in self.batch.rows:
            if r.id == request_id and not r.over:
                self.finish(r, "cancelled")

    def take_all(self, timeout):
        """Waits up to timeout (None = for ever) for a message, then takes what is there."""
        try:
            self.take(self.lines.inbox.get(timeout=timeout) if timeout != 0
                      else self.lines.inbox.get_nowait())
            while True:
                self.take(self.lines.inbox.get_nowait())
        except queue.Empty:
            pass

    # -- results

    def finish(self, r, reason):
        r.over = True
        message = {"id": r.id, "num_tokens": r.tokens, "reason": reason}
        if r.scheduled_ns is not None:
            message["scheduled_ns"] = r.scheduled_ns
        self.lines.send(type="finished", **message)

    def emit(self, rows, tokens, times, prefill_tokens, decodes):
        start_ns, end_ns, device_ns = times
        live = [(r, t) for r, t in zip(rows, tokens) if not r.over]
        if live:
            self.lines.send(
                type="tokens", t_ns=end_ns, ids=[r.id for r, _ in live], tokens=[t for _, t in live]
            )
        batch = {"start_ns": start_ns, "end_ns": end_ns, "num_prefill_tokens": prefill_tokens,
                 "num_decode_tokens": decodes, "batch_size": len(rows)}
        if device_ns is not None:
            batch["device_ns"] = min(device_ns, end_ns - start_ns)
        self.lines.send(type="batch", **batch)
        for r, token in live:
            r.tokens += 1
            if not r.ignore_eos and token in self.batch.eos:
                self.finish(r, "stop")
            elif r.tokens == r.max_tokens:
                self.finish(r, "length")

    # -- steps

    def prefill(self, count):
        requests = [self.waiting.popleft() for _ in range(count)]
        prompt_tokens = sum(len(r.prompt) for r in requests)
        tokens, times = self.batch.prefill(requests)
        self.emit(requests, tokens, times, prompt_tokens, 0)

    def decode(self):
        rows = self.batch.rows
        tokens, times = self.batch.decode()
        self.emit(rows, tokens, times, 0, len(rows))

    def leave(self):
        keep = [i for i, r in enumerate(self.batch.rows) if not r.over]
        if len(keep) < len(self.batch.rows):
            self.batch.drop(keep)

    def continuous(self):
        while not self.stop:
            self.take_all(0 if self.batch.rows or self.waiting else None)
            for _ in range(self.options.prefills_per_step):
                if self.waiting and len(self.batch.rows) < self.options.max_batch:
                    self.prefill(1)
            self.leave()
            if self.batch.rows:
                self.decode()
                self.leave()

    def batch_is_due(self):
        """(due now, seconds to wait else; None = for ever)"""
        if not self.waiting:
            return False, None
        left = self.options.max_wait_ms / 1e3 - (time.monotonic() - self.first_waits_since)
        due = self.drained or len(self.waiting) >= self.options.max_batch or left <= 0
        return due, max(left, 1e-4)

    def static(self):
        while not self.stop:
            due, wait = self.batch_is_due()
            if not due:
                self.take_all(wait)
                continue
            self.prefill(min(len(self.waiting), self.options.max_batch))
            self.first_waits_since = time.monotonic()
            while not self.stop and any(not r.over for r in self.batch.rows):
                self.decode()
                self.take_all(0)
            self.batch.clear()

    def run(self):
        if self.options.batching == "static":
            self.static()
        else:
            self.continuous()


def warm_up(batch, vocab):
    """The first passes load kernels and allocate: nobody's latency."""
    for length in (1, 64):
        fake = {"id": 0, "prompt_ids": [i % vocab for i in range(length)], "max_tokens": 1,
                "ignore_eos": True}
        batch.prefill([Request(fake), Request(fake)])
        batch.decode()
        batch.decode()
        batch.drop([1])
        batch.decode()
        batch.clear()


# ---- the command line -------------------------------------------------------------------------


def parser():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--config", metavar="DIR", help="folder with config.json instead of hello's model")
    p.add_argument("--model-class", metavar="NAME", help="class of transformers; found by the config "
                                                         "when unset")
    p.add_argument("--dtype", choices=["float32", "bfloat16", "float16"],
                   help="float32 on the CPU, bfloat16 elsewhere, when unset")
    p.add_argument("--device", help="as device= when unset")
    p.add_argument("--attention", metavar="NAME", help="attn_implementation; transformers' choice when "
                                                       "unset")
    p.add_argument("--batching", choices=["continuous", "static"], default="continuous")
    p.add_argument("--max-batch", type=int, default=64, metavar="N")
    p.add_argument("--max-wait-ms", type=float, default=50, metavar="MS")
    p.add_argument("--prefills-per-step", type=int, default=1, metavar="N")
    p.add_argument("--threads", type=int, default=0, metavar="N", help="of the CPU; 0 is torch's choice")
    return p


def settle(hello):
    """Options of the command line, then those of hello."""
    p = parser()
    words = sys.argv[1:]
    for name, value in hello["options"].items():
        words += ["--" + name.replace("_", "-"), str(value)]

    def refuse(message):
        raise Refused(message)

    p.error = refuse
    options = p.parse_args(words)
    options.device = options.device or hello["device"]
    options.dtype = options.dtype or ("float32" if options.device == "cpu" else "bfloat16")
    if options.max_batch < 1 or options.prefills_per_step < 1:
        raise Refused("max-batch and prefills-per-step must be 1 or more")
    return options


def boot_id():
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return {"boot_id": f.read().strip()}
    except OSError:
        return {}


def say_hello(lines, options, config):
    import torch
    import transformers

    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise Refused(
            "device %s: torch %s sees no CUDA device" % (options.device, torch.__version__),
            "device=cpu, or a machine with a GPU and a torch that was built for it",
        )
    info = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "options": {k: v for k, v in vars(options).items() if v is not None},
        "model_type": config.model_type,
    }
    if options.device.startswith("cuda"):
        info["gpu"] = torch.cuda.get_device_name(options.device)
        info["cuda"] = torch.version.cuda
    lines.send(
        type="hello", protocol=PROTOCOL, name="transformers", version=transformers.__version__,
        clock={"kind": "CLOCK_MONOTONIC", **boot_id()},
        capabilities={
            "prompt_ids": True, "prompt_text": False, "token_ids": True, "batches": True,
            "cancel": True, "batching": options.batching, "max_model_len": context_length(config),
        },
        info=info,
    )


def need_libraries():
    try:
        import torch
        import transformers  # noqa: F401  used where models are made
    except ImportError as e:
        raise Refused(
            "%s cannot import %s" % (sys.executable, e.name or e),
            "%s -m pip install torch transformers, or name a Python that has them: "
            "TWINFER_PYTHON=/path/to/python3" % sys.executable,
        )
    return torch


def serve(lines):
    hello = lines.inbox.get()
    if hello["type"] != "hello":
        return
    if hello.get("protocol") != PROTOCOL:  # our own hello says ours; twinfer words the rest
        lines.send(type="hello", protocol=PROTOCOL)
        return
    options = settle(hello)
    torch = need_libraries()
    config = load_config(options, hello)
    say_hello(lines, options, config)
    if options.threads:
        torch.set_num_threads(options.threads)
    start = time.monotonic()
    with torch.inference_mode():
        model = load_model(options, hello, config)
        loaded = time.monotonic()
        batch = Batch(model, options.device)
        warm_up(batch, config.vocab_size)
        lines.send(type="ready", info={
            "class": type(model).__name__,
            "parameters": sum(p.numel() for p in model.parameters()),
            "load_seconds": round(loaded - start, 3),
            "warm_up_seconds": round(time.monotonic() - loaded, 3),
        })
        Engine(lines, options, batch).run()


def main():
    if any(w in ("-h", "--help") for w in sys.argv[1:]):
        parser().parse_args()
    lines = Lines()
    try:
        serve(lines)
    except Refused as e:
        lines.send(type="error", message=str(e), **({"hint": e.hint} if e.hint else {}))
        return 1
    except Exception as e:  # the traceback goes to stderr, its last line to the user
        import traceback

        traceback.print_exc()
        lines.send(type="error", message="%s: %s" % (type(e).__name__, e))
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # without waiting for the reader, which sits in a read
