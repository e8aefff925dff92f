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

The cache: dynamic grows with its rows; static has --max-batch rows of --max-length tokens from the
start, which --compile MODE (torch.compile's, as reduce-overhead) turns into one CUDA graph a step.
Then all rows are computed always, whether a request has them or not.

On request it carries out single passes (`twinfer profile engine=transformers`): what one turn of
the loop below takes with that batch, of which the device's part is between two events around the
forward pass.

A token's time is taken when its id is on the host: after the copy that waits for the device. Each
forward pass is an NVTX range, `prefill` or `decode`, and with --mark-steps yes one more around it
says what is in it, for `twinfer kernels kernels.composition=auto`. Greedy, so tokens repeat from run to run.
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
LONGEST_WARM = 2048  # tokens of a prompt that is computed before the worker says ready


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
        try:
            # a reader of our own: Python cannot end while a thread waits inside sys.stdin
            for line in open(0, "rb", closefd=False):
                received = time.monotonic_ns()
                if line.strip():
                    self._take(json.loads(line), received)
        finally:  # nothing more will come, also after what is no message
            self.inbox.put({"type": "shutdown"})

    def _take(self, message, received):
        if message["type"] == "clock":  # at once, whatever the engine does
            self._answer_clock(message["seq"], received)
        else:
            self.inbox.put(message)

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


def longest(options, config):
    """Tokens of a request; 0 = any number."""
    limits = [context_length(config), options.max_length if options.cache == "static" else 0]
    return min((x for x in limits if x), default=0)


# ---- the batch --------------------------------------------------------------------------------


class Request:
    def __init__(self, message):
        self.id = message["id"]
        self.prompt = message["prompt_ids"]
        self.length = len(self.prompt)
        self.max_tokens = message["max_tokens"]
        self.ignore_eos = message["ignore_eos"]
        self.tokens = 0
        self.scheduled_ns = None
        self.over = False


def step_range(prefill_tokens, context, decode, kv):
    """Name of a range that says what is in the pass (docs/formats.md, whole iterations)."""
    return "step prefill_tokens=%d context=%d decode=%d kv=%d" % (prefill_tokens, context, decode, kv)


class Batch:
    """Rows that decode together: row r of every tensor is rows[r], padded on the left."""

    def __init__(self, model, device):
        import torch

        self.torch = torch
        self.mark_steps = False
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

    def _timed(self, name, composition, forward):
        """forward() gives (next ids, what else). Returns these, the ids as a list, and (start, end,
        device) in ns."""
        torch = self.torch
        if self.mark_steps:
            torch.cuda.nvtx.range_push(step_range(*composition))
        if self.cuda:
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            torch.cuda.nvtx.range_push(name)
            begin.record()
        start_ns = time.monotonic_ns()
        chosen, more = forward()
        if self.cuda:
            end.record()
        on_host = chosen.tolist()  # waits for the device
        end_ns = time.monotonic_ns()
        device_ns = None
        if self.cuda:
            torch.cuda.nvtx.range_pop()
            device_ns = int(begin.elapsed_time(end) * 1e6)
        if self.mark_steps:
            torch.cuda.nvtx.range_pop()
        return chosen, on_host, more, (start_ns, end_ns, device_ns)

    def _forward(self, name, composition, ids, mask, cache):
        """Returns ([row] next ids as a tensor, as a list, cache, (start, end, device) in ns)."""
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        extra = {"position_ids": positions} if self.takes_positions() else {}

        def forward():
            out = self.model(
                input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **extra
            )
            return out.logits[:, -1, :].argmax(-1), out.past_key_values

        return self._timed(name, composition, forward)

    def _decoding(self):
        """The composition of a decode step: (prompt tokens, cached ones, sequences, tokens in their
        caches before it)."""
        live = [r for r in self.rows if not r.over]
        return 0, 0, len(live), sum(r.length + r.tokens - 1 for r in live)

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
        composition = (sum(r.length for r in requests), 0, 0, 0)
        chosen, tokens, cache, times = self._forward("prefill", composition, ids, mask, None)
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
            "decode", self._decoding(), self.next_ids, self.mask, self.cache
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


    # -- passes on request

    def fill(self, requests, cached):
        """As if these had decoded up to that many tokens each."""
        torch = self.torch
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (len(requests), heads, cached, size)
        self.rows = requests
        self.cache = self._cache_of([
            tuple(torch.empty(shape, dtype=self.model.dtype, device=self.device).normal_()
                  for _ in range(2))
            for _ in range(config.num_hidden_layers)
        ])
        self.mask = torch.ones(len(requests), cached + 1, dtype=torch.long, device=self.device)
        self.next_ids = torch.ones(len(requests), 1, dtype=torch.long, device=self.device)

    def back(self, cached):
        """As it was before the last pass."""
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[:, :, :cached], layer.values[:, :, :cached]
        self.mask = self.mask[:, : cached + 1]

    def most_cached(self):
        return None

    def most_rows(self):
        return 1 << 30


class StaticBatch(Batch):
    """Rows in slots of a static cache of fixed length. All rows end in the same column; when the
    last column is used up, everything moves to the left."""

    def __init__(self, model, device, slots, length, mode):
        import torch
        from transformers import StaticCache

        self.n_slots = slots
        self.length = length
        self.static = None
        super().__init__(model, device)
        self.static = StaticCache(config=model.config, max_cache_len=length)
        ones = torch.ones(slots, 1, dtype=torch.long, device=device)
        model(input_ids=ones, past_key_values=self.static, use_cache=True)  # allocates
        if not all(hasattr(x, "cumulative_length") for x in self.static.layers):
            raise Refused("--cache static needs a transformers whose static layers count their tokens",
                          "transformers 5.10 or newer, or --cache dynamic")
        self.static_mask = torch.zeros(slots, length, dtype=torch.long, device=device)
        self.static_ids = ones.clone()
        self.step = self._step if mode == "none" else torch.compile(self._step, mode=mode)
        self.mode = mode
        self.clear()

    def _step(self, ids, mask, positions):
        extra = {"position_ids": positions} if self.takes_positions() else {}
        out = self.model(input_ids=ids, attention_mask=mask, past_key_values=self.static,
                         use_cache=True, **extra)
        return out.logits[:, -1, :].argmax(-1)

    def clear(self):
        self.slots = [None] * self.n_slots
        if self.static is not None:
            self.static_mask.zero_()
            self._stand_at(0)

    @property
    def rows(self):
        return [r for r in self.slots if r is not None]

    @rows.setter
    def rows(self, rows):  # of the class above, before there are slots
        pass

    def _stand_at(self, column):
        self.column = column
        for layer in self.static.layers:
            layer.cumulative_length.fill_(column)

    def _move(self, by):
        """All columns by that many to the right, or to the left (< 0)."""
        tensors = [t for layer in self.static.layers for t in (layer.keys, layer.values)]
        old, new = max(0, -by), max(0, by)
        n = self.length - max(old, new)
        for t in tensors:
            t[:, :, new : new + n] = t[:, :, old : old + n].clone()
        moved = self.torch.zeros_like(self.static_mask)
        moved[:, new : new + n] = self.static_mask[:, old : old + n]
        self.static_mask.copy_(moved)
        self._stand_at(self.column + by)

    def _join(self, requests, layers, mask, chosen):
        width = mask.shape[1]
        if width > self.column:
            self._move(width - self.column) if self.rows else self._stand_at(width)
        free = [i for i, r in enumerate(self.slots) if r is None][: len(requests)]
        first, last = self.column - width, self.column
        for layer, (keys, values) in zip(self.static.layers, layers):
            layer.keys[free, :, first:last] = keys
            layer.values[free, :, first:last] = values
        self.static_mask[free] = 0
        self.static_mask[free, first:last] = mask
        self.static_ids[free] = chosen[:, None]
        for slot, r in zip(free, requests):
            self.slots[slot] = r

    def _make_room(self):
        used = max((r.length + r.tokens for r in self.rows if not r.over), default=1) - 1
        self._move(used - self.column)

    def decode(self):
        torch = self.torch
        if self.column == self.length:
            self._make_room()
        self.static_mask[:, self.column] = 1  # of rows without a request too: none may be empty
        positions = self.static_mask.sum(-1, keepdim=True) - 1

        def forward():
            if self.mode != "none" and self.cuda:
                torch.compiler.cudagraph_mark_step_begin()
            return self.step(self.static_ids, self.static_mask, positions), None

        chosen, on_host, _, times = self._timed("decode", self._decoding(), forward)
        self.static_ids.copy_(chosen[:, None])
        self.column += 1
        return [t for t, r in zip(on_host, self.slots) if r is not None], times

    def drop(self, keep):
        rows = self.rows
        gone = {id(r) for i, r in enumerate(rows) if i not in set(keep)}
        free = [i for i, r in enumerate(self.slots) if r is not None and id(r) in gone]
        for i in free:
            self.slots[i] = None
        if free:
            self.static_mask[free] = 0
        if not keep:
            self.clear()

    def fill(self, requests, cached):
        self.clear()
        for layer in self.static.layers:
            layer.keys.normal_()
            layer.values.normal_()
        self.slots[: len(requests)] = requests
        self.static_mask[: len(requests), :cached] = 1
        self._stand_at(cached)

    def back(self, cached):
        self.static_mask[:, cached] = 0
        self._stand_at(cached)

    def most_cached(self):
        return self.length - 1

    def most_rows(self):
        return self.n_slots


# ---- the engine -------------------------------------------------------------------------------


class Nowhere:
    """Takes lines as stdout does and keeps none."""

    def __init__(self, lines):
        self.inbox = lines.inbox
        self.out = open(os.devnull, "w", encoding="utf-8")
        self.lock = threading.Lock()

    send = Lines.send


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
        elif kind == "pass":
            self.passes(message)
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
        return times[2]

    def decode(self):
        rows = self.batch.rows
        tokens, times = self.batch.decode()
        self.emit(rows, tokens, times, 0, len(rows))
        return times[2]

    def leave(self):
        keep = [i for i, r in enumerate(self.batch.rows) if not r.over]
        if len(keep) < len(self.batch.rows):
            self.batch.drop(keep)

    # -- passes on request: what a turn of the loop takes, tokens and messages included

    def passes(self, message):
        try:
            total, device = self.measure(message)
        except (Refused, self.batch.torch.cuda.OutOfMemoryError) as e:
            text = str(e) if isinstance(e, Refused) else "out of memory of the device"
            self.lines.send(type="error", id=message["id"], message=text)
            total = None
        self.batch.clear()
        if total is None:
            if self.batch.cuda:
                self.batch.torch.cuda.empty_cache()
            return
        answer = {"id": message["id"], "total_ns": total}
        if device[0] is not None:
            answer["device_ns"] = [min(t, d) for t, d in zip(total, device)]
        self.lines.send(type="passed", **answer)

    def measure(self, message):
        rows, cached = message["decode_sequences"], message["cached_tokens"]
        tokens = message["chunk_tokens"]
        most = self.batch.most_cached()
        if rows and tokens or message["chunk_cached_tokens"]:
            raise Refused("a pass here is one prompt, or sequences that decode")
        if rows > self.options.max_batch:
            raise Refused("--max-batch is %d" % self.options.max_batch)
        if most is not None and max(cached, tokens) > most:
            raise Refused("--max-length is %d" % (most + 1))
        times = []
        lines, self.lines = self.lines, Nowhere(self.lines)
        try:
            if rows:
                self.batch.fill([self.stand_in(i, 1) for i in range(rows)], cached)
            for _ in range(message["warmup"] + message["repeats"]):
                times.append(self.turn(cached if rows else None, tokens))
        finally:
            self.lines.out.close()
            self.lines = lines
        times = times[message["warmup"] :]
        return [t for t, _ in times], [d for _, d in times]

    @staticmethod
    def stand_in(number, tokens):
        return Request({"id": number, "prompt_ids": [1 + i % 100 for i in range(tokens)],
                        "max_tokens": 1 << 40, "ignore_eos": True})

    def turn(self, cached, tokens):
        """One decode step of what is in the batch, which then is as before; or one prompt, which joins
        another row where there is room: under load it always does."""
        batch = self.batch
        if cached is None:
            batch.clear()
            if self.options.max_batch > 1 and self.options.cache == "dynamic":  # static: copied either way
                batch.fill([self.stand_in(1, 1)], tokens)
            self.waiting.append(self.stand_in(0, tokens))
        else:
            for r in batch.rows:
                r.length, r.tokens = cached, 1
        if batch.cuda:
            batch.torch.cuda.synchronize()
        start = time.monotonic_ns()
        self.take_all(0)
        device_ns = self.prefill(1) if cached is None else self.decode()
        self.leave()
        total_ns = time.monotonic_ns() - start
        if cached is not None:
            batch.back(cached)
        return total_ns, device_ns

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


def warm_up(batch, vocab, rows, longest):
    """The first passes load kernels and allocate: nobody's latency. On a GPU, which loads a kernel when it is first
    launched, also prompts of 128, 256 ... tokens as far as the longest request has them, and every number of rows."""
    def fakes(n, length):
        fake = {"id": 0, "prompt_ids": [i % vocab for i in range(length)], "max_tokens": 1,
                "ignore_eos": True}
        return [Request(fake) for _ in range(n)]

    for length in (1, 64):
        two = min(2, batch.most_rows())
        batch.prefill(fakes(two, length))
        batch.decode()
        batch.decode()
        batch.drop([two - 1])
        batch.decode()
        batch.clear()
    if not batch.cuda:
        return
    length = 128
    while length <= min(longest, batch.most_cached() or longest, LONGEST_WARM):
        batch.prefill(fakes(1, length))
        batch.decode()
        batch.clear()
        length *= 2
    for n in range(1, min(rows, batch.most_rows()) + 1):
        batch.prefill(fakes(1, 16))
        batch.decode()
    while n > 1:
        n -= 1
        batch.drop(list(range(n)))
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
    p.add_argument("--cache", choices=["dynamic", "static"], default="dynamic")
    p.add_argument("--max-length", type=int, default=0, metavar="N",
                   help="tokens of a row of the static cache; 256 more than the longest request when 0")
    p.add_argument("--compile", default="none", metavar="MODE",
                   help="torch.compile of decode steps, with --cache static: reduce-overhead, default")
    p.add_argument("--mark-steps", choices=["yes", "no"], default="no",
                   help="NVTX ranges that say what is in each pass")
    p.add_argument("--cudnn-attention", choices=["yes", "no"], default="no",
                   help="let torch choose cuDNN's attention, which plans 60 ms for every new number of rows or "
                        "cached tokens (H200, PyTorch 2.11)")
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
    if options.compile != "none" and options.cache != "static":
        raise Refused("--compile needs --cache static: shapes that change are compiled over and over")
    if options.cache == "static" and not options.max_length:
        options.max_length = max(hello["max_tokens"], 64) + 256
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
            "cancel": True, "batching": options.batching, "max_model_len": longest(options, config),
            "passes": ["decode", "prompt"],
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
    if options.cudnn_attention == "no" and hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    start = time.monotonic()
    with torch.inference_mode():
        model = load_model(options, hello, config)
        loaded = time.monotonic()
        if options.cache == "static":
            batch = StaticBatch(model, options.device, options.max_batch, options.max_length,
                                options.compile)
        else:
            batch = Batch(model, options.device)
        warm_up(batch, config.vocab_size, options.max_batch, hello["max_tokens"])
        batch.mark_steps = options.mark_steps == "yes"  # from here on: the first passes are no steps
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
    sys.exit(main())
