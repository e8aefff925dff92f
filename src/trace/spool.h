/* The spool: file of one process's GPU work, written by the recorder inside that process.
 *
 * This header is the format's manual and its writer. The writer needs libc only, allocates nothing
 * after trace_spool_open and never aborts: the guest library (inject/) links it into foreign
 * processes. Reading is trace/spool_read.h.
 *
 * One file per process, "<host>-<pid>.spool" ("<host>-<pid>-1.spool" after an exec), a folder of
 * them per trace. Little endian, every struct as below, 8-byte aligned in the file.
 *
 *     struct spool_header
 *     { struct spool_block, payload }*
 *
 * A block holds records of one kind. Kinds with fixed records carry `count` records of
 * `record_bytes` each; a later version may append fields to a record, so a reader uses the smaller
 * of its own and the file's size; missing fields are 0. Unknown kinds are skipped.
 *
 * Order: a record refers (to strings, shapes, threads, devices) only to earlier blocks. Events of
 * one kind are in the order in which the recorder received them: kernels, even of one stream, are
 * NOT always sorted by time.
 *
 * A process may die at any moment and a disk may fill up. Blocks are written whole; one that is cut
 * short or whose checksum differs is skipped, and the next is searched at multiples of 8 bytes: it
 * is accepted when its checksum is right and its number fits (trace/spool_scan.h). SPOOL_END marks
 * a file closed by the recorder: without it the process was killed, or still runs, and the header
 * says when it was flushed last and when it was seen alive last.
 *
 * Times: int64 ns of one clock per host, CLOCK_MONOTONIC, for host and GPU alike (the recorder has
 * CUPTI convert GPU times to it; a note in SPOOL_NOTES reports when it could not). Spools of one
 * host therefore need no alignment; SPOOL_CLOCKS ties the clock to the wall clock and to CUPTI's.
 *
 * Ids: string 0 is "", thread 0 is unknown, shape ids start at 1. Where CUDA has an enumeration
 * (copy kind, memory kind, launch type, API ids) its numbers are kept; they are also those of
 * Nsight Systems' tables. SPOOL_NONE in a uint32_t id is "unknown".
 *
 * Size: a kernel is 32 bytes, its launch on the host another 24; common properties of kernels
 * (name, grid, registers, stream ...) are written once as a shape. */
#ifndef TRACE_SPOOL_H
#define TRACE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOOL_MAGIC     "TWSPOOL\n"
#define SPOOL_SUFFIX    ".spool"
#define SPOOL_NONE      UINT32_MAX
#define SPOOL_OPEN_NS   INT64_MIN /* end_ns of a range that was still open */
#define SPOOL_NO_STATUS INT32_MIN

enum {
    SPOOL_PATH = 1280, /* longer ones cannot be opened again */
    SPOOL_VERSION = 1,
    SPOOL_BLOCK_MAGIC = 0x4b4c4254,   /* "TBLK" */
    SPOOL_BLOCK_MAX_BYTES = 1 << 16,  /* largest payload; a reader refuses more */
    SPOOL_STRING_MAX_BYTES = 1 << 14, /* longer strings are cut by the recorder and end in "..." */
};

struct spool_header { /* 64 bytes */
    char magic[8];
    uint32_t version, header_bytes;
    uint32_t pid, parent_pid;
    int64_t start_ns, start_wall_ns; /* CLOCK_MONOTONIC and CLOCK_REALTIME at the same moment */
    uint64_t host_id;                /* equal on spools whose CLOCK_MONOTONIC is the same clock */
    /* Written over while the process lives; 0 = by a recorder that did not. CLOCK_MONOTONIC of the
     * last flush, behind which all that had ended by then is in the file, and of its last sign of
     * life: how much is missing at the end of one that was killed. */
    int64_t flushed_ns, alive_ns;
};

struct spool_block { /* 32 bytes */
    uint32_t magic;
    uint16_t kind;         /* enum spool_kind */
    uint16_t record_bytes; /* 0 for SPOOL_STRINGS */
    uint32_t count;        /* records or strings */
    uint32_t bytes;        /* of the payload, a multiple of 8 */
    uint32_t sequence;     /* 0, 1, 2 ... */
    uint32_t reserved;
    uint64_t checksum; /* trace_spool_checksum of the 24 bytes above, then, seeded by that, the
                          payload */
};

/* Number, kind, name, struct of a record, and whether events refer to it: such blocks are written
 * before pending events. There is one SPOOL_END, as the last block; of several SPOOL_PROCESS the
 * last counts (a process may use NVTX before CUDA). A thread that is named later is written again.
 */
