#include <math.h>
#include <string.h>

#include "profile/read/filter.h"
#include "profile/read/read.h"

static const double MAX_MS = 1e9; /* 11 days: anything above is not a time in ms */

struct value_column {
    const struct op *op;
    struct read_points *points;
    int column;
    double unit; /* of a cell, in s or J */
};

/* The operator's own file: attention.csv, else mlp.csv. */
static bool is_in_attention_file(const struct op *op)
{
    return op->axis == AXIS_PREFILL || op->axis == AXIS_DECODE || op->kind == OP_KV_SAVE;
}

typedef bool wanted_fn(const struct op *op);

static bool in_mlp_file(const struct op *op)
{
    return !is_in_attention_file(op);
}

static bool in_any_file(const struct op *op)
{
    (void)op;
    return true;
}

/* Columns <stats>.<op>.median and <energy>.<op>.median_j of the operators that the file has. */
static int value_columns(const struct csv_reader *r, const char *stats, const char *energy,
                         const struct op_list *ops, wanted_fn *wanted, struct op_points *points,
                         struct value_column out[2 * OP_ROWS])
{
    int n = 0;
    for (int i = 0; i < ops->n; i++) {
        const struct op *op = &ops->ops[i];
        char name[96];
        if (!wanted(op))
            continue;
        snprintf(name, sizeof name, "%s.%s.median", stats, op->name);
        int column = csv_find(r, name);
        if (column >= 0)
            out[n++] = (struct value_column){op, &points->time[op->row], column, 1e-3};
        snprintf(name, sizeof name, "%s.%s.median_j", energy, op->name);
        column = csv_find(r, name);
        if (column >= 0)
            out[n++] = (struct value_column){op, &points->energy[op->row], column, 1};
    }
    return n;
}

static enum st add_point(const struct csv_reader *r, struct value_column c, double x, double kv,
                         struct err *e)
{
    double v;
    if (csv_empty(r, c.column))
        return ST_OK;
    TRY(csv_double(r, c.column, 0, MAX_MS, &v, e));
    vec_push(c.points, (struct surface_point){x, kv, c.unit < 1 ? v / 1e3 : v});
    return ST_OK;
}

static enum st mlp_rows(struct csv_reader *r, struct filter *f, const struct op_list *ops,
                        struct op_points *points, struct op_points *decodes, struct err *e)
{
    int tokens, ignored;
    TRY(csv_require(r, "num_tokens", &tokens, e));
    TRY(csv_require(r, "time_stats.attn_pre_proj.median", &ignored, e));
    TRY(filter_bind(f, r, e));
    struct value_column v[4 * OP_ROWS];
    int n = value_columns(r, "time_stats", "energy_stats", ops, in_mlp_file, points, v);
    n += value_columns(r, "decode_stats", "decode_energy_stats", ops, in_any_file, decodes, v + n);
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        bool match;
        TRY(filter_match(f, r, &match, e));
        if (!match)
            continue;
        int64_t x;
        TRY(csv_int(r, tokens, 1, INT32_MAX, &x, e));
        for (int i = 0; i < n; i++)
            TRY(add_point(r, v[i], (double)x, 0, e));
    }
    return st == ST_END ? ST_OK : st;
}

enum st read_mlp(const char *path, const struct bundle_key *key, const struct op_list *ops,
                 struct op_points *points, struct op_points *decodes, struct err *e)
{
    const struct model *m = key->model;
    struct csv_reader *r = NULL;
    TRY(csv_open(&r, path, e));
    struct filter f = {0};
    filter_add(&f, (struct filter_column){.name = "n_head", .want = m->heads});
    filter_add(&f, (struct filter_column){.name = "n_kv_head", .want = m->kv_heads});
    filter_add(&f, (struct filter_column){.name = "n_embd", .want = m->hidden});
    filter_add(&f, (struct filter_column){.name = "n_expanded_embd", .want = m->intermediate});
    filter_add(&f, (struct filter_column){
                       .name = "use_gated_mlp", .want = m->act == ACT_SILU_GATED, .is_bool = true});
    filter_add(&f, (struct filter_column){.name = "num_tensor_parallel_workers", .want = key->tp});
    filter_add(&f,
               (struct filter_column){.name = "head_dim", .want = m->head_dim, .optional = true});
    filter_add(&f,
               (struct filter_column){.name = "num_experts", .want = m->experts, .optional = true});
    filter_add(&f, (struct filter_column){.name = "num_experts_per_tok",
                                          .want = m->experts_per_token,
                                          .optional = true});
    if (csv_find(r, "time_stats.lm_head.median") >= 0)
        filter_add(&f, (struct filter_column){.name = "vocab_size", .want = m->vocab});
    enum st st = mlp_rows(r, &f, ops, points, decodes, e);
    csv_close(&r);
    return st == ST_OK ? filter_done(&f, path, e) : st;
}

/* The columns of attention.csv: of each operator time and energy. */
struct attention_columns {
    int chunk, kv, batch, n;
    struct value_column v[2 * OP_ROWS];
};

