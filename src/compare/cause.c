/* Causes of an inconclusive verdict: found in the metas of both runs, weighed after judging. */
#include "compare/cause.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/intern.h"
#include "profile/read/reference_ratio.h"

static const struct {
    const char *id, *remedy;
} causes[CAUSES] = {
    [CAUSE_CLIENT_LATE] = {"client_late",
                           "bench again with a client that keeps its schedule: fewer "
                           "requests per second, or more cores for it"},
    [CAUSE_WORKLOADS_DIFFER] = {"workloads_differ", "run both on one workload: workload.dir="},
    [CAUSE_MODELS_DIFFER] = {"models_differ", "simulate the model of the real run: model="},
    [CAUSE_HARDWARE_DIFFERS] = {"hardware_differs", "profile on the machine of the real run"},
    [CAUSE_MACHINE_CHANGED] = {"machine_changed",
                               "run and profile again, one right after the other"},
    [CAUSE_WAITED_FOR_CORES] = {"waited_for_cores", "run and profile again while nothing else "
                                                    "takes the cores"},
    [CAUSE_STATED_ERROR] = {"stated_error",
                            "a finer profile narrows the interval: profile.samples="},
    [CAUSE_SPREAD] = {"spread", "more requests, or a quieter machine, narrow the spread"},
    [CAUSE_INTERVAL] = {"interval", "more requests narrow the interval: workload.num_requests="},
};

const char *cause_id(enum compare_cause c)
{
    return causes[c].id;
}

const char *cause_remedy(enum compare_cause c)
{
    return causes[c].remedy;
}

bool cause_is_of_run(enum compare_cause c)
{
    return c <= CAUSE_HARDWARE_DIFFERS;
}

/* ---- finding ------------------------------------------------------------------------------- */

struct compare_reason *cause_found(struct arena *a, struct compare_reason found[CAUSES],
                                   enum compare_cause cause, const char *clause, const char *text)
{
    struct compare_reason *r = &found[cause];
    *r = (struct compare_reason){
        .cause = cause, .clause = clause, .text = text, .figures = node_new(a, NODE_MAP)};
    return r;
}

void cause_figure(struct arena *a, struct compare_reason *r, const char *key, double value)
{
    node_set(a, r->figures, sv_of(key), node_float(a, value));
}

static void text_figure(struct arena *a, struct compare_reason *r, const char *key,
                        const char *value)
{
    node_set(a, r->figures, sv_of(key), node_str(a, value));
}

double cause_late_client_ms(const struct run *r)
{
    const struct node *verdict = node_path(r->meta, "client.verdict");
    const struct node *client = node_find(r->meta, "client");
    struct err ignored = {0};
    double ms = 0;
    if (!verdict || verdict->kind != NODE_STR || !sv_eq(verdict->s, "rejected"))
        return -1;
    (void)node_get_double(client, "schedule_delay_p99_ms", 0, 1e12, &ms, &ignored);
    return ms;
}

static void find_late_clients(struct arena *a, struct comparison *c, struct notes *notes)
{
    const struct {
        const struct run *run;
        const char *what, *side;
    } sides[] = {{&c->real, "the real run", "real"}, {&c->sim, "the simulated run", "sim"}};
    for (size_t i = 0; i < 2; i++) {
        double ms = cause_late_client_ms(sides[i].run);
        if (ms < 0)
            continue;
        compare_note(notes,
                     "The client of %s did not keep its schedule: p99 of the delay is %.1f ms. Its "
                     "latencies are the client's too, and nothing is concluded from them.",
                     sides[i].what, ms);
        if (c->found[CAUSE_CLIENT_LATE].text)
            continue;
        const char *clause =
            arena_printf(a, "the client of %s did not keep its schedule", sides[i].what);
        struct compare_reason *r =
            cause_found(a, c->found, CAUSE_CLIENT_LATE, clause,
                        arena_printf(a, "%s (p99 of the delay %.1f ms)", clause, ms));
        text_figure(a, r, "side", sides[i].side);
        cause_figure(a, r, "schedule_delay_p99_ms", ms);
    }
}

