/* Sentences of a comparison of runs with the first. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/ab.h"
#include "compare/bootstrap.h"
#include "compare/intern.h"
#include "text/json.h"

static const enum metric told[] = {METRIC_TTFT, METRIC_TPOT, METRIC_E2E};
enum { TOLD = sizeof told / sizeof *told, P50 = 0, P90 = 1 };

/* ---- numbers ------------------------------------------------------------------------------- */

/* "2.9", "-12"; with a sign in front of positive ones as well where `sign`. */
static const char *bound(struct arena *a, double percent, bool sign)
{
    const int decimals = fabs(percent) < 9.95 ? 1 : 0;
    const double v = fabs(percent) < 0.05 ? 0 : percent;
    return sign && v > 0 ? arena_printf(a, "+%.*f", decimals, v)
                         : arena_printf(a, "%.*f", decimals, v);
}

const char *ab_change_text(struct arena *a, const struct ab_cell *c)
{
    char change[WORDS_MAX];
    words_change(change, c->change_percent);
    if (c->call == AB_UNKNOWN)
        return arena_str(a, change);
    if (c->call == AB_NO_DIFFERENCE)
        return arena_printf(a, "no clear difference: %s (%s .. %s)", change,
                            bound(a, c->low_percent, true), bound(a, c->high_percent, true));
    const bool slower = c->call == AB_SLOWER;
    const double low = slower ? c->low_percent : -c->high_percent;
    const double high = slower ? c->high_percent : -c->low_percent;
    return arena_printf(a, "%s (%s .. %s) %s", words_percent(change, fabs(c->change_percent)),
                        bound(a, low, false), bound(a, high, false), ab_call_name(c->call));
}

/* "B is 4.1 % (2.9 .. 5.3) slower than A in TPOT P50" */
static const char *sentence(struct arena *a, const struct ab_run *r, enum metric m, int p,
                            bool with_repeats)
{
    const struct ab_cell *c = &r->cells[m][p];
    char number[WORDS_MAX];
    const char *where =
        arena_printf(a, "%s P%.0f", compare_metric_title(m), compare_percentiles[p]);
    const char *repeat = "";
    if (with_repeats && !isnan(c->repeat_percent))
        repeat = arena_printf(a, "; A's repeats differ by up to %s",
                              words_percent(number, c->repeat_percent));
    if (isnan(c->change_percent))
        return arena_printf(a, "%s of %s cannot be compared with A's: one has no values", where,
                            r->name);
    if (c->call == AB_UNKNOWN)
        return arena_printf(a,
                            "%s of %s is %s against A's; %zu requests are too few for an "
                            "interval%s",
                            where, r->name, words_change(number, c->change_percent), r->n_requests,
                            repeat);
    if (c->call == AB_NO_DIFFERENCE)
        return arena_printf(a, "no clear difference between %s and A in %s: %s (%s .. %s)%s",
                            r->name, where, words_change(number, c->change_percent),
                            bound(a, c->low_percent, true), bound(a, c->high_percent, true),
                            repeat);
    return arena_printf(a, "%s is %s than A in %s%s", r->name, ab_change_text(a, c), where, repeat);
}

/* ---- what differs -------------------------------------------------------------------------- */

enum { MAX_SETTINGS = 48 };

struct ab_settings {
    struct arena *a;
    const struct ab *x;
    struct ab_setting *v;
    size_t n, more;
};

static const char *text_of(struct arena *a, const struct node *n)
{
    if (!n || n->kind == NODE_NULL)
        return NULL;
    if (n->kind == NODE_STR)
        return n->s.p;
    struct buf json = {0};
    json_write(&json, n, 0, true);
    const char *text = arena_str(a, buf_str(&json));
    buf_free(&json);
    return text;
}

static void add_path(struct ab_settings *s, const char *path, const char *name, const char *group)
{
    struct ab_setting row = {.name = name};
    bool differs = false;
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i].name, name) == 0)
            return;
    const char *first = NULL;
    bool seen = false;
    for (size_t i = 0; i < s->x->params.n; i++) {
        const struct node *meta = s->x->runs[i].run.meta;
        const char *v = row.values[i] = text_of(s->a, node_path(meta, path));
        /* A meta without the whole group is no evidence; one that lacks this setting alone is. */
        if (!v && !(group && node_path(meta, group)))
            continue;
        differs = differs || (seen && (!first != !v || (v && strcmp(first, v) != 0)));
        first = v, seen = true;
    }
    if (!differs)
        return;
    if (s->n == MAX_SETTINGS)
        s->more++;
    else
        s->v[s->n++] = row;
}

