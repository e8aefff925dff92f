#include "deep/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "deep/ncu_csv.h"
#include "deep/stage_windows.h"

/* ---- the tree ---- */

static enum st load_number(const struct node *map, const char *key, double otherwise, double *out,
                           struct err *e)
{
    const struct node *n = node_find(map, key);
    *out = otherwise;
    if (!n || n->kind == NODE_NULL)
        return ST_OK;
    if (node_to_double(n, key, 0, 1e30, out, e) != ST_OK)
        e->st = ST_USAGE;
    return e->st;
}

static enum st read_load(const struct node *map, struct deep_load *out, struct err *e)
{
    static const char *const keys[] = {"batch", "prompt_tokens", "context_tokens",
                                       "steps", "flop",          "bytes"};
    if (map->kind != NODE_MAP)
        return node_err(map, ST_USAGE, e, "deep.stages: load: expected a map, got %s",
                        node_kind_name(map->kind));
    for (uint32_t i = 0; i < map->n; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            known |= sv_eq(map->pairs[i].key, keys[k]);
        if (!known) {
            node_err(map->pairs[i].value, ST_USAGE, e, "deep.stages: load: unknown key '%.*s'",
                     (int)map->pairs[i].key.n, map->pairs[i].key.p);
            return err_hint(e,
                            "there are batch, prompt_tokens, context_tokens, steps, flop, bytes");
        }
    }
    out->given = true;
    TRY(load_number(map, "batch", 1, &out->batch, e));
    TRY(load_number(map, "prompt_tokens", 0, &out->prompt_tokens, e));
    TRY(load_number(map, "context_tokens", 0, &out->context_tokens, e));
    TRY(load_number(map, "steps", 1, &out->steps, e));
    TRY(load_number(map, "flop", NAN, &out->flop, e));
    return load_number(map, "bytes", NAN, &out->bytes, e);
}

struct tree_reader {
    struct arena *a;
    struct deep_stages *out;
    struct err *e;
};

static enum st read_stages(struct tree_reader *r, const struct node *map, int parent, int depth);

static enum st read_stage(struct tree_reader *r, const char *name, const struct node *value,
                          int parent, int depth)
{
    if (r->out->n == DEEP_MAX_STAGES || depth == DEEP_MAX_DEPTH)
        return node_err(value, ST_USAGE, r->e, "deep.stages: more than %d stages or %d levels",
                        DEEP_MAX_STAGES, DEEP_MAX_DEPTH);
    int at = r->out->n++;
    struct deep_stage *s = &r->out->p[at];
    const char *before = parent >= 0 ? r->out->p[parent].path : NULL;
    *s = (struct deep_stage){.name = name, .pattern = name, .parent = parent, .depth = depth};
    s->path = before ? arena_printf(r->a, "%s/%s", before, name) : name;
    s->load.flop = s->load.bytes = NAN;
    if (value->kind == NODE_NULL)
        return ST_OK;
    if (value->kind == NODE_STR) {
        s->pattern = value->s.p;
        return ST_OK;
    }
    if (value->kind != NODE_MAP)
        return node_err(value, ST_USAGE, r->e,
                        "deep.stages: %s: expected a map or a pattern, got %s", s->path,
                        node_kind_name(value->kind));
    return read_stages(r, value, at, depth + 1);
}

static enum st read_stages(struct tree_reader *r, const struct node *map, int parent, int depth)
{
    for (uint32_t i = 0; i < map->n; i++) {
        const struct node *value = map->pairs[i].value;
        const char *name = arena_strn(r->a, map->pairs[i].key.p, map->pairs[i].key.n);
        struct deep_stage *outer = parent >= 0 ? &r->out->p[parent] : NULL;
        if (outer && strcmp(name, "range") == 0) {
            if (node_to_str(value, "deep.stages: range", &outer->pattern, r->e) != ST_OK)
                return r->e->st = ST_USAGE;
        } else if (outer && strcmp(name, "load") == 0) {
            TRY(read_load(value, &outer->load, r->e));
        } else {
            TRY(read_stage(r, name, value, parent, depth));
        }
    }
    return ST_OK;
}

