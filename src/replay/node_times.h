/* How long each operation of a region takes inside it: CUPTI's records of a graph's nodes.
 *
 * Recording costs time of its own and stays attached, so it comes last in a process. The library is
 * looked for as gpu/library.h does. Without it, or where its records do not match the operations,
 * times are unknown. */
#ifndef REPLAY_NODE_TIMES_H
#define REPLAY_NODE_TIMES_H

#include "replay/issue.h"

enum { NODE_LAUNCHES = 10 }; /* of which the first does not count */

/* What CUPTI says of one execution. */
struct node_record {
    enum { NODE_KERNEL, NODE_COPY, NODE_SET } kind;
    uint32_t launch; /* correlation id: of the whole graph launch */
    uint64_t node;   /* rises in the order in which nodes were made */
    int64_t start_ns, end_ns;
    const char *name; /* mangled, of a kernel */
};

/* op_s [n_ops]: mean seconds of each operation, NAN for what is no work; *why instead, where it
 * cannot be known: no CUPTI, records that do not match. ST_DEVICE: the GPU failed. */
enum st node_times(struct load *l, struct issue *i, double *op_s, const char **why, struct err *e);

/* The same of a region whose operations the program gave one by one, given so again: on streams,
 * none earlier after the first than the program did. What a kernel takes may depend on that: the
 * nodes of a graph follow each other within a microsecond, where the GPU waits for a host it is
 * idle between them. *why also: the program launched a graph, so that the times above are the like
 * ones. Launches are NODE_LAUNCHES, 3 where these take more than 2 s. */
enum st node_times_as_launched(struct load *l, struct issue *i, double *op_s, const char **why,
                               struct err *e);

/* Mean seconds of an operation in graphs of operations of one kind, which repeat alone: without the
 * gap to the next one, which a time between events holds. graph_of gives graph i, 0 <= i < n, which
 * is closed here, or NULL to leave it out; how many operations it holds; and of kernels their
 * mangled name, NULL for others: what else is in the graph does not count. alone_s [n]: NAN where
 * nothing was recorded. *why and errors as above. */
typedef enum st node_graph_of(void *self, size_t i, CUgraphExec *out, int64_t *ops,
                              const char **name, struct err *e);
enum st node_times_alone(struct load *l, CUstream stream, node_graph_of *graph_of, void *self,
                         size_t n, double *alone_s, const char **why, struct err *e);

/* The part of it that compares: n records of a few launches, in any order, against the program.
 * False: they do not match. At least one launch after the first is needed. Sorts the records. */
bool node_times_match(const struct load *l, const struct program *p, struct node_record *records,
                      size_t n, double *op_s);

#endif
