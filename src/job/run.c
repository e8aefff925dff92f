#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "job/counters.h"
#include "job/goodput.h"
#include "job/job.h"
#include "job/power.h"
#include "job/record.h"
#include "model/random.h"

/* ---- requests from the workload ---- */

struct workload_feed {
    const struct job_workload *w;
    int32_t **ids; /* [n]: prompt ids of each request; NULL unless an engine computes */
    size_t next;
};

static enum st feed_next(void *self, struct workload_request *out, struct err *e)
{
    struct workload_feed *f = self;
    if (f->w->stream)
        return workload_stream_next(f->w->stream, out, e);
    if (f->next == f->w->w.n)
        return ST_END;
    *out = f->w->w.requests[f->next++];
    return ST_OK;
}

static enum st feed_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)e;
    struct workload_feed *f = self;
    memcpy(ids, f->ids[r->row], (size_t)r->num_prefill_tokens * sizeof *ids);
    return ST_OK;
}

enum st job_prompt_ids(const struct job_context *c, const struct job_model *m,
                       const struct job_workload *w, int32_t ***ids, struct err *e)
{
    struct arena *a = c->a;
    uint64_t seed = job_prompts_seed(c->plan);
    const char **texts;
    TRY(workload_texts(a, &w->w, w->prompts, w->n_prompts, &texts, e));
    *ids = arena_array(a, int32_t *, w->w.n);
    struct arena *scratch = arena_new();
    enum st st = ST_OK;
    for (size_t i = 0; i < w->w.n && st == ST_OK; i++) {
        const struct workload_request *r = &w->w.requests[i];
        (*ids)[i] = arena_array(a, int32_t, r->num_prefill_tokens);
        st = workload_prompt_ids(scratch, r, w->tokenizer ? texts[i] : NULL, w->tokenizer,
                                 m->m.vocab, seed, (*ids)[i], e);
        arena_reset(scratch);
    }
    arena_free(&scratch);
    return st;
}

/* ---- the run ---- */

enum { REFERENCE_SAMPLES = 15 };

/* Warns of failed requests: the run is complete, but its figures exclude them. */
static void tell_not_ok(const struct summary_facts *f)
{
    if (f->n_not_ok > 0)
        log_warn("%lld of %lld requests did not end well; the first is request %lld: %s",
                 (long long)f->n_not_ok, (long long)f->n_all, (long long)f->bad_id, f->bad_text);
}

static void tell_contention(const struct contention *c)
{
    if (contention_share(c) > CONTENTION_TOO_MUCH)
        log_warn(
            "the machine was busy with something else: for %.0f %% of the time this run needed "
            "a core, it had none",
            100 * contention_share(c));
}

static void note(struct arena *a, struct node *extra, const char *text)
{
    struct node *notes = node_find(extra, "notes");
    if (!notes) {
        notes = node_new(a, NODE_LIST);
        node_set(a, extra, SV("notes"), notes);
    }
    node_push(a, notes, node_str(a, text));
}

/* Logs a remark and adds it to the notes of the result. */
static void say(struct arena *a, struct node *extra, const char *text)
{
    log_warn("%s", text);
    note(a, extra, text);
}

static void tell_backlog(struct arena *a, const struct record *rec, const struct serve_counters *n,
                         struct node *extra)
{
    const struct backlog_trend t = backlog_trend(record_backlog(rec));
    if (!t.grew || n->follows)
        return;
    say(a, extra, backlog_words(a, &t));
    node_set(a, extra, SV("saturated"), node_bool(a, true));
}

static void tell_what_happened(struct arena *a, const struct job_run *r, const struct model *m,
                               const struct serve_params *p, const struct serve_counters *n,
                               struct node *extra)
{
    const char *too_long = r->executors ? job_setup_too_long(a, m, p->max_model_len) : NULL;
    if (too_long)
        say(a, extra, too_long);
    int64_t outside = r->bundle ? bundle_extrapolations(r->bundle) : 0;
    if (p->prefix_caching && n->prefix_hit_tokens == 0)
        say(a, extra,
            "scheduler.prefix_caching is on and no request found its prompt's beginning in the "
            "cache: the workload has no prompts or hash_ids that begin alike, or the cache is too "
            "small for them");
    if (outside > 0)
        say(a, extra,
            arena_printf(a,
                         "%lld of %lld look-ups fell outside the profiled grid and were "
                         "extrapolated",
                         (long long)outside, (long long)bundle_lookups(r->bundle)));
}

/* Comes first: the figures below exclude these requests. */
static void add_not_ok(struct buf *out, const struct summary_facts *f)
{
    const char *before = "";
    if (f->n_not_ok == 0)
        return;
    buf_printf(out, "%lld of %lld requests did not end well (", (long long)f->n_not_ok,
               (long long)(f->n_requests + f->n_not_ok));
    for (int i = 0; i < RUN_STATUSES; i++)
        if (i != RUN_OK && f->n_status[i] > 0) {
            buf_printf(out, "%s%lld %s", before, (long long)f->n_status[i],
                       run_status_name((enum run_status)i));
            before = ", ";
        }
    if (f->n_requests > 0)
        buf_printf(out, "): the figures are of the other %lld\n", (long long)f->n_requests);
    else
        buf_puts(out, ")\n");
}

