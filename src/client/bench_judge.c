/* Verdict and warnings on a run against a server. */
#include <math.h>

#include "base/log.h"
#include "client/bench.h"
#include "client/headers.h"
#include "client/proxy.h"
#include "metrics/metrics.h"

/* Reason why the lengths of the answers invalidate the run; NULL = none. */
static const char *wrong_lengths(const struct client_bench *b)
{
    const double limit = b->p.max_wrong_lengths;
    const bool early = b->p.may_end_early;
    const struct outcome_figures *f = &b->figures;
    if (!(outcomes_wrong_lengths(f, early) > limit))
        return NULL;
    return arena_printf(b->a,
                        "of %lld answers %lld have fewer output tokens than were asked for and "
                        "%lld have more; the limit is %g %%",
                        (long long)f->completed, (long long)(early ? 0 : f->lengths[LENGTH_SHORT]),
                        (long long)f->lengths[LENGTH_LONG], 100 * limit);
}

/* The same of the prompts. Longer ones only: some servers leave what they had cached out of the
 * count. */
static const char *wrong_prompts(const struct client_bench *b)
{
    const struct outcome_figures *f = &b->figures;
    if (!((double)f->prompts[LENGTH_LONG] > b->p.max_wrong_lengths * (double)f->completed))
        return NULL;
    return arena_printf(b->a,
                        "of %lld prompts %lld have more tokens by the server's count than were "
                        "planned (%lld of %lld in all); the limit is %g %%",
                        (long long)f->completed, (long long)f->prompts[LENGTH_LONG],
                        (long long)f->input_tokens, (long long)f->planned_input_tokens,
                        100 * b->p.max_wrong_lengths);
}

static struct node *lengths_node(const struct client_bench *b, const int64_t *lengths,
                                 const char *why)
{
    struct arena *a = b->a;
    struct node *m = node_new(a, NODE_MAP);
    for (int i = 0; i < LENGTHS; i++)
        node_set(a, m, sv_of(length_name((enum length)i)), node_int(a, lengths[i]));
    node_set(a, m, SV("limit"), node_float(a, b->p.max_wrong_lengths));
    node_set(a, m, SV("verdict"), node_str(a, why ? "rejected" : "ok"));
    node_set(a, m, SV("why"), node_str_or_null(a, why));
    return m;
}

static struct node *http_node(const struct client_bench *b)
{
    struct arena *a = b->a;
    struct node *m = node_new(a, NODE_MAP), *sent = node_new(a, NODE_MAP);
    node_set(a, m, SV("url"), node_str(a, b->p.client.url));
    node_set(a, m, SV("served_model"), node_str(a, b->p.body.model));
    node_set(a, m, SV("headers"), b->p.shown_headers);
    node_set(a, sent, SV("limit"), node_str(a, body_limit_name(body_limit(&b->p.body))));
    node_set(a, sent, SV("ignore_eos"), node_bool(a, b->p.body.ignore_eos));
    node_set(a, sent, SV("usage"), node_bool(a, b->p.body.count != BODY_COUNT_TOKENIZER));
    node_set(a, sent, SV("temperature"),
             isnan(b->p.body.temperature) ? node_new(a, NODE_NULL)
                                          : node_float(a, b->p.body.temperature));
    node_set(a, m, SV("sent"), sent);
    node_set(a, m, SV("prompts"), node_str(a, b->p.as_ids ? "ids" : "text"));
    node_set(a, m, SV("proxy"), node_new(a, NODE_NULL)); /* none is ever used */
    node_set(a, m, SV("proxy_not_used"),
             node_str_or_null(a, proxy_of_environment(b->p.client.url)));
    node_set(a, m, SV("preflight"), node_bool(a, b->preflight.asked));
    return m;
}

void client_bench_meta(const struct client_bench *b, struct node *extra)
{
    struct arena *a = b->a;
    node_set(a, extra, SV("http"), http_node(b));
    /* What the client waits is not the run's: mostly asleep, it waits a large share of the little
     * that it runs. Its schedule delay shows whether that mattered. What the machine lacked is,
     * where the server runs on it too. */
    const struct contention machine = {(double)NAN, b->busy.stolen, b->busy.pressure};
    if (client_stays_here(b->p.client.url))
        node_set(a, extra, SV("contention"), fields_node(a, &contention_fields, &machine));
    struct node *client = client_health_node(a, &b->health);
    node_set(a, client, SV("contention"), fields_node(a, &contention_fields, &b->busy));
    node_set(a, extra, SV("client"), client);
    node_set(a, extra, SV("output_lengths"), lengths_node(b, b->figures.lengths, wrong_lengths(b)));
    node_set(a, extra, SV("prompt_lengths"), lengths_node(b, b->figures.prompts, wrong_prompts(b)));
}

