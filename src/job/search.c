#include "job/search.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "job/lengths.h"
#include "job/sim.h"
#include "model/shard.h"
#include "serve/sched/sched.h"
#include "text/json.h"
#include "text/yaml.h"

/* ---- candidates -------------------------------------------------------------------------- */

enum st job_search_config(struct arena *a, const struct job_search *s,
                          const struct job_candidate *x, struct config *out, struct err *e)
{
    struct config_args args = *s->c->args;
    args.overrides = x->words;
    args.n_overrides = x->n_words;
    return config_load(a, &args, out, e);
}

static void add_words(struct arena *a, const struct job_search *s, size_t i, const bool *skip,
                      struct job_candidate *x)
{
    const struct config_args *args = s->c->args;
    x->words = arena_array(a, const char *, args->n_overrides + s->space.n_axes);
    x->values = arena_array(a, const char *, s->space.n_axes);
    x->n_words = 0;
    for (size_t k = 0; k < args->n_overrides; k++)
        x->words[x->n_words++] = args->overrides[k];
    for (size_t k = 0; k < s->space.n_axes; k++) {
        const struct space_axis *axis = &s->space.axes[k];
        size_t v = space_at(&s->space, i, k);
        if (!axis->words[v] || (skip && skip[k]))
            continue;
        x->words[x->n_words++] = axis->words[v];
        x->values[k] = axis->values[v];
    }
}

/* Drops settings that the policy of a combination does not read: combinations that differ in
 * nothing else are merged. */
static enum st make_candidate(struct arena *scratch, const struct job_search *s, size_t i,
                              struct job_candidate *x, struct err *e)
{
    bool skip[SPACE_MAX_AXES] = {false};
    struct config config;
    add_words(s->c->a, s, i, NULL, x);
    TRY(job_search_config(scratch, s, x, &config, e));
    const struct sched_ops *sched = sched_find(config.plan->serve.policy);
    for (size_t k = 0; k < s->space.n_axes && sched; k++)
        skip[k] = !sched_reads(sched, s->space.axes[k].key);
    add_words(s->c->a, s, i, skip, x);
    return ST_OK;
}

static const char *joined(struct arena *a, const struct job_candidate *x)
{
    struct buf b = {0};
    for (size_t i = 0; i < x->n_words; i++)
        buf_printf(&b, "%s\x1f", x->words[i]);
    const char *s = arena_str(a, buf_str(&b));
    buf_free(&b);
    return s;
}

static enum st make_candidates(struct job_search *s, struct err *e)
{
    struct arena *scratch = arena_new();
    struct map seen;
    enum st st = ST_OK;
    map_init(&seen, s->c->a);
    for (size_t i = 0; i < s->space.n && st == ST_OK; i++) {
        struct job_candidate x;
        bool is_new;
        st = make_candidate(scratch, s, i, &x, e);
        arena_reset(scratch);
        if (st != ST_OK)
            break;
        const char *words = joined(s->c->a, &x);
        map_put(&seen, words, strlen(words), &is_new);
        if (is_new)
            vec_push(&s->candidates, x);
    }
    arena_free(&scratch);
    return st;
}

static enum st read_loads(struct job_search *s, struct err *e)
{
    const struct texts *list = &s->c->plan->search.loads;
    if (list->n == 0 || list->n > JOB_SEARCH_LOADS)
        return err_set(e, ST_USAGE, "search.loads: expected 1 to %d fractions, got %zu",
                       JOB_SEARCH_LOADS, list->n);
    for (size_t i = 0; i < list->n; i++) {
        double *l = &s->loads[i];
        if (!str_double(sv_of(list->items[i]), l) || !(*l > 0 && *l <= 1))
            return err_set(e, ST_USAGE, "search.loads: '%s' is not above 0 and at most 1",
                           list->items[i]);
    }
    s->n_loads = list->n;
    return ST_OK;
}

/* ---- one configuration, in a worker ------------------------------------------------------ */

static void add_result(struct probe_result *sum, struct probe_result *r, double share)
{
    for (int i = 0; i < PROBE_FIELDS; i++)
        *probe_value(sum, i) += share * *probe_value(r, i);
}

