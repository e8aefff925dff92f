#include "profile/write.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/shard.h"
#include "profile/cells.h"
#include "profile/host.h"
#include "profile/read/host_columns.h"
#include "profile/read/read.h"
#include "text/csv.h"

/* Vidur's columns in its order, then ours. */
static const enum op_kind mlp_vidur[] = {
    OP_EMB,         OP_INPUT_NORM, OP_ATTN_PRE_PROJ, OP_ROPE, OP_ATTN_POST_PROJ, OP_POST_ATTN_NORM,
    OP_MLP_UP_PROJ, OP_MLP_ACT,    OP_MLP_DOWN_PROJ, OP_ADD};
static const enum op_kind mlp_ours[] = {OP_EMB_NORM, OP_QK_NORM, OP_FINAL_NORM, OP_LM_HEAD,
                                        OP_SAMPLE};
/* With split: the gap, and medians of decode batches of all that depends on tokens or rows. */
static const enum op_kind mlp_decode[] = {OP_EMB,
                                          OP_EMB_NORM,
                                          OP_INPUT_NORM,
                                          OP_ATTN_PRE_PROJ,
                                          OP_QK_NORM,
                                          OP_ROPE,
                                          OP_KV_SAVE,
                                          OP_ATTN_POST_PROJ,
                                          OP_POST_ATTN_NORM,
                                          OP_MLP_UP_PROJ,
                                          OP_MLP_ACT,
                                          OP_MLP_DOWN_PROJ,
                                          OP_ADD,
                                          OP_FINAL_NORM,
                                          OP_LM_HEAD,
                                          OP_SAMPLE,
                                          OP_GAP};
/* Operators that Vidur measures and that cost nothing with a paged cache: 0. */
static const char *const attention_reshape[] = {"attn_input_reshape", "attn_output_reshape"};
static const enum op_kind attention_vidur[] = {OP_KV_SAVE, OP_ATTN_PREFILL, OP_ATTN_DECODE};

#define LEN(a) (sizeof(a) / sizeof *(a))

static void stat_names(struct csv_writer *w, const char *op)
{
    static const char *const stat[] = {"min", "max", "mean", "median", "std"};
    char name[96];
    for (size_t i = 0; i < LEN(stat); i++) {
        snprintf(name, sizeof name, "time_stats.%s.%s", op, stat[i]);
        csv_put_str(w, name);
    }
}

static void count_name(struct csv_writer *w, const char *op)
{
    char name[96];
    snprintf(name, sizeof name, "time_stats.%s.n", op);
    csv_put_str(w, name);
}

static void put_names(struct csv_writer *w, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        csv_put_str(w, names[i]);
}

