/* Who is who in a Kineto file: processes, threads and GPUs from pids and arguments.
 *
 * A GPU's event does not say which process launched it. In a file of PyTorch's profiler that is the
 * process whose calls are in the file, whatever else has a pid there (annotations of other
 * processes, "Spans"): events of the GPU wait for the first call. A merged file puts a rank before
 * every pid ("[TP01] 2000"): such prefixes are files of their own, with processes and GPUs of their
 * own. So do merged files that shift the pids under which GPUs stand: one number under two pids is
 * two GPUs. Pids and tids that are texts are who they are by the whole text. Plain pids of several
 * processes that launch are a team: trace_finish finds their operations by correlation. One thread
 * at a time. Private to trace/. */
#ifndef TRACE_KINETO_IDS_H
#define TRACE_KINETO_IDS_H

#include "base/map.h"
#include "base/vec.h"
#include "trace/kineto_scan.h"
#include "trace/trace.h"

struct kineto_group {     /* events whose pids have one prefix */
    uint32_t owner;       /* of its GPUs: trace_gpu_number */
    int32_t rank;         /* -1 = none */
    bool merged;          /* its pids have a prefix */
    bool named;           /* its pid is a text without a number: "main", "Spans" */
    uint32_t launcher;    /* process of the first call; TRACE_NONE = none yet */
    uint32_t host;        /* process of the operators, else of the annotations; TRACE_NONE */
    bool host_works;      /* it is of operators */
    bool shared;          /* several processes launch */
    bool implied;         /* operations were taken to be the launcher's */
    uint32_t first, last; /* held operations, + 1; 0 = none */
    uint32_t last_owner;
    uint32_t local, number; /* the last GPU that was asked for; local TRACE_NONE = none */
};

struct kineto_held {
    struct trace_op op; /* sig: of `pending` */
    uint32_t next;      /* of the same group, + 1 */
    uint32_t owner;     /* of its GPU */
    int64_t gpu_pid;    /* which its GPU's number was taken from; -1 = none */
};

struct kineto_ids {
    struct trace_dict *dict;
    const struct trace_sink *sink;
    const char *path;
    struct arena *a;
    int32_t rank;            /* of the file; -1 = not said */
    uint32_t first_process;  /* of the file's */
    struct map groups;       /* prefix to index */
    struct map hosts;        /* (group, pid) to process */
    struct map tracks;       /* (group, pid of GPUs that is not their number) to owner */
    struct map tids;         /* that are texts */
    struct map handles;      /* streams that are no numbers of 32 bits */
    struct map correlations; /* of more than 32 bits */
    VEC(struct kineto_group) list;
    struct trace_dict pending; /* signatures of held operations */
    VEC(struct kineto_held) held;
    size_t n_waiting;  /* of held ones */
    uint64_t unplaced; /* operations that say no GPU */
    bool unsettled;    /* several groups launch, and one has operations alone */
    struct sv last_prefix;
    int64_t last_pid, last_tid;
    uint32_t last_group, last_process, last_thread;
    bool has_group, has_process, has_thread;
};

void kineto_ids_open(struct kineto_ids *x, const char *path, struct trace_dict *d,
                     const struct trace_sink *sink);
void kineto_ids_close(struct kineto_ids *x);

/* The thread of a call or range; a call tells who launches. */
enum st kineto_ids_thread(struct kineto_ids *x, const struct kineto_event *v, uint32_t *out,
                          struct err *e);
/* The process of that pid; TRACE_NONE: no call or range was of it. */
uint32_t kineto_ids_known(struct kineto_ids *x, const struct kineto_event *v);
uint32_t kineto_ids_stream(struct kineto_ids *x, const struct kineto_event *v);
/* Ids of more than 32 bits are numbered. */
uint32_t kineto_ids_correlation(struct kineto_ids *x, uint64_t correlation);
/* Passes the operation on, at once or when its process is known. sig: all but process and device,
 * which are the event's. */
enum st kineto_ids_op(struct kineto_ids *x, const struct kineto_event *v, struct trace_sig *sig,
                      struct trace_op *op, struct err *e);
/* Passes on what is held; ranks. ST_INPUT: a file of that rank was read before. */
enum st kineto_ids_finish(struct kineto_ids *x, struct err *e);

#endif
