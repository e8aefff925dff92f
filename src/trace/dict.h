/* Dictionary of a trace: strings, processes, threads, devices and signatures, each identified by a
 * small number. Held in memory while records are streamed: it grows with distinct values, not with
 * records. One thread at a time. */
#ifndef TRACE_DICT_H
#define TRACE_DICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

enum trace_kind { TRACE_KERNEL, TRACE_COPY, TRACE_SET, TRACE_GRAPH, TRACE_KINDS };

enum trace_record_kind { TRACE_OP, TRACE_CALL, TRACE_RANGE, TRACE_SYNC, TRACE_RECORDS };

#define TRACE_NONE UINT32_MAX /* an unknown id */

/* Signature of GPU operations: everything but times. Numbers of copy, memory and launch kinds are
 * CUPTI's. The key is all of its bytes: start from {0}. */
struct trace_sig {
    int64_t bytes;        /* copies and sets */
    uint64_t local_bytes; /* kernels: local memory of the launch */
    uint32_t kind;        /* enum trace_kind */
    uint32_t name;        /* string: as recorded, mangled or not; "Memcpy HtoD (...)" */
    uint32_t process;     /* index */
    uint32_t device;      /* number, see trace_device */
    uint32_t context, stream, green_context; /* green_context: TRACE_NONE = none */
    uint32_t graph;                          /* CUDA graph id; 0 = none */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t static_shared, dynamic_shared, executed_shared; /* bytes */
    uint32_t registers, local_per_thread;
    uint32_t value;                                         /* sets */
    uint32_t source_device, target_device;                  /* copies between devices; TRACE_NONE */
    uint8_t copy_kind, source_kind, target_kind;            /* copies; target_kind of sets too */
    uint8_t launch_type, cache_config, shared_limit, flags; /* flags 1: asynchronous */
    uint8_t reserved;
};

struct trace_process {
    uint32_t pid;
    uint32_t name, host; /* strings */
    int32_t rank;        /* -1 = none */
    uint32_t team; /* processes of a file whose operations do not say which of them launched them:
                      equal numbers; 0 = they do */
};

struct trace_thread {
    uint32_t process; /* index */
    uint32_t tid;
    uint32_t name; /* string */
};

/* One GPU, independent of its ordinals in the processes. 0 and "" = unknown. */
struct trace_device {
    uint32_t number; /* number in reports: the ordinal in the first process that used it */
    uint32_t name;   /* string */
    uint8_t uuid[16];
    uint32_t major, minor, sms, max_threads_per_sm;
    uint64_t memory_bytes, bandwidth_bytes_per_s;
    uint32_t clock_khz, l2_bytes;
};

/* A GPU as one reader's processes number it, and its number in reports. */
struct trace_gpu_use {
    uint32_t owner, local, number;
};

struct trace_note {
    uint32_t level; /* enum log_level */
    const char *text;
};

/* Facts about the recorded machine and software. */
enum trace_fact_kind {
    TRACE_HOST,
    TRACE_PROCESSOR,
    TRACE_CORES,
    TRACE_DRIVER,
    TRACE_CUDA_DRIVER, /* CUDA's versions in its own encoding: 13000 is 13.0 */
    TRACE_CUDA_RUNTIME,
    TRACE_CUPTI,
    TRACE_FACTS
};
struct trace_fact {
    enum trace_fact_kind kind;
    const char *text;
};
extern const struct trace_fact_name {
    const char *title;  /* display name */
    const char *nsys;   /* name in TARGET_INFO_SYSTEM_ENV; NULL = none */
    const char *kineto; /* member of a PyTorch trace, an integer; NULL = none */
} trace_fact_names[TRACE_FACTS];

struct trace_ids; /* hash table over one of the arrays below */

struct trace_dict {
    struct arena *a;
    struct sv *strings; /* [n_strings]; 0 is "" ; NUL-terminated, valid UTF-8 */
    struct trace_sig *sigs;
    struct trace_process *processes;
    struct trace_thread *threads; /* 0 is unknown, of process 0 */
    struct trace_device *devices;
    struct trace_note *notes;
    struct trace_gpu_use *gpu_uses;
    struct trace_fact *facts; /* in order of arrival; several texts of one kind: several machines */
    uint32_t n_strings, n_sigs, n_processes, n_threads, n_devices, n_notes, n_facts;
    uint32_t n_gpu_uses, n_gpu_owners, n_teams;

