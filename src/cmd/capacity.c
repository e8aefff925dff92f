#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "config/override.h"
#include "job/capacity_start.h"
#include "job/lengths.h"
#include "job/probe_engine.h"
#include "search/capacity_result.h"
#include "search/launch.h"
#include "text/json.h"
#include "text/table.h"
#include "text/words.h"

/* One job per seed: bisect (rate 0), or probe that rate. */
struct seeds_job {
    struct arena *a;
    const struct rate_probe *probe;
    const struct capacity_params *params;
    double rate;
    const struct capacity_seed *near; /* rates to begin at, by seed; NULL = params' */
    struct capacity_seed *seeds;
    struct capacity_probe *probes;
    struct progress progress;
    int64_t done;
};

static enum st run_seed(void *self, size_t i, struct buf *out, struct err *e)
{
    struct seeds_job *j = self;
    struct arena *a = arena_new();
    uint64_t seed = j->params->seed + i;
    struct node *n = NULL;
    enum st st;
    if (j->rate > 0) {
        struct capacity_probe p = {.rate = j->rate, .seed = seed};
        st = j->probe->ops->run(j->probe->self, j->rate, seed, &p.r, e);
        p.holds = st == ST_OK && capacity_holds(&j->params->slo, &p.r);
        n = fields_node(a, &capacity_probe_fields, &p);
    } else {
        struct capacity_params params = *j->params;
        struct capacity_seed s;
        if (j->near)
            params.start_rate = j->near[i].low;
        st = capacity_bisect(a, &params, j->probe, seed, &s, e);
        n = st == ST_OK ? fields_node(a, &capacity_seed_fields, &s) : NULL;
    }
    if (st == ST_OK)
        json_write(out, n, 0, true);
    arena_free(&a);
    return st;
}

static enum st take_seed(void *self, size_t i, struct sv bytes, struct err *e)
{
    struct seeds_job *j = self;
    struct node *n;
    TRY(json_parse(j->a, "a worker's result", bytes, NULL, &n, e));
    progress_at(&j->progress, ++j->done, NULL);
    return j->rate > 0 ? fields_read(j->a, &capacity_probe_fields, n, &j->probes[i], e)
                       : fields_read(j->a, &capacity_seed_fields, n, &j->seeds[i], e);
}

static enum st over_seeds(struct seeds_job *j, const char *what, int64_t workers, struct err *e)
{
    struct launch_work work = {.self = j,
                               .n = (size_t)j->params->seeds,
                               .workers = workers,
                               .job = run_seed,
                               .done = take_seed,
                               .stop = &job_stop};
    j->done = 0;
    progress_begin(&j->progress, what, "seeds", j->params->seeds);
    enum st st = launch_fork.run(&work, e);
    progress_end(&j->progress);
    return st;
}

/* The system under test: the simulator, or a real engine. */
struct asked {
    struct rate_probe probe;
    struct capacity_params params;
    int64_t workers; /* seeds in parallel */
    /* The same system under a workload of so many times the requests; NULL = it has one length. */
    enum st (*lengthen)(void *self, int64_t times, struct rate_probe *out, struct err *e);
    void *self;
    int64_t long_run; /* at most so many times */
    struct job_setup setup;
    const char *warnings[6];
    size_t n_warnings;
    struct node *extra; /* of run_meta.json */
};

/* The capacity of longer and longer workloads, until it no longer changes. */
static enum st go_on(struct job_context *c, const struct asked *q, struct capacity_result *r,
                     struct err *e)
{
    struct capacity_params params = r->params;
    struct capacity last = r->sum;
    const double requests = r->seeds[0].probes[0].r.requests;
    const struct capacity_seed *near = r->seeds;
    params.step = LONG_RUN_BRACKET;
    for (int64_t times = LONG_RUN_STEP; times <= q->long_run && !r->long_run.settled;
         times *= LONG_RUN_STEP) {
        struct rate_probe probe;
        struct capacity sum;
        struct capacity_seed *seeds = arena_array(c->a, struct capacity_seed, r->n_seeds);
        struct seeds_job j = {
            .a = c->a, .probe = &probe, .params = &params, .near = near, .seeds = seeds};
        TRY(q->lengthen(q->self, times, &probe, e));
        TRY(over_seeds(&j, "capacity in the long run", q->workers, e));
        capacity_sum(&params, seeds, r->n_seeds, &sum);
        if (!(sum.rate > 0) || sum.end != CAPACITY_BROKEN)
            return ST_OK; /* what is known of shorter runs stays */
        r->long_run = capacity_long_run(&last, &sum, requests * (double)times, r->params.tolerance);
        last = sum;
        near = seeds;
    }
    return ST_OK;
}