/* All seeds at one length of the workload. near: seeds of another length; NULL = none. */
static enum st bisect(struct arena *a, const struct job_lengths *l, const struct capacity_params *p,
                      const struct capacity_seed *near, struct capacity_seed *seeds,
                      struct capacity *sum, struct err *e)
{
    for (int64_t i = 0; i < p->seeds; i++) {
        struct capacity_params of = *p;
        if (near && near[i].low > 0)
            of.start_rate = near[i].low;
        TRY(capacity_bisect(a, &of, &l->probe.probe, p->seed + (uint64_t)i, &seeds[i], e));
    }
    capacity_sum(p, seeds, (size_t)p->seeds, sum);
    return ST_OK;
}

/* The capacity of the shortest workload in which a queue forms, from the plan's number of requests
 * for each GPU: as many of them for one replica as for each of several. */
static enum st at_first_length(struct arena *a, struct job_lengths *l,
                               const struct capacity_params *p, struct capacity_seed *seeds,
                               struct search_config *out, int64_t *times, struct err *e)
{
    const struct plan *plan = l->c->plan;
    enum st st = ST_REJECTED;
    *times = job_lengths_has(plan, out->gpus) ? out->gpus : 1;
    for (;; *times *= LONG_RUN_STEP) {
        TRY(job_lengths_open(l, *times, e));
        st = bisect(a, l, p, NULL, seeds, &out->capacity, e);
        if (st != ST_REJECTED || !job_lengths_has(plan, *times * LONG_RUN_STEP))
            return st;
        err_clear(e);
    }
}

/* The capacity of longer and longer workloads, until it no longer changes. */
static enum st in_long_run(struct arena *a, struct job_lengths *l, const struct capacity_params *p,
                           int64_t first, const struct capacity_seed *near,
                           struct search_config *out, struct err *e)
{
    const struct plan *plan = l->c->plan;
    struct capacity_params longer = *p;
    struct capacity_long_run run = {0};
    longer.step = LONG_RUN_BRACKET;
    for (int64_t k = LONG_RUN_STEP;
         k <= plan->capacity.long_run && !run.settled && job_lengths_has(plan, first * k);
         k *= LONG_RUN_STEP) {
        struct capacity_seed *seeds = arena_array(a, struct capacity_seed, p->seeds);
        struct capacity sum;
        TRY(job_lengths_open(l, first * k, e));
        TRY(bisect(a, l, &longer, near, seeds, &sum, e));
        if (!(sum.rate > 0)) /* far below that of the shorter one */
            TRY(bisect(a, l, p, NULL, seeds, &sum, e));
        run = capacity_long_run(&out->capacity, &sum, seeds[0].probes[0].r.requests, p->tolerance);
        out->capacity = sum;
        out->capacity.low = run.low;
        out->requests = run.requests;
        near = seeds;
        if (!(sum.rate > 0))
            break;
    }
    out->settled = run.settled;
    return ST_OK;
}

static enum st look(struct arena *a, const struct job_search *s, struct job_lengths *l,
                    const struct capacity_params *p, struct search_config *out, struct err *e)
{
    struct capacity_seed *seeds = arena_array(a, struct capacity_seed, p->seeds);
    int64_t times;
    TRY(at_first_length(a, l, p, seeds, out, &times, e));
    out->requests = seeds[0].probes[0].r.requests;
    if (out->capacity.rate > 0 && out->capacity.end == CAPACITY_BROKEN)
        TRY(in_long_run(a, l, p, times, seeds, out, e));
    out->status = out->capacity.rate > 0 ? SEARCH_OK : SEARCH_UNMET;
    if (out->status == SEARCH_UNMET)
        return ST_OK;
    TRY(job_lengths_open(l, times, e)); /* loads below capacity need no long run */
    const struct rate_probe *probe = &l->probe.probe;
    out->loads = arena_array(a, struct search_load, s->n_loads);
    for (size_t k = 0; k < s->n_loads; k++) {
        struct search_load *load = &out->loads[k];
        *load = (struct search_load){.load = s->loads[k], .rate = s->loads[k] * out->capacity.rate};
        for (int64_t i = 0; i < p->seeds; i++) {
            struct probe_result r;
            TRY(probe->ops->run(probe->self, load->rate, p->seed + (uint64_t)i, &r, e));
            add_result(&load->r, &r, 1 / (double)p->seeds);
        }
        load->meets = capacity_holds(&p->slo, &load->r);
        search_load_rates(load, out->gpus);
        out->n_loads++;
    }
    return ST_OK;
}

