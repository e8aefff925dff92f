#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/bench.h"

enum { BLOCK = 16 };

struct drive {
    struct executor ex;
    struct serve_clock clock;
    int n;
    int64_t prompt, blocks, capacity;
    int32_t *ids;   /* [capacity], the same for all */
    int32_t *table; /* [n, blocks] */
    int64_t *kv;    /* [n] */
    bool *in_set;   /* [n] */
    int32_t *left, *entered;
    struct chunk *chunks;
    int64_t iteration;
    struct completion done;
};

static struct slot_view view(void *self, int32_t slot)
{
    struct drive *d = self;
    return (struct slot_view){.ids = d->ids,
                              .blocks = d->table + slot * d->blocks,
                              .kv_tokens = d->kv[slot],
                              .n_blocks = d->blocks};
}

static void must(enum st st, const struct err *e)
{
    if (st == ST_OK)
        return;
    err_print(e, "engine_bench", stderr);
    exit(err_exit_code(st));
}

struct drive *drive_open(const struct model *m, const struct options *o, int sequences,
                         int64_t max_tokens, int64_t prompt)
{
    struct err e = {0};
    struct drive *d = mem_alloc(sizeof *d);
    const size_t n = (size_t)sequences;
    d->n = sequences;
    d->prompt = prompt;
    d->blocks = (max_tokens + BLOCK - 1) / BLOCK;
    d->capacity = d->blocks * BLOCK;
    d->ids = mem_alloc((size_t)d->capacity * sizeof *d->ids);
    d->table = mem_alloc(n * (size_t)d->blocks * sizeof *d->table);
    d->kv = mem_alloc(n * sizeof *d->kv);
    d->in_set = mem_alloc(n * sizeof *d->in_set);
    d->left = mem_alloc(n * sizeof *d->left);
    d->entered = mem_alloc(n * sizeof *d->entered);
    d->chunks = mem_alloc(n * sizeof *d->chunks);
    for (int64_t i = 0; i < d->capacity; i++)
        d->ids[i] = (int32_t)(i * 7919 % m->vocab);
    for (int64_t i = 0; i < sequences * d->blocks; i++)
        d->table[i] = (int32_t)i;
    d->clock = clock_real();
    const struct cpu_engine_params p = {.model = m,
                                        .weights_seed = 1,
                                        .threads = o->threads,
                                        .block_size = BLOCK,
                                        .num_blocks = sequences * d->blocks,
                                        .max_batch_tokens = sequences * prompt + sequences,
                                        .max_rows = sequences,
                                        .ignore_eos = true,
                                        .clock = &d->clock};
    must(cpu_engine_open(&p, &d->ex, &e), &e);
    d->ex.ops->bind(d->ex.self, (struct slot_source){d, view});
    return d;
}

void drive_close(struct drive **d)
{
    (*d)->ex.ops->close((*d)->ex.self);
    void *const all[] = {(*d)->ids,  (*d)->table,   (*d)->kv,     (*d)->in_set,
                         (*d)->left, (*d)->entered, (*d)->chunks, *d};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        mem_free(all[i]);
    *d = NULL;
}

double drive_step(struct drive *d, int p0, int p1, int d0, int d1)
{
    struct err e = {0};
    struct batch b = {.iteration = d->iteration++,
                      .chunks = d->chunks,
                      .left = d->left,
                      .entered = d->entered,
                      .op_times = true};
    for (int i = p0; i < p1; i++) {
        d->chunks[b.n_chunks++] = (struct chunk){i, 0, d->prompt, true};
        b.prefill_tokens += d->prompt;
    }
    b.n_last_chunks = b.n_chunks;
    for (int i = 0; i < d->n && d1 > d0; i++) {
        const bool in = i >= d0 && i < d1;
        if (d->in_set[i] && !in)
            d->left[b.n_left++] = i;
        if (!d->in_set[i] && in)
            d->entered[b.n_entered++] = i;
        d->in_set[i] = in;
        b.n_decodes += in;
    }
    uint64_t ticket;
    const int64_t start_ns = clock_mono_ns();
    must(d->ex.ops->submit(d->ex.self, &b, &ticket, &e), &e);
    must(d->ex.ops->next(d->ex.self, INFINITY, &d->done, &e), &e);
    const double took_s = ns_to_s(clock_mono_ns() - start_ns);
    for (int i = p0; i < p1; i++)
        d->kv[i] = d->prompt;
    for (int i = d0; i < d1; i++)
        d->kv[i]++;
    return took_s;
}

void drive_restart(struct drive *d)
{
    for (int i = 0; i < d->n; i++)
        d->kv[i] = 0;
}

const double *drive_op_s(const struct drive *d)
{
    return d->done.op_s;
}
