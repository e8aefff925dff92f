#include "job/range_energy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "text/csv.h"

static int by_start(const void *x, const void *y)
{
    const struct range_energy *a = x, *b = y;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->duration_s < b->duration_s) - (a->duration_s > b->duration_s);
}

static int by_name(const void *x, const void *y)
{
    const struct range_energy *a = x, *b = y;
    const int domain = strcmp(a->domain, b->domain), range = strcmp(a->range, b->range);
    return domain ? domain : range ? range : by_start(x, y);
}

static void sort(struct range_energy *p, size_t n, int (*order)(const void *, const void *))
{
    if (n)
        qsort(p, n, sizeof *p, order);
}

/* Neighbours of one name become one row; returns how many are left. */
static size_t join_names(struct range_energy *p, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        struct range_energy *last = out ? &p[out - 1] : NULL;
        if (!last || strcmp(last->range, p[i].range) || strcmp(last->domain, p[i].domain)) {
            p[out++] = p[i];
            continue;
        }
        last->instances += p[i].instances;
        last->duration_s += p[i].duration_s;
    }
    return out;
}

struct range_energy *range_energy_of(struct arena *a, const struct trace *t,
                                     const struct power_log *log, int64_t shift_ns, double least_s,
                                     size_t *n)
{
    struct range_energy *rows = arena_array(a, struct range_energy, t->n_ranges);
    struct range_energy *brief = arena_array(a, struct range_energy, t->n_ranges);
    size_t n_long = 0, n_brief = 0;
    for (size_t i = 0; i < t->n_ranges; i++) {
        const struct trace_range *r = &t->ranges[i];
        struct range_energy row = {.range = t->dict.strings[r->text].p,
                                   .domain = t->dict.strings[r->domain].p,
                                   .instances = 1,
                                   .start_ns = r->start_ns,
                                   .duration_s = ns_to_s(r->end_ns - r->start_ns)};
        row.too_short = row.duration_s < least_s;
        if (row.too_short) {
            brief[n_brief++] = row;
            continue;
        }
        row.energy = energy_of(log, r->start_ns + shift_ns, r->end_ns + shift_ns);
        rows[n_long++] = row;
    }
    sort(rows, n_long, by_start);
    sort(brief, n_brief, by_name);
    n_brief = join_names(brief, n_brief);
    for (size_t i = 0; i < n_brief; i++)
        rows[n_long + i] = brief[i];
    *n = n_long + n_brief;
    return rows;
}

void range_energy_write(FILE *f, const struct range_energy *rows, size_t n, double least_s)
{
    static const char *const names[] = {"range",      "domain",       "instances",      "start_ns",
                                        "duration_s", "energy_j",     "edge_j",         "counter_j",
                                        "samples",    "mean_power_w", "unknown_because"};
    struct csv_writer w = {.f = f};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        csv_put_str(&w, names[i]);
    csv_end_row(&w);
    for (size_t i = 0; i < n; i++) {
        const struct range_energy *r = &rows[i];
        const bool known = !r->too_short && r->energy.how != ENERGY_EXCLUDED;
        const double unknown = (double)NAN;
        csv_put_str(&w, r->range);
        csv_put_str(&w, r->domain);
        csv_put_int(&w, r->instances);
        csv_put_int(&w, r->start_ns);
        csv_put_double(&w, r->duration_s);
        csv_put_double(&w, known ? r->energy.joules : unknown);
        csv_put_double(&w, known ? r->energy.edge_j : unknown);
        csv_put_double(&w, known ? r->energy.counter_j : unknown);
        csv_put_int(&w, r->too_short ? 0 : r->energy.samples);
        csv_put_double(&w, known ? r->energy.joules / r->duration_s : unknown);
        if (r->too_short) {
            char why[96];
            snprintf(why, sizeof why, "shorter than %.3g s, which the sensor needs", least_s);
            csv_put_str(&w, why);
        } else {
            csv_put_str(&w, known ? "" : "no sample of power");
        }
        csv_end_row(&w);
    }
}