static enum st attention_row(const struct csv_reader *r, const struct attention_columns *c,
                             struct err *e)
{
    int64_t chunk, kv, batch;
    TRY(csv_int(r, c->chunk, 0, INT32_MAX, &chunk, e));
    TRY(csv_int(r, c->kv, 0, INT32_MAX, &kv, e));
    TRY(csv_int(r, c->batch, 1, INT32_MAX, &batch, e));
    if (chunk > 0 && batch > 1)
        return ST_OK; /* several chunks in one call: their sizes are in no column */
    enum op_axis other = chunk > 0 ? AXIS_DECODE : AXIS_PREFILL;
    double x = (double)(chunk > 0 ? chunk : batch);
    for (int i = 0; i < c->n; i++)
        if (c->v[i].op->axis != other)
            TRY(add_point(r, c->v[i], x, c->v[i].op->axis == AXIS_TOKENS ? 0 : (double)kv, e));
    return ST_OK;
}

static enum st require_attention(struct csv_reader *r, const struct op_list *ops, enum op_axis axis,
                                 struct err *e)
{
    for (int i = 0; i < ops->n; i++) {
        char name[96];
        int ignored;
        snprintf(name, sizeof name, "time_stats.%s.median", ops->ops[i].name);
        if (ops->ops[i].axis == axis)
            TRY(csv_require(r, name, &ignored, e));
    }
    return ST_OK;
}

static enum st attention_rows(struct csv_reader *r, struct filter *f, const struct op_list *ops,
                              struct op_points *points, struct err *e)
{
    struct attention_columns c;
    TRY(csv_require(r, "prefill_chunk_size", &c.chunk, e));
    TRY(csv_require(r, "kv_cache_size", &c.kv, e));
    TRY(csv_require(r, "batch_size", &c.batch, e));
    TRY(require_attention(r, ops, AXIS_DECODE, e));
    TRY(require_attention(r, ops, AXIS_PREFILL, e));
    TRY(filter_bind(f, r, e));
    c.n = value_columns(r, "time_stats", "energy_stats", ops, is_in_attention_file, points, c.v);
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        bool match;
        TRY(filter_match(f, r, &match, e));
        if (match)
            TRY(attention_row(r, &c, e));
    }
    return st == ST_END ? ST_OK : st;
}

enum st read_attention(const char *path, const struct bundle_key *key, const struct op_list *ops,
                       struct op_points *points, struct err *e)
{
    const struct model *m = key->model;
    struct csv_reader *r = NULL;
    TRY(csv_open(&r, path, e));
    struct filter f = {0};
    filter_add(&f, (struct filter_column){.name = "n_embd", .want = m->hidden});
    filter_add(&f, (struct filter_column){.name = "n_q_head", .want = m->heads});
    filter_add(&f, (struct filter_column){.name = "n_kv_head", .want = m->kv_heads});
    filter_add(&f, (struct filter_column){.name = "block_size", .want = key->block_size});
    filter_add(&f, (struct filter_column){.name = "num_tensor_parallel_workers", .want = key->tp});
    filter_add(&f,
               (struct filter_column){.name = "head_dim", .want = m->head_dim, .optional = true});
    enum st st = attention_rows(r, &f, ops, points, e);
    csv_close(&r);
    TRY(st);
    const int64_t *near = filter_lone_difference(&f, "block_size");
    st = filter_done(&f, path, e);
    if (near)
        err_hint(e,
                 "scheduler.block_size=%lld, or, where the policy needs another, "
                 "predictor.block_size=%lld",
                 (long long)*near, (long long)*near);
    TRY(st);
    for (int i = 0; i < ops->n; i++) {
        const struct op *op = &ops->ops[i];
        const bool decode = op->axis == AXIS_DECODE;
        if ((op->axis != AXIS_PREFILL && !decode) || points->time[op->row].n > 0)
            continue;
        char column[96];
        snprintf(column, sizeof column, "time_stats.%s.median", op->name);
        err_set(e, ST_INPUT, "%s: no row of %s: %s is empty in all", path,
                decode ? "decodes" : "prefill chunks", column);
        return err_hint(e, "a request needs both; measure the other half as well");
    }
    return ST_OK;
}

/* ---- cpu_overheads.csv ------------------------------------------------------------------- */

/* Terms that Vidur adds up per iteration. */
static const char *const host_terms[] = {"schedule_median", "sampler_e2e_median",
                                         "prepare_inputs_e2e_median",
                                         "process_model_outputs_median", "ray_comm_time_mean"};
enum { HOST_TERMS = sizeof host_terms / sizeof *host_terms };

/* Variation of iterations of one batch size. Vidur's terms are taken as independent. */
struct spread_columns {
    int mean[HOST_TERMS], std[HOST_TERMS], n_terms;
    int count; /* column of the number of iterations; -1 = absent */
};

static struct spread_columns ours(const struct csv_reader *r, const char *what)
{
    char mean[64], std[64], count[64];
    snprintf(mean, sizeof mean, "%s_mean", what);
    snprintf(std, sizeof std, "%s_std", what);
    snprintf(count, sizeof count, "%s_n", what);
    struct spread_columns c = {{csv_find(r, mean)}, {csv_find(r, std)}, 1, csv_find(r, count)};
    c.n_terms = c.mean[0] >= 0 && c.std[0] >= 0;
    return c;
}

