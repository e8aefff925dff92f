/* Iterations of a server by kind: medians, tables. */
#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "kernels/serving.h"
#include "text/fields.h"

/* ---- medians --------------------------------------------------------------------------------- */

typedef double serving_value(const struct serving_iteration *x, const struct serving *s, int class);

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

#define VALUE(name, expression)                                                               \
    static double name(const struct serving_iteration *x, const struct serving *s, int class) \
    {                                                                                         \
        (void)s, (void)class;                                                                 \
        return expression;                                                                    \
    }
VALUE(tokens, x->log ? (double)(x->log->context_tokens + x->log->generation_tokens) : (double)NAN)
VALUE(requests,
      x->log ? (double)(x->log->context_requests + x->log->generation_requests) : (double)NAN)
VALUE(calls, x->calls)
VALUE(graphs, x->graphs)
VALUE(operations, x->operations)
VALUE(launch_ms, ms(x->launch_to_ns - x->launch_from_ns))
VALUE(before_ms, x->before_ns < 0 ? (double)NAN : ms(x->before_ns))
VALUE(busy_ms, ms(x->busy_ns))
VALUE(gaps_ms, ms(x->to_ns - x->from_ns - x->busy_ns))
VALUE(idle_ms, x->after_idle || x == s->of ? (double)NAN
               : x->from_ns > x[-1].to_ns  ? ms(x->from_ns - x[-1].to_ns)
                                           : 0)
VALUE(period_ms, x->after_idle ? (double)NAN : ms(x->period_ns))
VALUE(class_ms, ms(x->class_ns[class]))
#undef VALUE

/* Over the iterations of a kind; v: room for all. */
static double median(const struct serving *s, enum serving_kind kind, serving_value *value,
                     int class, double *v)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const double x = s->of[i].kind == kind ? value(&s->of[i], s, class) : (double)NAN;
        if (!isnan(x))
            v[n++] = x;
    }
    return stats_median(v, n);
}

struct serving_sum *serving_sums(struct arena *a, const struct serving *s, size_t *n)
{
    struct serving_sum *sums = arena_array(a, struct serving_sum, SERVING_KINDS);
    double *v = mem_alloc((s->n + 1) * sizeof *v);
    *n = 0;
    for (unsigned kind = 0; kind < SERVING_KINDS; kind++) {
        struct serving_sum x = {.kind = (enum serving_kind)kind};
        for (size_t i = 0; i < s->n; i++) {
            x.iterations += s->of[i].kind == x.kind;
            x.logged += s->of[i].kind == x.kind && s->of[i].log;
        }
        if (!x.iterations)
            continue;
#define MEDIAN(member) x.member = median(s, x.kind, member, 0, v)
        MEDIAN(tokens);
        MEDIAN(requests);
        MEDIAN(calls);
        MEDIAN(graphs);
        MEDIAN(operations);
        MEDIAN(launch_ms);
        MEDIAN(before_ms);
        MEDIAN(busy_ms);
        MEDIAN(gaps_ms);
        MEDIAN(idle_ms);
        MEDIAN(period_ms);
#undef MEDIAN
        for (int c = 0; c < KERNELS_CLASSES; c++)
            x.class_ms[c] = median(s, x.kind, class_ms, c, v);
        sums[(*n)++] = x;
    }
    mem_free(v);
    return sums;
}

#define T         struct serving_sum
#define NUMBER(m) FIELD(T, m, .optional = true)
static const struct field sum_rows[] = {
    FIELD_ENUM(T, kind, "graphs", serving_kind_name, SERVING_KINDS),
    FIELD(T, iterations),
    FIELD(T, logged),
    NUMBER(tokens),
    NUMBER(requests),
    NUMBER(calls),
    FIELD_AS(T, graphs, "graph_launches", .optional = true),
    NUMBER(operations),
    NUMBER(launch_ms),
    NUMBER(before_ms),
    NUMBER(busy_ms),
    NUMBER(gaps_ms),
    NUMBER(idle_ms),
    NUMBER(period_ms),
    FIELD_NAMED(T, class_ms, "class_ms", kernels_class_name, KERNELS_CLASSES),
};
const struct fields serving_sum_fields = FIELDS(T, sum_rows);
#undef NUMBER
#undef T

struct node *serving_sums_node(struct arena *a, const struct serving_result *r)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < r->n_sums; i++)
        node_push(a, list, fields_node(a, &serving_sum_fields, &r->sums[i]));
    return list;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void put(struct table *t, int decimals, double v)
{
    if (isnan(v))
        table_cell(t, "n/a");
    else
        table_cell(t, "%.*f", decimals, v);
}