enum st deep_stages_read(struct arena *a, const struct node *tree, struct deep_stages *out,
                         struct err *e)
{
    *out = (struct deep_stages){.p = arena_array(a, struct deep_stage, DEEP_MAX_STAGES)};
    struct tree_reader r = {a, out, e};
    return tree && tree->kind == NODE_MAP ? read_stages(&r, tree, -1, 0) : ST_OK;
}

/* ---- which stage ---- */

/* The stage inside `from` (-1 = none) that a range of this name enters; `from` when none. */
static int enter(const struct deep_stages *s, int from, const char *name)
{
    for (int i = from + 1; i < s->n; i++)
        if (s->p[i].parent == from && deep_matches(s->p[i].pattern, sv_of(name)))
            return i;
    return from;
}

static int enter_class(const struct deep_stages *s, const struct kernels *k, int from,
                       uint32_t class)
{
    const struct kernels_class *c = &k->classes[class];
    return c->style == TRACE_OPERATOR ? from : enter(s, from, trace_text(&k->t->dict, c->text));
}

static void stages_by_launch(struct arena *a, struct deep_stages *s, const struct kernels *k)
{
    int *of_path = mem_alloc((k->n_paths + 1) * sizeof *of_path);
    for (uint32_t p = 0; p < k->n_paths; p++) {
        const struct kernels_path *path = &k->paths[p];
        int outer = path->parent == TRACE_NONE ? -1 : of_path[path->parent];
        of_path[p] = enter_class(s, k, outer, path->class);
    }
    s->of_op = arena_array(a, int, k->t->ops.n + 1);
    for (size_t i = 0; i < k->t->ops.n; i++) {
        uint32_t path = kernels_path_of(k, i);
        s->of_op[i] = path == TRACE_NONE ? -1 : of_path[path];
    }
    mem_free(of_path);
}

int deep_stage_of(const struct deep_stages *s, const struct kernels *k, size_t op)
{
    (void)k;
    return s->of_op[op];
}

bool deep_stage_within(const struct deep_stages *s, int inner, int outer)
{
    for (; inner >= 0; inner = s->p[inner].parent)
        if (inner == outer)
            return true;
    return false;
}

/* ---- sums ---- */

static uint32_t process_of_range(const struct kernels *k, size_t r)
{
    return k->t->dict.threads[k->t->ranges[r].thread].process;
}

/* Ranges are sorted so that the parent of a range comes before it. */
static struct deep_instances find_instances(const struct deep_stages *s, const struct kernels *k)
{
    size_t n = k->t->n_ranges;
    struct deep_instances x = {mem_alloc((n + 1) * sizeof *x.stage),
                               mem_alloc((n + 1) * sizeof *x.owner),
                               mem_alloc((n + 1) * sizeof *x.last_ns)};
    for (size_t r = 0; r < n; r++) {
        uint32_t parent = k->range_parent[r];
        bool inside = parent != TRACE_NONE && parent < r;
        int outer = inside ? x.stage[parent] : -1;
        x.stage[r] = enter_class(s, k, outer, k->range_class[r]);
        x.owner[r] = x.stage[r] != outer ? (uint32_t)r : inside ? x.owner[parent] : TRACE_NONE;
        x.last_ns[r] = k->t->ranges[r].end_ns;
    }
    return x;
}

static void free_instances(struct deep_instances *x)
{
    mem_free(x->stage);
    mem_free(x->owner);
    mem_free(x->last_ns);
}

/* GPUs of processes, numbered: by_sig[sig]. */
static uint32_t *number_gpus(struct arena *a, const struct kernels *k, uint32_t *n)
{
    const struct trace_dict *d = &k->t->dict;
    uint32_t *by_sig = arena_array(a, uint32_t, d->n_sigs + 1);
    struct map seen;
    map_init(&seen, a);
    for (uint32_t i = 0; i < d->n_sigs; i++) {
        const int64_t key[] = {d->sigs[i].process, d->sigs[i].device};
        bool is_new;
        struct map_entry *entry = map_put(&seen, (const char *)key, sizeof key, &is_new);
        if (is_new)
            entry->i = (int64_t)seen.n - 1;
        by_sig[i] = (uint32_t)entry->i;
    }
    *n = seen.n;
    return by_sig;
}

