#include "kernels/iterations.h"

#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "kernels/ranges.h"
#include "kernels/steps.h"

static const int64_t MOST_WAITS = 3; /* medians */

struct chosen_ranges {
    bool *wanted;           /* [n_ranges] */
    struct composition *of; /* [n_ranges], of wanted ones */
    const char *template;   /* NULL = of payloads and tables alone */
    size_t n;
};

/* ---- ranges ---------------------------------------------------------------------------------- */

static bool composition_of(const struct kernels *k, uint32_t range, const char *template,
                           struct composition *out)
{
    const struct trace_range *r = &k->t->ranges[range];
    const char *values = trace_text(&k->t->dict, r->values);
    if (values && *values && composition_of_json(values, out))
        return true;
    return template && composition_match(template, trace_text(&k->t->dict, r->text), out);
}

/* Ranges of the pattern, or all that say their composition in this way. */
static void choose(struct arena *a, const struct kernels *k, const char *pattern,
                   const char *template, struct chosen_ranges *out)
{
    const size_t n = k->t->n_ranges;
    bool *matching = pattern ? kernels_steps_matching(k, pattern) : NULL;
    *out = (struct chosen_ranges){.template = template};
    out->wanted = arena_array(a, bool, n + 1);
    out->of = arena_array(a, struct composition, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const bool said = kernels_has_style(STYLES_NVTX, k->t->ranges[i].style) &&
                          composition_of(k, i, template, &out->of[i]);
        if (!said)
            out->of[i] = (struct composition){0};
        out->wanted[i] = matching ? matching[i] : said;
        out->n += out->wanted[i] && said;
    }
    mem_free(matching);
}

/* The template of auto is the known one that most ranges match. */
static void choose_any(struct arena *a, const struct kernels *k, const char *pattern,
                       struct chosen_ranges *out)
{
    choose(a, k, pattern, NULL, out);
    for (const struct composition_template *x = composition_known; x->name; x++) {
        struct chosen_ranges other;
        choose(a, k, pattern, x->text, &other);
        if (other.n > out->n)
            *out = other;
    }
}

static void choose_by_table(struct arena *a, const struct kernels *k, const char *pattern,
                            const struct composition_table *t, struct chosen_ranges *out)
{
    const struct composition nothing = {0};
    kernels_step_list steps = {0};
    choose(a, k, pattern, NULL, out);
    kernels_steps_find(k, out->wanted, &steps);
    out->n = 0;
    for (size_t i = 0; i < steps.n; i++) {
        const struct composition *c = composition_at(t, steps.p[i].number);
        out->of[steps.p[i].range] = c ? *c : nothing;
        out->n += c != NULL;
    }
    vec_free(&steps);
}

/* ---- times ----------------------------------------------------------------------------------- */

static int64_t wait_of(const struct kernels *k, const struct kernels_step *s)
{
    const int64_t wait = s->next_ns - k->t->ranges[s->range].end_ns;
    return wait > 0 ? wait : 0;
}

static int64_t median_wait(const struct kernels *k, const kernels_step_list *steps)
{
    int64_t *v = mem_alloc((steps->n + 1) * sizeof *v);
    for (size_t i = 0; i < steps->n; i++)
        v[i] = wait_of(k, &steps->p[i]);
    qsort(v, steps->n, sizeof *v, order_int64);
    const int64_t median = v[steps->n / 2];
    mem_free(v);
    return median;
}

struct timed_sample {
    int64_t start_ns;
    struct whole_sample s;
};