struct table *serving_kind_table(struct arena *a, const struct serving_sum *sums, size_t n)
{
    static const char *const heads[] = {"graphs",    "iterations", "tokens",  "launches",
                                        "launch ms", "before ms",  "busy ms", "gaps ms",
                                        "idle ms",   "period ms"};
    struct table *t = table_headed(a, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < n; i++) {
        const struct serving_sum *x = &sums[i];
        table_cell(t, "%s", serving_kind_name(x->kind));
        table_cell(t, "%zu", x->iterations);
        put(t, 0, x->tokens);
        put(t, 0, x->calls);
        put(t, 3, x->launch_ms);
        put(t, 3, x->before_ms);
        put(t, 3, x->busy_ms);
        put(t, 3, x->gaps_ms);
        put(t, 3, x->idle_ms);
        put(t, 3, x->period_ms);
    }
    return t;
}

struct table *serving_class_table(struct arena *a, const struct serving_sum *sums, size_t n)
{
    struct table *t = table_new(a, (int)n + 1);
    table_cell(t, "ms on the GPU");
    for (size_t i = 0; i < n; i++)
        table_cell(t, "%s", serving_kind_name(sums[i].kind));
    for (unsigned c = 0; c < KERNELS_CLASSES; c++) {
        double any = 0;
        for (size_t i = 0; i < n; i++)
            any += sums[i].class_ms[c];
        if (any == 0)
            continue;
        table_cell(t, "%s", kernels_class_name(c));
        for (size_t i = 0; i < n; i++)
            put(t, 3, sums[i].class_ms[c]);
    }
    return t;
}

/* ---- iterations.csv -------------------------------------------------------------------------- */

static void put_known(struct table *t, bool known, int64_t v)
{
    if (known)
        table_cell(t, "%lld", (long long)v);
    else
        table_cell(t, "%s", "");
}

static void put_log(struct table *t, const struct serving_iteration *x)
{
    static const struct logged_iteration none = {0};
    const struct logged_iteration *l = x->log ? x->log : &none;
    put_known(t, x->log, l->index);
    put_known(t, x->log, l->context_requests);
    put_known(t, x->log, l->context_tokens);
    put_known(t, x->log, l->generation_requests);
    put_known(t, x->log, l->generation_tokens);
    put_known(t, x->load, x->load ? x->load->load.kv_tokens - x->load->load.seqs : 0);
}

struct table *serving_table(struct arena *a, const struct serving *s)
{
    static const char *const heads[] = {"iteration",
                                        "start_ns",
                                        "graphs",
                                        "logged_index",
                                        "context_requests",
                                        "context_tokens",
                                        "generation_requests",
                                        "generation_tokens",
                                        "decode_kv_tokens",
                                        "after_idle",
                                        "before_ns",
                                        "wait_ns",
                                        "launch_ns",
                                        "launches",
                                        "graph_launches",
                                        "graph",
                                        "operations",
                                        "idle_ns",
                                        "span_ns",
                                        "busy_ns",
                                        "device_ns",
                                        "tokens_ns",
                                        "period_ns"};
    enum { HEADS = sizeof heads / sizeof *heads };
    struct table *t = table_new(a, HEADS + KERNELS_CLASSES);
    for (int i = 0; i < HEADS; i++)
        table_cell(t, "%s", heads[i]);
    for (unsigned c = 0; c < KERNELS_CLASSES; c++)
        table_cell(t, "%s_ns", kernels_class_name(c));
    for (size_t i = 0; i < s->n; i++) {
        const struct serving_iteration *x = &s->of[i];
        const int64_t idle = i ? x->from_ns - x[-1].to_ns : 0;
        table_cell(t, "%zu", i);
        table_cell(t, "%lld", (long long)x->launch_from_ns);
        table_cell(t, "%s", serving_kind_name(x->kind));
        put_log(t, x);
        table_cell(t, "%s", x->after_idle ? "true" : "false");
        put_known(t, x->before_ns >= 0, x->before_ns);
        put_known(t, i > 0, x->wait_ns);
        put_known(t, true, x->launch_to_ns - x->launch_from_ns);
        put_known(t, true, x->calls);
        put_known(t, true, x->graphs);
        put_known(t, x->graph, x->graph);
        put_known(t, true, x->operations);
        put_known(t, i > 0, idle > 0 ? idle : 0);
        put_known(t, true, x->to_ns - x->from_ns);
        put_known(t, true, x->busy_ns);
        put_known(t, true, x->device_ns);
        put_known(t, true, x->tokens_ns - x->launch_from_ns);
        put_known(t, true, x->period_ns);
        for (int c = 0; c < KERNELS_CLASSES; c++)
            put_known(t, true, x->class_ns[c]);
    }
    return t;
}