/* clang-format off */
#define SPOOL_KIND_TABLE(X) \
    X(1, SPOOL_STRINGS, "strings", struct spool_string, true) \
    X(2, SPOOL_PROCESS, "process", struct spool_process, true) \
    X(3, SPOOL_THREADS, "threads", struct spool_thread, true) \
    X(4, SPOOL_DEVICES, "devices", struct spool_device, true) \
    X(5, SPOOL_SHAPES, "shapes", struct spool_shape, true) \
    X(6, SPOOL_CLOCKS, "clocks", struct spool_clock, true) \
    X(7, SPOOL_KERNELS, "kernels", struct spool_kernel, false) \
    X(8, SPOOL_LAUNCHES, "launches", struct spool_launch, false) \
    X(9, SPOOL_COPIES, "copies", struct spool_copy, false) \
    X(10, SPOOL_SETS, "sets", struct spool_set, false) \
    X(11, SPOOL_SYNCS, "syncs", struct spool_sync, false) \
    X(12, SPOOL_GRAPHS, "graphs", struct spool_graph, false) \
    X(13, SPOOL_RANGES, "ranges", struct spool_range, false) \
    X(14, SPOOL_APIS, "apis", struct spool_api, false) \
    X(15, SPOOL_WINDOWS, "windows", struct spool_window, false) \
    X(16, SPOOL_DROPS, "drops", struct spool_drop, false) \
    X(17, SPOOL_COSTS, "costs", struct spool_cost, false) \
    X(18, SPOOL_NOTES, "notes", struct spool_note, false) \
    X(19, SPOOL_END, "end", struct spool_end, false)
/* clang-format on */

enum spool_kind {
#define X(number, kind, name, type, first) kind = number,
    SPOOL_KIND_TABLE(X)
#undef X
};
enum { SPOOL_KINDS = SPOOL_END + 1 };

/* Followed by `bytes` bytes (UTF-8 expected, not promised; no NUL), zero-padded to 8. Ids are given
 * in any order, each once. */
struct spool_string {
    uint32_t id, bytes;
};

struct spool_process { /* strings are ids */
    uint32_t executable, command, host, directory;
    int32_t rank, local_rank, world_size; /* RANK, LOCAL_RANK, WORLD_SIZE; -1 = not set */
    uint32_t driver_version;              /* as cuDriverGetVersion: 13000; 0 = unknown */
    uint32_t cupti_version;               /* as cuptiGetVersion: 130001; 0 = no CUPTI */
    uint32_t reserved;
};

struct spool_thread {
    uint32_t id;   /* 1 .. 65535; used by the records below */
    uint32_t tid;  /* the kernel's (gettid) */
    uint32_t name; /* string */
    uint32_t reserved;
};

struct spool_device { /* 0 = unknown */
    uint32_t device;  /* CUDA ordinal in this process */
    uint32_t name;    /* string */
    uint8_t uuid[16];
    uint32_t major, minor, sms, max_threads_per_sm;
    uint32_t sm_clock_khz, memory_clock_khz, bus_width_bits, l2_bytes;
    uint64_t memory_bytes, bandwidth_bytes_per_s;
    uint32_t pci_domain, pci_bus, pci_device, max_shared_bytes_per_sm;
};

/* Properties shared by launches of one kind. */
struct spool_shape {
    uint32_t id;
    uint32_t name; /* string: the kernel's mangled name */
    uint32_t device, context, stream;
    uint32_t green_context; /* SPOOL_NONE = none */
    uint32_t graph;         /* CUDA graph id; 0 = not part of a graph */
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* 0 0 0 = no clusters */
    uint32_t registers;  /* per thread */
    uint32_t static_shared_bytes, dynamic_shared_bytes, executed_shared_bytes;
    uint32_t local_bytes_per_thread;
    uint64_t local_bytes;
    uint8_t launch_type;                     /* CUpti_ActivityLaunchType */
    uint8_t cache_requested, cache_executed; /* CUfunc_cache */
    uint8_t shared_limit;                    /* CUpti_FuncShmemLimitConfig */
    uint32_t reserved;
};

struct spool_kernel { /* 32 bytes */
    int64_t start_ns, end_ns;
    uint32_t shape;
    uint32_t correlation; /* of the launch; kernels of one graph launch share it */
    uint64_t graph_node;  /* 0 = none */
};

/* A kernel, copy, set or graph launch as the host saw it: entry and return of the driver function.
 */
struct spool_launch { /* 24 bytes */
    int64_t start_ns, end_ns;
    uint32_t correlation;
    uint16_t thread;
    uint16_t cbid; /* CUpti_driver_api_trace_cbid */
};

