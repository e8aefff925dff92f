"""Reads a spool (src/trace/spool.h is the format's manual) with NumPy. For the benchmark only."""

import struct

import numpy as np

KINDS = {
    1: "strings", 2: "process", 3: "threads", 4: "devices", 5: "shapes", 6: "clocks", 7: "kernels",
    8: "launches", 9: "copies", 10: "sets", 11: "syncs", 12: "graphs", 13: "ranges", 14: "apis",
    15: "windows", 16: "drops", 17: "costs", 18: "notes", 19: "end",
}
TYPES = {
    "kernels": [("start", "i8"), ("end", "i8"), ("shape", "u4"), ("correlation", "u4"),
                ("graph_node", "u8")],
    "launches": [("start", "i8"), ("end", "i8"), ("correlation", "u4"), ("thread", "u2"),
                 ("cbid", "u2")],
    "graphs": [("start", "i8"), ("end", "i8"), ("correlation", "u4"), ("device", "u4"),
               ("context", "u4"), ("stream", "u4"), ("graph", "u4"), ("reserved", "u4")],
    "windows": [("start", "i8"), ("end", "i8"), ("why_start", "u4"), ("why_end", "u4")],
    "drops": [("at", "i8"), ("count", "u8"), ("source", "u4"), ("reserved", "u4")],
    "notes": [("at", "i8"), ("level", "u4"), ("text", "u4")],
    "clocks": [("at", "i8"), ("wall", "i8"), ("cupti", "i8"), ("within", "i8")],
    "costs": [("at", "i8"), ("callback_ns", "i8"), ("writer_cpu_ns", "i8"), ("callbacks", "u8"),
              ("records", "u8"), ("bytes", "u8"), ("memory", "u8"), ("buffers_peak", "u8")],
    "ranges": [("start", "i8"), ("end", "i8"), ("payload", "u8"), ("id", "u4"), ("text", "u4"),
               ("domain", "u4"), ("category", "u4"), ("color", "u4"), ("thread", "u2"),
               ("end_thread", "u2"), ("kind", "u1"), ("payload_type", "u1"), ("depth", "u2"),
               ("reserved", "u4")],
}


class Spool:
    def __init__(self, path):
        data = open(path, "rb").read()
        if data[:8] != b"TWSPOOL\n":
            raise ValueError(f"{path}: not a spool")
        self.bytes = len(data)
        self.strings = {0: ""}
        self.counts = {}
        parts = {}
        at = struct.unpack_from("<I", data, 12)[0]
        while at + 32 <= len(data):
            _, kind, size, count, n = struct.unpack_from("<IHHII", data, at)
            if at + 32 + n > len(data):
                break
            name = KINDS.get(kind, str(kind))
            self.counts[name] = self.counts.get(name, 0) + count
            body = data[at + 32:at + 32 + n]
            if name == "strings":
                self._strings(body)
            elif name == "shapes":
                ids = np.frombuffer(body, "u4").reshape(count, size // 4)
                parts.setdefault(name, []).append(ids[:, :2])
            elif name in TYPES:
                parts.setdefault(name, []).append(np.frombuffer(body, np.dtype(TYPES[name])))
            at += 32 + n
        self.whole_bytes = at
        self.ended = "end" in self.counts
        for name, dtype in TYPES.items():
            setattr(self, name, np.concatenate(parts[name]) if name in parts
                    else np.zeros(0, np.dtype(dtype)))
        shapes = np.concatenate(parts["shapes"]) if "shapes" in parts else np.zeros((0, 2), "u4")
        self.shape_name = {int(i): self.strings.get(int(n), "?") for i, n in shapes}

    def _strings(self, body):
        at = 0
        while at + 8 <= len(body):
            ident, n = struct.unpack_from("<II", body, at)
            self.strings[ident] = body[at + 8:at + 8 + n].decode("utf-8", "replace")
            at += 8 + (n + 7) // 8 * 8

    def kernels_by_name(self, start, end):
        """name -> durations (ns) of kernels that began in [start, end)."""
        k = self.kernels[(self.kernels["start"] >= start) & (self.kernels["start"] < end)]
        out = {}
        for shape in np.unique(k["shape"]):
            d = (k["end"] - k["start"])[k["shape"] == shape]
            name = self.shape_name.get(int(shape), "?")
            out[name] = np.concatenate([out[name], d]) if name in out else d
        return out