static void tell_failures(const struct client_bench *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct client_result *r = &b->results[i];
        if (r->status == RUN_OK)
            continue;
        log_warn("%lld of %zu requests did not end well; the first is request %lld: %s: %s",
                 (long long)b->figures.failed, b->n, (long long)b->p.w->requests[i].request_id,
                 r->error_type, r->error_msg);
        return;
    }
}

static void warn_of_answers(const struct client_bench *b)
{
    const struct outcome_figures *f = &b->figures;
    const double wrong = outcomes_wrong_lengths(f, b->p.may_end_early);
    const double duration_s = b->p.client.duration_s;
    if (wrong > 0 && !wrong_lengths(b))
        log_warn("%.3g %% of the answers have another number of output tokens than was asked for",
                 100 * wrong);
    if (f->prompts[LENGTH_SHORT] + f->prompts[LENGTH_LONG] > 0 && !wrong_prompts(b))
        log_warn(
            "by the server's count %lld prompts are shorter and %lld longer than planned: %lld "
            "tokens instead of %lld in all",
            (long long)f->prompts[LENGTH_SHORT], (long long)f->prompts[LENGTH_LONG],
            (long long)f->input_tokens, (long long)f->planned_input_tokens);
    if (f->at_once > 0)
        log_warn("%lld of %lld answers came at once: they have no TPOT and meet any limit on it",
                 (long long)f->at_once, (long long)f->completed);
    if (duration_s > 0 && b->health.left_out == 0)
        log_warn("the workload has no requests for client.duration_s=%g: all were sent before",
                 duration_s);
}

void client_bench_tell(const struct client_bench *b)
{
    tell_failures(b);
    warn_of_answers(b);
}

/* Metrics that were required and went missing during the run. */
static enum st judge_scrape(const struct client_bench *b, struct err *e)
{
    const char *why = b->scrape.why ? b->scrape.why : b->server.why;
    if (b->p.metrics_mode != SCRAPE_REQUIRED || !why)
        return ST_OK;
    err_set(e, ST_REJECTED, "%s", why);
    return err_add(e, "client.server_metrics=required: the server's metrics are not of this run");
}

/* Checks for a late client first: it may be why no request succeeded. */
enum st client_bench_judge(const struct client_bench *b, struct err *e)
{
    const struct client_health *h = &b->health;
    const struct outcome_figures *f = &b->figures;
    if (!h->healthy) {
        err_set(e, ST_REJECTED,
                "the client did not keep its schedule: p99 of the delay is %.1f ms, the limit %.0f "
                "ms; %lld of %lld requests went out late",
                (double)h->delay_p99_ns / 1e6, CLIENT_MAX_DELAY_NS / 1e6, (long long)h->late,
                (long long)h->sent);
        return err_hint(e, "latencies of this run are the client's too: lower the rate, or give it "
                           "a core of its own");
    }
    TRY(metrics_measured(f->completed, f->failed, f->warmup, e));
    const char *why = wrong_prompts(b);
    if (why) {
        err_set(e, ST_REJECTED, "%s", why);
        err_add(e, "the server did not do the workload's work");
        return err_hint(e,
                        "client.prompts=ids sends the planned tokens; model= and model.tokenizer= "
                        "name what the server runs; client.max_wrong_lengths sets the limit");
    }
    why = wrong_lengths(b);
    if (!why)
        return judge_scrape(b, e);
    err_set(e, ST_REJECTED, "%s", why);
    err_add(e, "the server did not do the workload's work");
    if (f->lengths[LENGTH_LONG] == 0)
        return err_hint(e, "engine.ignore_eos=false lets answers end early; "
                           "client.max_wrong_lengths sets the limit");
    return err_hint(e, "client.max_tokens_name= says what the server calls its limit; "
                       "client.max_wrong_lengths sets the limit on wrong answers");
}