/* The chain of causes and the remedy on one line. */
static const char *causes(struct arena *a, const struct err *e)
{
    struct buf b = {0};
    for (int i = 0; err_cause(e, i); i++)
        buf_printf(&b, "%s%s", i ? ": " : "", err_cause(e, i));
    if (err_hint_text(e))
        buf_printf(&b, " (hint: %s)", err_hint_text(e));
    const char *s = arena_str(a, buf_str(&b));
    buf_free(&b);
    return s;
}

static enum st evaluate(struct arena *a, const struct job_search *s, const struct job_candidate *x,
                        struct search_config *out, struct err *e)
{
    struct config config;
    TRY(job_search_config(a, s, x, &config, e));
    TRY(config_check_read(&config, e));
    const struct plan *p = config.plan;
    struct job_context c = *s->c;
    c.a = a;
    c.config = &config;
    c.plan = p;
    out->gpus = shard_devices(p->parallel.tp, p->parallel.ep) * p->parallel.pp * p->serve.replicas;
    struct job_lengths *lengths = arena_one(a, struct job_lengths);
    struct job_probe *probe = &lengths->probe;
    *lengths = (struct job_lengths){.c = &c};
    TRY(job_lengths_open(lengths, 1, e));
    struct capacity_params params = job_capacity_params(p, &probe->slo, probe->one_draw, false);
    out->host_overhead = !job_predictor_warning(&c, &probe->params);
    out->busy = job_predictor_disturbed(&c, &probe->params) != NULL;
    out->uncalibrated = probe->predictor.ops->uncalibrated;
    out->setup = job_setup_node(a, &probe->setup);
    out->remark = job_setup_too_long(a, &probe->m.m, probe->serve.max_model_len);
    if (!out->remark)
        out->remark = job_predictor_placement(&c, &probe->predictor);
    enum st st = look(a, s, lengths, &params, out, e);
    job_lengths_close(lengths);
    return st;
}

static enum st run_candidate(void *self, size_t i, struct buf *out, struct err *e)
{
    const struct job_search *s = self;
    struct arena *a = arena_new();
    struct search_config config = {0};
    enum st st = evaluate(a, s, &s->candidates.p[i], &config, e);
    bool refused = st == ST_USAGE || st == ST_INPUT || st == ST_DEVICE || st == ST_REJECTED;
    if (refused) {
        config = (struct search_config){
            .status = SEARCH_REFUSED, .why = causes(a, e), .gpus = config.gpus};
        err_clear(e);
        st = ST_OK;
    }
    if (st == ST_OK)
        json_write(out, fields_node(a, &search_config_fields, &config), 0, true);
    arena_free(&a);
    return st;
}

/* ---- the whole --------------------------------------------------------------------------- */

static enum st take_candidate(void *self, size_t i, struct sv bytes, struct err *e)
{
    struct job_search *s = self;
    TRY(search_journal_add(s->c->a, &s->journal, i, bytes, e));
    progress_at(&s->progress, (int64_t)s->journal.done, NULL);
    return ST_OK;
}

enum st job_search_open(struct job_context *c, struct job_search *out, struct err *e)
{
    *out = (struct job_search){.c = c};
    TRY(space_read(c->a, c->plan->search.space, &out->space, e));
    TRY(read_loads(out, e));
    return make_candidates(out, e);
}

/* Everything that results depend on: the settings except those on execution and location, and the
 * contents of the files that are read. */
static const char *search_id(const struct job_search *s, const char *inputs)
{
    static const char *const left_out[] = {"out", "cores", "launcher", "json", "log"};
    struct arena *a = s->c->a;
    struct node *tree = node_copy(a, s->c->config->tree);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        node_remove(tree, sv_of(left_out[i]));
    struct buf text = {0};
    yaml_write(&text, tree);
    const char *const parts[] = {arena_str(a, buf_str(&text)), inputs};
    buf_free(&text);
    return hash_stable_id(a, "search", parts, 2);
}

