#include "engine/cuda/charges.h"

#include <string.h>

static bool is_ours(const struct cuda_charges *c, const char *name)
{
    for (size_t i = 0; i < c->of.n; i++)
        if (c->of.p[i].kernel && strcmp(c->of.p[i].kernel, name) == 0)
            return true;
    return false;
}

static enum st mismatch(const struct cuda_charges *c, size_t line, const struct gpu_record *r,
                        size_t n, size_t at, struct err *e)
{
    const char *want = line == c->of.n        ? "no further kernel"
                       : c->of.p[line].kernel ? c->of.p[line].kernel
                                              : "a matrix product of cuBLASLt";
    return err_set(e, ST_DEVICE, "kernel %zu of %zu in CUPTI's records is %s where the pass has %s",
                   at + 1, n, at < n ? r[at].name : "missing", want);
}

/* The number of records, from r on, that are this line's; 0 = it is not there. */
static size_t records_of(const struct cuda_charges *c, const struct cuda_charge *x,
                         const struct gpu_record *r, size_t n)
{
    size_t k = 0;
    if (x->kernel)
        return n > 0 && strcmp(r->name, x->kernel) == 0;
    while (k < n && !is_ours(c, r[k].name))
        k++;
    return k;
}

enum st cuda_charges_divide(const struct cuda_charges *c, const struct gpu_record *r, size_t n,
                            double op_s[OP_ROWS], struct err *e)
{
    size_t at = 0;
    memset(op_s, 0, OP_ROWS * sizeof *op_s);
    int64_t end_ns = n ? r[0].start_ns : 0;
    for (size_t i = 0; i < c->of.n; i++) {
        const struct cuda_charge *x = &c->of.p[i];
        const size_t k = records_of(c, x, r + at, n - at);
        if (k == 0)
            return mismatch(c, i, r, n, at, e);
        for (size_t stop = at + k; at < stop; at++) {
            const int64_t begin_ns = r[at].start_ns > end_ns ? r[at].start_ns : end_ns;
            op_s[OP_GAP] += (double)(begin_ns - end_ns) / 1e9;
            if (r[at].end_ns > begin_ns) {
                op_s[x->row] += (double)(r[at].end_ns - begin_ns) / 1e9;
                end_ns = r[at].end_ns;
            } else {
                end_ns = begin_ns;
            }
        }
    }
    return at == n ? ST_OK : mismatch(c, c->of.n, r, n, at, e);
}