static enum st measure(struct job_context *c, const struct asked *q, struct capacity_result *r,
                       struct err *e)
{
    *r = (struct capacity_result){
        .params = q->params, .probe = q->probe.ops->name, .load = c->plan->capacity.load};
    r->n_seeds = (size_t)r->params.seeds;
    r->seeds = arena_array(c->a, struct capacity_seed, r->n_seeds);
    struct seeds_job j = {.a = c->a, .probe = &q->probe, .params = &r->params, .seeds = r->seeds};
    TRY(over_seeds(&j, "capacity", q->workers, e));
    capacity_sum(&r->params, r->seeds, r->n_seeds, &r->sum);
    if (q->lengthen && r->sum.rate > 0 && r->sum.end == CAPACITY_BROKEN)
        TRY(go_on(c, q, r, e));
    if (r->sum.rate > 0) {
        j.rate = r->load * r->sum.rate;
        r->operating = j.probes = arena_array(c->a, struct capacity_probe, r->n_seeds);
        TRY(over_seeds(&j, "operating point", q->workers, e));
    }
    capacity_notes(c->a, r, q->warnings, q->n_warnings);
    return ST_OK;
}

static struct node *meta_node(struct job_context *c, const char *id, const struct asked *q,
                              const struct artifact *art)
{
    struct run_meta meta = job_meta(c, art, id, "capacity");
    meta.model = q->setup.model;
    node_set(c->a, q->extra, SV("setup"), job_setup_node(c->a, &q->setup));
    meta.extra = q->extra;
    return run_meta_node(c->a, &meta);
}

/* Latencies in one unit: mean over the seeds and its interval. */
static void print_operating(struct arena *a, struct buf *out, const struct capacity_result *r)
{
    static const char *const heads[] = {"ms", "P50", "95 % interval", "P99", "95 % interval"},
                             *const of_one[] = {"ms", "P50", "P99"};
    const bool one = r->n_seeds == 1;
    struct capacity_mean tokens = {0};
    struct table *t = one ? table_headed(a, of_one, sizeof of_one / sizeof *of_one)
                          : table_headed(a, heads, sizeof heads / sizeof *heads);
    char low[WORDS_MAX], mean[WORDS_MAX], high[WORDS_MAX];
    for (int i = 0; i < PROBE_FIELDS; i++) {
        const char *name = probe_fields[i].key;
        struct capacity_mean m = capacity_operating(r, i);
        bool median = strstr(name, "_p50_s"), tail = strstr(name, "_p99_s");
        if (strcmp(name, "output_tokens_per_s") == 0)
            tokens = m;
        if ((!median && !tail) || !isfinite(m.mean) || strncmp(name, "client", 6) == 0)
            continue;
        if (median)
            table_cell(t, "%.*s", (int)strcspn(name, "_"), name);
        table_cell(t, "%s", words_ms(mean, m.mean));
        if (!one)
            table_cell(t, "%s .. %s", words_ms(low, m.low), words_ms(high, m.high));
    }
    buf_printf(out, "at %.0f %% of it, %.4g requests/s, over %zu seed%s:\n", 100 * r->load,
               r->load * r->sum.rate, r->n_seeds, r->n_seeds == 1 ? "" : "s");
    if (table_rows(t) > 1)
        table_text(out, t);
    buf_printf(out, "output tokens/s: %.4g", tokens.mean);
    if (!one)
        buf_printf(out, " (%.4g to %.4g)", tokens.low, tokens.high);
    buf_putc(out, '\n');
}

/* "465", "440 to 465" */
static const char *runs_words(struct arena *a, const struct capacity_result *r)
{
    const struct capacity_runs runs = capacity_runs(r);
    return runs.least < runs.most ? arena_printf(a, "%.0f to %.0f", runs.least, runs.most)
                                  : arena_printf(a, "%.0f", runs.most);
}

