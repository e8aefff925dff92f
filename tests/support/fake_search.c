#include "support/fake_search.h"

#include <math.h>

#include "search/capacity_result.h"
#include "search/search_result.h"
#include "text/json.h"

enum { REQUESTS = 1000, TOKENS = 100, SEEDS = 3 };

static enum st serve(void *self, double rate, uint64_t seed, struct probe_result *r, struct err *e)
{
    double speed = *(const double *)self * (10 + 0.3 * (double)(seed % 3));
    double slack = speed - rate > 0.01 * speed ? speed - rate : 0.01 * speed;
    (void)e;
    *r = (struct probe_result){.requests = REQUESTS,
                               .good = 1 - exp(-slack),
                               .duration_s = REQUESTS / fmin(rate, speed),
                               .requests_per_s = fmin(rate, speed),
                               .energy_j = 300.0 * REQUESTS / fmin(rate, speed),
                               .prefix_hit_rate = (double)NAN};
    r->goodput_per_s = r->good * r->requests_per_s;
    r->output_tokens_per_s = TOKENS * r->requests_per_s;
    for (int k = 0; k < PROBE_PERCENTILES; k++) {
        double sojourn_s = -log(1 - probe_percentiles[k] / 100) / slack;
        r->latency_s[SLO_E2EL][k] = sojourn_s;
        r->latency_s[SLO_TTFT][k] = 0.2 * sojourn_s;
        r->latency_s[SLO_TPOT][k] = 0.8 * sojourn_s / (TOKENS - 1);
        r->latency_s[SLO_DELAY][k] = 0.1 * sojourn_s;
    }
    return ST_OK;
}

struct rate_probe fake_probe(const double *speed)
{
    static const struct probe_ops ops = {.name = "M/M/1",
                                         .help = "waits that are known",
                                         .version = PROBE_VERSION,
                                         .run = serve,
                                         .may_flood = true};
    union {
        const double *in;
        void *out;
    } self = {speed};
    return (struct rate_probe){&ops, self.out};
}

static struct capacity_params params_of(bool unmet)
{
    struct capacity_params p = {.tolerance = 0.01, .seed = 1, .seeds = SEEDS};
    p.slo.fraction = 0.9;
    for (int m = 0; m < SLO_METRICS; m++)
        p.slo.limit_s[m] = (double)INFINITY;
    p.slo.limit_s[SLO_E2EL] = 1;
    p.slo.limit_s[SLO_TTFT] = 0.5;
    if (unmet)
        p.slo.fraction = 1; /* of an exponential, never all */
    return p;
}

static enum st measure(struct arena *a, const struct capacity_params *p,
                       const struct rate_probe *probe, struct capacity_seed *seeds,
                       struct capacity *sum, struct err *e)
{
    for (uint64_t i = 0; i < SEEDS; i++)
        TRY(capacity_bisect(a, p, probe, p->seed + i, &seeds[i], e));
    capacity_sum(p, seeds, SEEDS, sum);
    return ST_OK;
}

static struct node *meta_of(struct arena *a, const char *type, const struct fake_search *f)
{
    struct node *meta = node_new(a, NODE_MAP);
    node_set(a, meta, SV("run_type"), node_str(a, type));
    node_set(a, meta, SV("run_id"), node_str(a, f->id));
    node_set(a, meta, SV("model"), node_str(a, f->model));
    return meta;
}

enum st fake_capacity_write(struct arena *a, const char *dir, const struct fake_search *f,
                            struct err *e)
{
    static const double one = 1;
    const struct rate_probe probe = fake_probe(&one);
    struct capacity_seed seeds[SEEDS];
    struct capacity_probe operating[SEEDS];
    struct capacity_result r = {.params = params_of(f->unmet),
                                .probe = probe.ops->name,
                                .seeds = seeds,
                                .n_seeds = SEEDS,
                                .load = 0.85};
    struct artifact art;
    TRY(measure(a, &r.params, &probe, seeds, &r.sum, e));
    for (uint64_t i = 0; i < SEEDS && r.sum.rate > 0; i++) {
        operating[i] =
            (struct capacity_probe){.rate = 0.85 * r.sum.rate, .seed = i + 1, .holds = true};
        TRY(probe.ops->run(probe.self, operating[i].rate, i + 1, &operating[i].r, e));
        r.operating = operating;
    }
    capacity_notes(a, &r, &f->text, 1);
    TRY(artifact_begin(a, dir, "run_meta.json", &art, e));
    TRY(capacity_write(&art, &r, e));
    return artifact_commit(&art, meta_of(a, "capacity", f), e);
}

static const char *const *values_of(struct arena *a, const struct space *s, size_t i)
{
    const char **v = arena_array(a, const char *, s->n_axes);
    for (size_t k = 0; k < s->n_axes; k++)
        v[k] = s->axes[k].values[space_at(s, i, k)];
    return v;
}

static enum st look(struct arena *a, const struct capacity_params *p, double speed,
                    struct search_config *c, struct err *e)
{
    static const double loads[] = {0.1, 0.3, 0.5, 0.7, 0.85};
    const struct rate_probe probe = fake_probe(&speed);
    struct capacity_seed seeds[SEEDS];
    TRY(measure(a, p, &probe, seeds, &c->capacity, e));
    c->n_loads = sizeof loads / sizeof *loads;
    c->loads = arena_array(a, struct search_load, c->n_loads);
    for (size_t k = 0; k < c->n_loads; k++) {
        struct search_load *l = &c->loads[k];
        *l = (struct search_load){.load = loads[k], .rate = loads[k] * c->capacity.rate};
        TRY(probe.ops->run(probe.self, l->rate, 1, &l->r, e));
        l->r.energy_j *= (double)c->gpus;
        l->meets = capacity_holds(&p->slo, &l->r);
        search_load_rates(l, c->gpus);
    }
    return ST_OK;
}

enum st fake_search_write(struct arena *a, const char *dir, const struct fake_search *f,
                          struct err *e)
{
    static const char text[] =
        "{\"scheduler\": [\"vllm\", \"sarathi\"], \"parallel.tp\": [1, 2, 3]}";
    const struct capacity_params p = params_of(false);
    struct node *map;
    struct space space;
    TRY(json_parse(a, "space", SV(text), NULL, &map, e));
    TRY(space_read(a, map, &space, e));
    struct search_result r = {.space = &space, .slo = p.slo, .seeds = SEEDS, .n = space.n};
    r.configs = arena_array(a, struct search_config, r.n);
    for (size_t i = 0; i < r.n; i++) {
        struct search_config *c = &r.configs[i];
        size_t tp = 1 + space_at(&space, i, 1);
        *c = (struct search_config){.values = values_of(a, &space, i),
                                    .gpus = (int64_t)tp,
                                    .status = tp == 3 ? SEARCH_REFUSED : SEARCH_OK,
                                    .why = tp == 3 ? f->text : NULL};
        if (tp < 3) /* two GPUs are 1.7 times as fast, sarathi a tenth faster */
            TRY(look(a, &p, (tp == 2 ? 1.7 : 1) * (space_at(&space, i, 0) ? 1.1 : 1), c, e));
    }
    search_sum(a, &r, &f->text, f->text ? 1 : 0);
    struct artifact art;
    TRY(artifact_begin(a, dir, "run_meta.json", &art, e));
    TRY(search_write(&art, &r, e));
    return artifact_commit(&art, meta_of(a, "search", f), e);
}