    uint64_t dropped;                   /* records that the recorder lost */
    uint64_t skipped;                   /* records of kinds that are not represented */
    uint64_t impossible[TRACE_RECORDS]; /* left out for impossible times: trace_times_ok */
    int64_t time_ns[TRACE_RECORDS];     /* summed over accepted records */
    bool incomplete;                    /* a recorder did not close its file */
    bool has_clock; /* of the first spool; spools of other hosts are shifted to it */
    uint64_t clock_host;
    int64_t wall_less_clock_ns;
    bool has_time_base; /* of a PyTorch trace: what its times count from */
    int64_t time_base_ns;
    bool launches_only; /* calls are launches only, not every API call */

    struct trace_ids *string_ids, *sig_ids, *process_ids, *thread_ids;
};

void trace_dict_init(struct trace_dict *d);
void trace_dict_free(struct trace_dict *d);

/* The id of that text, made when new. Bytes that are not UTF-8 and control characters become '?'.
 */
uint32_t trace_string(struct trace_dict *d, struct sv text);
const char *trace_text(const struct trace_dict *d, uint32_t string); /* "" for unknown ids */
uint32_t trace_sig_id(struct trace_dict *d, const struct trace_sig *sig);
uint32_t trace_process_of(struct trace_dict *d, uint32_t pid, uint32_t host);
uint32_t trace_thread_of(struct trace_dict *d, uint32_t process, uint32_t tid);
/* The index of the device; fills in facts that were unknown. */
uint32_t trace_device_of(struct trace_dict *d, const struct trace_device *facts);
/* The number in reports of GPU `local` of an owner (a file, or a rank in it; ids from
 * d->n_gpu_owners): its own number, unless another owner has that one: the same GPU then, or with
 * `apart` another one, which gets the next free number. Either is told in a note. */
uint32_t trace_gpu_number(struct trace_dict *d, uint32_t owner, uint32_t local, bool apart);
/* Whether these times are possible; if not, counts the record in d->impossible, and the reader
 * leaves it out. Accepted times keep later sums inside 64 bits: times within +-73 years, end not
 * before start, no record longer than TRACE_SPAN_MAX_NS, operations together no longer than that
 * either (ranges, which nest: eight times as long). trace_finish adds: no two records further apart
 * than that. */
#define TRACE_SPAN_MAX_NS (INT64_C(1) << 53) /* 104 days */
bool trace_times_ok(struct trace_dict *d, enum trace_record_kind kind, int64_t start_ns,
                    int64_t end_ns);
/* "2 operations, 1 range", of d->impossible; NULL when there are none. */
const char *trace_impossible(struct arena *a, const struct trace_dict *d);
void trace_note(struct trace_dict *d, uint32_t level, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Adds a fact, each once; ignores an empty text and "0". */
void trace_fact(struct trace_dict *d, enum trace_fact_kind kind, struct sv text);
/* The texts of a kind, formatted: "node1, node2", "13.0"; NULL without any. Lives as long as both a
 * and d do. */
const char *trace_fact_words(struct arena *a, const struct trace_dict *d,
                             enum trace_fact_kind kind);

/* Numbers of copy and memory kinds as CUPTI has them, copies of unified memory from 11 on as nsys
 * does; their names as Nsight Systems and PyTorch call them; 0 is unknown. */
enum { TRACE_COPY_KINDS = 14, TRACE_MEMORY_KINDS = 8 };
const char *trace_copy_name(uint32_t copy_kind);     /* "Host-to-Device" */
const char *trace_copy_short(uint32_t copy_kind);    /* "HtoD" */
uint8_t trace_copy_kind(struct sv short_name);       /* 0 = unknown */
const char *trace_memory_name(uint32_t memory_kind); /* "Pageable" */
uint8_t trace_memory_kind(struct sv name);           /* 0 = unknown */
/* "Memcpy HtoD (Pageable -> Device)", "Memset (Device)": the name of a copy or set. */
uint32_t trace_memory_op_name(struct trace_dict *d, const struct trace_sig *sig);

#endif
