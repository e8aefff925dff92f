/* Host time per iteration of an engine that marks its iterations with ranges. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ranges.h"
#include "kernels/steps.h"
#include "profile/read/host_columns.h"

/* Parts of one iteration, named as in cpu_overheads.csv. */
enum step_part { SCHEDULE, PREPARE, PROCESS, EXECUTION, HOST, PARTS };

struct loop_step {
    uint32_t range;
    int64_t batch;
    bool prefill;
    int64_t ns[PARTS];
};

typedef VEC(struct loop_step) step_list;

static int64_t first_number(const char *s)
{
    s += strcspn(s, "0123456789");
    int64_t v = 0;
    while (*s >= '0' && *s <= '9' && v < 1 << 20)
        v = v * 10 + (*s++ - '0');
    return v;
}

/* Accumulates the time in [from, to) with the GPU busy on the range's work; operations come by
 * start. */
struct busy_cover {
    int64_t until_ns, busy_ns;
    bool any;
};

static void add_cover(struct busy_cover *c, int64_t start, int64_t end)
{
    int64_t from = c->any && c->until_ns > start ? c->until_ns : start;
    c->busy_ns += end > from ? end - from : 0;
    c->until_ns = c->any && c->until_ns > end ? c->until_ns : end;
    c->any = true;
}

static struct busy_cover *cover_ranges(const struct kernels *k, const bool *wanted)
{
    struct busy_cover *c = mem_alloc(k->t->n_ranges * sizeof *c);
    uint32_t chain[KERNELS_MAX_DEPTH];
    for (size_t i = 0; i < k->t->ops.n; i++) {
        int n = kernels_chain(k, i, STYLES_NVTX, chain);
        for (int j = 0; j < n; j++)
            if (wanted[chain[j]])
                add_cover(&c[chain[j]], k->t->ops.start_ns[i], k->t->ops.end_ns[i]);
    }
    return c;
}

bool *kernels_steps_matching(const struct kernels *k, const char *pattern)
{
    bool *wanted = mem_alloc((k->t->n_ranges + 1) * sizeof *wanted);
    bool *class = mem_alloc((k->n_classes + 1) * sizeof *class);
    for (uint32_t i = 0; i < k->n_classes; i++) {
        const char *name = kernels_range_name(k->a, k, k->classes[i].text, k->classes[i].domain);
        class[i] = kernels_has_style(STYLES_NVTX, k->classes[i].style) &&
                   (kernels_match(pattern, name) ||
                    kernels_match(pattern, trace_text(&k->t->dict, k->classes[i].text)));
    }
    for (size_t i = 0; i < k->t->n_ranges; i++)
        wanted[i] = class[k->range_class[i]];
    mem_free(class);
    return wanted;
}

/* Splits one step, up to the start of the next on its thread, into parts. */
static void split(struct loop_step *s, const struct trace_range *r, const struct range_sum *sum,
                  int64_t busy_ns, int64_t next_ns)
{
    int64_t period = next_ns - r->start_ns;
    s->ns[SCHEDULE] = next_ns > r->end_ns ? next_ns - r->end_ns : 0;
    s->ns[EXECUTION] = busy_ns;
    s->ns[HOST] = period > busy_ns ? period - busy_ns : 0;
    int64_t after = r->end_ns - sum->last_ns;
    s->ns[PROCESS] = after > 0 ? after : 0;
    int64_t rest = s->ns[HOST] - s->ns[SCHEDULE] - s->ns[PROCESS];
    s->ns[PREPARE] = rest > 0 ? rest : 0;
}

struct numbered {
    int64_t start_ns;
    uint32_t range;
};

static int by_start(const void *pa, const void *pb)
{
    const struct numbered *a = pa, *b = pb;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->range < b->range ? -1 : a->range > b->range;
}

/* [n_ranges] number of each wanted range, by start. */
static int64_t *number_ranges(const struct trace *t, const bool *wanted)
{
    struct numbered *order = mem_alloc((t->n_ranges + 1) * sizeof *order);
    int64_t *number = mem_alloc((t->n_ranges + 1) * sizeof *number);
    size_t n = 0;
    for (uint32_t i = 0; i < t->n_ranges; i++)
        if (wanted[i])
            order[n++] = (struct numbered){t->ranges[i].start_ns, i};
    if (n)
        qsort(order, n, sizeof *order, by_start);
    for (size_t i = 0; i < n; i++)
        number[order[i].range] = (int64_t)i;
    mem_free(order);
    return number;
}