static int by_time(const void *pa, const void *pb)
{
    const struct timed_sample *a = pa, *b = pb;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

static struct whole_sample *samples_of(struct arena *a, const struct kernels *k,
                                       const struct chosen_ranges *c,
                                       const kernels_step_list *steps,
                                       struct kernels_iterations_result *out)
{
    struct timed_sample *v = arena_array(a, struct timed_sample, steps->n + 1);
    const int64_t median = steps->n ? median_wait(k, steps) : 0;
    size_t n = 0;
    bool kv = false;
    for (size_t i = 0; i < steps->n; i++) {
        const struct kernels_step *s = &steps->p[i];
        const struct trace_range *r = &k->t->ranges[s->range];
        const struct iterations_batch b = composition_batch(&c->of[s->range]);
        const int64_t wait = wait_of(k, s), counted = wait > MOST_WAITS * median ? median : wait;
        const int64_t span = s->next_ns - r->start_ns - (wait - counted);
        if (b.chunk_tokens + b.decode_sequences <= 0)
            continue;
        out->cut_waits |= counted < wait;
        kv |= b.decode_sequences <= 0 || c->of[s->range].known[COMPOSITION_KV];
        const double device_s = (double)s->busy_ns / 1e9;
        const double host_s = span > s->busy_ns ? (double)(span - s->busy_ns) / 1e9 : 0;
        v[n++] = (struct timed_sample){r->start_ns, {b, host_s, device_s, 0}};
    }
    out->iterations = n;
    out->kv_unknown = n > 0 && !kv;
    if (n)
        qsort(v, n, sizeof *v, by_time);
    struct whole_sample *samples = arena_array(a, struct whole_sample, n + 1);
    for (size_t i = 0; i < n; i++)
        samples[i] = v[i].s;
    return samples;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum st none(const struct kernels_iterations_params *p, const struct chosen_ranges *c,
                    struct err *e)
{
    if (p->table)
        err_set(e, ST_INPUT, "kernels.step_table: no iteration of %s has a row in %s", p->pattern,
                p->table);
    else
        err_set(e, ST_INPUT, "kernels.composition: no range says what was in its batch, as %s",
                strcmp(p->composition, "auto") == 0 ? composition_known[0].text : p->composition);
    return c->n ? err_hint(e, "an iteration launches work and is followed by another on its thread")
                : err_hint(e, "regions.md of a run without this lists the ranges");
}

static struct node *meta_of(struct arena *a, const struct kernels_iterations_params *p,
                            const struct kernels_iterations_result *r)
{
    struct node *m = p->to.meta ? node_copy(a, p->to.meta) : node_new(a, NODE_MAP);
    node_put(a, m, "composition", node_str_or_null(a, r->composition));
    node_put(a, m, "composition_table", node_str_or_null(a, p->table));
    node_put(a, m, "ranges", node_int(a, (int64_t)r->ranges));
    node_put(a, m, "kv_known", node_bool(a, !r->kv_unknown));
    node_put(a, m, "waits_cut", node_bool(a, r->cut_waits));
    return m;
}

enum st kernels_iterations(struct arena *a, const struct kernels *k,
                           const struct kernels_iterations_params *p,
                           struct kernels_iterations_result *out, struct err *e)
{
    struct chosen_ranges c;
    struct composition_table table = {0};
    struct whole_params to = p->to;
    kernels_step_list steps = {0};
    *out = (struct kernels_iterations_result){0};
    if (p->table) {
        TRY(composition_load(a, p->table, &table, e));
        choose_by_table(a, k, p->pattern, &table, &c);
    } else if (strcmp(p->composition, "auto") == 0) {
        choose_any(a, k, p->pattern, &c);
    } else {
        TRY(composition_check(p->composition, e));
        choose(a, k, p->pattern, p->composition, &c);
    }
    out->composition = c.template;
    for (size_t i = 0; i < k->t->n_ranges; i++)
        out->ranges += c.wanted[i];
    kernels_steps_find(k, c.wanted, &steps);
    const struct whole_sample *samples = samples_of(a, k, &c, &steps, out);
    vec_free(&steps);
    if (out->iterations == 0)
        return none(p, &c, e);
    to.meta = meta_of(a, p, out);
    return whole_write(a, &to, samples, out->iterations, &out->bundle, e);
}
