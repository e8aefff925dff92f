#include "workload/chains.h"

#include <stdlib.h>

#include "workload/make.h"

struct root {
    int64_t arrival_ns;
    size_t row;
};

static int by_arrival(const void *pa, const void *pb)
{
    const struct root *a = pa, *b = pb;
    if (a->arrival_ns != b->arrival_ns)
        return a->arrival_ns < b->arrival_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* The row that goes on after each, and the rows that begin something. */
static size_t link_rows(const chain_vec *rows, size_t *next, struct root *roots)
{
    size_t n_roots = 0;
    for (size_t i = 0; i < rows->n; i++)
        next[i] = CHAIN_NONE;
    for (size_t i = 0; i < rows->n; i++) {
        const size_t parent = rows->p[i].parent;
        ASSERT(parent == CHAIN_NONE || parent < i);
        if (parent != CHAIN_NONE && next[parent] == CHAIN_NONE)
            next[parent] = i;
        else
            roots[n_roots++] = (struct root){rows->p[i].q.arrival_ns, i};
    }
    return n_roots;
}

void chains_order(struct arena *a, const chain_vec *rows, struct workload *out)
{
    size_t *next = arena_array(a, size_t, rows->n);
    struct root *roots = arena_array(a, struct root, rows->n);
    const size_t n_roots = link_rows(rows, next, roots);
    int64_t sessions = 0;
    *out = (struct workload){.requests = arena_array(a, struct workload_request, rows->n)};
    if (n_roots)
        qsort(roots, n_roots, sizeof *roots, by_arrival);
    for (size_t k = 0; k < n_roots; k++) {
        const struct workload_request *first = &rows->p[roots[k].row].q;
        const bool alone = next[roots[k].row] == CHAIN_NONE;
        int64_t turn = 0;
        for (size_t i = roots[k].row; i != CHAIN_NONE; i = next[i]) {
            struct workload_request *q = &out->requests[out->n];
            *q = rows->p[i].q;
            q->request_id = (int64_t)out->n++;
            q->arrival_ns = first->arrival_ns;
            q->arrival_s = first->arrival_s;
            if (alone)
                continue;
            q->session_id = sessions;
            q->turn = ++turn;
            const int64_t think_ns = rows->p[i].think_ns;
            q->think_ns = turn == 1 ? 0 : think_ns < THINK_MOST_NS ? think_ns : THINK_MOST_NS;
        }
        sessions += !alone;
    }
    sessions_join(out);
}