/* Missing is empty; an operator that the model lacks is 0, as Vidur requires numbers. */
static void put_stats(struct csv_writer *w, const struct stats *s, bool exists)
{
    const double v[] = {s->min, s->max, s->mean, s->median, s->std};
    for (size_t i = 0; i < LEN(v); i++) {
        if (exists && s->n == 0)
            csv_put_empty(w);
        else
            csv_put_double(w, exists ? v[i] * 1e3 : 0);
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

/* A column stem; op NULL: the model has no such operator. */
struct op_column {
    const char *name;
    const struct op *op;
};

struct op_columns {
    struct op_column c[OP_ROWS];
    int n;
};

static void add_column(struct op_columns *out, const struct op_list *l, enum op_kind k)
{
    out->c[out->n++] = (struct op_column){op_name(k), op_list_at(l, (int32_t)k)};
}

static bool has_row(const struct op_columns *c, int32_t row)
{
    for (int i = 0; i < c->n; i++)
        if (c->c[i].op && c->c[i].op->row == row)
            return true;
    return false;
}

/* Where an operator's own table is: attention.csv, else mlp.csv. */
static bool is_attention(const struct op *op)
{
    return op->axis == AXIS_PREFILL || op->axis == AXIS_DECODE || op->kind == OP_KV_SAVE;
}

/* Columns of files. `more`: of operators beside those that every file of ours has, such as experts,
 * and those of further kinds of layer. */
struct file_columns {
    struct op_columns vidur, ours, more;         /* mlp.csv */
    struct op_columns decode;                    /* of decode batches: all that is not attention */
    struct op_columns attention, more_attention; /* attention.csv */
};

static void choose_columns(const struct op_list *l, struct file_columns *out)
{
    *out = (struct file_columns){0};
    for (size_t i = 0; i < LEN(mlp_vidur); i++)
        add_column(&out->vidur, l, mlp_vidur[i]);
    for (size_t i = 0; i < LEN(mlp_ours); i++)
        add_column(&out->ours, l, mlp_ours[i]);
    for (size_t i = 0; i < LEN(mlp_decode); i++)
        add_column(&out->decode, l, mlp_decode[i]);
    for (size_t i = 0; i < LEN(attention_vidur); i++)
        add_column(&out->attention, l, attention_vidur[i]);
    for (int i = 0; i < l->n; i++) {
        const struct op *op = &l->ops[i];
        const struct op_column c = {op->name, op};
        struct op_columns *more = is_attention(op) ? &out->more_attention : &out->more;
        const bool flat = op->axis == AXIS_TOKENS || op->axis == AXIS_ROWS;
        if (flat && !has_row(&out->decode, op->row))
            out->decode.c[out->decode.n++] = c;
        if (op->kind != OP_GAP && !has_row(&out->vidur, op->row) && !has_row(&out->ours, op->row) &&
            !has_row(&out->attention, op->row))
            more->c[more->n++] = c;
    }
}

/* ---- mlp.csv ------------------------------------------------------------------------------- */

static const char *const mlp_dims[] = {
    "n_head",     "n_kv_head",     "n_embd",     "n_expanded_embd",
    "vocab_size", "use_gated_mlp", "num_tokens", "num_tensor_parallel_workers"};

static void all_stat_names(struct csv_writer *w, const struct op_columns *c)
{
    for (int i = 0; i < c->n; i++)
        stat_names(w, c->c[i].name);
}

static void all_count_names(struct csv_writer *w, const struct op_columns *c)
{
    for (int i = 0; i < c->n; i++)
        count_name(w, c->c[i].name);
}

static void decode_names(struct csv_writer *w, const struct op_columns *c)
{
    static const char *const stat[] = {"median", "std", "n"};
    for (int i = 0; i < c->n; i++)
        for (size_t k = 0; k < LEN(stat); k++) {
            char name[96];
            snprintf(name, sizeof name, "decode_stats.%s.%s", c->c[i].name, stat[k]);
            csv_put_str(w, name);
        }
}

static void energy_name(struct csv_writer *w, const char *stats, const char *op)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s.median_j", stats, op);
    csv_put_str(w, name);
}

static void all_energy_names(struct csv_writer *w, const char *stats, const struct op_columns *c)
{
    for (int i = 0; i < c->n; i++)
        energy_name(w, stats, c->c[i].name);
}

/* J of one repeat; empty where time or power is unknown, or the model has no such operator. */
static void put_energy(struct csv_writer *w, const struct profile_result *r, const struct op *op,
                       const struct stats *s, bool decode, int64_t x)
{
    const double j = op && s->n ? power_cell_j(r->power, op, decode, (double)x, s->median) : NAN;
    if (isnan(j))
        csv_put_empty(w);
    else
        csv_put_double(w, j);
}

static void energy_names(struct csv_writer *w, const struct file_columns *f, bool split)
{
    all_energy_names(w, "energy_stats", &f->vidur);
    all_energy_names(w, "energy_stats", &f->ours);
    all_energy_names(w, "energy_stats", &f->more);
    if (!split)
        return;
    energy_name(w, "energy_stats", op_name(OP_GAP));
    all_energy_names(w, "decode_energy_stats", &f->decode);
}

/* Of one row: an operator's statistics, where the model has it. */
static struct stats stats_at(struct arena *a, const struct profile_result *r, const struct op *op,
                             enum cell_passes passes, int64_t x)
{
    return op ? cell_1d(a, r, op, passes, x) : (struct stats){0};
}

static void put_all_energies(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                             const struct op_columns *c, enum cell_passes passes, int64_t x)
{
    for (int i = 0; i < c->n; i++) {
        const struct stats s = stats_at(a, r, c->c[i].op, passes, x);
        put_energy(w, r, c->c[i].op, &s, passes == CELL_DECODES, x);
    }
}

static const struct op *gap_of(const struct op_list *ops)
{
    return op_list_at(ops, OP_GAP);
}

static void put_energies(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                         const struct op_list *ops, const struct file_columns *f, int64_t x)
{
    put_all_energies(a, w, r, &f->vidur, CELL_MAIN, x);
    put_all_energies(a, w, r, &f->ours, CELL_MAIN, x);
    put_all_energies(a, w, r, &f->more, CELL_MAIN, x);
    if (!r->split)
        return;
    const struct stats s = stats_at(a, r, gap_of(ops), CELL_MAIN, x);
    put_energy(w, r, gap_of(ops), &s, false, x);
    put_all_energies(a, w, r, &f->decode, CELL_DECODES, x);
}

static void mlp_header(struct csv_writer *w, const struct profile_result *r,
                       const struct file_columns *f)
{
    all_stat_names(w, &f->vidur);
    put_names(w, mlp_dims, LEN(mlp_dims));
    all_stat_names(w, &f->ours);
    all_count_names(w, &f->vidur);
    all_count_names(w, &f->ours);
    csv_put_str(w, "head_dim");
    csv_put_str(w, "method");
    all_stat_names(w, &f->more);
    all_count_names(w, &f->more);
    if (r->p->model->experts) {
        csv_put_str(w, "num_experts");
        csv_put_str(w, "num_experts_per_tok");
    }
    if (r->split) {
        stat_names(w, op_name(OP_GAP));
        count_name(w, op_name(OP_GAP));
        decode_names(w, &f->decode);
    }
    if (r->power)
        energy_names(w, f, r->split);
    csv_end_row(w);
}

/* Median, standard deviation and number of each operator in decode batches. */
static void put_decodes(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                        const struct op_columns *c, int64_t x)
{
    for (int i = 0; i < c->n; i++) {
        const struct stats s = stats_at(a, r, c->c[i].op, CELL_DECODES, x);
        if (s.n) {
            csv_put_double(w, s.median * 1e3);
            csv_put_double(w, s.std * 1e3);
        } else {
            csv_put_empty(w);
            csv_put_empty(w);
        }
        csv_put_int(w, s.n);
    }
}

/* Their statistics; n: the numbers of samples, which stand elsewhere. */
static void put_columns(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                        const struct op_columns *c, int64_t x, int64_t n[OP_ROWS])
{
    for (int i = 0; i < c->n; i++) {
        const struct stats s = stats_at(a, r, c->c[i].op, CELL_MAIN, x);
        put_stats(w, &s, c->c[i].op != NULL);
        n[i] = s.n;
    }
}

static void put_ints(struct csv_writer *w, const int64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        csv_put_int(w, v[i]);
}

static void mlp_row(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                    const struct op_list *ops, const struct file_columns *f, int64_t x)
{
    const struct model *m = r->p->model;
    int64_t vidur[OP_ROWS], ours[OP_ROWS], more[OP_ROWS];
    put_columns(a, w, r, &f->vidur, x, vidur);
    put_ints(w, (const int64_t[]){m->heads, m->kv_heads, m->hidden, m->intermediate, m->vocab}, 5);
    csv_put_str(w, m->act == ACT_SILU_GATED ? "True" : "False");
    csv_put_int(w, x);
    csv_put_int(w, r->p->tp);
    put_columns(a, w, r, &f->ours, x, ours);
    put_ints(w, vidur, (size_t)f->vidur.n);
    put_ints(w, ours, (size_t)f->ours.n);
    csv_put_int(w, m->head_dim);
    csv_put_str(w, "in_context");
    put_columns(a, w, r, &f->more, x, more);
    put_ints(w, more, (size_t)f->more.n);
    if (m->experts)
        put_ints(w, (const int64_t[]){m->experts, m->experts_per_token}, 2);
    if (r->split) {
        const struct stats s = stats_at(a, r, gap_of(ops), CELL_MAIN, x);
        put_stats(w, &s, gap_of(ops) != NULL);
        csv_put_int(w, s.n);
        put_decodes(a, w, r, &f->decode, x);
    }
    if (r->power)
        put_energies(a, w, r, ops, f, x);
    csv_end_row(w);
}

/* ---- attention.csv ------------------------------------------------------------------------- */

static const char *const attention_dims[] = {"n_embd",
                                             "n_q_head",
                                             "n_kv_head",
                                             "block_size",
                                             "num_tensor_parallel_workers",
                                             "max_model_len",
                                             "batch_size",
                                             "prefill_chunk_size",
                                             "kv_cache_size",
                                             "is_prefill",
                                             "attention_backend"};

static void attention_header(struct csv_writer *w, const struct profile_result *r,
                             const struct file_columns *f)
{
    stat_names(w, attention_reshape[0]);
    all_stat_names(w, &f->attention);
    stat_names(w, attention_reshape[1]);
    put_names(w, attention_dims, LEN(attention_dims));
    all_count_names(w, &f->attention);
    csv_put_str(w, "head_dim");
    csv_put_str(w, "method");
    all_stat_names(w, &f->more_attention);
    all_count_names(w, &f->more_attention);
    if (r->power) {
        all_energy_names(w, "energy_stats", &f->attention);
        all_energy_names(w, "energy_stats", &f->more_attention);
    }
    csv_end_row(w);
}

/* What a point says of each operator, in s; and the columns. */
static void put_attention(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                          const struct op_columns *c, int64_t point, struct stats s[OP_ROWS])
{
    const bool prefill = r->points->p[point].kind == POINT_PREFILL;
    const enum op_axis other = prefill ? AXIS_DECODE : AXIS_PREFILL;
    for (int i = 0; i < c->n; i++) {
        const struct op *op = c->c[i].op;
        const bool decodes_own = r->split && !prefill && op && op->kind == OP_KV_SAVE;
        s[i] = (struct stats){0};
        if (op && op->axis != other && !decodes_own) /* theirs is in mlp.csv */
            s[i] = cell_point(a, r, op, point);
        put_stats(w, &s[i], op != NULL);
    }
}

static void put_counts(struct csv_writer *w, const struct op_columns *c,
                       const struct stats s[OP_ROWS])
{
    for (int i = 0; i < c->n; i++)
        csv_put_int(w, s[i].n);
}

static void put_attention_energy(struct csv_writer *w, const struct profile_result *r,
                                 const struct op_columns *c, const struct point *p,
                                 const struct stats s[OP_ROWS])
{
    for (int i = 0; i < c->n; i++) {
        const struct op *op = c->c[i].op;
        const bool keys = op && op->axis == AXIS_DECODE;
        put_energy(w, r, op, &s[i], p->kind != POINT_PREFILL, keys ? p->x * p->kv : p->x);
    }
}

static void attention_row(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                          const struct file_columns *f, int64_t point)
{
    const struct model *m = r->p->model;
    const struct point *p = &r->points->p[point];
    bool prefill = p->kind == POINT_PREFILL;
    const struct stats zero = {0};
    struct stats s[OP_ROWS], more[OP_ROWS];
    put_stats(w, &zero, false);
    put_attention(a, w, r, &f->attention, point, s);
    put_stats(w, &zero, false);
    const int64_t dims[] = {m->hidden,          m->heads,           m->kv_heads,
                            r->p->block_size,   r->p->tp,           r->limits->max_kv,
                            prefill ? 1 : p->x, prefill ? p->x : 0, p->kv};
    put_ints(w, dims, LEN(dims));
    csv_put_str(w, prefill ? "True" : "False");
    csv_put_str(w, "twinfer");
    put_counts(w, &f->attention, s);
    csv_put_int(w, m->head_dim);
    csv_put_str(w, "in_context");
    put_attention(a, w, r, &f->more_attention, point, more);
    put_counts(w, &f->more_attention, more);
    if (r->power) {
        put_attention_energy(w, r, &f->attention, p, s);
        put_attention_energy(w, r, &f->more_attention, p, more);
    }
    csv_end_row(w);
}

/* ---- files --------------------------------------------------------------------------------- */

typedef void fill_fn(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                     const struct op_list *ops);

static void fill_mlp(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                     const struct op_list *ops)
{
    int64_t n, *x = cell_counts(a, r, &n);
    struct file_columns f;
    choose_columns(ops, &f);
    mlp_header(w, r, &f);
    for (int64_t i = 0; i < n; i++)
        mlp_row(a, w, r, ops, &f, x[i]);
}

static void fill_attention(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                           const struct op_list *ops)
{
    struct file_columns f;
    choose_columns(ops, &f);
    attention_header(w, r, &f);
    for (int64_t i = 0; i < r->points->n; i++) {
        const enum point_kind kind = r->points->p[i].kind;
        if ((kind == POINT_PREFILL || kind == POINT_DECODE) && profile_measured(r, i))
            attention_row(a, w, r, &f, i);
    }
}

static void fill_unevenness(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                            const struct op_list *ops)
{
    static const char *const names[] = {"batches", "from", "ratio"};
    (void)a;
    (void)ops;
    put_names(w, names, LEN(names));
    csv_end_row(w);
    for (size_t i = 0; i < r->rests.of.n; i++) {
        const struct calibration_rest *rest = &r->rests.of.p[i];
        csv_put_str(w, rest->prompt ? "prompt" : "decode");
        csv_put_int(w, rest->from);
        csv_put_double(w, round(rest->ratio * 1e4) / 1e4);
        csv_end_row(w);
    }
}

static enum st write_csv(struct arena *a, const struct artifact *art, const char *name,
                         fill_fn *fill, const struct profile_result *r, const struct op_list *ops,
                         struct err *e)
{
    struct csv_writer w = {0};
    TRY(artifact_create_file(art, name, &w.f, e));
    fill(a, &w, r, ops);
    return artifact_close_file(art, name, &w.f, e);
}

static enum st write_samples(struct arena *a, const struct artifact *art,
                             const struct profile_result *r, struct err *e)
{
    struct sv text;
    TRY(journal_text(a, r->journal->path, &text, e));
    return fs_write_atomic(artifact_path(a, art, PROFILE_SAMPLES), text.p, text.n, e);
}

void profile_ops(const struct profile_result *r, struct op_list *out)
{
    shard_ops(r->p->model, r->p->tp, out);
    if (r->split)
        op_list_add_gap(out);
}

enum st write_compute(struct arena *a, const struct profile_result *r, const char *dir,
                      struct err *e)
{
    struct op_list ops;
    profile_ops(r, &ops);
    struct artifact art;
    TRY(artifact_begin(a, dir, BUNDLE_META, &art, e));
    enum st st = write_csv(a, &art, "mlp.csv", fill_mlp, r, &ops, e);
    if (st == ST_OK)
        st = write_csv(a, &art, "attention.csv", fill_attention, r, &ops, e);
    if (st == ST_OK && r->rests.of.n > 0)
        st = write_csv(a, &art, BUNDLE_UNEVENNESS, fill_unevenness, r, &ops, e);
    if (st == ST_OK)
        st = write_samples(a, &art, r, e);
    if (st == ST_OK)
        st = artifact_commit(&art, profile_meta(a, r, &ops), e);
    if (st != ST_OK)
        artifact_discard(&art);
    return st;
}

/* ---- cpu_overheads.csv --------------------------------------------------------------------- */

enum host_part { HOST_TOTAL, HOST_EXECUTOR, HOST_DEVICE };

/* Iterations of that batch size, with or without prefill chunks. */
static struct stats host_stats(struct arena *a, const struct journal *j, int64_t batch,
                               bool prefill, enum host_part part)
{
    double *v = arena_array(a, double, j->host.n);
    int64_t n = 0;
    for (size_t i = 0; i < j->host.n; i++) {
        const struct host_sample *h = &j->host.p[i];
        if (h->batch == batch && (h->chunks > 0) == prefill)
            v[n++] = part == HOST_TOTAL      ? h->host_s
                     : part == HOST_EXECUTOR ? h->executor_s
                                             : h->device_s;
    }
    return stats_of(v, n);
}

static double mean_scale(struct arena *a, const struct journal *j, bool prefill)
{
    double weighted = 0, weight = 0;
    for (size_t i = 0; i < j->runs.n; i++) {
        struct stats s = host_stats(a, j, j->runs.p[i], prefill, HOST_TOTAL);
        if (s.median > 0) {
            weighted += (double)s.n * s.cut_mean / s.median;
            weight += (double)s.n;
        }
    }
    return weight > 0 ? fmin(fmax(weighted / weight, 0.5), 2) : 1;
}

struct host_scale host_scale_of(struct arena *a, const struct journal *j)
{
    return (struct host_scale){mean_scale(a, j, false), mean_scale(a, j, true)};
}

static void host_row(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                     int64_t batch)
{
    const struct journal *j = r->journal;
    struct stats total = host_stats(a, j, batch, false, HOST_TOTAL);
    struct stats inside = host_stats(a, j, batch, false, HOST_EXECUTOR);
    struct stats device = host_stats(a, j, batch, false, HOST_DEVICE);
    struct stats prefill = host_stats(a, j, batch, true, HOST_TOTAL);
    if (total.n == 0)
        return;
    /* Vidur's terms must add up to the total: the loop's part is the remainder */
    double prepare_mean = fmin(inside.mean, total.mean);
    double prepare_median = fmin(inside.median, total.median);
    const double ms[] = {(total.mean - prepare_mean) * 1e3,
                         (total.median - prepare_median) * 1e3,
                         0,
                         0,
                         prepare_mean * 1e3,
                         prepare_median * 1e3,
                         device.mean * 1e3,
                         device.median * 1e3,
                         0,
                         0,
                         0};
    for (size_t i = 0; i < LEN(ms); i++)
        csv_put_double(w, ms[i]);
    csv_put_str(w, r->p->model_name);
    csv_put_int(w, batch);
    csv_put_int(w, r->p->tp);
    put_stats(w, &total, true);
    csv_put_int(w, total.n);
    put_stats(w, &prefill, true);
    csv_put_int(w, prefill.n);
    csv_end_row(w);
}

enum st write_host(struct arena *a, const struct profile_result *r, const char *path, struct err *e)
{
    if (r->journal->host.n == 0)
        return ST_OK;
    char *text = NULL;
    size_t n = 0;
    struct csv_writer w = {.f = open_memstream(&text, &n)};
    if (!w.f)
        return err_errno(e, false, "cannot make %s", path);
    put_names(&w, host_columns, HOST_COLUMNS);
    csv_end_row(&w);
    int64_t batches[64];
    int m = host_batches(r->limits->max_batch, batches);
    for (int i = 0; i < m; i++)
        host_row(a, &w, r, batches[i]);
    fclose(w.f);
    enum st st = fs_mkdirs(fs_dir(a, path), e);
    if (st == ST_OK)
        st = fs_write_atomic(path, text, n, e);
    free(text);
    return st;
}