/* What waited: the machine's tasks, where their pressure says more than our threads. */
const char *cause_waited(struct arena *a, const struct contention *busy, const char *what)
{
    const double worst = contention_worst(busy);
    char percent[WORDS_MAX];
    words_percent(percent, 100 * worst);
    return busy->pressure >= worst
               ? arena_printf(a, "during %s tasks waited for cores %s of the time", what, percent)
               : arena_printf(a, "%s waited for cores %s of the time", what, percent);
}

static void disturbed_side(struct arena *a, struct comparison *c, struct notes *notes,
                           const struct node *meta, const char *key, const char *what,
                           const char *side)
{
    struct contention busy = contention_of(meta, key);
    const double worst = contention_worst(&busy);
    double *of = strcmp(side, "real") == 0 ? &c->waited_real : &c->waited_sim;
    if (!(worst > 0))
        return;
    const char *said = cause_waited(a, &busy, what);
    if (worst > CONTENTION_TOO_MUCH)
        compare_note(notes, "The machine was busy with something else: %s.", said);
    *of = fmax(*of, worst);
    struct compare_reason *r = &c->found[CAUSE_WAITED_FOR_CORES];
    const struct node *before = r->figures ? node_find(r->figures, "share") : NULL;
    if (before && (before->f > CONTENTION_TOO_MUCH || before->f >= worst))
        return; /* the first side over the limit, else the one that waited most */
    const char *clause = arena_printf(a, "the machine was busy: %s", said);
    r = cause_found(a, c->found, CAUSE_WAITED_FOR_CORES, clause, clause);
    text_figure(a, r, "side", side);
    cause_figure(a, r, "share", worst);
    cause_figure(a, r, "limit", CONTENTION_TOO_MUCH);
}

/* A busy machine slows real runs, each of them, and profiles, not the simulation. */
static void find_disturbance(struct arena *a, struct comparison *c, struct notes *notes)
{
    disturbed_side(a, c, notes, c->real.meta, "contention", "the real run", "real");
    for (size_t i = 0; i < c->params.n_spread; i++)
        disturbed_side(a, c, notes, c->spread_meta[i], "contention",
                       arena_printf(a, "the real run %s", c->params.spread_dirs[i]), "real");
    disturbed_side(a, c, notes, c->sim.meta, "contention", "the simulated run", "sim");
    disturbed_side(a, c, notes, c->sim.meta, "profile_contention",
                   "the profile behind the simulated run", "profile");
}

/* Machine time in the real runs over that in `then`, the geometric mean; NAN when unknown. */
static double slower_than(const struct comparison *c, const struct node *then)
{
    double ln = 0;
    int n = 0;
    for (size_t i = 0; i <= c->params.n_spread; i++) {
        const struct node *meta = i ? c->spread_meta[i - 1] : c->real.meta;
        const double ratio = reference_ratio(node_path(meta, "yardstick"), then);
        if (isnan(ratio))
            continue;
        ln += log(ratio);
        n++;
    }
    return n ? exp(ln / n) : (double)NAN;
}

static void find_drift(struct arena *a, struct comparison *c, struct notes *notes)
{
    const struct node *then = node_path(c->sim.meta, "profile_yardstick");
    const char *what = "while it was profiled";
    if (!then) {
        then = node_path(c->sim.meta, "yardstick");
        what = "in the other run";
    }
    c->drift = slower_than(c, then) - 1;
    if (!(fabs(c->drift) > REFERENCE_TOO_MUCH))
        return;
    char percent[WORDS_MAX];
    const char *changed = c->drift > 0 ? "slower" : "faster";
    words_percent(percent, 100 * fabs(c->drift));
    compare_note(
        notes,
        "The machine itself was %s %s in the real run than %s (the same passes, timed both "
        "times).",
        percent, changed, what);
    const char *clause = arena_printf(a, "the machine itself had become %s %s", percent, changed);
    struct compare_reason *r =
        cause_found(a, c->found, CAUSE_MACHINE_CHANGED, clause,
                    arena_printf(a, "the machine itself was %s %s in the real run than %s", percent,
                                 changed, what));
    cause_figure(a, r, "change_percent", 100 * c->drift);
    cause_figure(a, r, "limit_percent", 100 * REFERENCE_TOO_MUCH);
}

/* ---- one model, one machine ---------------------------------------------------------------- */