/* Leaves of `map`, by their dotted names below params. */
static void add_leaves(struct ab_settings *s, const struct node *map, const char *prefix,
                       const char *group)
{
    static const char *const passed_over[] = {"out", "json", "repeat", "vars", "log", "output"};
    for (uint32_t i = 0; i < map->n; i++) {
        const struct node_pair *p = &map->pairs[i];
        const char *name = arena_printf(s->a, "%s%.*s", prefix, (int)p->key.n, p->key.p);
        bool skip = false;
        for (size_t k = 0; k < sizeof passed_over / sizeof *passed_over; k++)
            skip = skip || strcmp(name, passed_over[k]) == 0;
        if (skip)
            continue;
        if (p->value->kind == NODE_MAP)
            add_leaves(s, p->value, arena_printf(s->a, "%s.", name),
                       group ? group : arena_printf(s->a, "params.%s", name));
        else
            add_path(s, arena_printf(s->a, "params.%s", name), name, group);
    }
}

static void find_settings(struct arena *a, struct ab *x)
{
    static const struct {
        const char *path, *name;
    } facts[] = {{"run_type", "kind of run"},
                 {"model", "model"},
                 {"backend", "engine"},
                 {"http.url", "url"},
                 {"hardware.hardware_id", "hardware"},
                 {"hardware.device", "device"},
                 {"host.cpu", "processor"},
                 {"host.cores", "cores"},
                 {"worker.hello.info.gpu", "GPU"},
                 {"worker.hello.version", "version of the engine"},
                 {"profiling_root", "profile"},
                 {"predictor", "predictor"},
                 {"tool.version", "twinfer"},
                 {"tool.compiler", "compiler"}};
    struct ab_settings s = {.a = a, .x = x, .v = arena_array(a, struct ab_setting, MAX_SETTINGS)};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        add_path(&s, facts[i].path, facts[i].name, NULL);
    for (size_t i = 0; i < x->params.n; i++) {
        const struct node *params = node_find(x->runs[i].run.meta, "params");
        if (params && params->kind == NODE_MAP)
            add_leaves(&s, params, "", NULL);
    }
    x->settings = s.v;
    x->n_settings = s.n;
}

/* ---- notes --------------------------------------------------------------------------------- */

static bool is_true(const struct node *meta, const char *key)
{
    const struct node *v = node_find(meta, key);
    return v && v->kind == NODE_BOOL && v->b;
}

static void tell_runs(const struct ab *x, struct notes *n)
{
    size_t simulated = 0;
    for (size_t i = 0; i < x->params.n; i++) {
        const struct ab_run *r = &x->runs[i];
        simulated += r->simulated;
        if (is_true(r->run.meta, "uncalibrated"))
            compare_note(n, "%s is uncalibrated: no measurement stands behind its times.", r->name);
        if (r->n_left_out)
            compare_note(
                n,
                "%s: %zu of %zu requests count; warm-up, failed ones and those that another "
                "run lacks are left out.",
                r->name, r->n_requests, r->run.n_requests);
        if (!r->paired)
            compare_note(
                n,
                "%s did not serve the requests of A (other ids, arrivals or lengths): the two "
                "are compared as samples, not request by request.",
                r->name);
        if (i > 0 && r->same_times)
            compare_note(
                n, "%s has A's times to the nanosecond: it is a copy, or the same simulation.",
                r->name);
        if (!r->run.tokens)
            compare_note(n, "%s has no token_metrics.csv: per-token latency is not compared.",
                         r->run.dir);
        if (r->run.n_contradictions)
            compare_note(n, "%s: %zu cells contradict the times they follow from; the times count.",
                         r->run.dir, r->run.n_contradictions);
    }
    if (simulated && simulated < x->params.n)
        compare_note(
            n, "Some runs are simulated and some real: how far a simulation is from its real run "
               "is judged by real_run_dir= and sim_run_dir=.");
}

static void tell_conditions(const struct ab *x, struct notes *n)
{
    static const enum compare_cause told_causes[] = {CAUSE_CLIENT_LATE, CAUSE_WAITED_FOR_CORES,
                                                     CAUSE_MACHINE_CHANGED};
    for (size_t i = 0; i < sizeof told_causes / sizeof *told_causes; i++) {
        const char *text = x->found[told_causes[i]].text;
        if (text)
            compare_note(n, "%c%s: it is part of the difference.", (char)(text[0] - 'a' + 'A'),
                         text + 1);
    }
}

static void tell_method(const struct ab *x, struct notes *n)
{
    size_t paired = 0, least = x->runs[0].n_requests;
    for (size_t i = 1; i < x->params.n; i++) {
        paired += x->runs[i].paired;
        least = x->runs[i].n_requests < least ? x->runs[i].n_requests : least;
    }
    if (x->draws)
        compare_note(n, "Intervals: 95 %%, from %d draws of blocks of %zu consecutive requests%s.",
                     x->draws, boot_block(least),
                     paired == x->params.n - 1 ? ", the same of both runs (paired by request)"
                     : paired ? ", the same of both runs where they served the same requests"
                              : ", of each run by itself");
    if (x->params.n_spread == 0)
        compare_note(n,
                     "The intervals tell how well these requests pin a difference down, not what "
                     "another run of the same configuration would differ by: spread=DIR,DIR takes "
                     "repeats of A.");
}