static void print_result(struct job_context *c, const char *dir, const struct job_setup *setup,
                         const struct run_counters *counters, struct summary *s,
                         const struct node *more)
{
    struct node *out = run_result_node(c->a, counters, dir, s);
    const struct summary_facts f = summary_facts(s);
    for (uint32_t i = 0; i < more->n; i++)
        node_set(c->a, out, more->pairs[i].key, more->pairs[i].value);
    struct buf text = {0};
    add_not_ok(&text, &f);
    buf_printf(&text, "%-24s %s\n", "setup", job_setup_words(c->a, setup));
    job_lines(&text, out);
    node_set(c->a, out, SV("setup"), job_setup_node(c->a, setup));
    job_result(c, out, buf_str(&text));
    buf_free(&text);
    tell_not_ok(&f);
}

static struct node *describe(const struct job_context *c, const struct job_workload *w,
                             const struct job_run *r, struct node *extra,
                             const struct run_counters *counters, const struct contention *busy)
{
    struct arena *a = c->a;
    struct node *energy = run_counters_energy(c, r, counters);
    node_set(a, extra, SV("workload_dir"),
             w->w.dir ? node_str(a, w->w.dir) : node_new(a, NODE_NULL));
    if (w->w.concurrency)
        node_set(a, extra, SV("concurrency"), concurrency_node(a, w->w.concurrency));
    node_set(a, extra, SV("counters"), run_counters_node(a, counters));
    if (energy)
        node_set(a, extra, SV("energy"), energy);
    if (!r->clock->is_virtual)
        node_set(a, extra, SV("contention"), fields_node(a, &contention_fields, busy));
    struct node *speed = r->reference ? reference_node(a, r->reference) : NULL;
    if (speed)
        node_set(a, extra, SV("yardstick"), speed);
    return extra;
}

/* Serves the workload into the open artifact; rec is closed, not freed. metered: instead of the
 * run's executor; NULL = that one. */
static enum st serve_into(const struct job_context *c, const struct artifact *art,
                          const struct job_run *r, const struct executor *metered,
                          const struct serve_params *params, struct workload_feed *feed,
                          struct record *rec, struct node *extra, struct serve_counters *counters,
                          struct job_power *power, struct err *e)
{
    struct request_source source = {feed, feed_next, feed->ids ? feed_ids : NULL, NULL};
    struct serve_sink sink = record_sink(rec);
    struct err close_err = {0};
    int64_t begin_ns = clock_mono_ns();
    job_power_begin(power);
    enum st st = r->executors ? serve_run(params, r->clock, metered ? metered : r->executors,
                                          &source, &sink, &job_stop, counters, e)
                              : r->serve(r->self, &sink, counters, extra, e);
    job_power_end(power);
    if (st == ST_OK && power->on) {
        st = job_power_stop(c, power, art, e);
        record_measured(rec,
                        &(struct time_series_power){.mean_w = job_power_mean_w, .self = power});
    }
    enum st close_st = record_close(rec, &close_err);
    log_debug("the loop took %.3f s", ns_to_s(clock_mono_ns() - begin_ns));
    if (st != ST_OK || close_st == ST_OK)
        return st;
    *e = close_err;
    return close_st;
}

