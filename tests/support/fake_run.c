#include "support/fake_run.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/vec.h"
#include "metrics/time_series.h"

struct live {
    struct run_request r;
    int64_t done;
    double last_token_s;
};

struct loop {
    const struct fake_run *p;
    struct run_writer *w;
    struct time_series *series; /* NULL = none */
    struct live *requests;
    VEC(size_t) running;
    size_t next, finished;
    int64_t iteration;
    double now_s;
    struct rng jitter;
};

struct fake_run fake_run_default(const char *type)
{
    return (struct fake_run){.type = type,
                             .n = 160,
                             .workload_seed = 1,
                             .jitter_seed = strcmp(type, "real") == 0 ? 2 : 3,
                             .rate = 24,
                             .host_s = 0.3e-3,
                             .base_s = 3e-3,
                             .prefill_token_s = 40e-6,
                             .sequence_s = 0.25e-3,
                             .jitter = 0.02,
                             .max_prefills = 2,
                             .batch_cap = 16};
}

static struct live *make_requests(struct arena *a, const struct fake_run *p)
{
    struct rng arrivals = rng_stream(p->workload_seed, "arrivals");
    struct rng lengths = rng_stream(p->workload_seed, "lengths");
    struct live *all = arena_array(a, struct live, p->n);
    double at_s = 0;
    for (size_t i = 0; i < p->n; i++) {
        at_s += rng_exponential(&arrivals) / p->rate;
        int64_t decode = 8 + (int64_t)rng_below(&lengths, 40);
        int64_t prefill = 32 + (int64_t)rng_below(&lengths, 200);
        bool failed = i + p->n_failed >= p->n;
        bool stops = p->stop_every && i % p->stop_every == p->stop_every - 1;
        all[i].r = (struct run_request){.request_id = (int64_t)i,
                                        .prompt_id = p->prompt_id,
                                        .arrival_ns = ns_from_s(at_s),
                                        .sent_ns = ns_from_s(at_s),
                                        .scheduled_ns = RUN_NONE,
                                        .first_token_ns = RUN_NONE,
                                        .completion_ns = RUN_NONE,
                                        .num_prefill_tokens = prefill,
                                        .num_decode_tokens = decode,
                                        .num_decode_tokens_actual = stops ? decode / 2 : decode,
                                        .status = failed ? RUN_TIMEOUT : RUN_OK,
                                        .warmup = i < p->n_warmup};
        if (failed) {
            all[i].r.num_decode_tokens_actual = 0;
            all[i].r.error_type = p->error_message ? "http_503" : NULL;
            all[i].r.error_msg = p->error_message;
        }
    }
    return all;
}

static void emit(struct loop *l, struct live *q, double end_s)
{
    int64_t end_ns = ns_from_s(end_s);
    int64_t gap_ns = q->done ? end_ns - ns_from_s(q->last_token_s) : 0;
    if (!l->p->no_tokens)
        run_write_token(l->w, &(struct run_token){.request_id = q->r.request_id,
                                                  .token_index = q->done,
                                                  .token_time_ns = end_ns,
                                                  .token_latency_ns = gap_ns,
                                                  .token_id = RUN_NONE});
    if (q->done++ == 0)
        q->r.first_token_ns = end_ns;
    q->last_token_s = end_s;
}

static void finish(struct loop *l, struct live *q, double end_s)
{
    q->r.completion_ns = ns_from_s(end_s);
    run_write_request(l->w, &q->r);
    l->finished++;
}

static bool waits(const struct loop *l)
{
    return l->next < l->p->n && (double)l->requests[l->next].r.arrival_ns / 1e9 <= l->now_s;
}

/* Failed requests never get into a batch. */
static void skip_failed(struct loop *l)
{
    while (l->next < l->p->n && l->requests[l->next].r.status != RUN_OK) {
        run_write_request(l->w, &l->requests[l->next++].r);
        l->finished++;
    }
}

