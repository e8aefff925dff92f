#!/usr/bin/env python3
"""Records what vLLM's own scheduler decides, as cases for compare.py.

    record.py VLLM CASE [--budget N] ...      one case from CASE/trace.csv (and CASE/ids.jsonl)
    record.py VLLM FOLDER --random N --seed S N cases of random settings and workloads; --model NAME:
                                              of a model of models.py ("any": each of one of them)

VLLM is a folder that holds the Python files of the vllm wheel (`pip download --no-deps vllm==0.33.0`,
then unzip); nothing else needs to be installed. The Scheduler, AsyncScheduler, KVCacheManager and
Request classes are vLLM's. What they import and do not use here (torch, configuration classes,
multimodal parts) is replaced by stubs; the loop around them follows EngineCore.step and
step_with_batch_queue, and the times of batches are those of cases/bundle:

    host 5 ms on stage 0; device, divided over the stages by their layers (vLLM's get_pp_indices),
    0.01 ms a token + 32 (1e-7 ms (c kv + c (c + 1) / 2) + 0.001 ms) a chunk of c tokens behind kv
                    + 32 (1e-6 ms sum of kv + 0.001 ms) when sequences decode

A case is a folder: args, config.json where layers keep different things and then `groups`, the KV
groups that vLLM makes of it (specs.py), trace.csv, ids.jsonl where prompts share prefixes, batches.csv.gz (a row a
step: pf prompt tokens, nd decoding sequences, bs sequences, kv blocks in use after scheduling, and
when it was scheduled, started and ended), requests.csv.gz, summary.json."""

import argparse
import csv
import gzip
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import sys
import types
from types import SimpleNamespace

import models
import specs

REAL = (
    "vllm.distributed.utils",
    "vllm.model_executor.layers.mamba.mamba_utils",
    "vllm.platforms.interface",
    "vllm.v1.core.block_pool",
    "vllm.v1.core.encoder_cache_manager",
    "vllm.v1.core.kv_cache_coordinator",
    "vllm.v1.core.kv_cache_config_builder",
    "vllm.v1.core.kv_cache_manager",
    "vllm.v1.core.kv_cache_metrics",
    "vllm.v1.core.kv_cache_planning",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.core.sched.async_scheduler",
    "vllm.v1.core.sched.interface",
    "vllm.v1.core.sched.output",
    "vllm.v1.core.sched.request_queue",
    "vllm.v1.core.sched.scheduler",
    "vllm.v1.core.sched.utils",
    "vllm.v1.core.single_type_kv_cache_manager",
    "vllm.v1.engine",
    "vllm.v1.kv_cache_interface",
    "vllm.v1.kv_cache_layout",
    "vllm.v1.kv_cache_spec_registry",
    "vllm.v1.metrics.stats",
    "vllm.v1.outputs",
    "vllm.v1.request",
    "vllm.v1.utils",
    "vllm.utils.math_utils",
)


# ---- stubs -----------------------------------------------------------------------------------


class Stub(type):
    """A class for any name that is imported and not used: a base, a decorator, a subscript."""

    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return make_stub(name)

    def __getitem__(cls, key):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __iter__(cls):
        return iter(())


def make_stub(name):
    def init(self, *args, **kwargs):
        pass

    def new(cls, *args, **kwargs):
        if cls.__dict__.get("_is_stub") and len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]  # as a decorator
        return object.__new__(cls)

    return Stub(
        name,
        (),
        {
            "_is_stub": True,
            "__new__": new,
            "__init__": init,
            "__init_subclass__": classmethod(lambda cls, **kw: None),
            "__call__": lambda self, *a, **k: a[0] if len(a) == 1 and callable(a[0]) else self,
            "__getattr__": lambda self, n: make_stub(n),
            "__enter__": lambda self: self,
            "__exit__": lambda self, *a: None,
            "__module__": "stub",
        },
    )


class StubModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = make_stub(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """vLLM's real modules by REAL; every other module of vLLM a stub."""

    def __init__(self, root):
        self.root = root

    def find_spec(self, name, path=None, target=None):
        if name in REAL:
            base = os.path.join(self.root, *name.split("."))
            file = base + ".py" if os.path.exists(base + ".py") else os.path.join(base, "__init__.py")
            return importlib.util.spec_from_file_location(
                name, file, submodule_search_locations=[base] if file.endswith("__init__.py") else None
            )
        if name.split(".")[0] == "vllm":
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = []
            return spec
        return None

    def create_module(self, spec):
        return StubModule(spec.name)

    def exec_module(self, module):
        pass


class Missing(Finder):
    """Packages that vLLM imports and that are not installed: stubs."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.stdlib_module_names:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = []
        return spec


def load(root):
    sys.meta_path.insert(0, Finder(root))
    sys.meta_path.append(Missing(root))
    import logging

    logger = logging.getLogger("vllm")
    logger.info_once = logger.warning_once = logger.debug_once = lambda *a, **k: None
    import vllm.logger

    vllm.logger.init_logger = lambda name: logger
    import vllm.v1.request

    vllm.v1.request.length_from_prompt_token_ids_or_embeds = lambda ids, embeds: len(ids)
    import vllm.v1.core.sched.output

    vllm.v1.core.sched.output.strip_covered_mm_data = lambda features, *a, **k: features
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    import vllm.envs

    vllm.envs.VLLM_PP_LAYER_PARTITION = None
    vllm.envs.VLLM_SSM_CONV_STATE_LAYOUT = None
    import vllm.distributed

    vllm.distributed.divide = lambda a, b: a // b
    specs.prepare()
    return Scheduler, AsyncScheduler


# ---- the engine around the scheduler ---------------------------------------------------------

HOST_S, LAYERS, BLOCK = 5e-3, 32, 16


def device_s(chunks, decode_kv, n_decodes):
    """chunks: (tokens, tokens in the cache before)."""
    ms = 0.01 * (sum(c for c, _ in chunks) + n_decodes)
    for c, kv in chunks:
        ms += LAYERS * (1e-7 * (c * kv + c * (c + 1) / 2) + 0.001)
    if n_decodes:
        ms += LAYERS * (1e-6 * decode_kv + 0.001)
    return ms / 1e3


class Absent:
    """Configuration that a text model without any extra has: every other attribute is None."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def __getattr__(self, name):
        return None


def configuration(a):
    scheduler = Absent(
        max_num_seqs=a.max_num_seqs,
        max_num_batched_tokens=a.budget,
        long_prefill_token_threshold=a.long_prefill,
        long_prefill_token_threshold_adaptive=False,
        policy="fcfs",
        enable_chunked_prefill=True,
        scheduler_reserve_full_isl=True,
        prefill_schedule_interval=1,
        watermark=a.watermark,
        async_scheduling=bool(a.async_),
    )
    in_flight = a.pp + 1 if a.async_ else a.pp  # config/vllm.py, with the V2 model runner
    return Absent(
        scheduler_config=scheduler,
        cache_config=Absent(
            num_gpu_blocks=a.blocks + 1, enable_prefix_caching=bool(a.prefix), block_size=BLOCK,
            cache_dtype="auto", use_replayssm=False, enable_mamba_shared_prefix_checkpoint=False,
        ),
        model_config=Absent(
            max_model_len=a.max_model_len, uses_mrope=False, is_encoder_decoder=False,
            runner_type="generate", is_diffusion=False, supports_multimodal_inputs=False,
            return_sampling_mask=False,
        ),
        parallel_config=Absent(
            pipeline_parallel_size=a.pp, decode_context_parallel_size=1,
            prefill_context_parallel_size=1, data_parallel_size=1, data_parallel_index=0,
        ),
        observability_config=Absent(per_request_spec_decode_metrics="none", kv_cache_metrics=False),
        ec_manager_config=SimpleNamespace(get_encoder_cache_manager_obj=lambda: None),
        aux_output_config=SimpleNamespace(enabled=False),
        num_speculative_tokens=0, num_lookahead_tokens=0, num_prefill_lookahead_tokens=0,
        num_hash_lookahead_tokens=0, use_v2_model_runner=True, is_mm_encoder_only=False,
        max_concurrent_batches=in_flight, max_in_flight_tokens=in_flight * a.budget,
    ), in_flight


def make_scheduler(classes, a):
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

    config, in_flight = configuration(a)
    block = hash_block = BLOCK
    groups = [KVCacheGroupSpec(["l"], FullAttentionSpec(BLOCK, num_kv_heads=8, head_size=128, dtype=None))]
    if a.config:
        groups, _, _ = specs.groups_of(a.config, spec_settings(a), config)
        block, hash_block = specs.block_sizes(groups, config.cache_config, config, a.blocks + 1)
    kv = KVCacheConfig(
        num_blocks=a.blocks + 1, kv_cache_tensors=[], kv_cache_groups=groups,
        prefix_cache_retention_interval=0,
    )
    kv.__dict__["needs_kv_cache_zeroing"] = False
    grammar = SimpleNamespace(accept_tokens=lambda request, tokens: True)
    scheduler = classes[1 if a.async_ else 0](config, kv, grammar, block, hash_block or block)
    return scheduler, in_flight, hash_block or block


def spec_settings(a):
    return specs.Settings(
        prefix=bool(a.prefix), max_model_len=a.max_model_len, hybrid=bool(a.hybrid),
        chunked=bool(a.chunked),
    )


def make_request(a, i, prompt, output, ids, hash_block):
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.request import Request

    def hashed(x):
        import hashlib

        return hashlib.sha1(repr(x).encode()).digest()

    if ids:
        tokens = [h * 512 + k for h in ids for k in range(512)][:prompt]
    else:
        tokens = [-1 - (i << 24) - k for k in range(prompt)]
    params = Absent(
        max_tokens=output, eos_token_id=None, stop_token_ids=(), min_tokens=0, extra_args=None,
        skip_reading_prefix_cache=None,
    )
    kv_cache_utils.NONE_HASH = b"none"
    hasher = kv_cache_utils.get_request_block_hasher(hash_block, hashed) if a.prefix else None
    request = Request(str(i), tokens, params, None, arrival_time=0.0, block_hasher=hasher)
    request.structured_output_request = None
    from vllm.v1.request import RequestStatus

    request.status = RequestStatus.WAITING
    return request


def stage_shares(stages):
    """The part of the layers that each stage holds."""
    from vllm.distributed.utils import get_pp_indices

    cuts = [get_pp_indices(LAYERS, i, stages) for i in range(stages)]
    return [(end - start) / LAYERS for start, end in cuts]


class Engine:
    def __init__(self, classes, a, requests):
        self.a, self.requests = a, requests
        self.scheduler, self.size, self.hash_block = make_scheduler(classes, a)
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.free_s = [0.0] * a.pp
        self.share = stage_shares(a.pp)
        self.sampled_s = []  # of each step, empty ones too: when its tokens were sampled, or 0
        self.queue = []
        self.staggered = bool(a.async_) and a.pp > 1
        self.target = {}  # tokens to be computed before a request decodes
        self.rows, self.first, self.done, self.tokens = [], {}, {}, {}
        self.preempted, self.peak = 0, 0

    def schedule(self, now):
        s = self.scheduler
        before = {r.request_id: (r.num_computed_tokens, r.num_preemptions) for r in s.requests.values()}
        out = s.schedule()
        self.preempted += sum(r.num_preemptions - before[r.request_id][1] for r in s.requests.values())
        self.sampled_s.append(0.0)
        if out.total_num_scheduled_tokens == 0:
            self.queue.append(None)
            return
        for new in out.scheduled_new_reqs:
            before[new.req_id] = (new.num_computed_tokens, 0)
            self.target[new.req_id] = s.requests[new.req_id].num_tokens
        chunks, kv, nd, samples = [], 0, 0, []
        for rid, n in out.num_scheduled_tokens.items():
            request, at = s.requests[rid], before[rid][0]
            if at >= self.target[rid]:
                assert n == 1
                nd, kv = nd + 1, kv + at
            else:
                chunks.append((n, at))
            samples.append((rid, not request.is_prefill_chunk))
        device = device_s(chunks, kv, nd)
        t = now
        if self.staggered and len(self.sampled_s) > self.a.pp:
            t = max(t, self.sampled_s[-1 - self.a.pp])  # v1/worker/gpu/pp_utils.py
        for i in range(self.a.pp):
            start = max(t, self.free_s[i])
            t = self.free_s[i] = start + (HOST_S if i == 0 else 0) + device * self.share[i]
            begin = start if i == 0 else begin
        used = self.pool.num_gpu_blocks - 1 - self.pool.get_num_free_blocks()
        self.peak = max(self.peak, used)
        pf = sum(c for c, _ in chunks)
        if any(emits for _, emits in samples):
            self.sampled_s[-1] = t
        self.rows.append((begin, t, pf, nd, nd + len(chunks), used, now))
        self.queue.append((t, out, samples))

    def update(self):
        from vllm.v1.outputs import ModelRunnerOutput

        end, out, samples = self.queue.pop(0)
        ids, tokens = [], []
        for rid, emits in samples:
            ids.append(rid)
            tokens.append([])
            if emits:
                n = self.tokens[rid] = self.tokens.get(rid, 0) + 1
                tokens[-1] = [(int(rid) << 24) + (1 << 62) + n]
                self.first.setdefault(rid, end)
                if n == self.requests[int(rid)][2]:
                    self.done[rid] = end
        result = ModelRunnerOutput(
            req_ids=ids, req_id_to_index={r: i for i, r in enumerate(ids)}, sampled_token_ids=tokens
        )
        self.scheduler.update_from_output(out, result)
        return end

    def run(self):
        """EngineCore.step_with_batch_queue: a step without tokens is a batch in the queue as well, over
        as soon as those ahead of it are; the engine waits only when the queue is full. With a queue
        of one batch that is EngineCore.step."""
        now, arrived = 0.0, 0
        while True:
            while arrived < len(self.requests) and self.requests[arrived][0] <= now:
                _, prompt, output, ids = self.requests[arrived]
                self.scheduler.add_request(make_request(self.a, arrived, prompt, output, ids, self.hash_block))
                arrived += 1
            if len(self.queue) < self.size and self.scheduler.get_num_unfinished_requests():
                self.schedule(now)
                if len(self.queue) < self.size:
                    continue
            if self.queue and not self.queue[0]:
                self.queue.pop(0)
            elif self.queue:
                now = max(now, self.update())
            elif arrived < len(self.requests):
                assert not self.scheduler.get_num_unfinished_requests()
                now = self.requests[arrived][0]
            else:
                assert not self.scheduler.get_num_unfinished_requests()
                return now


# ---- cases -----------------------------------------------------------------------------------


def read_trace(case):
    with open(os.path.join(case, "trace.csv"), newline="") as f:
        rows = [
            (float(r["arrived_at"]), int(r["num_prefill_tokens"]), int(r["num_decode_tokens"]))
            for r in csv.DictReader(f)
        ]
    ids = [None] * len(rows)
    path = os.path.join(case, "ids.jsonl")
    if os.path.exists(path):
        with open(path) as f:
            ids = [json.loads(line)["hash_ids"] for line in f if line.strip()]
    return [(*r, i) for r, i in zip(rows, ids)]


def write_gz(path, header, rows):
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(header)
    out.writerows(rows)
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0) as z:
        z.write(text.getvalue().encode())