static void count_gpus(struct deep_stages *s, const struct kernels *k)
{
    struct arena *a = arena_new();
    uint32_t n;
    const uint32_t *by_sig = number_gpus(a, k, &n);
    bool *used = arena_array(a, bool, (size_t)s->n *n + 1);
    for (size_t i = 0; i < k->t->ops.n; i++)
        for (int at = deep_stage_of(s, k, i); at >= 0; at = s->p[at].parent) {
            bool *it = &used[(size_t)at * n + by_sig[k->t->ops.sig[i]]];
            s->p[at].gpus += !*it;
            *it = true;
        }
    arena_free(&a);
}

/* The operation that ends at end_ns belongs to instance r and those around it, as far as they were
 * open at until_ns: ranges may overlap. */
static void extend(const struct kernels *k, struct deep_instances *x, uint32_t r, int64_t until_ns,
                   int64_t end_ns)
{
    while (r != TRACE_NONE) {
        bool inside = until_ns <= k->t->ranges[r].end_ns;
        x->last_ns[r] = inside && end_ns > x->last_ns[r] ? end_ns : x->last_ns[r];
        uint32_t parent = k->range_parent[r];
        r = parent == TRACE_NONE || parent >= r ? TRACE_NONE : x->owner[parent];
    }
}

/* stray[op]: the instance on another thread; TRACE_NONE = the one around the launch. */
static void sum_operations(struct deep_stages *s, const struct kernels *k, struct deep_instances *x,
                           const uint32_t *stray)
{
    const struct trace *t = k->t;
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t process = t->dict.sigs[t->ops.sig[i]].process;
        int64_t time_ns = kernels_duration(k, i);
        int inner = deep_stage_of(s, k, i);
        for (int at = inner; at >= 0; at = s->p[at].parent) {
            struct deep_stage_sum *sum = &s->p[at].by_process[process];
            sum->operations++;
            sum->gpu_ns += time_ns;
            sum->exclusive_ns += at == inner ? time_ns : 0;
        }
        uint32_t call = t->ops.call[i], r = kernels_range_of(k, i);
        int64_t until_ns = call == TRACE_NONE ? INT64_MIN : t->calls.end_ns[call];
        if (stray[i] != TRACE_NONE)
            extend(k, x, stray[i], INT64_MIN, t->ops.end_ns[i]);
        else if (r != TRACE_NONE)
            extend(k, x, x->owner[r], until_ns, t->ops.end_ns[i]);
    }
}

static void sum_instances(struct deep_stages *s, const struct kernels *k,
                          const struct deep_instances *x)
{
    for (size_t r = 0; r < k->t->n_ranges; r++) {
        if (x->owner[r] != r)
            continue;
        const struct trace_range *range = &k->t->ranges[r];
        struct deep_stage_sum *sum = &s->p[x->stage[r]].by_process[process_of_range(k, r)];
        int64_t elapsed_ns = x->last_ns[r] - range->start_ns;
        if (!sum->instances || elapsed_ns < sum->least_ns)
            sum->least_ns = elapsed_ns;
        if (elapsed_ns > sum->most_ns)
            sum->most_ns = elapsed_ns;
        sum->instances++;
        sum->host_ns += range->end_ns - range->start_ns;
        sum->elapsed_ns += elapsed_ns;
    }
}

static bool outermost(const struct deep_stages *s, const struct deep_instances *x, size_t r)
{
    return x->owner[r] == r && s->p[x->stage[r]].parent < 0;
}

static int by_start(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return a[0] < b[0] ? -1 : a[0] > b[0];
}

