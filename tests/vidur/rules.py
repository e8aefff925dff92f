"""Vidur's rules, stated a second time: replica schedulers, routers, pipeline stages, the event loop and the metrics of
requests. Nothing here is shared with the program. Two points differ from Vidur's release on purpose, as the program does
(src/serve/sched/policies.h): a half-done prefill that is restarted stays a prompt, and a prompt longer than
max_tokens_in_batch goes alone instead of waiting for ever; and faster_transformer gives blocks back when a request ends.
"""
import heapq
import itertools
import math

OPERATORS = ("attn_pre_proj attn_post_proj attn_rope input_layernorm mlp_up_proj mlp_down_proj mlp_act "
             "post_attention_layernorm add").split()


def token_ms(i, n):
    """Made-up tables; every term has a slope of its own, so that no two batches take the same time by chance."""
    return 0.001 * (i + 1) + 0.0001 * n * (1 + 0.1 * i)


def save_ms(n):
    return 0.0003 * n


def send_ms(n):
    return 0.05 + 0.0002 * n


def decode_ms(batch, kv):
    return 0.002 + 0.001 * batch + 0.000003 * batch * kv


def prefill_ms(kv, chunk):
    return 0.003 + 0.00002 * chunk * (chunk / 2 + kv)


def up(x, step):
    return -(-x // step) * step


def stage_ms(batch, case, last):
    """The formula of Vidur's predictor for heads that share keys, without tensor parallelism."""
    total = sum(n for _, n in batch)
    padded = up(total, 8)
    decode = prefill = 0.0
    cached = [q.done for q, _ in batch if q.prefilled]
    if cached:
        decode = decode_ms(len(cached), up(sum(cached) // len(cached), 64)) * (1.1 if len(cached) > 1 else 1)
    chunks = [(up(q.done, 64), n) for q, n in batch if not q.prefilled]
    if chunks:
        prefill = prefill_ms(sum(kv for kv, _ in chunks), round(math.sqrt(sum(n * n for _, n in chunks))))
        prefill *= 1.1 if len(chunks) > 1 else 1
    t = [token_ms(i, padded) for i in range(len(OPERATORS))]
    attention = t[0] + t[1] + t[2] + save_ms(total) + decode + prefill + t[3]
    mlp = t[4] + t[5] + t[6] + t[7]
    ms = (attention + mlp + t[8]) * (case["layers"] // case["pp"])
    return ms if last else ms + send_ms(padded)


class Request:
    def __init__(self, ident, arrival, prompt, output):
        self.ident, self.arrival = ident, arrival
        self.prompt, self.output = prompt, output
        self.tokens = prompt + output
        self.done, self.prefilled, self.over = 0, False, False
        self.begun = self.first = self.end = None
        self.busy = self.paused = self.left_stage = 0.0
        self.restarts = 0

    def restart(self):
        if self.prefilled:
            self.prompt, self.output = self.done, self.prompt + self.output - self.done
        self.done, self.prefilled = 0, False
        self.restarts += 1

    def advance(self, n, now):
        self.done += n
        if self.done == self.prompt:
            self.prefilled = True
            self.done += 1
            if self.first is None:
                self.first = now
        if self.done == self.prompt + self.output:
            self.over, self.end = True, now


class Replica:
    """What the policies share. `resting`: requests between two batches."""

    def __init__(self, case):
        self.case = case
        self.waiting, self.resting, self.held, self.running = [], [], {}, 0
        self.watermark = int(case["watermark"] * case["blocks"])
        self.per_batch = case["cap"] // case["pp"]

    def free(self):
        return self.case["blocks"] - sum(self.held.values())

    def take(self, q, blocks):
        self.held[q] = self.held.get(q, 0) + blocks
        assert self.free() >= 0

    def finish(self, batch):
        self.running -= 1
        for q, _ in batch:
            if q.over:
                del self.held[q]
            else:
                self.resting.append(q)

    def schedule(self):
        while self.running < self.case["pp"]:
            batch = self.next_batch()
            if not batch:
                return
            self.running += 1
            yield batch

    def prompt_fits(self, q):
        return self.free() - math.ceil(q.prompt / self.case["block_size"]) >= self.watermark

    def admit(self, q):
        assert self.waiting.pop(0) is q
        self.take(q, math.ceil(q.prompt / self.case["block_size"]))

    def evict(self, q):
        q.restart()
        del self.held[q]
        self.waiting.insert(0, q)

    def decode(self, q, batch):
        """q's decode, for which the last ones at rest make room."""
        while self.free() < 1:
            victim = self.resting.pop() if self.resting else q
            self.evict(victim)
            if victim is q:
                return
        if q.done > self.held[q] * self.case["block_size"]:
            self.take(q, 1)
        batch.append((q, 1))


class Vllm(Replica):
    def next_batch(self):
        batch = []
        while self.waiting:
            q = self.waiting[0]
            padded = (len(batch) + 1) * max([q.prompt] + [n for _, n in batch])
            if not self.prompt_fits(q) or (batch and padded > self.case["max_tokens"]):
                break
            if len(self.held) == self.case["cap"] or len(batch) == self.per_batch:
                break
            self.admit(q)
            batch.append((q, q.prompt))
        if batch:
            return batch
        self.resting.sort(key=lambda q: q.arrival)
        while self.resting and len(batch) < self.per_batch:
            self.decode(self.resting.pop(0), batch)
        return batch


class Sarathi(Replica):
    def next_batch(self):
        batch, prefills, skipped = [], [], []
        while self.resting and len(batch) < self.per_batch:
            q = self.resting.pop(0)
            if q.prefilled:
                self.decode(q, batch)
            else:
                prefills.append(q)
        for q in prefills:
            n = self.chunk(q, batch)
            if n:
                batch.append((q, n))
            else:
                skipped.append(q)
        self.resting = sorted(skipped + self.resting, key=lambda q: q.arrival)
        while self.waiting and len(self.held) < self.case["cap"] and len(batch) < self.per_batch:
            q = self.waiting[0]
            n = self.chunk(q, batch)
            if n == 0 or not self.prompt_fits(q):
                break
            self.admit(q)
            batch.append((q, n))
        return batch

    def chunk(self, q, batch):
        return max(0, min(q.prompt - q.done, self.case["chunk"] - sum(n for _, n in batch)))


class Reserving(Replica):
    def enter(self, batch):
        whole = math.ceil(self.case["longest"] / self.case["block_size"])
        while self.waiting and len(batch) < self.case["cap"] and self.free() >= whole:
            q = self.waiting.pop(0)
            self.take(q, whole)
            batch.append((q, q.prompt))
        return batch


class Orca(Reserving):
    def next_batch(self):
        batch = [(q, 1) for q in self.resting[:self.case["cap"]]]
        del self.resting[:self.case["cap"]]
        return self.enter(batch)


class FasterTransformer(Reserving):
    def __init__(self, case):
        super().__init__(case)
        self.batches = []

    def finish(self, batch):
        super().finish(batch)
        self.resting.clear()
        rest = [(q, 1) for q, _ in batch if not q.over]
        if rest:
            self.batches.append(rest)

    def next_batch(self):
        return self.batches.pop(0) if self.batches else self.enter([])


class LightLlm(Replica):
    waited = 0

    def next_batch(self):
        if not self.resting:
            batch = self.prompts()
            if batch:
                self.waited = 0
            return batch
        if self.waited >= self.case["max_waiting"]:
            self.waited = 0
            batch = self.prompts()
            if batch:
                return batch
        self.waited += 1
        batch = [(q, 1) for q in self.resting]
        self.resting = []
        for q, _ in batch:
            self.take(q, 1)
        return batch

    def prompts(self):
        batch = []
        tails = [(max(0, q.prompt + q.output - q.done - 1), q.done) for q in self.resting]
        while self.waiting and len(self.held) < self.case["cap"]:
            q = self.waiting[0]
            if batch and sum(n for _, n in batch) + q.prompt > self.case["max_tokens"]:
                break
            tails.append((max(0, q.output - 2), q.prompt + 1))
            tails.sort(key=lambda x: -x[0])
            held = list(itertools.accumulate(x[1] for x in tails))
            if max(x[0] * (i + 1) + held[i] for i, x in enumerate(tails)) >= self.case["blocks"]:
                break
            self.admit(q)
            batch.append((q, q.prompt))
        return batch


POLICIES = {"vllm": Vllm, "sarathi": Sarathi, "orca": Orca, "faster_transformer": FasterTransformer,
            "lightllm": LightLlm}


class Stage:
    def __init__(self):
        self.queue, self.busy = [], False


class Cluster:
    """Events in order of (time, creation), every arrival created first."""

    def __init__(self, case, trace):
        self.case = case
        self.replicas = [POLICIES[case["policy"]](case) for _ in range(case["replicas"])]
        self.stages = [[Stage() for _ in range(case["pp"])] for _ in self.replicas]
        self.requests = [Request(i, *row) for i, row in enumerate(trace)]
        self.heap, self.created, self.routed, self.now = [], 0, 0, 0.0
        for q in self.requests:
            self.post(q.arrival, self.arrive, q)

    def post(self, time, what, *about):
        heapq.heappush(self.heap, (time, self.created, what, about))
        self.created += 1

    def run(self):
        while self.heap:
            self.now, _, what, about = heapq.heappop(self.heap)
            what(*about)
        return self.requests

    def arrive(self, q):
        self.post(self.now, self.route, q)

    def route(self, q):
        at = self.routed % len(self.replicas)
        if self.case["router"] == "lor":
            at = min(range(len(self.replicas)), key=lambda i: len(self.replicas[i].waiting))
        self.routed += 1
        self.replicas[at].waiting.append(q)
        self.post(self.now, self.schedule, at)

    def schedule(self, at):
        for batch in self.replicas[at].schedule():
            for q, _ in batch:
                if q.begun is None:
                    q.begun = self.now
            self.post(self.now, self.reach, at, 0, batch)

    def reach(self, at, i, batch):
        self.stages[at][i].queue.append(batch)
        self.post(self.now, self.start, at, i)

    def start(self, at, i):
        stage = self.stages[at][i]
        if stage.busy or not stage.queue:
            return
        stage.busy = True
        batch = stage.queue.pop(0)
        seconds = stage_ms(batch, self.case, i == self.case["pp"] - 1) * 1e-3
        for q, _ in batch:
            if q.left_stage:
                q.paused += self.now - q.left_stage
        self.post(self.now + seconds, self.leave, at, i, batch, seconds)

    def leave(self, at, i, batch, seconds):
        self.stages[at][i].busy = False
        for q, _ in batch:
            q.busy += seconds
            q.left_stage = self.now
        self.post(self.now, self.start, at, i)
        if i == self.case["pp"] - 1:
            self.post(self.now, self.end, at, batch)
        else:
            self.post(self.now, self.reach, at, i + 1, batch)

    def end(self, at, batch):
        for q, n in batch:
            q.advance(n, self.now)
        self.replicas[at].finish(batch)
        self.post(self.now, self.schedule, at)


def metrics(q):
    """Columns of Vidur's request_metrics.csv, s."""
    e2e = q.end - q.arrival
    return {"request_e2e_time": e2e, "request_e2e_time_normalized": e2e / q.output,
            "request_execution_time": q.busy, "request_execution_time_normalized": q.busy / q.output,
            "request_preemption_time": q.paused,
            "request_execution_plus_preemption_time": q.busy + q.paused,
            "request_scheduling_delay": q.begun - q.arrival,
            "prefill_e2e_time": q.first - q.arrival,
            "prefill_time_execution_plus_preemption": q.first - q.begun,
            "prefill_time_execution_plus_preemption_normalized": (q.first - q.begun) / q.prompt,
            "decode_time_execution_plus_preemption_normalized": (q.end - q.first) / q.output,
            "request_num_tokens": q.tokens, "request_num_restarts": q.restarts}
