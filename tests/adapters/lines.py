"""lines.py WORKER: how adapters/transformers_worker.py reads lines and how it ends. No torch is needed."""

import json
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
print("4 endings")
