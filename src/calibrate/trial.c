#include "calibrate/trial.h"

#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "sim/first_use.h"
#include "sim/sim.h"

/* ---- the wave -------------------------------------------------------------------------------- */

double trial_wave(double spread, uint64_t iteration)
{
    enum { HALF = TRIAL_WAVE / 2 };
    static double x[HALF]; /* up; down is the same backwards */
    static bool made;
    for (int i = 0; !made && i < HALF; i++)
        x[i] = rng_normal_at((i + 0.5) / HALF);
    made = true;
    uint64_t k = iteration % TRIAL_WAVE;
    return exp(spread * x[k < HALF ? k : TRIAL_WAVE - 1 - k] - spread * spread / 2);
}

/* ---- a predictor whose times are uneven -------------------------------------------------------
 */

struct uneven {
    struct predictor p;
    struct predictor_ops ops;
    double spread;
    uint64_t iteration;
    const double *ratio; /* [n]; n == 0: the wave */
    size_t n;
};

static enum st predict_uneven(void *self, const struct batch *b, struct stage_time *stages,
                              struct err *e)
{
    struct uneven *u = self;
    TRY(u->p.ops->predict(u->p.self, b, stages, e));
    const uint64_t k = u->iteration++;
    double factor = u->n ? u->ratio[k % u->n] : trial_wave(u->spread, k);
    for (int32_t i = 0; i < u->p.stages; i++) {
        stages[i].host_s *= factor;
        stages[i].launch_s *= factor;
        stages[i].cold_s *= factor;
        stages[i].answer_s *= factor;
        stages[i].device_s *= factor;
    }
    return ST_OK;
}

static struct predictor uneven_of(struct arena *a, const struct predictor *p, const struct trial *f,
                                  double spread)
{
    struct uneven *u = arena_one(a, struct uneven);
    *u = (struct uneven){
        .p = *p,
        .ops = *p->ops,
        .spread = spread,
        .iteration = f->n_ratios ? f->phase * f->n_ratios / TRIAL_WAVE : f->phase,
        .ratio = f->ratios,
        .n = f->n_ratios,
    };
    u->ops.predict = predict_uneven;
    return (struct predictor){.ops = &u->ops, .self = u, .stages = p->stages};
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct trial_serving {
    const struct workload *w;
    const int64_t *arrival_ns; /* NULL = those of w */
    int64_t warmup;
    size_t next;
    double *v[OBSERVED_METRICS];
    size_t n[OBSERVED_METRICS];
    double *first_tokens_s;      /* of struct trial */
    double busy_s, from_s, to_s; /* sum of E2E; the first arrival and the last completion */
    struct backlog waits;
    struct trial_result *out;
};

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct trial_serving *s = self;
    (void)e;
    if (s->next == s->w->n)
        return ST_END;
    *out = s->w->requests[s->next];
    if (s->arrival_ns) {
        out->arrival_ns = s->arrival_ns[s->next];
        out->arrival_s = ns_to_s(out->arrival_ns);
    }
    s->next++;
    return ST_OK;
}

static void take_row(void *self, const struct run_request *r)
{
    struct trial_serving *s = self;
    if (s->first_tokens_s)
        s->first_tokens_s[r->request_id] =
            r->status == RUN_OK ? ns_to_s(r->first_token_ns - r->arrival_ns) : (double)NAN;
    if (r->request_id < s->warmup)
        return;
    if (r->status != RUN_OK) {
        s->out->rejected++;
        return;
    }
    const double arrival = ns_to_s(r->arrival_ns), end = ns_to_s(r->completion_ns);
    const double ttft = ns_to_s(r->first_token_ns - r->arrival_ns), e2e = end - arrival;
    s->v[OBSERVED_TTFT][s->n[OBSERVED_TTFT]++] = ttft;
    s->v[OBSERVED_E2E][s->n[OBSERVED_E2E]++] = e2e;
    if (r->num_decode_tokens_actual > 1)
        s->v[OBSERVED_TPOT][s->n[OBSERVED_TPOT]++] =
            (e2e - ttft) / (double)(r->num_decode_tokens_actual - 1);
    backlog_add(&s->waits, r);
    s->out->completed++;
    s->busy_s += e2e;
    s->from_s = fmin(s->from_s, arrival);
    s->to_s = fmax(s->to_s, arrival);
}

static void finish(struct arena *a, struct trial_serving *s, const struct serve_counters *n,
                   bool caching)
{
    struct trial_result *out = s->out;
    for (int m = 0; m < OBSERVED_METRICS; m++)
        out->of[m] = observed_of(a, s->v[m], s->n[m]);
    out->preemptions = n->preemptions;
    out->saturated = !n->follows && backlog_trend(&s->waits).grew;
    out->running = s->to_s > s->from_s ? s->busy_s / (s->to_s - s->from_s) : (double)NAN;
    out->iteration_s = n->iterations ? n->busy_s / (double)n->iterations : (double)NAN;
    out->prefix_hit_rate = caching && n->prefix_looked_tokens
                               ? (double)n->prefix_hit_tokens / (double)n->prefix_looked_tokens
                               : (double)NAN;
}

enum st trial_run(struct arena *scratch, const struct trial *f, const struct observed_stage *stage,
                  const struct theta *t, struct trial_result *out, struct err *e)
{
    const struct iteration_params parameters = theta_iteration(t);
    const struct request_overheads o = theta_overheads(t);
    struct predictor_params params = f->params;
    struct serve_params serve = f->serve;
    struct predictor even;
    params.parameters = &parameters;
    params.host_overhead = true;
    params.launching = f->serve.launching;
    params.first_launch = f->first_launch;
    serve.overheads = (struct serve_overheads){.front_s = o.front_s,
                                               .first_token_s = o.first_token_s,
                                               .prompt_token_s = o.prompt_token_s,
                                               .completion_s = o.completion_s,
                                               .stream_s = o.stream_s};
    serve.emit_tokens = false;
    serve.concurrency = stage->w.concurrency;
    *out = (struct trial_result){.completed = 0};
    TRY(predictor_open(scratch, f->predictor, &params, &even, e));
    if (f->first_use_s > 0)
        even = predictor_first_use(scratch, &even, f->first_use_s, f->first_use_s);
    const struct predictor p = uneven_of(scratch, &even, f, theta_spread(t));
    struct trial_serving s = {
        .w = &stage->w, .warmup = stage->warmup, .from_s = INFINITY, .out = out};
    if (f->draw > 0 && stage->drawn_ns)
        s.arrival_ns = stage->drawn_ns + (size_t)(f->draw - 1) * stage->w.n;
    for (int m = 0; m < OBSERVED_METRICS; m++)
        s.v[m] = arena_array(scratch, double, stage->w.n);
    s.first_tokens_s = f->first_tokens_s;
    struct executor *ex = arena_array(scratch, struct executor, serve.replicas);
    for (int32_t i = 0; i < serve.replicas; i++)
        ex[i] = sim_executor(scratch, &p, serve.async);
    struct serve_clock clock = clock_virtual();
    const struct request_source source = {.self = &s, .next = next_request};
    const struct serve_sink sink = {.self = &s, .request = take_row};
    struct serve_counters n;
    TRY(serve_run(&serve, &clock, ex, &source, &sink, f->stop, &n, e));
    finish(scratch, &s, &n, serve.prefix_caching);
    if (out->completed > 0)
        return ST_OK;
    err_set(e, ST_INPUT, "no request of stage %s can be served with these settings", stage->name);
    return err_hint(e,
                    "a prompt and its answer have to fit max_model_len (scheduler.max_model_len) "
                    "and the KV cache");
}
