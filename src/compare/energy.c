/* Energy of a real run, measured, and of the simulated one: from `energy` of their metas. */
#include <math.h>

#include "compare/intern.h"

static double figure(const struct run *r, const char *key)
{
    const struct node *n = node_path(r->meta, key);
    if (n && n->kind == NODE_INT)
        return (double)n->i;
    return n && n->kind == NODE_FLOAT ? n->f : (double)NAN;
}

static struct compare_energy_of pair_of(const struct comparison *c, const char *key)
{
    struct compare_energy_of x = {.real = figure(&c->real, key), .sim = figure(&c->sim, key)};
    x.error_percent = x.real > 0 ? 100 * (x.sim - x.real) / x.real : (double)NAN;
    return x;
}

static const char *why_not(const struct run *r)
{
    const struct node *n = node_path(r->meta, "energy.unknown_because");
    return n && n->kind == NODE_STR ? n->s.p : NULL;
}

static const char *line(struct arena *a, const char *what, const struct compare_energy_of *x)
{
    char change[WORDS_MAX];
    return arena_printf(a, "%s: %.4g measured, %.4g simulated, %s", what, x->real, x->sim,
                        words_change(change, x->error_percent));
}

void compare_energy_find(struct arena *a, struct comparison *c)
{
    struct compare_energy *x = &c->energy;
    x->per_token = pair_of(c, "energy.j_per_token");
    x->per_request = pair_of(c, "energy.j_per_request");
    x->power_w = pair_of(c, "energy.mean_power_w");
    x->known = !isnan(x->per_token.error_percent) || !isnan(x->per_request.error_percent);
    if (x->known) {
        const char **lines = arena_array(a, const char *, 3);
        lines[x->n_lines++] = line(a, "J per output token", &x->per_token);
        lines[x->n_lines++] = line(a, "J per request", &x->per_request);
        lines[x->n_lines++] = line(a, "average power, W", &x->power_w);
        x->lines = lines;
        return;
    }
    /* one side has it and the other does not: say why */
    const bool measured = !isnan(x->per_token.real), simulated = !isnan(x->per_token.sim);
    if (measured == simulated)
        return;
    const char *why = why_not(measured ? &c->sim : &c->real);
    const char **lines = arena_array(a, const char *, 1);
    lines[x->n_lines++] = arena_printf(a, "%s alone has energy%s%s",
                                       measured ? "the measured run" : "the simulated run",
                                       why ? "; of the other: " : "", why ? why : "");
    x->lines = lines;
}
