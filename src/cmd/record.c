#include "cmd/record.h"

#include "artifact/vidur_metrics.h"
#include "base/log.h"

struct record {
    struct record_params p;
    struct run_writer *writer;
    struct vidur_metrics *vidur; /* NULL unless asked for */
    struct summary *summary;
    struct progress progress;
    struct serve_sink sink;
};

static void put_request(void *self, const struct run_request *request)
{
    struct record *r = self;
    struct run_request row = *request;
    row.backend = r->p.backend;
    run_write_request(r->writer, &row);
    summary_add(r->summary, &row);
    if (r->vidur)
        vidur_metrics_write(r->vidur, request);
}

static void put_token(void *self, const struct run_token *t)
{
    run_write_token(((struct record *)self)->writer, t);
}

static void put_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    (void)c;
    run_write_batch(((struct record *)self)->writer, b);
}

static void put_progress(void *self, int64_t finished, double now_s)
{
    (void)now_s;
    progress_at(&((struct record *)self)->progress, finished, NULL);
}

enum st record_open(const struct artifact *art, const struct record_params *p, struct record **out,
                    struct err *e)
{
    const struct plan *plan = p->plan;
    bool tokens = plan->output.tokens == OUTPUT_FULL, batches = plan->output.batches == OUTPUT_FULL;
    struct record *r = mem_alloc(sizeof *r);
    *r = (struct record){.p = *p,
                         .summary = summary_new(),
                         .sink = {.self = r,
                                  .request = put_request,
                                  .token = tokens ? put_token : NULL,
                                  .batch = batches ? put_batch : NULL,
                                  .progress = put_progress}};
    *out = r;
    enum st st = run_writer_open(art, tokens, batches, &r->writer, e);
    if (st == ST_OK && plan->output.vidur_metrics)
        st = vidur_metrics_open(art, &r->vidur, e);
    if (st != ST_OK) {
        record_free(out);
        return st;
    }
    progress_begin(&r->progress, p->what, "requests", p->total);
    return ST_OK;
}

struct serve_sink record_sink(struct record *r)
{
    return r->sink;
}

enum st record_close(struct record *r, struct err *e)
{
    struct err ignored = {0};
    progress_end(&r->progress);
    enum st st = run_writer_close(&r->writer, e);
    enum st vidur = vidur_metrics_close(&r->vidur, st == ST_OK ? e : &ignored);
    return st == ST_OK ? vidur : st;
}

struct summary *record_summary(struct record *r)
{
    return r->summary;
}

void record_free(struct record **pr)
{
    struct record *r = *pr;
    if (!r)
        return;
    struct err ignored = {0};
    run_writer_discard(&r->writer);
    (void)vidur_metrics_close(&r->vidur, &ignored);
    summary_free(&r->summary);
    mem_free(r);
    *pr = NULL;
}