static struct spread_columns vidurs(const struct csv_reader *r)
{
    static const char *const terms[] = {"schedule", "sampler_e2e", "prepare_inputs_e2e",
                                        "process_model_outputs"};
    struct spread_columns c = {.count = -1};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        struct spread_columns one = ours(r, terms[i]);
        if (!one.n_terms)
            return (struct spread_columns){.count = -1};
        c.mean[c.n_terms] = one.mean[0];
        c.std[c.n_terms++] = one.std[0];
    }
    return c;
}

struct host_points {
    struct read_points s, cv;
    struct spread_columns columns;
    double squares; /* sum of squared standard errors */
    int64_t n;      /* their number */
};

static enum st spread_row(const struct csv_reader *r, double x, struct host_points *p,
                          struct err *e)
{
    const struct spread_columns *c = &p->columns;
    double mean = 0, variance = 0, v;
    for (int i = 0; i < c->n_terms; i++) {
        if (csv_empty(r, c->mean[i]) || csv_empty(r, c->std[i]))
            return ST_OK;
        TRY(csv_double(r, c->mean[i], 0, MAX_MS, &v, e));
        mean += v;
        TRY(csv_double(r, c->std[i], 0, MAX_MS, &v, e));
        variance += v * v;
    }
    if (!(mean > 0))
        return ST_OK;
    double cv = sqrt(variance) / mean;
    vec_push(&p->cv, (struct surface_point){x, 0, cv});
    if (c->count < 0 || csv_empty(r, c->count))
        return ST_OK;
    int64_t n;
    TRY(csv_int(r, c->count, 1, INT64_MAX, &n, e));
    p->squares += cv * cv / (double)n;
    p->n++;
    return ST_OK;
}

static enum st host_rows(struct csv_reader *r, const struct bundle_key *key,
                         struct host_points *all, struct host_points *prefill, struct err *e)
{
    int model, tp, batch, term[HOST_TERMS];
    TRY(csv_require(r, "model_name", &model, e));
    TRY(csv_require(r, "tensor_parallel_degree", &tp, e));
    TRY(csv_require(r, "batch_size", &batch, e));
    for (int i = 0; i < HOST_TERMS; i++)
        TRY(csv_require(r, host_terms[i], &term[i], e));
    int with_prefill = csv_find(r, "prefill_iteration_host_median");
    all->columns = ours(r, "iteration_host");
    if (!all->columns.n_terms)
        all->columns = vidurs(r);
    prefill->columns = ours(r, "prefill_iteration_host");
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        int64_t degree, x;
        TRY(csv_int(r, tp, 1, INT32_MAX, &degree, e));
        struct sv name = csv_cell(r, model);
        bool same = sv_eq(name, key->model_name) || (key->hub_name && sv_eq(name, key->hub_name));
        if (degree != key->tp || !same)
            continue;
        TRY(csv_int(r, batch, 1, INT32_MAX, &x, e));
        double sum = 0, ms;
        for (int i = 0; i < HOST_TERMS; i++) {
            TRY(csv_double(r, term[i], 0, MAX_MS, &ms, e));
            sum += ms / 1e3;
        }
        vec_push(&all->s, (struct surface_point){(double)x, 0, sum});
        TRY(spread_row(r, (double)x, all, e));
        TRY(spread_row(r, (double)x, prefill, e));
        if (with_prefill >= 0)
            TRY(add_point(r, (struct value_column){NULL, &prefill->s, with_prefill, 1e-3},
                          (double)x, 0, e));
    }
    return st == ST_END ? ST_OK : st;
}

static struct op_table host_curve(struct arena *a, const struct read_points *p)
{
    struct grid_set known = {0};
    struct op_table t;
    op_table_build(a, AXIS_ROWS, &known, arena_copy(a, p->p, p->n * sizeof *p->p), (int64_t)p->n,
                   &t);
    return t;
}

static struct host_table host_table(struct arena *a, struct host_points *p)
{
    struct op_table s = host_curve(a, &p->s);
    double *error = mem_alloc((size_t)(s.n + 1) * sizeof *error);
    (void)op_table_errors(&s, 0, error);
    struct op_spread spread = op_spread_of(error, s.n);
    mem_free(error);
    if (p->n) /* root mean square over the rows of cv / sqrt(n) */
        spread.place = fmax(spread.place, sqrt(p->squares / (double)p->n));
    struct host_table t = {.s = s.curve, .cv = host_curve(a, &p->cv).curve, .spread = spread};
    vec_free(&p->s);
    vec_free(&p->cv);
    return t;
}

enum st read_host(struct arena *a, const char *path, const struct bundle_key *key,
                  struct host_table *all, struct host_table *prefill, struct err *e)
{
    struct csv_reader *r = NULL;
    TRY(csv_open(&r, path, e));
    struct host_points pa = {0}, pp = {0};
    enum st st = host_rows(r, key, &pa, &pp, e);
    csv_close(&r);
    *all = host_table(a, &pa);
    *prefill = host_table(a, &pp);
    return st;
}
