#include "engine/cuda/graphs.h"

#include "engine/cuda/parts.h"
#include "gpu/stream.h"

int cuda_graph_bucket(int rows, int most_rows)
{
    int bucket = 1;
    while (bucket < rows && bucket < 8)
        bucket *= 2;
    if (bucket < rows)
        bucket = cuda_matmul_class(rows);
    return bucket < most_rows ? bucket : most_rows;
}

static struct cuda_pass pass_of(const struct cuda_graphs *g, const struct cuda_graph *graph,
                                bool sampled)
{
    const struct cuda_step_layout *l = &graph->layout;
    return (struct cuda_pass){.sizes = l->most,
                              .batch = cuda_step_at(l, g->step, g->f->last),
                              .sampled = sampled,
                              .sampling = cuda_step_sampling(l, g->step),
                              .draw_at = cuda_step_draw_at(l, g->step)};
}

static enum st capture(struct cuda_graphs *g, struct cuda_graph *graph, bool sampled, struct err *e)
{
    const struct gpu *gpu = g->f->gpu;
    const struct cuda_pass p = pass_of(g, graph, sampled);
    struct err ignored = {0};
    TRY(gpu_capture_begin(gpu, g->stream, e));
    g->f->charges = g->charge && !sampled ? &graph->charges : NULL;
    const enum st st = cuda_forward_run(g->f, &p, g->stream, e);
    g->f->charges = NULL;
    const enum st ended = gpu_capture_end(gpu, g->stream, &graph->exec[sampled],
                                          &graph->nodes[sampled], st == ST_OK ? e : &ignored);
    if (st != ST_OK)
        gpu_graph_close(gpu, &graph->exec[sampled]);
    if (st != ST_OK || ended != ST_OK)
        return err_add(e, "cannot capture the CUDA graph of %d rows", graph->rows);
    g->captured++;
    return ST_OK;
}

enum st cuda_graphs_open(struct cuda_graphs *g, struct cuda_forward *f, CUstream stream,
                         CUdeviceptr step, int64_t most_blocks, int most_rows, bool charge,
                         struct err *e)
{
    *g = (struct cuda_graphs){.f = f, .stream = stream, .step = step, .charge = charge};
    for (int rows = 1; rows <= most_rows; rows = cuda_graph_bucket(rows, most_rows) + 1)
        g->n++;
    g->graphs = mem_alloc((size_t)g->n * sizeof *g->graphs);
    int rows = 1;
    for (int i = 0; i < g->n; i++) {
        struct cuda_graph *graph = &g->graphs[i];
        *graph = (struct cuda_graph){.rows = cuda_graph_bucket(rows, most_rows)};
        struct cuda_sizes sizes = {.tokens = graph->rows,
                                   .rows = graph->rows,
                                   .decodes = graph->rows,
                                   .sms = f->p.most.sms};
        cuda_forward_spans(f->m, &sizes);
        cuda_parts_sizes(CUDA_DEAL, (int)f->m->heads, (int)f->m->kv_heads, &sizes);
        cuda_step_lay_out(&sizes, most_blocks, &graph->layout);
        rows = graph->rows + 1;
    }
    for (int i = 0; i < g->n; i++)
        TRY(capture(g, &g->graphs[i], false, e));
    return ST_OK;
}

void cuda_graphs_close(struct cuda_graphs *g)
{
    for (int i = 0; i < g->n; i++) {
        for (int sampled = 0; sampled < 2; sampled++)
            gpu_graph_close(g->f->gpu, &g->graphs[i].exec[sampled]);
        vec_free(&g->graphs[i].charges.of);
    }
    mem_free(g->graphs);
    *g = (struct cuda_graphs){0};
}

struct cuda_graph *cuda_graphs_for(struct cuda_graphs *g, int64_t rows)
{
    int i = 0;
    while (i + 1 < g->n && g->graphs[i].rows < rows)
        i++;
    return &g->graphs[i];
}

enum st cuda_graphs_launch(struct cuda_graphs *g, struct cuda_graph *graph, bool sampled,
                           struct err *e)
{
    if (!graph->exec[sampled])
        TRY(capture(g, graph, sampled, e));
    return gpu_graph_launch(g->f->gpu, graph->exec[sampled], g->stream, e);
}
