/* Decode batches as CUDA graphs: one for each bucket of rows, captured once and launched for every
 * batch of at most that many rows. Real sizes stand in device memory (engine/cuda/step.h); rows
 * past them are skipped by kernels, and computed in vain by matrix products.
 *
 * Buckets: 1, 2, 4, 8, then the classes of cuda_matmul_class, and the most rows there may be. */
#ifndef ENGINE_CUDA_GRAPHS_H
#define ENGINE_CUDA_GRAPHS_H

#include "engine/cuda/forward.h"

struct cuda_graph {
    int rows;
    struct cuda_step_layout layout;
    CUgraphExec exec[2]; /* greedy; with rows that are drawn. NULL = not captured yet */
    size_t nodes[2];
    struct cuda_charges charges; /* of the greedy graph, where they are wanted */
};

struct cuda_graphs {
    struct cuda_forward *f;
    CUstream stream;
    CUdeviceptr step;          /* block of the batch's arrays */
    struct cuda_graph *graphs; /* [n], rows ascending */
    int n;
    int64_t captured;
    bool charge; /* keep the kernels of greedy graphs */
};

/* The smallest bucket that holds so many rows. */
int cuda_graph_bucket(int rows, int most_rows);

/* Captures the greedy graph of every bucket up to most_rows, and keeps their lists of kernels with
 * `charge`; f, stream and the block are borrowed.
 * Close in any case, when the stream is done. */
enum st cuda_graphs_open(struct cuda_graphs *g, struct cuda_forward *f, CUstream stream,
                         CUdeviceptr step, int64_t most_blocks, int most_rows, bool charge,
                         struct err *e);
void cuda_graphs_close(struct cuda_graphs *g); /* zeroed is fine */

/* The graph for so many rows. */
struct cuda_graph *cuda_graphs_for(struct cuda_graphs *g, int64_t rows);
/* The batch must stand in the block, laid out as the graph has it. Captures what is missing. */
enum st cuda_graphs_launch(struct cuda_graphs *g, struct cuda_graph *graph, bool sampled,
                           struct err *e);

#endif