struct spool_copy {
    int64_t start_ns, end_ns;
    uint64_t bytes, graph_node;
    uint32_t correlation, device, context, stream;
    uint32_t source_device, source_context, target_device, target_context; /* SPOOL_NONE unless
                                                                            * peer to peer */
    uint32_t graph;
    uint8_t copy_kind, source_kind, target_kind; /* CUpti_ActivityMemcpyKind, ..MemoryKind twice */
    uint8_t flags;                               /* 1: asynchronous */
};

struct spool_set {
    int64_t start_ns, end_ns;
    uint64_t bytes, graph_node;
    uint32_t correlation, device, context, stream;
    uint32_t value, graph;
    uint8_t memory_kind, flags;
    uint16_t reserved[3];
};

struct spool_sync { /* the host, or a stream, waited */
    int64_t start_ns, end_ns;
    uint32_t correlation, context;
    uint32_t stream; /* SPOOL_NONE = not a stream's */
    uint32_t event;  /* CUDA event id, SPOOL_NONE = none */
    uint32_t kind;   /* CUpti_ActivitySynchronizationType */
    uint32_t reserved;
};

/* One launch of a whole CUDA graph (graph level: its nodes are not listed). */
struct spool_graph {
    int64_t start_ns, end_ns;
    uint32_t correlation, device, context, stream;
    uint32_t graph, reserved;
};

enum spool_range_kind { SPOOL_PUSH_POP = 1, SPOOL_START_END = 2, SPOOL_MARK = 3 };
/* An NVTX range or mark. A range that is open for long is written with end_ns SPOOL_OPEN_NS and
 * once more, with the same id, when it ends: the later record counts. */
struct spool_range {
    int64_t start_ns, end_ns; /* equal for a mark */
    uint64_t payload;         /* bits of the value, by payload_type */
    uint32_t id;              /* unique in the process */
    uint32_t text, domain;    /* strings; domain 0 = the default domain */
    uint32_t category, color;
    uint16_t thread, end_thread;
    uint8_t kind;         /* enum spool_range_kind */
    uint8_t payload_type; /* nvtxPayloadType_t; 0 = none */
    uint16_t depth;       /* of push/pop: ranges of that thread and domain around it */
    uint32_t values; /* string: numbers of NVTX's payload extension, as a JSON object in the order
                        of their schema */
};

/* A call of the runtime or driver API; only on request. */
struct spool_api {
    int64_t start_ns, end_ns;
    uint32_t correlation;
    uint32_t result;
    uint16_t thread;
    uint16_t domain; /* 1 driver, 2 runtime (CUpti_CallbackDomain) */
    uint16_t cbid;
    uint16_t reserved;
    uint32_t name; /* string "cudaLaunchKernel" (without version suffix) */
    uint32_t reserved2;
};

enum spool_why {
    SPOOL_WHY_ALWAYS = 1,   /* recording is not gated */
    SPOOL_WHY_RANGE = 2,    /* an NVTX range opened or closed the gate */
    SPOOL_WHY_PROFILER = 3, /* cuProfilerStart, cuProfilerStop */
    SPOOL_WHY_TIME = 4,     /* the time window */
    SPOOL_WHY_PAUSE = 5,    /* the process called tw_trace_pause, tw_trace_resume */
    SPOOL_WHY_DISK = 6,     /* the disk is full: nothing more is recorded */
    SPOOL_WHY_END = 7,
    SPOOL_WHY_GRAPH = 8, /* a launch of a CUDA graph began or ended the region to capture */
};
/* The recorder was on. Written when it goes off; the last window of a killed process is missing its
 * record, and so is a window's end at SPOOL_OPEN_NS. */
struct spool_window {
    int64_t start_ns, end_ns;
    uint32_t why_start, why_end; /* enum spool_why */
};

/* Reasons for missing records: number, source, name in run_meta.json, text. */
/* clang-format off */
#define SPOOL_SOURCE_TABLE(X) \
    X(1, SPOOL_FROM_CUPTI, "cupti", "CUPTI found no free buffer (trace.buffers= gives it more)") \
    X(2, SPOOL_FROM_THREAD, "thread", "a thread made launches and ranges faster than they were written") \
    X(3, SPOOL_FROM_STRINGS, "strings", "the table of texts was full: records without their names") \
    X(4, SPOOL_FROM_DISK, "disk", "the file could not be written any more") \
    X(5, SPOOL_FROM_UNKNOWN, "unknown", "activity records of a layout that the recorder does not know") \
    X(6, SPOOL_FROM_NO_TIMES, "no_times", "work without times: it still ran when recording stopped or paused, or its CUDA graph was made in a pause") \
    X(7, SPOOL_FROM_WINDOWS, "windows", "more than 16384 windows opened before their records came")