/* ---- outcome ------------------------------------------------------------------------------- */

struct ab_place {
    const struct ab_run *run; /* NULL = none */
    enum metric metric;
    int percentile;
};

static const struct ab_cell *cell_at(const struct ab_place *p)
{
    return &p->run->cells[p->metric][p->percentile];
}

/* The clearest difference in that direction: farthest from 0 in widths of its interval. only NULL:
 * any run. */
static struct ab_place clearest(const struct ab *x, enum ab_call call, const struct ab_run *only)
{
    struct ab_place found = {0};
    double best = -1;
    for (size_t i = 1; i < x->params.n; i++) {
        for (size_t k = 0; k < TOLD; k++) {
            for (int p = P50; p <= P90; p++) {
                const struct ab_run *r = &x->runs[i];
                const struct ab_cell *c = &r->cells[told[k]][p];
                double width = c->high_percent - c->low_percent;
                double clear = width > 0 ? fabs(c->change_percent) / width : 1e9;
                if (c->call != call || (only && r != only) || !(clear > best))
                    continue;
                best = clear;
                found = (struct ab_place){r, told[k], p};
            }
        }
    }
    return found;
}

/* The slowest cell against A with that verdict. */
static struct ab_place slowest(const struct ab *x, enum verdict v)
{
    struct ab_place found = {0};
    for (size_t i = 1; i < x->params.n; i++) {
        for (int at = 0; at < METRICS * COMPARE_PERCENTILES; at++) {
            const struct ab_place here = {&x->runs[i], (enum metric)(at / COMPARE_PERCENTILES),
                                          at % COMPARE_PERCENTILES};
            if (cell_at(&here)->verdict != v ||
                (found.run && cell_at(&here)->change_percent <= cell_at(&found)->change_percent))
                continue;
            found = here;
        }
    }
    return found;
}

/* Reports both directions: a setting often trades one metric for another. */
static const char *tell_clearest(struct arena *a, const struct ab *x)
{
    struct ab_place slower = clearest(x, AB_SLOWER, NULL), faster = clearest(x, AB_FASTER, NULL);
    const struct ab_place *first = &slower, *second = &faster;
    if (!slower.run && !faster.run) {
        if (x->draws == 0)
            return sentence(a, &x->runs[1], METRIC_TPOT, P50, false);
        return x->params.n == 2
                   ? "no clear difference between B and A in P50 and P90 of TTFT, TPOT and E2E"
                   : "no run differs clearly from A in P50 and P90 of TTFT, TPOT and E2E";
    }
    if (!slower.run)
        first = &faster, second = &slower;
    else if (faster.run)
        faster = clearest(x, AB_FASTER, slower.run);
    const char *text = sentence(a, first->run, first->metric, first->percentile, false);
    if (!second->run)
        return text;
    return arena_printf(a, "%s, and %s in %s P%.0f", text, ab_change_text(a, cell_at(second)),
                        compare_metric_title(second->metric),
                        compare_percentiles[second->percentile]);
}

static const char *outcome(struct arena *a, const struct ab *x)
{
    if (x->verdict == VERDICT_NONE)
        return tell_clearest(a, x);
    if (x->verdict != VERDICT_INCONCLUSIVE) {
        const struct ab_place at = slowest(x, x->verdict);
        return arena_printf(a, "%s: %s", verdict_name(x->verdict),
                            sentence(a, at.run, at.metric, at.percentile, false));
    }
    struct buf text = {0};
    for (size_t i = 0; i < x->n_reasons; i++)
        buf_printf(&text, "%s%s", i ? "; " : "", x->reasons[i].text);
    const char *all = arena_printf(a, "inconclusive: %s", buf_str(&text));
    buf_free(&text);
    return all;
}

void ab_tell(struct arena *a, struct ab *x)
{
    struct notes notes = {.a = a};
    find_settings(a, x);
    for (size_t i = 1; i < x->params.n; i++) {
        const char **lines = arena_array(a, const char *, TOLD);
        for (size_t k = 0; k < TOLD; k++)
            lines[k] = sentence(a, &x->runs[i], told[k], P50, true);
        x->runs[i].lines = lines;
        x->runs[i].n_lines = TOLD;
    }
    x->outcome = outcome(a, x);
    tell_runs(x, &notes);
    tell_conditions(x, &notes);
    tell_method(x, &notes);
    x->n_notes = compare_notes_end(&notes, &x->notes);
}
