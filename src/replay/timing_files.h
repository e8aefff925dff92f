/* The timing files of a replay: full_model_timing.json and isolated_kernels_timing.json, which
 * energy reports are made from (docs/formats.md). Their members are those of the scripts that
 * twinfer takes the place of, with more after them. Unknown is null. */
#ifndef REPLAY_TIMING_FILES_H
#define REPLAY_TIMING_FILES_H

#include "artifact/artifact.h"
#include "replay/timing.h"

/* A kernel, copy or set that was timed alone, or not. */
struct replay_kernel {
    const char *name;
    int64_t number;           /* of its class, where `first` is known */
    int tier;                 /* 1 copies and sets, 2 library products, 3 others */
    int64_t count;            /* in the region */
    struct timing warm, cold; /* n = 0: not measured */
    double in_context_s;      /* inside the region, mean of one; NAN = unknown */
    double as_launched_s;     /* the same, given to the GPU as the program did; NAN = unknown */
    double alone_s;           /* alone and without the gap to the next; NAN = unknown */
    double app_s;             /* in the application, mean of one; NAN = unknown */
    struct timing repeated;   /* one more of it in its place in the region */
    const char *mangled;      /* NULL = not known */
    int64_t first;            /* number of its first operation in the capsule; -1 = none */
    int64_t bytes;            /* of a copy or set; 0 = not known, or a kernel */
    int64_t sets;             /* with which its operations are repeated (reach.h), all together */
    double sets_s;            /* what these take of one, not in the times above */
    bool in_front;            /* alone: the first of it, behind all before it (measure.h) */
    const char *why;          /* reason for warm.n == 0; NULL otherwise */
};

struct replay_kernels {
    struct replay_kernel *p;
    size_t n;
};

/* Alone it takes less than 0.8 of its time inside the region, of 10 us and more, and with a cold L2
 * cache too where that was measured: it may do other work there, for want of what something before
 * it put into memory. Shorter kernels are that much faster by what is warm. */
bool replay_is_suspect(const struct replay_kernel *k);

enum st replay_write_isolated(struct arena *a, const struct artifact *art,
                              const struct replay_kernels *k, struct err *e);

/* The region, as a whole. */
struct replay_region {
    struct timing time;   /* of a launch of its graph */
    double nodes_s;       /* its operations' times on the GPU, summed; NAN = not known */
    double as_launched_s; /* the same, given to the GPU as the program did; NAN = not known, or
                           * the program launched graphs */
    const char *why_not_as_launched; /* NULL = known */
    double app_nodes_s;              /* the same in the application */
    double app_wall_s;        /* the application's, from its start until the GPU was idle again */
    const char *why_no_nodes; /* NULL = they are known */
    bool graphs;              /* most of its operations the application launched in graphs */
};

/* A sum of the operations' own times beside the application's: how far it lies from it, and how far
 * it may. As launched, kernels run as they did in the application. In a graph they follow each
 * other without the gaps of launches one by one, and short ones are faster for it: 3.2 and 3.8 % in
 * eager regions of kernels of 1 to 12 us, where 1.2 % was seen as launched (bench/replay); so that
 * sum has a wider limit, unless the application launched graphs itself. The sum in a graph is what
 * the region takes when it is replayed, and what energy is divided by; the sum as launched says
 * whether the replay's kernels are the application's. */
struct replay_apart {
    const char *way; /* "in a graph", "as launched" */
    double sum_s;    /* NAN = not known, nor the rest */
    double percent;  /* above the application's, below 0 = short of it */
    double limit;    /* percent */
    bool judged;     /* false: too short for it. The application ran it once, and a kernel's time
                      * varies by tenths of a us: 3.9 % of 46 us were seen */
    bool within;
};
enum { REPLAY_WAYS = 2 };
void replay_apart_of(const struct replay_region *r, struct replay_apart out[REPLAY_WAYS]);
struct node *replay_apart_node(struct arena *a, const struct replay_region *r);
enum st replay_write_full(struct arena *a, const struct artifact *art,
                          const struct replay_region *region, struct err *e);

/* The same as trees, for --json. */
struct node *replay_isolated_node(struct arena *a, const struct replay_kernels *k);
struct node *replay_full_node(struct arena *a, const struct replay_region *region);

/* Seconds of all measured kernels, each times its count. */
double replay_sum_s(const struct replay_kernels *k);
/* Of a tier, 0 = all: kinds that were measured. */
size_t replay_measured(const struct replay_kernels *k, int tier);

#endif
