#include "kernels/ranges.h"

int kernels_chain(const struct kernels *k, size_t i, unsigned styles,
                  uint32_t out[KERNELS_MAX_DEPTH])
{
    const struct trace *t = k->t;
    int n = 0;
    uint32_t range = kernels_range_of(k, i);
    if (range == TRACE_NONE)
        return 0;
    uint32_t call = t->ops.call[i];
    int64_t end_ns = call == TRACE_NONE ? t->ranges[range].end_ns : t->calls.end_ns[call];
    for (int depth = 0; range != TRACE_NONE && depth < KERNELS_MAX_DEPTH; depth++) {
        const struct trace_range *r = &t->ranges[range];
        if (r->end_ns >= end_ns && kernels_has_style(styles, r->style))
            out[n++] = range;
        range = k->range_parent[range];
    }
    return n;
}

static struct range_sum *make_sums(const struct kernels *k, unsigned styles)
{
    const struct trace *t = k->t;
    struct range_sum *sums = mem_alloc(t->n_ranges * sizeof *sums);
    bool any = false;
    for (uint32_t i = 0; i < k->n_classes; i++)
        any = any || kernels_has_style(styles, k->classes[i].style);
    if (!any)
        return sums;
    bool *counted = mem_alloc((t->calls.n + 1) * sizeof *counted);
    uint32_t chain[KERNELS_MAX_DEPTH];
    for (size_t i = 0; i < t->ops.n; i++) {
        int n = kernels_chain(k, i, styles, chain);
        int64_t start = t->ops.start_ns[i], end = t->ops.end_ns[i];
        uint32_t call = t->ops.call[i];
        bool first = n > 0 && (call == TRACE_NONE || !counted[call]);
        if (first && call != TRACE_NONE)
            counted[call] = true;
        for (int j = 0; j < n; j++) {
            struct range_sum *s = &sums[chain[j]];
            s->first_ns = !s->n_ops || start < s->first_ns ? start : s->first_ns;
            s->last_ns = !s->n_ops || end > s->last_ns ? end : s->last_ns;
            s->inclusive_ns += end - start;
            s->exclusive_ns += j == 0 ? end - start : 0;
            s->n_ops++;
            s->n_launches += first;
        }
    }
    mem_free(counted);
    return sums;
}

void kernels_make_range_sums(struct kernels *k)
{
    k->nvtx_sums = make_sums(k, STYLES_NVTX);
    k->operator_sums = make_sums(k, STYLES_OPERATORS);
}

const struct range_sum *kernels_range_sums(const struct kernels *k, unsigned styles)
{
    ASSERT(styles == STYLES_NVTX || styles == STYLES_OPERATORS);
    return styles == STYLES_NVTX ? k->nvtx_sums : k->operator_sums;
}