static void find_window(struct deep_stages *s, const struct kernels *k,
                        const struct deep_instances *x)
{
    const struct trace_range *ranges = k->t->ranges;
    size_t first = SIZE_MAX;
    for (size_t r = 0; r < k->t->n_ranges; r++)
        if (outermost(s, x, r) &&
            (first == SIZE_MAX || x->stage[r] < x->stage[first] ||
             (x->stage[r] == x->stage[first] && ranges[r].start_ns > ranges[first].start_ns)))
            first = r;
    if (first == SIZE_MAX)
        return;
    VEC(int64_t) next = {0}; /* pairs of start and end */
    for (size_t r = 0; r < k->t->n_ranges; r++)
        if (outermost(s, x, r) && ranges[r].start_ns >= ranges[first].start_ns &&
            process_of_range(k, r) == process_of_range(k, first)) {
            vec_push(&next, ranges[r].start_ns);
            vec_push(&next, x->last_ns[r]);
        }
    qsort(next.p, next.n / 2, 2 * sizeof *next.p, by_start);
    s->window_start_ns = ranges[first].start_ns;
    for (size_t i = 0; i < next.n / 2 && i < DEEP_WINDOW; i++)
        if (next.p[2 * i + 1] > s->window_end_ns)
            s->window_end_ns = next.p[2 * i + 1];
    vec_free(&next);
}

static void add_up(struct deep_stages *s)
{
    for (int i = 0; i < s->n; i++) {
        struct deep_stage *stage = &s->p[i];
        for (uint32_t p = 0; p < s->n_processes; p++) {
            const struct deep_stage_sum *one = &stage->by_process[p];
            stage->processes += one->instances > 0;
            stage->all.operations += one->operations;
            stage->all.gpu_ns += one->gpu_ns;
            stage->all.exclusive_ns += one->exclusive_ns;
            stage->all.busy_ns += one->busy_ns;
            if (one->elapsed_ns >= stage->all.elapsed_ns) {
                stage->all.least_ns = one->least_ns;
                stage->all.most_ns = one->most_ns;
                stage->all.instances = one->instances;
                stage->all.host_ns = one->host_ns;
                stage->all.elapsed_ns = one->elapsed_ns;
            }
        }
    }
}

void deep_stages_measure(struct arena *a, struct deep_stages *s, const struct kernels *k)
{
    s->n_processes = k->t->dict.n_processes;
    for (int i = 0; i < s->n; i++)
        s->p[i].by_process = arena_array(a, struct deep_stage_sum, s->n_processes + 1);
    stages_by_launch(a, s, k);
    struct deep_instances x = find_instances(s, k);
    uint32_t *stray = mem_alloc((k->t->ops.n + 1) * sizeof *stray);
    deep_windows_strays(s, k, &x, stray);
    sum_operations(s, k, &x, stray);
    mem_free(stray);
    deep_windows_busy(s, k, &x);
    deep_windows_beside(s, k, &x);
    sum_instances(s, k, &x);
    count_gpus(s, k);
    find_window(s, k, &x);
    free_instances(&x);
    add_up(s);
}

bool deep_stages_found(const struct deep_stages *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->p[i].all.instances > 0)
            return true;
    return false;
}

struct deep_stage_sum deep_stages_total(const struct deep_stages *s)
{
    struct deep_stage_sum sum = {0};
    for (int i = 0; i < s->n; i++) {
        const struct deep_stage_sum *one = &s->p[i].all;
        if (s->p[i].parent >= 0)
            continue;
        sum.instances += one->instances;
        sum.operations += one->operations;
        sum.host_ns += one->host_ns;
        sum.elapsed_ns += one->elapsed_ns;
        sum.gpu_ns += one->gpu_ns;
        sum.busy_ns += one->busy_ns;
    }
    return sum;
}

/* ---- work and shares of the peak ---- */

