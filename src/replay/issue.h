/* Operations of a loaded capsule, given to the device: one alone, or a program (program.h) on
 * streams, or captured into a graph. */
#ifndef REPLAY_ISSUE_H
#define REPLAY_ISSUE_H

#include "replay/load.h"
#include "replay/program.h"
#include "replay/reach.h"

/* Operation i (a launch, copy or set). early: it may start before the launch before it has ended.
 */
enum st issue_op(struct load *l, size_t i, bool early, CUstream stream, struct err *e);

/* How often each operation is issued in its place. */
struct issue_repeat {
    const uint32_t *class_of; /* [n_ops]; NULL = all once */
    uint32_t class;
    int times;                     /* operations of that class */
    const struct reach_sets *with; /* [n_ops] before each but the first; NULL = nothing */
};

struct issue {
    struct load *l; /* borrowed, as p */
    const struct program *p;
    CUstream origin; /* everything begins and ends here */
    CUstream *lanes; /* [p->n_lanes] */
    CUevent *events; /* [p->n_events] */
    CUevent *joins;  /* [p->n_lanes] */
    CUevent fork;
    bool paced; /* issue_streams: no operation before the program gave it, counted from the first */
    bool begun; /* private, as zero_ns: when the program's time 0 would have been */
    int64_t zero_ns;
};

enum st issue_open(struct load *l, const struct program *p, struct issue *out, struct err *e);
void issue_close(struct issue *i); /* zeroed is fine */

/* The steps on the lanes' streams, from origin to origin; does not wait. The fallback where no
 * graph can be made, and what a graph is captured from. */
enum st issue_streams(struct issue *i, const struct issue_repeat *repeat, struct err *e);
/* The region as a graph; to be launched into origin or any other stream. */
enum st issue_graph(struct issue *i, const struct issue_repeat *repeat, CUgraphExec *out,
                    struct err *e);
/* The operations one by one in the program's order, each when the one before has ended; after(self,
 * op) is called then. */
enum st issue_serial(struct load *l, const struct program *p,
                     enum st (*after)(void *self, size_t op, struct err *e), void *self,
                     struct err *e);

#endif
