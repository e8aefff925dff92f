"""A random trace in the schema of Nsight Systems' SQLite export: processes, threads, devices and streams; ranges that
nest, repeat inside themselves, cross and cut calls; graphs, copies and sets; calls and kernels without each other."""
import random
import sqlite3

HOST = 1 << 48
COLUMNS = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL":
        "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, mangledName,"
        "registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory,"
        "localMemoryPerThread, localMemoryTotal, gridId, graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, deviceId, contextId, streamId, correlationId, globalPid, value, bytes, memKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, eventClass, globalTid, correlationId, nameId, returnValue",
    "NVTX_EVENTS": "start, end, eventType, rangeId, text TEXT, globalTid, endGlobalTid, textId, domainId",
    "PROCESSES": "globalPid, pid, name TEXT",
    "ThreadNames": "nameId, priority, globalTid",
    "ENUM_CUDA_MEMCPY_OPER": "id INTEGER PRIMARY KEY, name TEXT, label TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
}
COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}
KERNELS = [("void gemm<%d>(int, float*)" % i, "gemm", "_Z4gemmILi%dEEviPf" % i) for i in range(3)]
KERNELS += [("copy(int)", "copy", "_Z4copyi"), ("nvjet_x", "nvjet_x", "nvjet_x")]
PUSH_POP, START_END, DOMAIN = 59, 60, 75


class Trace:
    def __init__(self, seed, path):
        self.random = random.Random(seed)
        self.db = sqlite3.connect(path)
        self.strings, self.correlation = {}, 0
        for table, columns in COLUMNS.items():
            self.db.execute("CREATE TABLE %s (%s)" % (table, columns))
        for number, label in COPIES.items():
            self.insert("ENUM_CUDA_MEMCPY_OPER", id=number, name=label, label=label)
        self.insert("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.7.2")

    def insert(self, table, **row):
        names = ",".join('"%s"' % name for name in row)
        self.db.execute("INSERT INTO %s (%s) VALUES (%s)" % (table, names, ",".join("?" * len(row))), list(row.values()))

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings) + 1)

    def place(self, at, process, queues):
        device, stream = self.random.randint(0, 1), self.random.randint(0, 1)
        start = max(queues[device, stream], at + self.random.randint(2, 40))
        end = queues[device, stream] = start + self.random.randint(1, 60)
        return dict(start=start, end=end, deviceId=device, contextId=1, streamId=7 + stream,
                    correlationId=self.correlation, globalPid=process)

    def kernel(self, node=None, **place):
        full, short, mangled = self.random.choice(KERNELS)
        self.insert("CUPTI_ACTIVITY_KIND_KERNEL", **place, demangledName=self.string(full),
                    shortName=self.string(short), mangledName=self.string(mangled), registersPerThread=16,
                    gridX=self.random.randint(1, 2), gridY=1, gridZ=1, blockX=32, blockY=1, blockZ=1,
                    staticSharedMemory=0, dynamicSharedMemory=0, localMemoryPerThread=0, localMemoryTotal=0,
                    gridId=self.correlation, graphNodeId=node)

    def call(self, at, thread, process, queues):
        """One API call and what it makes the GPU do; returns when the call ended."""
        r = self.random
        self.correlation += 1
        end, kind = at + r.randint(1, 20), r.random()
        names = ((.6, "cudaLaunchKernel_v7000"), (.75, "cudaMemcpyAsync_v3020"), (.85, "cudaMemsetAsync_v3020"),
                 (.95, "cudaGraphLaunch_v10000"), (1, "cudaStreamSynchronize_v3020"))
        name = next(name for limit, name in names if kind < limit)
        if r.random() < .95:
            self.insert("CUPTI_ACTIVITY_KIND_RUNTIME", start=at, end=end, eventClass=0, globalTid=thread,
                        correlationId=self.correlation, nameId=self.string(name), returnValue=0)
        if "Launch" in name:
            for node in range(1 if "Kernel" in name else r.randint(1, 3)):
                self.kernel(None if "Kernel" in name else 1000 + node, **self.place(at, process, queues))
        elif "Memcpy" in name:
            self.insert("CUPTI_ACTIVITY_KIND_MEMCPY", **self.place(at, process, queues), srcKind=r.randint(0, 2),
                        bytes=r.choice([4, 1000, 1500, 12345678]), copyKind=r.choice(list(COPIES)), dstKind=2)
        elif "Memset" in name:
            self.insert("CUPTI_ACTIVITY_KIND_MEMSET", **self.place(at, process, queues), value=0,
                        bytes=r.choice([4, 62500]), memKind=2)
        return end

    def push_pop(self, start, end, name, domain, thread):
        text = dict(textId=self.string(name)) if self.random.random() < .7 else dict(text=name)
        self.insert("NVTX_EVENTS", start=start, end=end, eventType=PUSH_POP, globalTid=thread, domainId=domain, **text)

    def thread(self, process, thread):
        r = self.random
        at, stack = 1000 + r.randint(0, 50), []
        queues = {(device, stream): at for device in (0, 1) for stream in (0, 1)}
        for _ in range(r.randint(5, 60)):
            at += r.randint(0, 30)
            what = r.random()
            if what < .3 and len(stack) < 6:
                stack.append((at, r.choice("ABC"), r.choice([0, 0, 1])))
            elif what < .5 and stack:
                start, name, domain = stack.pop()
                self.push_pop(start, at + 1, name, domain, thread)
                at += 2
            elif what < .55:
                self.insert("NVTX_EVENTS", start=at, end=at + r.randint(500, 1000), eventType=START_END,
                            rangeId=r.randint(1, 99), textId=self.string("SE"), globalTid=thread, domainId=0)
            else:
                at = self.call(at, thread, process, queues)
        still_open = r.choice([0, 0, 1])  # the outermost, when recording ended
        for depth, (start, name, domain) in reversed(list(enumerate(stack))):
            at += 3
            self.push_pop(start, None if depth < still_open else at, name, domain, thread)

    def fill(self):
        for pid in range(100, 100 + self.random.randint(1, 2)):
            process = HOST | pid << 24
            self.insert("PROCESSES", globalPid=process, pid=pid, name="process %d" % pid)
            for tid in range(pid, pid + self.random.randint(1, 2)):
                self.insert("ThreadNames", nameId=self.string("thread"), priority=20, globalTid=process | tid)
                self.thread(process, process | tid)
            self.insert("NVTX_EVENTS", start=1, eventType=DOMAIN, text="LLM", globalTid=process | pid, domainId=1)
        for text, number in self.strings.items():
            self.insert("StringIds", id=number, value=text)
        self.db.commit()


def write(seed, path):
    Trace(seed, path).fill()