void kernels_steps_find(const struct kernels *k, const bool *wanted, kernels_step_list *out)
{
    const struct trace *t = k->t;
    struct busy_cover *cover = cover_ranges(k, wanted);
    int64_t *number = number_ranges(t, wanted);
    const struct range_sum *sums = kernels_range_sums(k, STYLES_NVTX);
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        if (!wanted[i])
            continue;
        uint32_t next = i + 1;
        while (next < t->n_ranges && !wanted[next])
            next++;
        if (!sums[i].n_ops || next == t->n_ranges ||
            t->ranges[next].thread != t->ranges[i].thread ||
            t->ranges[next].start_ns < t->ranges[i].end_ns)
            continue; /* skips the last one, which has no successor, and nested ones */
        vec_push(out,
                 ((struct kernels_step){i, number[i], t->ranges[next].start_ns, cover[i].busy_ns}));
    }
    mem_free(number);
    mem_free(cover);
}

static step_list find_steps(const struct kernels *k, const struct kernels_step_params *p)
{
    const struct trace *t = k->t;
    step_list steps = {0};
    kernels_step_list found = {0};
    bool *wanted = kernels_steps_matching(k, p->pattern);
    const struct range_sum *sums = kernels_range_sums(k, STYLES_NVTX);
    kernels_steps_find(k, wanted, &found);
    for (size_t j = 0; j < found.n; j++) {
        const uint32_t i = found.p[j].range;
        const char *name = trace_text(&t->dict, t->ranges[i].text);
        struct loop_step s = {.range = i,
                              .batch = p->batch_size ? p->batch_size : first_number(name),
                              .prefill = strstr(name, "prefill") || strstr(name, "Prefill")};
        s.batch = s.batch > 0 ? s.batch : 1;
        split(&s, &t->ranges[i], &sums[i], found.p[j].busy_ns, found.p[j].next_ns);
        vec_push(&steps, s);
    }
    mem_free(wanted);
    vec_free(&found);
    return steps;
}

static int by_batch(const void *x, const void *y)
{
    const struct loop_step *a = x, *b = y;
    if (a->batch != b->batch)
        return a->batch < b->batch ? -1 : 1;
    return a->range < b->range ? -1 : a->range > b->range;
}

static struct kernels_stats figures(const struct loop_step *s, size_t n, enum step_part part,
                                    int kind)
{
    int64_t *v = mem_alloc(n * sizeof *v);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kind < 0 || s[i].prefill == (kind == 1))
            v[kept++] = s[i].ns[part];
    struct kernels_stats out = kernels_stats_of(v, kept);
    mem_free(v);
    return out;
}

/* Writes an empty cell for n too small: below 1 value, or below 2 for a deviation. */
static void put_ms(struct table *t, double ns, size_t n)
{
    if (n && !isnan(ns))
        table_cell(t, "%.6f", ns / 1e6);
    else
        table_cell(t, "%s", "");
}

static void put_row(struct table *t, const struct loop_step *s, size_t n,
                    const struct kernels_step_params *p)
{
    /* sampler_e2e and ray_comm_time are included in the others: the range does not separate them.
     * Uses decode iterations where there are any, as the profiler does. */
    static const int parts[] = {SCHEDULE, -1, PREPARE, EXECUTION, PROCESS};
    int kind = figures(s, n, HOST, 0).n ? 0 : -1;
    for (int i = 0; i < 5; i++) {
        struct kernels_stats f = parts[i] < 0 ? (struct kernels_stats){.n = 1}
                                              : figures(s, n, (enum step_part)parts[i], kind);
        put_ms(t, f.mean, 1);
        put_ms(t, f.median, 1);
    }
    put_ms(t, 0, 1);
    table_cell(t, "%s", p->model);
    table_cell(t, "%lld", (long long)s->batch);
    table_cell(t, "%lld", (long long)p->tensor_parallel);
    for (int prefill = 0; prefill < 2; prefill++) {
        struct kernels_stats f = figures(s, n, HOST, prefill);
        put_ms(t, (double)f.min, f.n);
        put_ms(t, (double)f.max, f.n);
        put_ms(t, f.mean, f.n);
        put_ms(t, f.median, f.n);
        put_ms(t, f.stddev, f.n);
        table_cell(t, "%zu", f.n);
    }
}

struct table *kernels_step_table(struct arena *a, const struct kernels *k,
                                 const struct kernels_step_params *p)
{
    struct table *t = table_new(a, HOST_COLUMNS);
    for (int i = 0; i < HOST_COLUMNS; i++)
        table_cell(t, "%s", host_columns[i]);
    step_list steps = find_steps(k, p);
    if (steps.n)
        qsort(steps.p, steps.n, sizeof *steps.p, by_batch);
    for (size_t i = 0; i < steps.n;) {
        size_t n = 1;
        while (i + n < steps.n && steps.p[i + n].batch == steps.p[i].batch)
            n++;
        put_row(t, steps.p + i, n, p);
        i += n;
    }
    vec_free(&steps);
    return t;
}