static void print_result(struct job_context *c, const char *dir, const struct job_setup *setup,
                         const struct capacity_result *r)
{
    struct node *map = capacity_node(c->a, r);
    struct buf out = {0};
    node_set(c->a, map, SV("out"), node_str(c->a, dir));
    node_set(c->a, map, SV("setup"), job_setup_node(c->a, setup));
    buf_printf(&out, "setup: %s\n", job_setup_words(c->a, setup));
    buf_printf(&out, "objective: %s\n", slo_words(c->a, &r->params.slo));
    if (r->sum.end == CAPACITY_BROKEN)
        buf_printf(&out, "capacity: %.4g requests/s (%s) of runs of %s requests\n", r->sum.rate,
                   capacity_sure(c->a, r->n_seeds, r->sum.low, r->sum.high), runs_words(c->a, r));
    else if (r->sum.end == CAPACITY_CLIENT && !(r->sum.rate > 0))
        buf_puts(&out, "capacity: unknown\n");
    else
        buf_printf(&out, "capacity: %.4g requests/s or more\n", r->sum.rate);
    if (r->long_run.requests > 0)
        buf_printf(&out, "in the long run: %.4g requests/s (%s), from %.0f requests%s\n",
                   r->long_run.rate,
                   capacity_sure(c->a, r->n_seeds, r->long_run.low, r->long_run.high),
                   r->long_run.requests, r->long_run.settled ? "" : ", and still changing");
    if (r->operating)
        print_operating(c->a, &out, r);
    for (size_t i = 0; i < r->n_notes; i++)
        buf_printf(&out, "note: %s\n", r->notes[i]);
    buf_printf(&out, "result: %s\n", dir);
    job_result(c, map, buf_str(&out));
    buf_free(&out);
}

/* engine: NULL = the probe uses no files in the folder. */
static enum st search_and_write(struct job_context *c, struct asked *q,
                                struct job_engine_probe *engine, struct capacity_result *r,
                                struct err *e)
{
    const char *id, *dir = job_out_dir(c, "capacity", &id);
    struct artifact art;
    job_catch_signals();
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = engine ? job_engine_probe_begin(engine, &art, e) : ST_OK;
    if (st == ST_OK && engine)
        q->probe = engine->probe;
    if (st == ST_OK)
        st = measure(c, q, r, e);
    if (st == ST_OK)
        st = capacity_write(&art, r, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta_node(c, id, q, &art), e);
    if (st == ST_OK) {
        print_result(c, dir, &q->setup, r);
        return ST_OK;
    }
    struct err ignored = {0};
    if (engine && job_engine_probe_measured(engine, &art) &&
        artifact_abandon(&art, st == ST_INTERRUPTED ? "interrupted by a signal" : err_cause(e, 0),
                         &ignored) == ST_OK) {
        struct buf word = {0};
        override_word(&word, "capacity.resume", dir);
        err_hint(e, "%s with another out= goes on with what was measured", buf_str(&word));
        buf_free(&word);
    }
    artifact_discard(&art); /* nothing is left of it after abandon */
    return st;
}

static enum st lengthen(void *self, int64_t times, struct rate_probe *out, struct err *e)
{
    struct job_lengths *l = self;
    TRY(job_lengths_open(l, times, e));
    *out = l->probe.probe;
    return ST_OK;
}

/* Durations are not lengthened here: the plan's says how long requests arrive. */
static bool has_any_length(const struct plan *p, const struct asked *q)
{
    return p->capacity.long_run >= LONG_RUN_STEP && !(p->workload.make.duration_s > 0) &&
           job_lengths_has(p, p->capacity.long_run) && q->params.seeds > 0;
}