enum st job_search_resume(struct job_search *s, const char *dir, struct err *e)
{
    struct arena *a = s->c->a;
    const char *name = arena_printf(a, ".journal-%s.jsonl", fs_base(dir)), *inputs;
    TRY(job_search_inputs(s, &inputs, e));
    TRY(search_journal_open(a, fs_join(a, fs_dir(a, dir), name), search_id(s, inputs),
                            s->candidates.n, &s->journal, e));
    if (s->journal.other)
        log_warn("%s was of another search, or of other files, and begins anew", s->journal.path);
    if (s->journal.done > 0)
        log_info("%zu of %zu configurations are done already: %s", s->journal.done, s->candidates.n,
                 s->journal.path);
    return ST_OK;
}

enum st job_search_run(struct job_search *s, const struct launcher_ops *launcher, struct err *e)
{
    const struct plan *p = s->c->plan;
    size_t n = s->candidates.n;
    bool *skip = arena_array(s->c->a, bool, n);
    for (size_t i = 0; i < n && s->journal.results; i++)
        skip[i] = s->journal.results[i] != NULL;
    struct launch_work work = {.self = s,
                               .n = n,
                               .skip = skip,
                               .workers = p->cores ? p->cores : launch_cores(),
                               .job = run_candidate,
                               .done = take_candidate,
                               .stop = &job_stop};
    return launcher->run(&work, e);
}

enum st job_search_collect(struct job_search *s, struct search_result *r, struct err *e)
{
    struct arena *a = s->c->a;
    const struct plan *p = s->c->plan;
    size_t refused = 0, uncalibrated = 0, busy = 0, unsettled = 0, n_warnings = 0;
    double longest = 0;
    const char *warnings[6], *remark = NULL;
    bool no_host = false, unlike = false;
    *r = (struct search_result){.space = &s->space, .n = s->candidates.n};
    r->seeds = p->workload.dir || p->workload.trace ? 1 : job_capacity_seeds(p, false);
    TRY(slo_parse(p->slo.items, p->slo.n, p->slo_fraction, &r->slo, e));
    r->configs = arena_array(a, struct search_config, r->n);
    for (size_t i = 0; i < r->n; i++) {
        struct search_config *c = &r->configs[i];
        TRY(fields_read(a, &search_config_fields, s->journal.results[i], c, e));
        c->values = s->candidates.p[i].values;
        refused += c->status == SEARCH_REFUSED;
        s->met = s->met || c->status == SEARCH_OK;
        if (c->status != SEARCH_REFUSED && !c->host_overhead)
            no_host = true;
        uncalibrated += c->uncalibrated;
        busy += c->busy;
        unsettled += c->status == SEARCH_OK && !c->settled;
        longest = fmax(longest, c->requests);
        unlike = unlike || c->gpus != r->configs[0].gpus;
        remark = remark ? remark : c->remark;
    }
    if (refused == r->n) {
        err_set(e, ST_INPUT, "no configuration can be simulated");
        return err_hint(e, "the first says: %s", r->configs[0].why ? r->configs[0].why : "");
    }
    if (uncalibrated)
        warnings[n_warnings++] =
            arena_printf(a,
                         "Uncalibrated: the times of %zu of %zu configurations are a roofline of "
                         "peak rates with default efficiencies; no measurement stands behind them.",
                         uncalibrated, r->n);
    if (busy)
        warnings[n_warnings++] =
            arena_printf(a,
                         "The bundles of %zu of %zu configurations were measured while something "
                         "else had the machine: their times are too long, and rates too low.",
                         busy, r->n);
    if (no_host)
        warnings[n_warnings++] = "Bundles without host overhead per iteration: their times are "
                                 "device times alone and too short.";
    if (remark)
        warnings[n_warnings++] = arena_printf(a, "%s.", remark);
    if (job_is_stretched(p) && unlike)
        warnings[n_warnings++] =
            "The requests are given: every configuration serves as many, whatever the number of "
            "its GPUs. Those of more GPUs are further from the long run, and look better than in "
            "it: workload.lengths.trace= with other arrivals makes any number.";
    else if (unsettled && p->capacity.long_run > 0)
        warnings[n_warnings++] =
            arena_printf(a,
                         "The capacity of %zu configurations still changes with the number of "
                         "requests, %.0f at most: capacity.long_run=%lld looks further.",
                         unsettled, longest, (long long)(p->capacity.long_run * LONG_RUN_STEP));
    search_sum(a, r, warnings, n_warnings);
    return ST_OK;
}

void job_search_close(struct job_search *s)
{
    vec_free(&s->candidates);
}
