#include "search/probe_sim.h"

#include <math.h>
#include <string.h>

struct probe_sim {
    struct probe_sim_params p;
    struct arena *requests; /* memory of a seed */
    struct arena *run;      /* memory of one simulation */
    struct workload w;
    int32_t **ids; /* of w's prompts; NULL = unknown */
    uint64_t seed;
    bool made;
    double rate;
    size_t next;
    struct probe_samples samples;
};

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct probe_sim *s = self;
    if (s->next == s->w.n)
        return ST_END;
    *out = s->w.requests[s->next];
    out->request_id = (int64_t)s->next++; /* by arrival, as warm-up is counted */
    double ns = round((double)out->arrival_ns / s->rate);
    if (!(ns < 0x1p62))
        return err_set(e, ST_USAGE, "at %g requests/s the arrivals do not fit 64-bit nanoseconds",
                       s->rate);
    out->arrival_ns = (int64_t)ns;
    out->arrival_s = ns / 1e9;
    return ST_OK;
}

static enum st prompt_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    const struct probe_sim *s = self;
    (void)e;
    memcpy(ids, s->ids[r->row], (size_t)r->num_prefill_tokens * sizeof *ids);
    return ST_OK;
}

static void take_token(void *self, const struct run_token *t)
{
    const struct probe_sim *s = self;
    if (t->request_id >= s->p.serve->warmup_requests)
        summary_add_token(s->p.tokens, t);
}

static void take_row(void *self, const struct run_request *r)
{
    probe_samples_add(&((struct probe_sim *)self)->samples, r);
}

static enum st make_requests(struct probe_sim *s, uint64_t seed, struct err *e)
{
    if (s->made && s->seed == seed)
        return ST_OK;
    s->made = false;
    arena_reset(s->requests);
    s->ids = NULL;
    TRY(s->p.workload.make(s->p.workload.self, s->requests, seed, &s->w, &s->ids, e));
    s->made = true;
    s->seed = seed;
    return ST_OK;
}

static int64_t outside(const struct probe_sim *s)
{
    return s->p.bundle ? bundle_extrapolations(s->p.bundle) : 0;
}

static enum st run_probe(void *self, double rate, uint64_t seed, struct probe_result *out,
                         struct err *e)
{
    struct probe_sim *s = self;
    TRY(make_requests(s, seed, e));
    s->rate = rate;
    s->next = 0;
    probe_samples_begin(&s->samples, s->p.slo);
    struct serve_params serve = *s->p.serve;
    serve.emit_tokens = s->p.tokens != NULL;
    serve.seed = seed;
    struct executor *ex = arena_array(s->run, struct executor, serve.replicas);
    for (int32_t i = 0; i < serve.replicas; i++)
        ex[i] = sim_executor(s->run, s->p.predictor, serve_async_of(&serve));
    struct serve_clock clock = clock_virtual();
    struct request_source source = {
        .self = s, .next = next_request, .prompt_ids = s->ids ? prompt_ids : NULL};
    struct serve_sink sink = {
        .self = s, .request = take_row, .token = s->p.tokens ? take_token : NULL};
    struct serve_counters counters;
    int64_t before = outside(s);
    enum st st = serve_run(&serve, &clock, ex, &source, &sink, s->p.stop, &counters, e);
    arena_reset(s->run);
    TRY(st);
    probe_samples_sum(&s->samples, out);
    out->extrapolated = (double)(outside(s) - before);
    if (serve.prefix_caching)
        out->prefix_hit_rate =
            counters.prefix_looked_tokens > 0
                ? (double)counters.prefix_hit_tokens / (double)counters.prefix_looked_tokens
                : 0;
    if (counters.energy_j > 0) {
        double idle_j =
            predictor_idle_j(s->p.predictor, serve.replicas, counters.busy_s, counters.end_s);
        double counted = (double)s->samples.output_tokens / (double)counters.tokens;
        out->energy_j = (counters.energy_j + idle_j) * counted;
    }
    return ST_OK;
}

static const struct probe_ops sim_ops = {
    .name = "simulator",
    .help = "predicts how long each batch takes",
    .version = PROBE_VERSION,
    .run = run_probe,
    .may_flood = true,
};

struct rate_probe probe_sim_open(const struct probe_sim_params *params)
{
    struct probe_sim *s = mem_alloc(sizeof *s);
    *s = (struct probe_sim){.p = *params, .requests = arena_new(), .run = arena_new()};
    return (struct rate_probe){&sim_ops, s};
}

void probe_sim_close(struct rate_probe *p)
{
    struct probe_sim *s = p->self;
    if (!s)
        return;
    arena_free(&s->requests);
    arena_free(&s->run);
    probe_samples_free(&s->samples);
    mem_free(s);
    *p = (struct rate_probe){0};
}