static bool is_of_type(const struct run *r, const char *type)
{
    const struct node *n = node_find(r->meta, "run_type");
    return n && n->kind == NODE_STR && sv_eq(n->s, type);
}

static const char *scalar(struct arena *a, const struct node *n)
{
    char number[STR_DOUBLE_MAX];
    if (!n || n->kind == NODE_NULL || n->kind == NODE_LIST || n->kind == NODE_MAP)
        return NULL;
    if (n->kind == NODE_STR)
        return n->s.n ? n->s.p : NULL;
    if (n->kind == NODE_BOOL)
        return n->b ? "true" : "false";
    str_from_double(number, n->kind == NODE_INT ? (double)n->i : n->f);
    return arena_str(a, number);
}

struct difference {
    const char *setting, *real, *sim;
};

static bool differs(struct arena *a, const char *setting, const struct node *real,
                    const struct node *sim, struct difference *out)
{
    *out = (struct difference){setting, scalar(a, real), scalar(a, sim)};
    return out->real && out->sim && strcmp(out->real, out->sim) != 0;
}

/* Whether a model's name is a folder on some machine, not a name of a hub ("Qwen/Qwen3-0.6B"). */
static bool is_path(const char *name)
{
    const char *slash = strchr(name, '/');
    return strchr("/.~", *name) || (slash && strchr(slash + 1, '/'));
}

/* Letters and digits of the last part: "qwen306b" of Qwen/Qwen3-0.6B, of a folder of that name, and
 * of one inside the hub's cache (models--Qwen--Qwen3-0.6B/snapshots/...). */
static const char *bare_name(struct arena *a, const char *name)
{
    static const char cached[] = "/models--";
    char *bare = arena_str(a, name);
    const char *in_cache = strstr(name, cached), *from = name;
    size_t n = strlen(name), k = 0;
    if (in_cache) {
        const char *owner = in_cache + strlen(cached), *own = strstr(owner, "--");
        from = own ? own + 2 : owner;
        n = strcspn(from, "/");
    } else {
        while (n && name[n - 1] == '/')
            n--;
        for (size_t i = 0; i < n; i++)
            if (name[i] == '/')
                from = name + i + 1;
        n -= (size_t)(from - name);
    }
    for (size_t i = 0; i < n; i++)
        if (isalnum((unsigned char)from[i]))
            bare[k++] = (char)tolower((unsigned char)from[i]);
    bare[k] = 0;
    return bare;
}

/* Names tell other models apart, unless they may be two names of one: a folder on one side and a
 * name on the other, or equal but for owner, case and punctuation. */
static bool other_name(struct arena *a, const struct comparison *c, struct difference *out,
                       struct notes *notes)
{
    if (!differs(a, "model", node_find(c->real.meta, "model"), node_find(c->sim.meta, "model"),
                 out))
        return false;
    const char *bare = bare_name(a, out->real);
    const bool equal = *bare && strcmp(bare, bare_name(a, out->sim)) == 0;
    if (!equal && is_path(out->real) == is_path(out->sim))
        return true;
    compare_note(notes,
                 "The model is called %.200s in the real run, %.200s in the simulated one: %s.",
                 out->real, out->sim,
                 equal ? "taken as two names of one model"
                       : "taken as one model, though a folder's name does not tell");
    return false;
}

/* Compares shapes where both metas have them: a model may have two names. */
static bool other_model(struct arena *a, const struct comparison *c, struct difference *out,
                        struct notes *notes)
{
    const struct node *real = node_path(c->real.meta, "params.model.config");
    const struct node *sim = node_path(c->sim.meta, "params.model.config");
    if (!real || !sim || real->kind != NODE_MAP || sim->kind != NODE_MAP)
        return other_name(a, c, out, notes);
    for (uint32_t i = 0; i < real->n; i++) {
        const struct node_pair *p = &real->pairs[i];
        const char *key = arena_strn(a, p->key.p, p->key.n);
        if (differs(a, key, p->value, node_find(sim, key), out))
            return true;
    }
    return false;
}

