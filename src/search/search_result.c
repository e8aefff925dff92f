#include "search/search_result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/pareto.h"
#include "text/csv.h"

static const char *const status_names[] = {"ok", "unmet", "refused"};
enum { N_STATUS = sizeof status_names / sizeof *status_names };

/* "ok", "unmet", "refused" */
static const char *status_name(enum search_status s)
{
    return status_names[s];
}

void search_load_rates(struct search_load *l, int64_t gpus)
{
    double tpot = l->r.latency_s[SLO_TPOT][0], tokens = l->r.output_tokens_per_s * l->r.duration_s;
    l->tokens_per_s_user = tpot > 0 ? 1 / tpot : (double)NAN;
    l->tokens_per_s_gpu = l->r.output_tokens_per_s / (double)gpus;
    l->j_per_token = tokens > 0 ? l->r.energy_j / tokens : (double)NAN;
}

/* ---- fronts and notes -------------------------------------------------------------------- */

static size_t count_loads(const struct search_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->configs[i].n_loads;
    return n;
}

static void mark_fronts(struct search_result *r)
{
    size_t n = count_loads(r), at = 0;
    double(*v)[PARETO_MAX] = mem_alloc((n + 1) * sizeof *v);
    bool *two = mem_alloc(2 * n + 1), *three = two + n;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->configs[i].n_loads; k++, at++) {
            const struct search_load *l = &r->configs[i].loads[k];
            v[at][0] = l->meets ? l->tokens_per_s_user : (double)NAN;
            v[at][1] = l->tokens_per_s_gpu;
            v[at][2] = -l->j_per_token;
            r->has_energy = r->has_energy || !isnan(l->j_per_token);
        }
    pareto_front((const double(*)[PARETO_MAX])v, n, 2, two);
    pareto_front((const double(*)[PARETO_MAX])v, n, 3, three);
    at = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->configs[i].n_loads; k++, at++) {
            r->configs[i].loads[k].front = two[at];
            r->configs[i].loads[k].front_energy = three[at];
            r->configs[i].loads[k].ranked = true;
        }
    mem_free(v);
    mem_free(two);
}

static const char *first_refusal(const struct search_result *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->configs[i].status == SEARCH_REFUSED && r->configs[i].why)
            return r->configs[i].why;
    return "no reason is known";
}

static size_t count_status(const struct search_result *r, enum search_status s)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->configs[i].status == s;
    return n;
}

void search_sum(struct arena *a, struct search_result *r, const char *const *warnings,
                size_t n_warnings)
{
    size_t growing = 0, n = 0;
    double extrapolated = 0;
    const char *no_hits = NULL, **notes = arena_array(a, const char *, 6 + n_warnings);
    mark_fronts(r);
    for (size_t i = 0; i < r->n; i++) {
        growing += r->configs[i].status == SEARCH_OK && r->configs[i].capacity.growing;
        for (size_t k = 0; k < r->configs[i].n_loads; k++) {
            const struct probe_result *result = &r->configs[i].loads[k].r;
            if (result->extrapolated > extrapolated)
                extrapolated = result->extrapolated;
            if (probe_no_hits(result))
                no_hits = probe_no_hits(result);
        }
    }
    for (size_t i = 0; i < n_warnings; i++)
        notes[n++] = warnings[i];
    if (count_status(r, SEARCH_REFUSED))
        notes[n++] =
            arena_printf(a, "%zu of %zu configurations cannot be simulated; the first: %s.",
                         count_status(r, SEARCH_REFUSED), r->n, first_refusal(r));
    if (count_status(r, SEARCH_UNMET))
        notes[n++] = arena_printf(a, "%zu of %zu configurations meet the objective at no rate.",
                                  count_status(r, SEARCH_UNMET), r->n);
    if (growing)
        notes[n++] = arena_printf(a,
                                  "At the capacity of %zu configurations the queue still grows "
                                  "while the requests arrive: more of them would give less.",
                                  growing);
    if (!r->has_energy)
        notes[n++] = "J/token is unknown: the bundles hold no operator energy.";
    if (extrapolated > 0)
        notes[n++] = arena_printf(
            a, "Up to %.0f look-ups of a run fell outside the profiled grid and were extrapolated.",
            ceil(extrapolated));
    if (no_hits)
        notes[n++] = no_hits;
    r->notes = notes;
    r->n_notes = n;
}

/* ---- search.json ------------------------------------------------------------------------- */

static const struct field front_rows[] = {
    FIELD(struct search_load, front),
    FIELD(struct search_load, front_energy),
};
static const struct fields front_fields = FIELDS(struct search_load, front_rows);

static const struct field load_rows[] = {
    FIELD_MAP(struct search_load, r, NULL, &probe_result_fields),
    FIELD(struct search_load, load, .max = 1e300),
    FIELD(struct search_load, rate, .max = 1e300),
    FIELD(struct search_load, tokens_per_s_user, .optional = true),
    FIELD(struct search_load, tokens_per_s_gpu, .optional = true),
    FIELD(struct search_load, j_per_token, .optional = true),
    FIELD(struct search_load, meets),
    FIELD_PART(NULL, &front_fields, FIELD_IF(struct search_load, ranked)),
};
static const struct fields load_fields = FIELDS(struct search_load, load_rows);