def load_config(case, a):
    """The case's config.json: whose layers keep what; without one all of them keep all."""
    path = os.path.join(case, "config.json")
    a.config = None
    if os.path.exists(path):
        with open(path) as f:
            a.config = json.load(f)


def record(classes, case, a):
    load_config(case, a)
    if a.config:
        config, _ = configuration(a)
        with open(os.path.join(case, "groups"), "w") as f:
            f.write(specs.describe(*specs.groups_of(a.config, spec_settings(a), config)))
    engine = Engine(classes, a, read_trace(case))
    end = engine.run()
    write_gz(
        os.path.join(case, "batches.csv.gz"),
        ["start", "end", "pf", "nd", "bs", "kv", "sched"],
        engine.rows,
    )
    write_gz(
        os.path.join(case, "requests.csv.gz"),
        ["id", "arr", "first", "done", "n"],
        [
            (i, r[0], engine.first[str(i)], engine.done[str(i)], engine.tokens[str(i)])
            for i, r in enumerate(engine.requests)
        ],
    )
    with open(os.path.join(case, "summary.json"), "w") as f:
        json.dump(
            {"iters": len(engine.rows), "preempt": engine.preempted, "end": end, "kvpeak": engine.peak}, f
        )
        f.write("\n")


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("vllm")
    p.add_argument("case")
    p.add_argument("--random", type=int, default=0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--model")
    case_options(p)
    return p


def case_options(p):
    p.add_argument("--budget", type=int, default=2048)
    p.add_argument("--max-num-seqs", type=int, default=128)
    p.add_argument("--blocks", type=int, default=1000)
    p.add_argument("--watermark", type=float, default=0.0)
    p.add_argument("--long-prefill", type=int, default=0)
    p.add_argument("--prefix", type=int, default=0)
    p.add_argument("--async", type=int, default=0, dest="async_")
    p.add_argument("--pp", type=int, default=1)
    p.add_argument("--ids")
    p.add_argument("--max-model-len", type=int, default=65536)
    p.add_argument("--hybrid", type=int, default=1)
    p.add_argument("--chunked", type=int, default=0)


def random_model(rng, case, name, args):
    """Tokens of the largest block and groups, where a model is asked for."""
    if not name:
        return 1, 1
    if name == "any":
        name = rng.choice(sorted(models.MODELS))
    config = models.MODELS[name]
    with open(os.path.join(case, "config.json"), "w") as f:
        json.dump(config, f)
        f.write("\n")
    if name == "llama4" and rng.random() < 0.8:
        args.extend(["--chunked", "1"])
    elif rng.random() < 0.1 and not specs.has_states(config) and name != "deepseek_v4":
        args.extend(["--hybrid", "0"])
    return models.BLOCKS[name]


def random_case(rng, case, model=None):
    """A folder with args and a workload."""
    os.makedirs(case, exist_ok=True)
    args = []
    longer, wider = random_model(rng, case, model, args)

    def pick(name, p, *values):
        if rng.random() < p:
            args.extend([name, str(rng.choice(values))])

    prefix, tight = rng.random() < 0.5, rng.random() < 0.6
    blocks = rng.choice((20, 30, 60, 100)) if tight else rng.choice((60, 200, 400, 1000, 3000))
    budget = rng.choice((64, 128, 256, 512, 2048, 8192))
    seqs = min(budget, rng.choice((1, 2, 4, 8, 16, 32, 64, 128)))
    args.extend(["--budget", str(budget), "--max-num-seqs", str(seqs)])
    args.extend(["--blocks", str(blocks * wider)])
    blocks *= longer
    pick("--watermark", 0.3, 0.01, 0.02, 0.1)
    pick("--long-prefill", 0.3, 16, 40, 100, 300)
    pick("--async", 0.5, 1)
    pick("--pp", 0.5, 2, 3, 4)
    if prefix:
        args.extend(["--prefix", "1"])
    rate = rng.choice((10, 30, 100)) if tight else rng.choice((1, 4, 10, 30, 100))
    part = rng.choice((2, 4, 8)) if tight else 2
    most = min(rng.choice((50, 300, 1500, 6000)) * (1 if longer == 1 else 3), blocks * BLOCK // part)
    out_most = blocks * BLOCK // part - 1
    if not tight:
        out_most = min(rng.choice((1, 5, 40, 200)), out_most)
    t, rows, ids = 0.0, [], []
    groups = [[rng.randrange(1 << 20) for _ in range(rng.randint(1, 6))] for _ in range(rng.randint(1, 5))]
    for i in range(rng.choice((20, 60, 150))):
        t += rng.expovariate(rate)
        if prefix:
            t = round(t, 3)  # ids.jsonl counts milliseconds
        prompt, output = rng.randint(1, most), rng.randint(1, max(1, out_most))
        own = list(groups[rng.randrange(len(groups))]) if rng.random() < 0.8 else []
        if prefix and own and rng.random() < 0.5:
            prompt = min(most, max(1, len(own) * 512 + rng.choice((0, 1, 15, 16, 17, -1, 100))))
        while len(own) * 512 < prompt:
            own.append((1 << 21) + i * 64 + len(own))
        ids.append(own[: (prompt + 511) // 512])
        rows.append((repr(t), prompt, output))
    with open(os.path.join(case, "trace.csv"), "w") as f:
        f.write("arrived_at,num_prefill_tokens,num_decode_tokens\n")
        f.writelines("%s,%d,%d\n" % r for r in rows)
    if prefix:
        with open(os.path.join(case, "ids.jsonl"), "w") as f:
            for (at, prompt, output), own in zip(rows, ids):
                row = {"timestamp": round(float(at) * 1000), "input_length": prompt, "output_length": output}
                f.write(json.dumps({**row, "hash_ids": own}) + "\n")
    with open(os.path.join(case, "args"), "w") as f:
        f.write(" ".join(args) + "\n")


def main():
    a = options().parse_args()
    classes = load(a.vllm)
    if not a.random:
        args = os.path.join(a.case, "args")
        if os.path.exists(args):
            with open(args) as f:
                a = options().parse_args([a.vllm, a.case, *f.read().split()])
        record(classes, a.case, a)
        return
    rng = random.Random(a.seed)
    for i in range(a.random):
        case = os.path.join(a.case, "case_%d_%d" % (a.seed, i))
        random_case(rng, case, a.model)
        with open(os.path.join(case, "args")) as f:
            args = options().parse_args([a.vllm, case, *f.read().split()])
        record(classes, case, args)


if __name__ == "__main__":
    main()