/* The batch as a replica of many tells it; queue and blocks are made up from the running ones. */
static void add_to_series(struct loop *l, const struct run_batch *row, double end_s)
{
    for (int32_t i = 0; i < l->p->series_replicas; i++) {
        const struct batch b = {.replica = i,
                                .n_decodes = (int32_t)row->num_decode_tokens,
                                .n_chunks = (int32_t)(row->batch_size - row->num_decode_tokens),
                                .prefill_tokens = row->num_prefill_tokens,
                                .kv_blocks = 9 * (row->batch_size + i)};
        const struct completion c = {.energy_j = 0.3 * (end_s - l->now_s) * (1 + i)};
        time_series_add(l->series, &(struct serve_iteration){.b = &b,
                                                             .c = &c,
                                                             .start_s = l->now_s,
                                                             .end_s = end_s,
                                                             .waiting = row->batch_size / 3,
                                                             .running = row->batch_size + i});
    }
}

static void step(struct loop *l)
{
    const struct fake_run *p = l->p;
    size_t n_decode = l->running.n, n_prefill = 0;
    int64_t prefill_tokens = 0;
    skip_failed(l);
    if (n_decode == 0 && !waits(l) && l->next < p->n)
        l->now_s = (double)l->requests[l->next].r.arrival_ns / 1e9;
    for (; n_prefill < p->max_prefills && l->running.n < p->batch_cap && waits(l); n_prefill++) {
        struct live *q = &l->requests[l->next];
        q->r.scheduled_ns = ns_from_s(l->now_s);
        prefill_tokens += q->r.num_prefill_tokens;
        vec_push(&l->running, l->next++);
        skip_failed(l);
    }
    double factor = 1 + p->jitter * (2 * rng_unit(&l->jitter) - 1);
    double device_s = factor * (p->base_s + p->prefill_token_s * (double)prefill_tokens +
                                p->sequence_s * (double)n_decode);
    double end_s = l->now_s + p->host_s + device_s;
    struct run_batch b = {.iteration = l->iteration++,
                          .start_ns = ns_from_s(l->now_s),
                          .duration_ns = ns_from_s(end_s) - ns_from_s(l->now_s),
                          .host_ns = ns_from_s(p->host_s),
                          .device_ns = ns_from_s(device_s),
                          .num_prefill_tokens = prefill_tokens,
                          .num_decode_tokens = (int64_t)n_decode,
                          .batch_size = (int64_t)l->running.n};
    if (!p->no_batches)
        run_write_batch(l->w, &b);
    if (l->series)
        add_to_series(l, &b, end_s);
    size_t kept = 0;
    for (size_t i = 0; i < l->running.n; i++) {
        struct live *q = &l->requests[l->running.p[i]];
        emit(l, q, end_s);
        if (q->done == q->r.num_decode_tokens_actual)
            finish(l, q, end_s);
        else
            l->running.p[kept++] = l->running.p[i];
    }
    l->running.n = kept;
    l->now_s = end_s;
}

/* As bench engine=openai leaves them (src/client/bench_json.c). */
static void set_http(struct arena *a, struct node *meta, const struct fake_run *p)
{
    static const struct {
        const char *key;
        double v;
    } doubles[] = {{"schedule_delay_p50_ms", 0.21},
                   {"schedule_delay_p99_ms", 12.5},
                   {"schedule_delay_max_ms", 31},
                   {"limit_ms", 10},
                   {"wall_s", 8},
                   {"cpu_s", 0.4},
                   {"cpu_fraction", 0.05}};
    struct node *http = node_set(a, meta, SV("http"), node_new(a, NODE_MAP));
    struct node *client = node_set(a, meta, SV("client"), node_new(a, NODE_MAP));
    node_set(a, http, SV("url"), node_str(a, p->url));
    node_set(a, http, SV("served_model"), node_str(a, "served"));
    node_set(a, client, SV("sent"), node_int(a, (int64_t)p->n));
    node_set(a, client, SV("late"), node_int(a, 7));
    for (size_t i = 0; i < 5; i++) {
        static const char *const zero[] = {"dropped", "held", "retried", "connections",
                                           "peak_concurrency"};
        node_set(a, client, sv_of(zero[i]), node_int(a, 0));
    }
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        node_set(a, client, sv_of(doubles[i].key), node_float(a, doubles[i].v));
    node_set(a, client, SV("verdict"), node_str(a, "rejected"));
}

