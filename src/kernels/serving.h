/* Iterations of an inference server in a trace of it, without help of the server.
 *
 *     struct trace --serving_find--> iterations --serving_align--> with what their batches held
 *                                               --serving_loads--> with the tokens in their caches
 *                                               --serving_sum----> figures by kind
 *
 * Only the thread that launches most of the work is looked at: the engine's. An iteration ends with
 * the copies to the host that hand its tokens on (one copy or several behind each other), and the
 * next begins with the launch after them. What ran before the first such copy, warm-up and the
 * capture of graphs, has none and is left out: the first iteration begins behind the last pause of
 * SERVING_PAUSE_NS before its copy. Work launched by other threads belongs to no iteration.
 *
 * Kinds, by how the host launched it: as one CUDA graph, as graphs of pieces with kernels between
 * them, or without a graph.
 *
 * Times are int64 ns of the trace's clock. Of a recording without CUDA graphs' nodes
 * (trace.graphs=graph) a graph is one operation, and classes hold nothing of it. */
#ifndef KERNELS_SERVING_H
#define KERNELS_SERVING_H

#include "kernels/classes.h"
#include "metrics/iteration_match.h"

enum serving_kind { SERVING_FULL, SERVING_PIECES, SERVING_NONE, SERVING_KINDS };
const char *serving_kind_name(unsigned kind); /* "full", "piecewise", "none": as vLLM's log */

enum { SERVING_PAUSE_NS = 100000000 };

struct serving_iteration {
    enum serving_kind kind;
    size_t first_call, last_call;         /* in t->calls, on the engine's thread */
    int64_t launch_from_ns, launch_to_ns; /* first launch's call, return of the last one's */
    /* The host between the last launch before and the first of this: processing, scheduling and
     * preparing, without what it waited for the GPU meanwhile; -1 = unknown, of the first and where
     * the engine was idle. */
    int64_t before_ns;
    int64_t wait_ns; /* that it waited for the GPU there; of a trace without such waits, until the
                        last copy to the host that had ended */
    bool after_idle; /* no work was there before it */
    int64_t from_ns, to_ns; /* first operation's start, last one's end on the GPU */
    int64_t busy_ns;        /* at least one of its operations ran */
    /* When its tokens could be handed on: the copy was done, and the next iteration launched where
     * the host had begun with that before (asynchronous scheduling). */
    int64_t tokens_ns;
    int64_t period_ns;      /* from the end of the iteration before, or from when its own launching
                               began where the engine was idle, to its end */
    uint32_t calls, graphs; /* launches; of CUDA graphs among them */
    uint32_t operations, graph_operations;
    uint32_t graph; /* id of the graph with most operations; 0 = none */
    /* What it takes a GPU that waits for no launches: busy_ns and the gaps that it makes by itself,
     * as many per operation as in iterations that are one graph, but no more than there are. */
    int64_t device_ns;
    int64_t class_ns[KERNELS_CLASSES];  /* sums of operations */
    const struct logged_iteration *log; /* NULL = unknown */
    const struct batch_load *load;      /* NULL = unknown */
};

struct serving {
    struct serving_iteration *of; /* [n] in order */
    size_t n;
    uint32_t thread; /* of the engine: in t->dict.threads */
    size_t n_logged, n_loaded;
    size_t shift;       /* iterations of the trace before the log's first */
    double agreement;   /* of kinds with the log; NAN = no log or no full graphs */
    uint64_t elsewhere; /* operations launched by other threads */
    const char **notes; /* [n_notes] */
    size_t n_notes;
};

/* ST_INPUT: launches were not recorded, nothing is copied to the host behind work. Lives in a. */
enum st serving_find(struct arena *a, const struct kernels *k, struct serving *out, struct err *e);

/* Gives iterations the log's, in order. The log's last iteration is the trace's last unless the
 * trace has fewer: then it is where tokens and times on the GPU go together best. ST_INPUT: under
 * SERVING_AGREE of the iterations with prompts and without are launched as their kind is. */
extern const double SERVING_AGREE;
enum st serving_align(struct arena *a, const struct iteration_log *log, struct serving *s,
                      struct err *e);
/* What their batches held, by the requests of a run that the log's server served. */
void serving_loads(const struct iteration_match *m, struct serving *s);

/* Medians over iterations of a kind; NAN = unknown. */
struct serving_sum {
    enum serving_kind kind;
    size_t iterations, logged;
    double tokens, requests; /* of the batch */
    double calls, graphs, operations;
    double launch_ms;        /* first launch to last */
    double before_ms;        /* the host before, without waits */
    double busy_ms, gaps_ms; /* on the GPU: gaps between the first operation's start and the last's
                                end */
    double idle_ms;          /* between the end of the iteration before and its first operation */
    double period_ms;
    double class_ms[KERNELS_CLASSES];
};
struct serving_sum *serving_sums(struct arena *a, const struct serving *s, size_t *n);

/* All of it. */
struct serving_params {
    const char *log;         /* NULL = none */
    const char *const *runs; /* [n_runs] directories; none without a log */
    size_t n_runs;
};
struct serving_result {
    struct serving s;
    struct serving_sum *sums; /* [n_sums] */
    size_t n_sums;
    const char **matches; /* [n_matches] how log and each run go together */
    size_t n_matches;
};
enum st serving_of(struct arena *a, const struct kernels *k, const struct serving_params *p,
                   struct serving_result *out, struct err *e);

/* ---- tables and files ---- */

/* For people: a row a kind; then a row a class, a column a kind. */
struct table *serving_kind_table(struct arena *a, const struct serving_sum *sums, size_t n);
struct table *serving_class_table(struct arena *a, const struct serving_sum *sums, size_t n);
/* iterations.csv (docs/formats.md). */
struct table *serving_table(struct arena *a, const struct serving *s);
extern const struct fields serving_sum_fields; /* in kernels.json */
struct node *serving_sums_node(struct arena *a, const struct serving_result *r); /* a list */

/* Samples of a bundle of measured iterations (profile/whole.h), of those with a known batch. Host
 * time is before_ns and launching, which is beside the device. *compiled:
 * how many were left out, as launching took more than SERVING_COMPILED times the median of their
 * kind: kernels were compiled at their first use, or the host stalled (of 1,224 of a vLLM 0.24 with
 * Triton's experts 13: 0.83 and 0.89 s instead of 0.07 for the first large prompts; all others were
 * within 3 medians). *kv_unknown:
 * tokens in the caches of some are not known, and count as none. */
enum { SERVING_COMPILED = 4 };
struct whole_sample *serving_samples(struct arena *a, const struct serving *s, size_t *n,
                                     size_t *compiled, bool *kv_unknown);

#endif
