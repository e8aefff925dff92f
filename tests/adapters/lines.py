"""lines.py WORKER: how adapters/transformers_worker.py reads lines, how it ends and what it warms up with. No torch is needed."""

import json
import runpy
import subprocess
import sys

# What a recorder inside the process flushes, it flushes where a process ends by itself: here stands a handler for it.
RUN = """
import atexit, runpy, sys
atexit.register(lambda: print("ended by itself", file=sys.stderr))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
HELLO = {
    "type": "hello", "protocol": 1, "device": "cpu", "seed": 1, "max_tokens": 9, "options": {"no": 1},
    "model": {"name": "m", "config": {}, "dir": None, "weights": None},
}


def worker(text, stay_open):
    """(status, messages, stderr); stay_open: its stdin is not closed before it has ended."""
    p = subprocess.Popen([sys.executable, "-c", RUN, sys.argv[1]], text=True, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(text)
    p.stdin.flush()
    if not stay_open:
        p.stdin.close()
    said = [json.loads(line) for line in p.stdout]
    err = p.stderr.read()
    status = p.wait()
    return status, said, err


def clock(said):
    return [m["seq"] for m in said if m["type"] == "clock"]


# an option that it does not know; empty lines are allowed, clocks are answered
hello = '\n\n{"type":"clock","seq":7}\n \n' + json.dumps(HELLO) + "\n"
status, said, err = worker(hello, True)
assert status == 1, (status, err)
assert clock(said) == [7], said
assert said[-1] == {"type": "error", "message": "unrecognized arguments: --no 1"}, said
assert err.endswith("ended by itself\n"), err

# the end of stdin, shutdown, and what is no message
for text, stay_open in (("", False), ('{"type":"shutdown"}\n', True), ("nonsense\n", True)):
    status, said, err = worker(text, stay_open)
    assert (status, said) == (0, []), (text, status, said)
    assert "ended by itself" in err, err


# ---- before it says ready

module = runpy.run_path(sys.argv[1])
assert module["parser"]().parse_args([]).cudnn_attention == "no"  # plans 60 ms for every new shape


class Rows:
    """Notes the passes of a batch: prompts as (rows, tokens), decode steps as the number of their rows."""

    def __init__(self, cuda, most_rows, most_cached):
        self.cuda, self.most, self.cached = cuda, most_rows, most_cached
        self.n, self.prompts, self.steps = 0, [], []

    def most_rows(self):
        return self.most

    def most_cached(self):
        return self.cached

    def prefill(self, requests):
        self.n += len(requests)
        assert self.n <= self.most
        self.prompts.append((len(requests), requests[0].length))

    def decode(self):
        self.steps.append(self.n)

    def drop(self, keep):
        assert keep == sorted(set(keep)) and keep[-1] < self.n
        self.n = len(keep)

    def clear(self):
        self.n = 0


def warm(cuda, most_rows, most_cached, rows, longest):
    batch = Rows(cuda, most_rows, most_cached)
    module["warm_up"](batch, 100, rows, longest)
    assert batch.n == 0
    return batch


short = [(2, 1), (2, 64)]
cpu = warm(False, 1 << 30, None, 16, 5000)
assert (cpu.prompts, cpu.steps) == (short, [2, 2, 1] * 2), (cpu.prompts, cpu.steps)
gpu = warm(True, 1 << 30, None, 16, 600)  # every number of rows, once with more to come and once with fewer
assert gpu.prompts == short + [(1, 128), (1, 256), (1, 512)] + [(1, 16)] * 16, gpu.prompts
assert gpu.steps[6:] == [1] * 3 + list(range(1, 17)) + list(range(15, 0, -1)), gpu.steps
gpu = warm(True, 4, 255, 16, 100000)  # a static cache of 4 rows of 256 tokens
assert gpu.prompts == short + [(1, 128)] + [(1, 16)] * 4, gpu.prompts
gpu = warm(True, 1 << 30, None, 1, 100000)  # nobody's longest prompt
assert gpu.prompts[-2:] == [(1, 2048), (1, 16)], gpu.prompts
print("4 endings, 4 ways to be warm")