enum st fake_run_write_to(struct arena *a, const char *dir, const struct fake_run *p, struct err *e)
{
    struct artifact art;
    struct loop l = {.p = p, .jitter = rng_stream(p->jitter_seed, "jitter")};
    TRY(artifact_begin(a, dir, "run_meta.json", &art, e));
    TRY(run_writer_open(&art, !p->no_tokens, !p->no_batches, &l.w, e));
    l.requests = make_requests(a, p);
    if (p->series_replicas)
        l.series = time_series_new(p->series_replicas);
    skip_failed(&l);
    while (l.finished < p->n)
        step(&l);
    TRY(run_writer_close(&l.w, e));
    if (l.series)
        TRY(time_series_write(l.series, &art, e));
    time_series_free(&l.series);
    vec_free(&l.running);
    struct node *meta = node_new(a, NODE_MAP), *hardware = node_new(a, NODE_MAP);
    struct node *counters = node_new(a, NODE_MAP), *params = node_new(a, NODE_MAP);
    node_set(a, hardware, SV("hardware_id"), node_str(a, "cpu"));
    node_set(a, hardware, SV("device"), node_str(a, "cpu"));
    node_set(a, counters, SV("iterations"), node_int(a, l.iteration));
    node_set(a, counters, SV("kv_blocks"), node_int(a, 200));
    node_set(a, counters, SV("kv_blocks_peak"), node_int(a, 150));
    node_set(a, params, SV("seed"), node_int(a, (int64_t)p->workload_seed));
    node_set(a, meta, SV("run_id"), node_str(a, p->run_id ? p->run_id : "r"));
    node_set(a, meta, SV("run_type"), node_str(a, p->type));
    node_set(a, meta, SV("model"), node_str(a, p->model ? p->model : "tiny"));
    node_set(a, meta, SV("started_at"), node_str(a, "2026-01-02T03:04:05.000Z"));
    node_set(a, meta, SV("hardware"), hardware);
    if (p->extrapolated) {
        node_set(a, counters, SV("lookups"), node_int(a, 1000));
        node_set(a, counters, SV("extrapolated_lookups"), node_int(a, p->extrapolated));
    }
    if (p->kv_tokens) {
        struct node *setup = node_new(a, NODE_MAP);
        node_set(a, setup, SV("kv_tokens"), node_int(a, p->kv_tokens));
        node_set(a, meta, SV("setup"), setup);
    }
    node_set(a, meta, SV("counters"), counters);
    node_set(a, meta, SV("params"), params);
    const struct contention busy = {p->waiting, 0, p->pressure};
    node_set(a, meta, sv_of(strcmp(p->type, "real") == 0 ? "contention" : "profile_contention"),
             fields_node(a, &contention_fields, &busy));
    if (p->reference > 0) {
        struct node *map = node_new(a, NODE_MAP), *row = node_new(a, NODE_MAP);
        node_set(a, row, SV("median_s"), node_float(a, p->reference));
        node_set(a, map, SV("decode_1x128"), row);
        node_set(a, meta, sv_of(strcmp(p->type, "real") == 0 ? "yardstick" : "profile_yardstick"),
                 map);
    }
    if (p->url)
        set_http(a, meta, p);
    return artifact_commit(&art, meta, e);
}

const char *fake_run_write(struct test *t, const char *name, const struct fake_run *p)
{
    const char *dir = test_path(t, name);
    assert_ok(fake_run_write_to(t->a, dir, p, &t->e), t);
    return dir;
}