static enum st of_simulator(struct job_context *c, struct capacity_result *r, struct err *e)
{
    const struct plan *p = c->plan;
    struct job_probe *probe = arena_one(c->a, struct job_probe);
    TRY(job_probe_open(c, probe, e));
    struct asked q = {.probe = probe->probe,
                      .params = job_capacity_params(p, &probe->slo, probe->one_draw, false),
                      .workers = p->cores ? p->cores : launch_cores(),
                      .setup = probe->setup,
                      .extra = node_new(c->a, NODE_MAP)};
    const char *const remarks[] = {
        job_predictor_uncalibrated(c, &probe->predictor),
        job_predictor_placement(c, &probe->predictor),
        job_setup_too_long(c->a, &probe->m.m, probe->serve.max_model_len),
        job_predictor_disturbed(c, &probe->params),
        job_predictor_settings(c, &probe->params),
        job_predictor_warning(c, &probe->params)};
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
        if (remarks[i])
            q.warnings[q.n_warnings++] = arena_printf(c->a, "%s.", remarks[i]);
    job_predictor_facts(c, &probe->params, &probe->predictor, q.extra);
    struct job_lengths any = {.c = c};
    if (has_any_length(p, &q)) {
        q.lengthen = lengthen;
        q.self = &any;
        q.long_run = p->capacity.long_run;
    }
    enum st st = search_and_write(c, &q, NULL, r, e);
    job_lengths_close(&any);
    job_probe_close(probe);
    return st;
}

/* A prediction is near the capacity: the first step from there is small. */
static const double predicted_step = 1.25;

static enum st of_engine(struct job_context *c, const struct engine *engine,
                         struct capacity_result *r, struct err *e)
{
    struct job_engine_probe *probe = arena_one(c->a, struct job_engine_probe);
    TRY(job_engine_probe_open(c, probe, e));
    double start;
    const char *said;
    job_capacity_start(c, engine, &start, &said);
    struct asked q = {.params = job_capacity_params(c->plan, &probe->slo, probe->one_draw, true),
                      .workers = 1, /* concurrent probes would disturb each other */
                      .setup = probe->setup,
                      .extra = node_new(c->a, NODE_MAP)};
    node_set(c->a, q.extra, SV("engine"), node_str(c->a, c->plan->engine.kind));
    if (start > 0) {
        q.params.start_rate = start;
        q.params.first_step = predicted_step;
        node_set(c->a, q.extra, SV("predicted_start_per_s"), node_number(c->a, start));
    }
    if (said)
        q.warnings[q.n_warnings++] = said;
    enum st st = search_and_write(c, &q, probe, r, e);
    job_engine_probe_close(probe);
    return st;
}

static enum st judge(const struct capacity_result *r, struct err *e)
{
    if (r->sum.end != CAPACITY_CLIENT)
        return ST_OK;
    err_set(e, ST_REJECTED, "the search is inconclusive: the client did not keep its schedule");
    if (!(r->sum.rate > 0))
        return err_hint(e, "give the client a core of its own: something else has the machine's");
    return err_hint(e,
                    "give the client a core of its own, or set capacity.max_rate below that rate");
}

static int run_capacity(struct job_context *c, struct err *e)
{
    struct capacity_result r = {0};
    const struct engine *engine;
    enum st st = engine_for(c->plan->engine.kind, COMMAND_CAPACITY, &engine, e);
    if (st == ST_OK)
        st =
            engine->needs & ENGINE_PREDICTOR ? of_simulator(c, &r, e) : of_engine(c, engine, &r, e);
    if (st == ST_OK)
        st = judge(&r, e);
    if (st != ST_OK) {
        err_add(e, "capacity");
        return err_exit_code(e->st);
    }
    return r.sum.rate > 0 ? 0 : 1;
}

const struct cmd cmd_capacity = {
    .id = COMMAND_CAPACITY,
    .columns = "capacity_per_s end",
    .summary = "find the highest request rate that meets an objective",
    .about =
        "Simulates the workload at one rate after another until the highest that meets the "
        "objective is known, once for each of several seeds; then looks at the operating point "
        "below it. The objective is vLLM's goodput syntax, slo=ttft:500,tpot:50, or by default "
        "Vidur's: P99 scheduling delay at most 5 s. Another engine than sim is asked for real, "
        "by one bench after another: the same search, objective and result. "
        "Exit code 1 when no rate meets it, 5 when the client was too late to tell.",
    .example = "twinfer capacity model=tiny_qwen3 slo=ttft:200,tpot:20 slo_fraction=0.95",
    .run = run_capacity,
};