/* Compares with the profiled machine where the bundle records it, else with the bundle's name. */
static bool other_hardware(struct arena *a, const struct comparison *c, struct difference *out)
{
    static const char *const facts[] = {"cpu", "cores"};
    const struct node *real = node_find(c->real.meta, "host");
    const struct node *profiled = node_find(c->sim.meta, "profile_host");
    if (!profiled || profiled->kind != NODE_MAP)
        return differs(a, "hardware", node_path(c->real.meta, "hardware.hardware_id"),
                       node_path(c->sim.meta, "hardware.hardware_id"), out);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (differs(a, arena_printf(a, "host.%s", facts[i]), node_find(real, facts[i]),
                    node_find(profiled, facts[i]), out))
            return true;
    return false;
}

static void found_difference(struct arena *a, struct comparison *c, enum compare_cause cause,
                             const char *what, const struct difference *d)
{
    struct compare_reason *r =
        cause_found(a, c->found, cause, arena_printf(a, "the runs are not of one %s", what),
                    arena_printf(a,
                                 "the runs are not of one %s: %s is %.200s in the real run, "
                                 "%.200s %s",
                                 what, d->setting, d->real, d->sim,
                                 cause == CAUSE_HARDWARE_DIFFERS ? "where it was profiled"
                                                                 : "in the simulated one"));
    text_figure(a, r, "setting", d->setting);
    text_figure(a, r, "real", d->real);
    text_figure(a, r, "sim", d->sim);
}

/* Applies to simulations only, and only of our own engine: the model and machine of a server or
 * foreign engine are not in bench's settings. */
static void find_other_subject(struct arena *a, struct comparison *c, struct notes *notes)
{
    struct difference d;
    if (!is_of_type(&c->real, "real") || !is_of_type(&c->sim, "vidur"))
        return;
    if (!node_find(c->real.meta, "http") && other_model(a, c, &d, notes))
        found_difference(a, c, CAUSE_MODELS_DIFFER, "model", &d);
    if (!node_find(c->real.meta, "http") && !node_find(c->real.meta, "worker") &&
        other_hardware(a, c, &d))
        found_difference(a, c, CAUSE_HARDWARE_DIFFERS, "machine", &d);
}

/* What a replica's KV cache holds, where both sides say so. */
static void tell_memory(const struct comparison *c, struct notes *notes)
{
    const struct node *real = node_path(c->real.meta, "setup.kv_tokens");
    const struct node *sim = node_path(c->sim.meta, "setup.kv_tokens");
    char one[WORDS_MAX], other[WORDS_MAX];
    if (!real || !sim || real->kind != NODE_INT || sim->kind != NODE_INT || real->i == sim->i)
        return;
    compare_note(notes, "The KV cache holds %s tokens in the real run and %s in the simulated one.",
                 words_count(one, real->i), words_count(other, sim->i));
}

void causes_find(struct arena *a, struct comparison *c, struct notes *notes)
{
    find_late_clients(a, c, notes);
    tell_memory(c, notes);
    find_other_subject(a, c, notes);
    find_disturbance(a, c, notes);
    find_drift(a, c, notes);
}

/* ---- weighing ------------------------------------------------------------------------------ */

static int by_weight(const void *pa, const void *pb)
{
    const struct compare_reason *a = pa, *b = pb;
    if (a->n_cells != b->n_cells)
        return a->n_cells > b->n_cells ? -1 : 1;
    if (a->largest_error_percent > b->largest_error_percent ||
        a->largest_error_percent < b->largest_error_percent)
        return a->largest_error_percent > b->largest_error_percent ? -1 : 1;
    return (a->cause > b->cause) - (a->cause < b->cause);
}

void causes_count(struct compare_reason found[CAUSES], uint32_t set, double error_percent)
{
    for (enum compare_cause k = 0; k < CAUSES; k++) {
        if (!(set & 1u << k))
            continue;
        found[k].n_cells++;
        found[k].largest_error_percent = fmax(found[k].largest_error_percent, fabs(error_percent));
    }
}

size_t causes_weigh(const struct compare_reason found[CAUSES], struct compare_reason out[CAUSES])
{
    size_t n = 0;
    for (enum compare_cause k = 0; k < CAUSES; k++)
        if (found[k].n_cells)
            out[n++] = found[k];
    if (n > 1)
        qsort(out, n, sizeof *out, by_weight);
    return n;
}