static const struct field config_rows[] = {
    FIELD_ENUM(struct search_config, status, "status", status_name, N_STATUS),
    FIELD(struct search_config, why, .optional = true),
    FIELD(struct search_config, gpus, .max = 1e18),
    FIELD_AS(struct search_config, capacity.rate, "capacity_per_s", .max = 1e300),
    FIELD_PAIR(struct search_config, capacity.low, capacity.high, "interval_per_s"),
    FIELD_AS(struct search_config, capacity.growing, "queue_grows"),
    FIELD(struct search_config, requests, .max = 1e300, .optional = true),
    FIELD(struct search_config, settled, .optional = true),
    FIELD(struct search_config, setup, .optional = true),
    FIELD(struct search_config, remark, .omit = true),
    FIELD(struct search_config, host_overhead),
    FIELD(struct search_config, uncalibrated, .omit = true),
    FIELD_AS(struct search_config, busy, "profile_contended", .omit = true),
    FIELD_MAPS(struct search_config, loads, n_loads, "loads", &load_fields),
};
const struct fields search_config_fields = FIELDS(struct search_config, config_rows);

static const struct field placed_rows[] = {
    FIELD_PART(NULL, &search_config_fields),
    FIELD_LIST(struct search_config, values, n_values, "values", .nulls = true),
};
static const struct fields placed_fields = FIELDS(struct search_config, placed_rows);

static const struct field axis_rows[] = {
    FIELD_AS(struct space_axis, key, "setting"),
    FIELD_LIST(struct space_axis, values, n, "values", .nulls = true),
};
static const struct fields axis_fields = FIELDS(struct space_axis, axis_rows);

static const struct field result_rows[] = {
    FIELD(struct search_result, objective),
    FIELD(struct search_result, seeds),
    FIELD_MAPS(struct search_result, axes, n_axes, "space", &axis_fields),
    FIELD_MAPS(struct search_result, configs, n, "configurations", &placed_fields),
    FIELD_LIST(struct search_result, notes, n_notes, "notes"),
};
const struct fields search_result_fields = FIELDS(struct search_result, result_rows);

struct search_result search_shown(struct arena *a, const struct search_result *r)
{
    struct search_result all = *r;
    all.objective = slo_words(a, &r->slo);
    all.axes = r->space->axes;
    all.n_axes = r->space->n_axes;
    all.configs = arena_copy(a, r->configs, r->n * sizeof *r->configs);
    for (size_t i = 0; i < r->n; i++)
        all.configs[i].n_values = r->space->n_axes;
    return all;
}

struct node *search_node(struct arena *a, const struct search_result *r)
{
    const struct search_result all = search_shown(a, r);
    struct node *n = fields_node(a, &search_result_fields, &all);
    node_set(a, n, SV("schema_version"), node_int(a, 1));
    return n;
}

/* ---- search.csv -------------------------------------------------------------------------- */

static void csv_head(struct csv_writer *w, const struct search_result *r)
{
    static const char *const before[] = {"gpus", "status", "capacity_per_s", "capacity_low_per_s",
                                         "capacity_high_per_s"};
    static const char *const after[] = {
        "load",  "rate",  "tokens_per_s_user", "tokens_per_s_gpu", "j_per_token",
        "meets", "front", "front_energy"};
    csv_put_str(w, "configuration");
    for (size_t k = 0; k < r->space->n_axes; k++)
        csv_put_str(w, r->space->axes[k].key);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        csv_put_str(w, before[i]);
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        csv_put_str(w, after[i]);
    for (int i = 0; i < PROBE_FIELDS; i++)
        csv_put_str(w, probe_fields[i].key);
    csv_put_str(w, "why");
    csv_end_row(w);
}

/* l NULL: a configuration without loads. */
static void csv_row(struct csv_writer *w, const struct search_result *r, size_t i,
                    const struct search_load *l)
{
    const struct search_config *c = &r->configs[i];
    csv_put_int(w, (int64_t)i);
    for (size_t k = 0; k < r->space->n_axes; k++)
        csv_put_str(w, c->values[k] ? c->values[k] : "");
    csv_put_int(w, c->gpus);
    csv_put_str(w, status_names[c->status]);
    csv_put_double(w, c->capacity.rate);
    csv_put_double(w, c->capacity.low);
    csv_put_double(w, c->capacity.high);
    struct search_load none = {0};
    for (int k = 0; k < PROBE_FIELDS; k++)
        *probe_value(&none.r, k) = (double)NAN;
    none.load = none.rate = none.tokens_per_s_user = none.tokens_per_s_gpu = none.j_per_token =
        (double)NAN;
    struct search_load copy = l ? *l : none;
    csv_put_double(w, copy.load);
    csv_put_double(w, copy.rate);
    csv_put_double(w, copy.tokens_per_s_user);
    csv_put_double(w, copy.tokens_per_s_gpu);
    csv_put_double(w, copy.j_per_token);
    csv_put_int(w, copy.meets);
    csv_put_int(w, copy.front);
    csv_put_int(w, copy.front_energy);
    for (int k = 0; k < PROBE_FIELDS; k++)
        csv_put_double(w, *probe_value(&copy.r, k));
    csv_put_str(w, c->why ? c->why : "");
    csv_end_row(w);
}

enum st search_write(const struct artifact *art, const struct search_result *r, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, SEARCH_CSV, &f, e));
    struct csv_writer w = {.f = f};
    csv_head(&w, r);
    for (size_t i = 0; i < r->n; i++) {
        if (r->configs[i].n_loads == 0)
            csv_row(&w, r, i, NULL);
        for (size_t k = 0; k < r->configs[i].n_loads; k++)
            csv_row(&w, r, i, &r->configs[i].loads[k]);
    }
    TRY(artifact_close_file(art, SEARCH_CSV, &f, e));
    struct arena *a = arena_new();
    const enum st st = artifact_write_json(art, SEARCH_JSON, search_node(a, r), e);
    arena_free(&a);
    return st;
}
