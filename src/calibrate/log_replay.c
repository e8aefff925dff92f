#include "calibrate/log_replay.h"

#include <math.h>

#include "sim/sim.h"

enum st logged_run_read(struct arena *a, const char *dir, const char *log,
                        const struct key_spans *spans, struct logged_run *out, struct err *e)
{
    TRY(run_load(a, dir, "real", &out->run, e));
    TRY(iteration_log_read(a, log, &out->log, e));
    TRY(iteration_match(a, &out->run, &out->log, spans, &out->match, e));
    TRY(iteration_times(a, &out->run, &out->match, &out->times, e));
    out->n_anchors = iteration_anchors(a, &out->run, &out->match, &out->anchors);
    const char *trace = iteration_trace_beside(a, dir);
    return trace ? iteration_trace_read(a, trace, &out->match, &out->device_s, &out->n_traced, e)
                 : ST_OK;
}

struct replayed replayed_new(struct arena *a, size_t n)
{
    return (struct replayed){.begin_s = arena_array(a, double, n),
                             .tokens_s = arena_array(a, double, n),
                             .launch_s = arena_array(a, double, n),
                             .wait_s = arena_array(a, double, n),
                             .device_s = arena_array(a, double, n)};
}

static struct batch batch_of(const struct matched_iteration *x, size_t i, double submit_s)
{
    return (struct batch){.iteration = (int64_t)i,
                          .submit_s = submit_s,
                          .n_chunks = (int32_t)x->is.chunks,
                          .n_decodes = (int32_t)x->is.load.seqs,
                          .prefill_tokens = x->is.load.tokens - x->is.load.seqs,
                          .decode_kv_tokens = x->is.load.kv_tokens - x->is.load.seqs,
                          .decode_kv_max = x->is.longest ? x->is.longest - 1 : 0,
                          .load = x->is.load};
}

static enum st launch(const struct executor *ex, const struct batch *b, struct completion *out,
                      struct err *e)
{
    uint64_t ticket;
    TRY(ex->ops->submit(ex->self, b, &ticket, e));
    return ex->ops->next(ex->self, INFINITY, out, e);
}

/* Waits for iteration i from now_s on; returns when its tokens were answered. */
static double take_tokens(const struct completion *c, size_t i, double now_s, struct replayed *out)
{
    const double look_s = fmax(now_s, c->end_s - c->answer_s);
    out->wait_s[i] = look_s - now_s;
    out->tokens_s[i] = look_s + c->answer_s;
    return out->tokens_s[i];
}

static enum st replay_busy(const struct executor *ex, const struct logged_run *r, size_t from,
                           size_t to, double now_s, bool ahead, struct replayed *out, struct err *e)
{
    struct completion before = {0}, c;
    for (size_t i = from; i < to; i++) {
        const struct batch b = batch_of(&r->match.of[i], i, now_s);
        out->begin_s[i] = now_s;
        TRY(launch(ex, &b, &c, e));
        out->device_s[i] = c.device_s;
        if (!ahead) {
            now_s = out->tokens_s[i] = c.end_s;
            out->wait_s[i] = out->launch_s[i] = (double)NAN;
            continue;
        }
        out->launch_s[i] = c.host_until_s - now_s;
        now_s = i > from ? take_tokens(&before, i - 1, c.host_until_s, out) : c.host_until_s;
        before = c;
    }
    if (ahead)
        take_tokens(&before, to - 1, now_s, out);
    return ST_OK;
}

static enum st check_server(const struct trial *f, const struct predictor *p, struct err *e)
{
    const struct serve_params *s = &f->serve;
    if (p->stages == 1 && f->params.ep <= f->params.tp && s->launching.mode != LAUNCHING_UNTOLD)
        return ST_OK;
    err_set(e, ST_USAGE,
            "an iteration log is fitted to the account of a host that launches, and the server of "
            "these settings has none: %s",
            p->stages > 1                 ? "pipeline stages"
            : f->params.ep > f->params.tp ? "groups of experts"
                                          : "nothing is known of how it launches batches");
    return err_hint(e, "scheduler.policy=vllm_0_33 with scheduler.async_scheduling=overlap knows "
                       "vLLM's; scheduler.cuda_graphs= says it for others");
}

enum st log_replay(struct arena *scratch, const struct trial *f, const struct logged_run *r,
                   const struct theta *t, const double *pace, struct replayed *out, struct err *e)
{
    struct iteration_params parameters = theta_iteration(t);
    struct predictor_params params = f->params;
    struct predictor p;
    const bool ahead = f->serve.async == ASYNC_OVERLAP;
    size_t from = 0;
    parameters.v[ITERATION_LAUNCH_SPREAD] = 0; /* its bouts are not those of the run */
    params.parameters = &parameters;
    params.host_overhead = true;
    params.host_pace = pace;
    params.launching = f->serve.launching;
    TRY(predictor_open(scratch, f->predictor, &params, &p, e));
    TRY(check_server(f, &p, e));
    for (size_t i = 1; i <= r->match.n; i++) {
        if (i < r->match.n && !r->match.of[i].idle_before)
            continue;
        const struct executor ex = sim_executor(scratch, &p, f->serve.async);
        TRY(replay_busy(&ex, r, from, i, 0, ahead, out, e));
        from = i;
    }
    return ST_OK;
}