enum st job_run(struct job_context *c, const struct job_model *m, const struct job_workload *w,
                const struct job_run *r, struct err *e)
{
    const struct plan *p = c->plan;
    struct arena *a = c->a;
    struct serve_params params = {.replicas = 1};
    struct workload_feed feed = {.w = w};
    struct slo good;
    const char *good_text;
    TRY(job_goodput(c, &good, &good_text, e));
    if (r->executors) {
        params = *r->params;
        params.concurrency = w->w.concurrency;
        bool computes = r->executors->ops->caps & EXEC_COMPUTES;
        if (computes || (params.prefix_caching && w->tokenizer))
            TRY(job_prompt_ids(c, m, w, &feed.ids, e));
    }

    job_catch_signals(); /* from here on an interrupted run leaves an incomplete folder */
    struct artifact art;
    struct job_power power = {0};
    struct job_energy drawn = {0};
    struct job_metered meter;
    struct executor metered = {0};
    const char *id, *dir = job_out_dir(c, r->kind, &id);
    TRY(artifact_begin(a, dir, "run_meta.json", &art, e));
    if (!r->clock->is_virtual &&
        job_power_open(c, r->executors ? JOB_POWER_OWN : JOB_POWER_SERVER, &power, e) != ST_OK) {
        artifact_discard(&art);
        return e->st;
    }
    if (power.on && r->executors)
        metered = job_power_metered(&power, *r->executors, &meter);
    const struct record_params rp = {
        .plan = p,
        .serve = &params,
        .backend = r->backend,
        .what = strcmp(r->type, "real") == 0 ? "bench" : "simulate",
        .total = w->stream ? workload_stream_total(w->stream) : (int64_t)w->w.n,
        .energy = (r->bundle && bundle_has_energy(r->bundle)) || (power.on && r->executors),
        .power = {.idle_w = r->predictor ? r->predictor->idle_w : 0,
                  .stages = r->predictor ? r->predictor->stages : 1},
        .sessions =
            w->stream ? workload_stream_has_sessions(w->stream) : workload_has_sessions(&w->w),
    };
    struct record *rec = NULL;
    struct serve_counters counters = {0};
    const struct run_counters *counted = NULL;
    struct node *extra = node_new(a, NODE_MAP);
    const struct job_setup setup = r->setup ? *r->setup : job_setup_outside(c, m->m.name);
    node_set(a, extra, SV("setup"), job_setup_node(a, &setup));
    for (uint32_t i = 0; r->extra && i < r->extra->n; i++)
        node_set(a, extra, r->extra->pairs[i].key, r->extra->pairs[i].value);
    double setup_s = ns_to_s(clock_cpu_ns());
    enum st st = record_open(&art, &rp, &rec, e);
    if (st == ST_OK && good_text)
        summary_limit(record_summary(rec), &(struct summary_limits){good.limit_s[SLO_TTFT] * 1e9,
                                                                    good.limit_s[SLO_TPOT] * 1e9,
                                                                    good.limit_s[SLO_E2EL] * 1e9});
    if (st == ST_OK && r->reference)
        st = reference_measure(r->reference, REFERENCE_SAMPLES, e);
    const struct contention_mark quiet = contention_mark();
    if (st == ST_OK)
        st = serve_into(c, &art, r, power.on && r->executors ? &metered : NULL, &params, &feed, rec,
                        extra, &counters, &power, e);
    struct contention busy = contention_since(&quiet);
    if (!r->executors) /* an external engine's threads are not ours; ours mostly sleep */
        busy.waiting = (double)NAN;
    if (st == ST_OK && r->reference)
        st = reference_measure(r->reference, REFERENCE_SAMPLES, e);
    if (st == ST_INTERRUPTED || (st != ST_OK && r->serve && counters.requests > 0)) {
        const char *why = st == ST_INTERRUPTED ? "interrupted by a signal" : err_cause(e, 0);
        struct err ignored = {0};
        bool kept = artifact_abandon(&art, why, &ignored) == ST_OK;
        if (kept && st != ST_INTERRUPTED)
            err_add(e, "what was measured so far is kept in %s, incomplete", dir);
        else if (kept)
            err_hint(e, "%s holds what was measured; it is incomplete and no stage accepts it",
                     dir);
    }
    struct node *shown = node_new(a, NODE_MAP);
    if (r->uncalibrated)
        node_set(a, shown, SV("prediction"), node_str(a, r->uncalibrated));
    if (st == ST_OK && power.on) {
        drawn = job_power_energy(c, &power);
        node_set(a, extra, SV("power"), job_power_node(c, &power));
        if (drawn.why)
            say(a, extra, arena_printf(a, "the energy of the run is unknown: %s", drawn.why));
    }
    if (st == ST_OK && w->note)
        note(a, extra, w->note);
    if (st == ST_OK) {
        tell_what_happened(a, r, &m->m, &params, &counters, extra);
        tell_backlog(a, rec, &counters, extra);
    }
    if (st == ST_OK && r->more)
        st = r->more(r->more_self, &art, extra, shown, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK) {
        struct run_meta meta = job_meta(c, &art, id, r->type);
        meta.model = m->m.name;
        counted = run_counters_of(c, r, &counters, setup_s, power.on ? &drawn : NULL);
        meta.extra = describe(c, w, r, extra, counted, &busy);
        if (m->weights_random)
            node_set(a, extra, SV("random_weights"), random_weights_node(a, m->weights_seed));
        st = artifact_commit(&art, run_meta_node(a, &meta), e);
    }
    if (st == ST_OK && !r->clock->is_virtual)
        tell_contention(&busy);
    if (st == ST_OK && c->json && node_find(extra, "notes")) /* otherwise they were printed */
        node_set(a, shown, SV("notes"), node_find(extra, "notes"));
    if (st == ST_OK)
        print_result(c, dir, &setup, counted, record_summary(rec), shown);
    if (st == ST_OK) {
        const struct summary_facts facts = summary_facts(record_summary(rec));
        st = metrics_measured(facts.n_requests, facts.n_not_ok, facts.n_warmup, e);
        if (st == ST_OK)
            st = job_power_alone(&power, e);
    } else {
        artifact_discard(&art); /* nothing is left of it after commit or abandon */
    }
    record_free(&rec);
    job_power_close(&power);
    return st;
}
