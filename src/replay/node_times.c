#include "replay/node_times.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "gpu/library.h"
#include "gpu/stream.h"

enum { BUFFER_BYTES = 4 << 20 };

/* ---- matching -------------------------------------------------------------------------------- */

static int by_launch_and_node(const void *x, const void *y)
{
    const struct node_record *a = x, *b = y;
    if (a->launch != b->launch)
        return a->launch < b->launch ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

static int by_launch_and_start(const void *x, const void *y)
{
    const struct node_record *a = x, *b = y;
    if (a->launch != b->launch)
        return a->launch < b->launch ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* Nodes that an operation makes: slices of a copy are one each. */
static uint64_t nodes_of(const struct capsule *c, const struct capsule_op *op)
{
    if (op->kind == CAPSULE_LAUNCH)
        return 1;
    if (op->kind == CAPSULE_SET)
        return c->sets[op->item].width && c->sets[op->item].height;
    const struct capsule_copy *x = &c->copies[op->item];
    return x->width && x->height ? x->depth : 0;
}

static bool fits(const struct load *l, const struct capsule_op *op, const struct node_record *r)
{
    if (op->kind != CAPSULE_LAUNCH) /* small ones may be carried out by kernels */
        return true;
    const struct capsule_function *f = &l->c->functions[l->c->launches[op->item].function];
    const struct sv name = capsule_text(l->c, f->name);
    return r->kind == NODE_KERNEL && r->name && sv_eq(name, r->name);
}

/* One launch's records, in an order that may be that of the program; adds to op_s. */
static bool add_launch(const struct load *l, const struct program *p, const struct node_record *r,
                       size_t n, double *op_s)
{
    size_t at = 0;
    for (size_t s = 0; s < p->n; s++) {
        if (p->steps[s].kind != PROGRAM_OP)
            continue;
        const struct capsule_op *op = &l->c->ops[p->steps[s].item];
        for (uint64_t k = nodes_of(l->c, op); k > 0; k--, at++) {
            if (at == n || !fits(l, op, &r[at]))
                return false;
            op_s[p->steps[s].item] += (double)(r[at].end_ns - r[at].start_ns) / 1e9;
        }
    }
    return at == n;
}

static bool match_in_order(const struct load *l, const struct program *p,
                           const struct node_record *r, size_t n, double *op_s)
{
    size_t launches = 0, from = 0;
    for (size_t i = 0; i < l->c->n_ops; i++)
        op_s[i] = 0;
    while (from < n && r[from].launch == r[0].launch) /* the first warms up */
        from++;
    for (size_t to = from; from < n; from = to) {
        while (to < n && r[to].launch == r[from].launch)
            to++;
        if (!add_launch(l, p, r + from, to - from, op_s))
            return false;
        launches++;
    }
    for (size_t i = 0; i < l->c->n_ops; i++)
        op_s[i] = program_is_work(&l->c->ops[i]) ? op_s[i] / (double)launches : NAN;
    return launches > 0;
}

bool node_times_match(const struct load *l, const struct program *p, struct node_record *records,
                      size_t n, double *op_s)
{
    if (n == 0)
        return false;
    qsort(records, n, sizeof *records, by_launch_and_node);
    if (match_in_order(l, p, records, n, op_s))
        return true;
    qsort(records, n, sizeof *records, by_launch_and_start);
    return match_in_order(l, p, records, n, op_s);
}

/* ---- recording ------------------------------------------------------------------------------- */

static struct {
    struct gpu_cupti cupti;
    pthread_mutex_t lock;
    VEC(struct node_record) records;
} recording = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void give_buffer(uint8_t **buffer, size_t *bytes, size_t *most)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most = 0;
}

static void keep(struct node_record r)
{
    if (r.start_ns && r.end_ns >= r.start_ns)
        vec_push(&recording.records, r);
}

static void take_record(const CUpti_Activity *any)
{
    if (any->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
        any->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const void *)any;
        keep((struct node_record){NODE_KERNEL, k->correlationId, k->graphNodeId, (int64_t)k->start,
                                  (int64_t)k->end, k->name});
    } else if (any->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *k = (const void *)any;
        keep((struct node_record){NODE_COPY, k->correlationId, k->graphNodeId, (int64_t)k->start,
                                  (int64_t)k->end, NULL});
    } else if (any->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *k = (const void *)any;
        keep((struct node_record){NODE_SET, k->correlationId, k->graphNodeId, (int64_t)k->start,
                                  (int64_t)k->end, NULL});
    }
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                        size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)bytes;
    pthread_mutex_lock(&recording.lock);
    while (recording.cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        take_record(record);
    pthread_mutex_unlock(&recording.lock);
    free(buffer);
}

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool start(void)
{
    const struct gpu_cupti *c = &recording.cupti;
    if (c->cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
        return false;
    for (int i = 0; i < KINDS; i++)
        if (c->cuptiActivityEnable(kinds[i]) != CUPTI_SUCCESS)
            return false;
    return true;
}

static enum st launch(struct load *l, struct issue *i, struct err *e)
{
    CUgraphExec graph;
    TRY(issue_graph(i, NULL, &graph, e));
    enum st st = ST_OK;
    for (int n = 0; st == ST_OK && n < NODE_LAUNCHES; n++) {
        st = gpu_graph_launch(&l->g, graph, i->origin, e);
        if (st == ST_OK)
            st = gpu_wait(&l->g, e);
    }
    gpu_graph_close(&l->g, &graph);
    return st;
}

/* Recording starts; *why: it does not. False: there is nothing to be ended either. */
static bool begin(struct load *l, const char **why)
{
    struct err no = {0};
    *why = NULL;
    if (gpu_cupti_open(l->a, 0, &recording.cupti, &no) != ST_OK) {
        *why = arena_str(l->a, err_cause(&no, 0));
        return false;
    }
    if (!start())
        *why = "CUPTI does not record: another profiler may be attached";
    return true;
}

static void flush(void)
{
    recording.cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

static void finish(void)
{
    flush();
    for (int k = 0; k < KINDS; k++)
        recording.cupti.cuptiActivityDisable(kinds[k]);
}

static enum st record(struct load *l, struct issue *i,
                      enum st (*run)(struct load *l, struct issue *i, struct err *e), double *op_s,
                      const char **why, struct err *e)
{
    if (!begin(l, why))
        return ST_OK;
    const enum st st = *why ? ST_OK : run(l, i, e);
    finish();
    pthread_mutex_lock(&recording.lock);
    if (st == ST_OK && !*why &&
        !node_times_match(l, i->p, recording.records.p, recording.records.n, op_s))
        *why = arena_printf(l->a, "CUPTI's %zu records do not match launches of %zu operations",
                            recording.records.n, i->p->n_ops);
    vec_free(&recording.records);
    pthread_mutex_unlock(&recording.lock);
    return st;
}

enum st node_times(struct load *l, struct issue *i, double *op_s, const char **why, struct err *e)
{
    return record(l, i, launch, op_s, why, e);
}

/* Launches of their own have numbers of their own, which rise: what they are in a graph. */
static void number_launch(size_t from, uint32_t run)
{
    pthread_mutex_lock(&recording.lock);
    for (size_t i = from; i < recording.records.n; i++) {
        recording.records.p[i].node = recording.records.p[i].launch;
        recording.records.p[i].launch = run;
    }
    pthread_mutex_unlock(&recording.lock);
}

static enum st launch_one_by_one(struct load *l, struct issue *i, struct err *e)
{
    const int runs = l->c->facts->wall_ns > 2000000000 / NODE_LAUNCHES ? 3 : NODE_LAUNCHES;
    enum st st = ST_OK;
    size_t from = 0;
    i->paced = true;
    for (int n = 0; st == ST_OK && n < runs; n++) {
        st = issue_streams(i, NULL, e);
        if (st == ST_OK)
            st = gpu_wait(&l->g, e);
        flush();
        number_launch(from, (uint32_t)n);
        from = recording.records.n;
    }
    i->paced = false;
    return st;
}

enum st node_times_as_launched(struct load *l, struct issue *i, double *op_s, const char **why,
                               struct err *e)
{
    for (size_t k = 0; k < l->c->n_ops; k++)
        if (l->c->ops[k].graph) {
            *why = "the program launched a graph";
            return ST_OK;
        }
    return record(l, i, launch_one_by_one, op_s, why, e);
}

/* Of the last launch that was recorded, over its operations; forgets all. NAN = no record. An
 * operation may have several nodes. name: these kernels alone; NULL = all. */
static double take_mean(int64_t ops, const char *name)
{
    double sum = 0;
    size_t n = 0;
    uint32_t last = 0;
    pthread_mutex_lock(&recording.lock);
    for (size_t i = 0; i < recording.records.n; i++)
        last = recording.records.p[i].launch > last ? recording.records.p[i].launch : last;
    for (size_t i = 0; i < recording.records.n; i++) {
        const struct node_record *r = &recording.records.p[i];
        if (r->launch != last ||
            (name && (r->kind != NODE_KERNEL || !r->name || strcmp(r->name, name) != 0)))
            continue;
        sum += (double)(r->end_ns - r->start_ns) / 1e9;
        n++;
    }
    vec_free(&recording.records);
    pthread_mutex_unlock(&recording.lock);
    return n && ops > 0 ? sum / (double)ops : NAN;
}

/* Twice: the first launch warms up. */
static enum st launch_alone(struct load *l, CUstream stream, CUgraphExec graph, struct err *e)
{
    for (int n = 0; n < 2; n++) {
        TRY(gpu_graph_launch(&l->g, graph, stream, e));
        TRY(gpu_wait(&l->g, e));
    }
    return ST_OK;
}

enum st node_times_alone(struct load *l, CUstream stream, node_graph_of *graph_of, void *self,
                         size_t n, double *alone_s, const char **why, struct err *e)
{
    enum st st = ST_OK;
    for (size_t i = 0; i < n; i++)
        alone_s[i] = NAN;
    if (!begin(l, why))
        return ST_OK;
    for (size_t i = 0; st == ST_OK && !*why && i < n; i++) {
        CUgraphExec graph = NULL;
        const char *name = NULL;
        int64_t ops = 0;
        st = graph_of(self, i, &graph, &ops, &name, e);
        if (st != ST_OK || !graph)
            continue;
        st = launch_alone(l, stream, graph, e);
        gpu_graph_close(&l->g, &graph);
        flush();
        alone_s[i] = take_mean(ops, name);
    }
    finish();
    take_mean(0, NULL);
    return st;
}
