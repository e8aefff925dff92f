#include "job/record.h"

#include "artifact/batch_trace.h"
#include "artifact/vidur_metrics.h"
#include "base/log.h"

struct record {
    struct record_params p;
    struct run_writer *writer;
    struct vidur_metrics *vidur; /* NULL unless enabled, as trace */
    struct batch_trace *trace;
    struct summary *summary;
    struct backlog backlog;
    struct time_series *series; /* NULL = none */
    const struct artifact *art;
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
    backlog_add(&r->backlog, &row);
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
    struct record *r = self;
    run_write_batch(r->writer, b);
    if (r->trace)
        batch_trace_write(r->trace, b);
}

static void put_iteration(void *self, const struct serve_iteration *i)
{
    time_series_add(((struct record *)self)->series, i);
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
                         .art = art,
                         .summary = summary_new(),
                         .sink = {.self = r,
                                  .request = put_request,
                                  .token = tokens ? put_token : NULL,
                                  .batch = batches || plan->output.perfetto ? put_batch : NULL,
                                  .iteration = plan->output.time_series ? put_iteration : NULL,
                                  .progress = put_progress}};
    if (plan->output.time_series) {
        r->series = time_series_new((int32_t)p->serve->replicas);
        time_series_power(r->series, &p->power);
    }
    *out = r;
    unsigned with = (tokens ? RUN_WITH_TOKENS : 0) | (batches ? RUN_WITH_BATCHES : 0) |
                    (p->energy ? RUN_WITH_ENERGY : 0) | (p->sessions ? RUN_WITH_SESSIONS : 0);
    enum st st = run_writer_open_with(art, with, &r->writer, e);
    if (st == ST_OK && plan->output.vidur_metrics)
        st = vidur_metrics_open(art, &r->vidur, e);
    if (st == ST_OK && plan->output.perfetto)
        st = batch_trace_open(art, &r->trace, e);
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

/* Closes one more file; keeps the first error. */
static void also(enum st *first, enum st st, struct err *e, const struct err *own)
{
    if (*first == ST_OK && st != ST_OK) {
        *first = st;
        *e = *own;
    }
}

enum st record_close(struct record *r, struct err *e)
{
    struct err own = {0};
    progress_end(&r->progress);
    enum st first = run_writer_close(&r->writer, e);
    also(&first, vidur_metrics_close(&r->vidur, &own), e, &own);
    also(&first, batch_trace_close(&r->trace, &own), e, &own);
    if (r->series && first == ST_OK)
        first = time_series_write(r->series, r->art, e);
    return first;
}

void record_measured(struct record *r, const struct time_series_power *p)
{
    if (r->series)
        time_series_power(r->series, p);
}

const struct backlog *record_backlog(const struct record *r)
{
    return &r->backlog;
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
    (void)batch_trace_close(&r->trace, &ignored);
    summary_free(&r->summary);
    time_series_free(&r->series);
    mem_free(r);
    *pr = NULL;
}
