#include "search/search_result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/pareto.h"
#include "text/csv.h"
#include "text/json.h"

static const char *const status_names[] = {"ok", "unmet", "refused"};
enum { N_STATUS = sizeof status_names / sizeof *status_names };

const char *search_status_name(enum search_status s)
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

void search_sum(struct arena *a, struct search_result *r, const char *warning)
{
    size_t growing = 0, n = 0;
    double extrapolated = 0;
    const char *no_hits = NULL, **notes = arena_array(a, const char *, 7);
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
    if (warning)
        notes[n++] = warning;
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

/* ---- trees ------------------------------------------------------------------------------- */

static struct node *load_node(struct arena *a, const struct search_load *l)
{
    struct node *n = probe_result_node(a, &l->r);
    node_put(a, n, "load", node_float(a, l->load));
    node_put(a, n, "rate", node_float(a, l->rate));
    node_put(a, n, "tokens_per_s_user", node_number(a, l->tokens_per_s_user));
    node_put(a, n, "tokens_per_s_gpu", node_number(a, l->tokens_per_s_gpu));
    node_put(a, n, "j_per_token", node_number(a, l->j_per_token));
    node_put(a, n, "meets", node_bool(a, l->meets));
    return n;
}

struct node *search_config_node(struct arena *a, const struct search_config *c)
{
    struct node *n = node_new(a, NODE_MAP), *loads = node_new(a, NODE_LIST);
    struct node *interval = node_new(a, NODE_LIST);
    node_push(a, interval, node_float(a, c->capacity.low));
    node_push(a, interval, node_float(a, c->capacity.high));
    for (size_t i = 0; i < c->n_loads; i++)
        node_push(a, loads, load_node(a, &c->loads[i]));
    node_put(a, n, "status", node_str(a, status_names[c->status]));
    node_put(a, n, "why", node_str_or_null(a, c->why));
    node_put(a, n, "gpus", node_int(a, c->gpus));
    node_put(a, n, "capacity_per_s", node_float(a, c->capacity.rate));
    node_put(a, n, "interval_per_s", interval);
    node_put(a, n, "queue_grows", node_bool(a, c->capacity.growing));
    node_put(a, n, "host_overhead", node_bool(a, c->host_overhead));
    node_put(a, n, "loads", loads);
    return n;
}

static enum st load_read(const struct node *n, int64_t gpus, struct search_load *l, struct err *e)
{
    *l = (struct search_load){0};
    TRY(node_get_double(n, "load", 0, 1e300, &l->load, e));
    TRY(node_get_double(n, "rate", 0, 1e300, &l->rate, e));
    TRY(node_get_bool(n, "meets", &l->meets, e));
    TRY(probe_result_read(n, &l->r, e));
    search_load_rates(l, gpus);
    return ST_OK;
}

static enum st status_read(const struct node *n, enum search_status *out, struct err *e)
{
    const char *name;
    TRY(node_get_str(n, "status", &name, e));
    for (int i = 0; i < N_STATUS; i++)
        if (strcmp(name, status_names[i]) == 0) {
            *out = (enum search_status)i;
            return ST_OK;
        }
    return node_err(n, ST_INPUT, e, "status: '%s' is none", name);
}

enum st search_config_read(struct arena *a, const struct node *n, struct search_config *out,
                           struct err *e)
{
    struct node *interval, *loads;
    TRY(status_read(n, &out->status, e));
    const struct node *why = node_find(n, "why");
    out->why = why && why->kind == NODE_STR ? why->s.p : NULL;
    TRY(node_get_int(n, "gpus", 0, INT64_MAX, &out->gpus, e));
    TRY(node_get_double(n, "capacity_per_s", 0, 1e300, &out->capacity.rate, e));
    TRY(node_get(n, "interval_per_s", NODE_LIST, &interval, e));
    if (interval->n != 2)
        return node_err(interval, ST_INPUT, e, "interval_per_s: expected two numbers");
    double *ends[] = {&out->capacity.low, &out->capacity.high};
    for (int i = 0; i < 2; i++) {
        const struct node *v = interval->items[i];
        if (v->kind != NODE_FLOAT && v->kind != NODE_INT)
            return node_err(v, ST_INPUT, e, "interval_per_s: expected a number");
        *ends[i] = v->kind == NODE_INT ? (double)v->i : v->f;
    }
    TRY(node_get_bool(n, "queue_grows", &out->capacity.growing, e));
    TRY(node_get_bool(n, "host_overhead", &out->host_overhead, e));
    TRY(node_get(n, "loads", NODE_LIST, &loads, e));
    out->n_loads = loads->n;
    out->loads = arena_array(a, struct search_load, loads->n);
    for (uint32_t i = 0; i < loads->n; i++)
        TRY(load_read(loads->items[i], out->gpus, &out->loads[i], e));
    return ST_OK;
}

static struct node *space_node(struct arena *a, const struct space *s)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t k = 0; k < s->n_axes; k++) {
        struct node *axis = node_new(a, NODE_MAP), *values = node_new(a, NODE_LIST);
        for (size_t i = 0; i < s->axes[k].n; i++)
            node_push(a, values, node_str_or_null(a, s->axes[k].values[i]));
        node_put(a, axis, "setting", node_str(a, s->axes[k].key));
        node_put(a, axis, "values", values);
        node_push(a, list, axis);
    }
    return list;
}

struct node *search_node(struct arena *a, const struct search_result *r)
{
    struct node *n = node_new(a, NODE_MAP), *configs = node_new(a, NODE_LIST);
    struct node *notes = node_new(a, NODE_LIST);
    for (size_t i = 0; i < r->n; i++) {
        const struct search_config *c = &r->configs[i];
        struct node *config = search_config_node(a, c), *values = node_new(a, NODE_LIST);
        for (size_t k = 0; k < r->space->n_axes; k++)
            node_push(a, values, node_str_or_null(a, c->values[k]));
        node_put(a, config, "values", values);
        struct node *loads = node_find(config, "loads");
        for (size_t k = 0; k < c->n_loads; k++) {
            node_put(a, loads->items[k], "front", node_bool(a, c->loads[k].front));
            node_put(a, loads->items[k], "front_energy", node_bool(a, c->loads[k].front_energy));
        }
        node_push(a, configs, config);
    }
    for (size_t i = 0; i < r->n_notes; i++)
        node_push(a, notes, node_str(a, r->notes[i]));
    node_put(a, n, "schema_version", node_int(a, 1));
    node_put(a, n, "objective", node_str(a, slo_words(a, &r->slo)));
    node_put(a, n, "seeds", node_int(a, r->seeds));
    node_put(a, n, "space", space_node(a, r->space));
    node_put(a, n, "configurations", configs);
    node_put(a, n, "notes", notes);
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
        csv_put_str(w, probe_fields[i].name);
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
    TRY(artifact_create_file(art, SEARCH_JSON, &f, e));
    struct arena *a = arena_new();
    struct buf text = {0};
    json_write(&text, search_node(a, r), 2, true);
    fwrite(buf_str(&text), 1, text.n, f);
    buf_free(&text);
    arena_free(&a);
    return artifact_close_file(art, SEARCH_JSON, &f, e);
}