/* clang-format on */
enum spool_source {
#define X(number, source, name, words) source = number,
    SPOOL_SOURCE_TABLE(X)
#undef X
};
enum { SPOOL_SOURCES = SPOOL_FROM_WINDOWS + 1 };
struct spool_drop { /* since the last record of that source */
    int64_t at_ns;
    uint64_t count;
    uint32_t source; /* enum spool_source */
    uint32_t reserved;
};

/* Cost of recording in this process, in total until at_ns; the last record counts. */
struct spool_cost {
    int64_t at_ns;
    int64_t callback_ns;   /* spent in the application's threads, estimated from samples */
    int64_t writer_cpu_ns; /* CPU time of the recorder's own thread */
    uint64_t callbacks, records, bytes; /* bytes written before this block */
    uint64_t memory_bytes;              /* held by buffers and tables */
    uint64_t buffers_peak;              /* most activity buffers in use at once */
};

/* The clock of this file beside others, at one moment. */
struct spool_clock {
    int64_t at_ns, wall_ns;
    int64_t cupti_ns;  /* cuptiGetTimestamp; 0 = no CUPTI */
    int64_t within_ns; /* the three were read within this time */
};

enum spool_level { SPOOL_INFO = 1, SPOOL_WARNING = 2, SPOOL_ERROR = 3 };
struct spool_note { /* a remark for readers: "CUPTI 11.4 knows no graph node ids" */
    int64_t at_ns;
    uint32_t level; /* enum spool_level */
    uint32_t text;  /* string */
};

struct spool_end {
    int64_t at_ns;
    uint64_t kernels, launches, ranges, dropped;
};

/* Bytes of a record of that kind in this version; 0 for SPOOL_STRINGS and unknown kinds. */
size_t trace_spool_record_bytes(int kind);
/* "kernels", "launches" ...; NULL for unknown kinds. */
const char *trace_spool_kind_name(int kind);

/* h = seed; for each 8 bytes, little endian, zero-padded at the end:
 * h = (h xor word) * 0x9e3779b97f4a7c15; h = h xor (h >> 29). */
uint64_t trace_spool_checksum(uint64_t seed, const void *p, size_t bytes);

/* ---- writing ------------------------------------------------------------------------------- */

/* One per file; one thread at a time. Records collect in one buffer per kind and are written as
 * blocks when it is full and at trace_spool_flush; definitions go first. */
struct spool_writer {
    int fd; /* -1 = closed */
    /* Identity of the file: a program may close a descriptor it did not open, and open something
     * else under the same number. */
    uint64_t device, inode;
    char path[SPOOL_PATH];
    int error; /* errno of the write that failed; nothing is written after it */
    uint32_t sequence;
    uint64_t bytes; /* written and whole */
    uint64_t lost;  /* records given after a failure */
    uint64_t counts[SPOOL_KINDS];
    unsigned char *memory; /* of all the buffers, from mmap */
    size_t memory_bytes;
    struct {
        unsigned char *p;
        uint32_t used, count;
    } pending[SPOOL_KINDS];
};

/* Create path (must not exist; permissions as the umask leaves) and write the header; start times,
 * magic, version and host_id are filled in, the pids taken from the process. 0 or an errno; w is
 * closed then. */
int trace_spool_open(struct spool_writer *w, const char *path);
/* record: of the kind's struct. Copies it. False when the file has failed. */
bool trace_spool_add(struct spool_writer *w, enum spool_kind kind, const void *record);
/* Longer ones are cut. id is the caller's. */
bool trace_spool_add_string(struct spool_writer *w, uint32_t id, const char *text, size_t bytes);
/* Writes everything pending: it survives the end of the process. A write that fails (disk full) is
 * undone, so that the file ends with a whole block. Reopens the file if the program closed it;
 * never writes to the program's own files. */
bool trace_spool_flush(struct spool_writer *w);
/* Into the header: a flush at flushed_ns, and that the process lives. */
void trace_spool_alive(struct spool_writer *w, int64_t flushed_ns, int64_t alive_ns);
/* SPOOL_END, flush, close, free. Returns 0 or the errno that stopped the file. */
int trace_spool_close(struct spool_writer *w);
/* Close and free without writing (in a child after fork). */
void trace_spool_abandon(struct spool_writer *w);

#endif
