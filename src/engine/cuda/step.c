#include "engine/cuda/step.h"

#include <string.h>

#include "engine/cuda/parts.h"

enum { ALIGN = 16 };

static size_t take(size_t *at, size_t bytes)
{
    const size_t here = *at;
    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return here;
}

static int part_lists(const struct cuda_sizes *s)
{
    return s->spans > 1 ? s->spans : 1;
}

void cuda_step_lay_out(const struct cuda_sizes *most, int64_t most_blocks,
                       struct cuda_step_layout *out)
{
    const size_t tokens = (size_t)most->tokens, rows = (size_t)most->rows;
    const size_t spans = (size_t)part_lists(most);
    size_t at = 0;
    *out = (struct cuda_step_layout){.most = *most};
    out->step = take(&at, sizeof(struct cuda_step));
    out->ids = take(&at, tokens * sizeof(int));
    out->positions = take(&at, tokens * sizeof(int));
    out->kv_at = take(&at, tokens * sizeof(int));
    out->row_token = take(&at, rows * sizeof(int));
    out->row_slot = take(&at, rows * sizeof(int));
    out->draw_at = take(&at, rows * sizeof(int));
    out->sampling = take(&at, rows * sizeof(struct cuda_sampling));
    out->segments = take(&at, (size_t)(most->chunks + most->decodes) * sizeof(struct cuda_segment));
    out->parts = take(&at, spans * (size_t)most->parts * sizeof(struct cuda_part));
    out->runs = take(&at, spans * ((size_t)most->runs + 1) * sizeof(int));
    out->blocks = take(&at, (size_t)most_blocks * sizeof(int));
    out->bytes = at;
}

/* Device addresses are pointers to the kernels' arguments; the host never follows them. */
static void *device(CUdeviceptr base, size_t at)
{
    return (void *)(uintptr_t)(base + at);
}

struct cuda_batch cuda_step_at(const struct cuda_step_layout *l, CUdeviceptr base, CUdeviceptr last)
{
    return (struct cuda_batch){.step = device(base, l->step),
                               .ids = device(base, l->ids),
                               .positions = device(base, l->positions),
                               .kv_at = device(base, l->kv_at),
                               .row_token = device(base, l->row_token),
                               .row_slot = device(base, l->row_slot),
                               .segments = device(base, l->segments),
                               .blocks = device(base, l->blocks),
                               .parts = device(base, l->parts),
                               .runs = device(base, l->runs),
                               .last = device(last, 0)};
}

struct cuda_batch cuda_step_span(const struct cuda_batch *b, const struct cuda_sizes *most,
                                 int span)
{
    struct cuda_batch of = *b;
    ASSERT(span < part_lists(most));
    of.parts += (size_t)span * (size_t)most->parts;
    of.runs += (size_t)span * ((size_t)most->runs + 1);
    return of;
}

const struct cuda_sampling *cuda_step_sampling(const struct cuda_step_layout *l, CUdeviceptr base)
{
    return device(base, l->sampling);
}

const int *cuda_step_draw_at(const struct cuda_step_layout *l, CUdeviceptr base)
{
    return device(base, l->draw_at);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The block tables, one behind the other; false when there is no room. */
static bool write_segments(const struct cuda_step_layout *l, const struct row_batch *b,
                           int64_t block_size, char *host, size_t *end)
{
    struct cuda_segment *segments = (void *)(host + l->segments);
    int *blocks = (void *)(host + l->blocks);
    const int64_t room = (int64_t)((l->bytes - l->blocks) / sizeof(int));
    int64_t used = 0;
    for (int64_t i = 0; i < b->n_chunks + b->n_decodes; i++) {
        const struct segment *s = &b->segments[i];
        const int64_t n = (s->kv_before + s->tokens + block_size - 1) / block_size;
        if (used + n > room)
            return false;
        segments[i] =
            (struct cuda_segment){(int)s->first, (int)s->tokens, (int)s->kv_before, (int)used};
        memcpy(blocks + used, s->blocks, (size_t)n * sizeof *blocks);
        used += n;
    }
    *end = l->blocks + (size_t)used * sizeof *blocks;
    return true;
}

static void write_rows(const struct cuda_step_layout *l, const struct row_batch *b, char *host)
{
    int *row_token = (void *)(host + l->row_token), *row_slot = (void *)(host + l->row_slot);
    int *draw_at = (void *)(host + l->draw_at), *ids = (void *)(host + l->ids);
    struct cuda_sampling *sampling = (void *)(host + l->sampling);
    for (int64_t r = 0; r < b->n_rows; r++) {
        const int64_t token = b->row_token[r];
        const struct sampling *how = b->row_sampling[r];
        row_token[r] = (int)token;
        row_slot[r] = b->row_slot[r];
        draw_at[r] = (int)b->positions[token] + 1;
        if (ids[token] == ROW_TOKEN_OUT)
            ids[token] = -1 - b->row_slot[r];
        sampling[r] = how ? (struct cuda_sampling){.temperature = (float)how->temperature,
                                                   .min_p = (float)how->min_p,
                                                   .top_p = (float)how->top_p,
                                                   .top_k = how->top_k < INT32_MAX ? (int)how->top_k
                                                                                   : INT32_MAX,
                                                   .seed = how->seed}
                          : (struct cuda_sampling){0};
    }
}

/* The lists of each span; of the step, the longest's. */
static void write_parts(const struct cuda_step_layout *l, const struct cuda_segment *decodes,
                        char *host, struct cuda_step *step)
{
    struct cuda_step longest = *step;
    for (int i = 0; i < part_lists(&l->most); i++) {
        const struct cuda_parts_limits limits = {CUDA_DEAL, l->most.runs, l->most.parts_at_once,
                                                 l->most.windows[i]};
        struct cuda_part *parts = (void *)(host + l->parts);
        int *runs = (void *)(host + l->runs);
        cuda_parts_plan(decodes, step->n_decodes, &limits, parts + (ptrdiff_t)i * l->most.parts,
                        runs + (ptrdiff_t)i * (l->most.runs + 1), step);
        longest.n_parts = step->n_parts > longest.n_parts ? step->n_parts : longest.n_parts;
        longest.n_runs = step->n_runs > longest.n_runs ? step->n_runs : longest.n_runs;
    }
    *step = longest;
}

size_t cuda_step_write(const struct cuda_step_layout *l, const struct row_batch *b,
                       int64_t block_size, void *host)
{
    char *to = host;
    int *ids = (void *)(to + l->ids), *positions = (void *)(to + l->positions);
    int *kv_at = (void *)(to + l->kv_at);
    size_t end;
    ASSERT(b->n_tokens <= l->most.tokens && b->n_rows <= l->most.rows &&
           b->n_chunks <= l->most.chunks && b->n_decodes <= l->most.decodes);
    for (int64_t t = 0; t < b->n_tokens; t++) {
        ids[t] = b->ids[t];
        positions[t] = (int)b->positions[t];
        kv_at[t] = (int)b->kv_at[t];
    }
    write_rows(l, b, to);
    if (!write_segments(l, b, block_size, to, &end))
        return 0;
    const struct cuda_segment *decodes =
        (const struct cuda_segment *)(const void *)(to + l->segments) + b->n_chunks;
    struct cuda_step step = {.n_tokens = (int)b->n_tokens,
                             .n_rows = (int)b->n_rows,
                             .n_chunks = (int)b->n_chunks,
                             .n_decodes = (int)b->n_decodes};
    write_parts(l, decodes, to, &step);
    memcpy(to + l->step, &step, sizeof step);
    return end;
}