/* The unit of a model's matrix products. */
static enum deep_unit unit_of(const struct model *m)
{
    static const enum deep_unit units[PRECISIONS] = {
        [PRECISION_BF16] = UNIT_TENSOR_BF16, [PRECISION_FP16] = UNIT_TENSOR_FP16,
        [PRECISION_FP32] = UNIT_FP32,        [PRECISION_TF32] = UNIT_TENSOR_TF32,
        [PRECISION_FP8] = UNIT_TENSOR_FP8,   [PRECISION_FP4] = UNIT_TENSOR_FP4,
        [PRECISION_INT8] = UNIT_TENSOR_INT8, [PRECISION_INT4] = UNIT_TENSOR_INT8,
    };
    return units[m->multiply];
}

/* One instance, by the operator list. */
static struct op_cost cost_of(const struct model *m, const struct deep_load *l)
{
    double prompt = l->prompt_tokens, batch = l->batch, context = l->context_tokens;
    struct op_load load = {.rows = (int64_t)batch};
    if (prompt > 0) {
        load.tokens = (int64_t)(batch * prompt);
        load.chunk_sq = (int64_t)(batch * prompt * (prompt + 1) / 2);
        load.kv_tokens_prefill = (int64_t)(batch * prompt * context);
        load.kv_read_tokens = (int64_t)(batch * (prompt + context));
        load.chunks = (int64_t)batch;
    } else {
        load.tokens = load.seqs = (int64_t)batch;
        load.kv_tokens = (int64_t)(batch * context);
    }
    struct op_list ops;
    struct op_cost sum = {0};
    model_ops(m, &ops);
    for (int i = 0; i < ops.n; i++) {
        struct op_cost one = op_cost(m, &ops.ops[i], &load, (int)precision_bytes(m->dtype));
        sum.flop += one.flop;
        sum.bytes += one.bytes;
    }
    sum.flop *= l->steps;
    sum.bytes *= l->steps;
    return sum;
}

/* The stage around this one, the next with a load; -1 = none. */
static int nearest_load(const struct deep_stages *s, int stage)
{
    int i = s->p[stage].parent;
    while (i >= 0 && !s->p[i].load.given)
        i = s->p[i].parent;
    return i;
}

/* What a load of its own describes is no part of the load around it. Sub-stages come behind their
 * parents, so theirs are whole when they are added. */
static void add_sub_stages(struct deep_stages *s)
{
    for (int i = s->n - 1; i >= 0; i--) {
        int around = nearest_load(s, i);
        if (around < 0 || !s->p[i].load.given || !s->p[i].all.instances)
            continue;
        s->p[around].flop += s->p[i].flop;
        s->p[around].bytes += s->p[i].bytes;
    }
}

void deep_stages_rate(struct deep_stages *s, const struct model *model,
                      const struct deep_roofs *roofs)
{
    double peak = roofs->flop_per_s[model ? unit_of(model) : UNIT_TENSOR_BF16];
    for (int i = 0; i < s->n; i++) {
        struct deep_stage *x = &s->p[i];
        struct op_cost cost = {NAN, NAN};
        double n = (double)x->all.instances;
        if (x->load.given && model && (x->load.prompt_tokens > 0 || x->load.context_tokens > 0))
            cost = cost_of(model, &x->load);
        if (!isnan(x->load.flop))
            cost.flop = x->load.flop;
        if (!isnan(x->load.bytes))
            cost.bytes = x->load.bytes;
        x->flop = cost.flop * n;
        x->bytes = cost.bytes * n;
    }
    add_sub_stages(s);
    for (int i = 0; i < s->n; i++) {
        struct deep_stage *x = &s->p[i];
        double gpus = x->gpus > 0 ? x->gpus : 1;
        double elapsed_s = (double)x->all.elapsed_ns / 1e9, gpu_s = (double)x->all.gpu_ns / 1e9;
        x->mfu = elapsed_s > 0 ? x->flop / elapsed_s / (peak * gpus) : NAN;
        x->mfu_gpu = gpu_s > 0 ? x->flop / gpu_s / peak : NAN;
        x->bandwidth = elapsed_s > 0 ? x->bytes / elapsed_s / (roofs->dram_per_s * gpus) : NAN;
        x->bandwidth_gpu = gpu_s > 0 ? x->bytes / gpu_s / roofs->dram_per_s : NAN;
    }
}
