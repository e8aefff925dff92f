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

static const struct op *find_op(const struct op_list *l, enum op_kind k)
{
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].kind == k)
            return &l->ops[i];
    return NULL;
}

/* ---- mlp.csv ------------------------------------------------------------------------------- */

static const char *const mlp_dims[] = {
    "n_head",     "n_kv_head",     "n_embd",     "n_expanded_embd",
    "vocab_size", "use_gated_mlp", "num_tokens", "num_tensor_parallel_workers"};

static void decode_names(struct csv_writer *w)
{
    static const char *const stat[] = {"median", "std", "n"};
    for (size_t i = 0; i < LEN(mlp_decode); i++)
        for (size_t k = 0; k < LEN(stat); k++) {
            char name[96];
            snprintf(name, sizeof name, "decode_stats.%s.%s", op_name(mlp_decode[i]), stat[k]);
            csv_put_str(w, name);
        }
}

static void energy_name(struct csv_writer *w, const char *stats, enum op_kind k)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s.median_j", stats, op_name(k));
    csv_put_str(w, name);
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

static void energy_names(struct csv_writer *w, bool split)
{
    for (size_t i = 0; i < LEN(mlp_vidur); i++)
        energy_name(w, "energy_stats", mlp_vidur[i]);
    for (size_t i = 0; i < LEN(mlp_ours); i++)
        energy_name(w, "energy_stats", mlp_ours[i]);
    if (!split)
        return;
    energy_name(w, "energy_stats", OP_GAP);
    for (size_t i = 0; i < LEN(mlp_decode); i++)
        energy_name(w, "decode_energy_stats", mlp_decode[i]);
}

static void put_energies(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                         const struct op_list *ops, int64_t x)
{
    enum op_kind main[LEN(mlp_vidur) + LEN(mlp_ours) + 1];
    size_t n = 0;
    for (size_t i = 0; i < LEN(mlp_vidur); i++)
        main[n++] = mlp_vidur[i];
    for (size_t i = 0; i < LEN(mlp_ours); i++)
        main[n++] = mlp_ours[i];
    if (r->split)
        main[n++] = OP_GAP;
    for (size_t i = 0; i < n; i++) {
        const struct op *op = find_op(ops, main[i]);
        const struct stats s = op ? cell_1d(a, r, op, CELL_MAIN, x) : (struct stats){0};
        put_energy(w, r, op, &s, false, x);
    }
    for (size_t i = 0; r->split && i < LEN(mlp_decode); i++) {
        const struct op *op = find_op(ops, mlp_decode[i]);
        const struct stats s = op ? cell_1d(a, r, op, CELL_DECODES, x) : (struct stats){0};
        put_energy(w, r, op, &s, true, x);
    }
}

static void mlp_header(struct csv_writer *w, const struct profile_result *r)
{
    const bool split = r->split;
    for (size_t i = 0; i < LEN(mlp_vidur); i++)
        stat_names(w, op_name(mlp_vidur[i]));
    put_names(w, mlp_dims, LEN(mlp_dims));
    for (size_t i = 0; i < LEN(mlp_ours); i++)
        stat_names(w, op_name(mlp_ours[i]));
    for (size_t i = 0; i < LEN(mlp_vidur); i++)
        count_name(w, op_name(mlp_vidur[i]));
    for (size_t i = 0; i < LEN(mlp_ours); i++)
        count_name(w, op_name(mlp_ours[i]));
    csv_put_str(w, "head_dim");
    csv_put_str(w, "method");
    if (split) {
        stat_names(w, op_name(OP_GAP));
        count_name(w, op_name(OP_GAP));
        decode_names(w);
    }
    if (r->power)
        energy_names(w, split);
    csv_end_row(w);
}

static struct stats mlp_stats(struct arena *a, const struct profile_result *r,
                              const struct op_list *ops, enum op_kind k, int64_t x, bool *exists)
{
    const struct op *op = find_op(ops, k);
    *exists = op != NULL;
    return op ? cell_1d(a, r, op, CELL_MAIN, x) : (struct stats){0};
}

/* Median, standard deviation and number of each operator in decode batches. */
static void put_decodes(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                        const struct op_list *ops, int64_t x)
{
    for (size_t i = 0; i < LEN(mlp_decode); i++) {
        const struct op *op = find_op(ops, mlp_decode[i]);
        const struct stats s = op ? cell_1d(a, r, op, CELL_DECODES, x) : (struct stats){0};
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

static void mlp_row(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                    const struct op_list *ops, int64_t x)
{
    const struct model *m = r->p->model;
    bool exists;
    int64_t n[LEN(mlp_vidur) + LEN(mlp_ours)];
    for (size_t i = 0; i < LEN(mlp_vidur); i++) {
        struct stats s = mlp_stats(a, r, ops, mlp_vidur[i], x, &exists);
        put_stats(w, &s, exists);
        n[i] = s.n;
    }
    const int64_t dims[] = {m->heads, m->kv_heads, m->hidden, m->intermediate, m->vocab};
    for (size_t i = 0; i < LEN(dims); i++)
        csv_put_int(w, dims[i]);
    csv_put_str(w, m->act == ACT_SILU_GATED ? "True" : "False");
    csv_put_int(w, x);
    csv_put_int(w, r->p->tp);
    for (size_t i = 0; i < LEN(mlp_ours); i++) {
        struct stats s = mlp_stats(a, r, ops, mlp_ours[i], x, &exists);
        put_stats(w, &s, exists);
        n[LEN(mlp_vidur) + i] = s.n;
    }
    for (size_t i = 0; i < LEN(n); i++)
        csv_put_int(w, n[i]);
    csv_put_int(w, m->head_dim);
    csv_put_str(w, "in_context");
    if (r->split) {
        struct stats s = mlp_stats(a, r, ops, OP_GAP, x, &exists);
        put_stats(w, &s, exists);
        csv_put_int(w, s.n);
        put_decodes(a, w, r, ops, x);
    }
    if (r->power)
        put_energies(a, w, r, ops, x);
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

static void attention_header(struct csv_writer *w, const struct profile_result *r)
{
    stat_names(w, attention_reshape[0]);
    for (size_t i = 0; i < LEN(attention_vidur); i++)
        stat_names(w, op_name(attention_vidur[i]));
    stat_names(w, attention_reshape[1]);
    put_names(w, attention_dims, LEN(attention_dims));
    for (size_t i = 0; i < LEN(attention_vidur); i++)
        count_name(w, op_name(attention_vidur[i]));
    csv_put_str(w, "head_dim");
    csv_put_str(w, "method");
    for (size_t i = 0; r->power && i < LEN(attention_vidur); i++)
        energy_name(w, "energy_stats", attention_vidur[i]);
    csv_end_row(w);
}

static void attention_row(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                          const struct op_list *ops, int64_t point)
{
    const struct model *m = r->p->model;
    const struct point *p = &r->points->p[point];
    bool prefill = p->kind == POINT_PREFILL;
    const struct stats zero = {0};
    struct stats s[LEN(attention_vidur)] = {{0}};
    put_stats(w, &zero, false);
    for (size_t i = 0; i < LEN(attention_vidur); i++) {
        enum op_kind other = prefill ? OP_ATTN_DECODE : OP_ATTN_PREFILL;
        const struct op *op = find_op(ops, attention_vidur[i]);
        const bool decodes_own = r->split && !prefill && op && op->kind == OP_KV_SAVE;
        if (op && op->kind != other && !decodes_own) /* theirs is in mlp.csv */
            s[i] = cell_point(a, r, op, point);
        put_stats(w, &s[i], op != NULL);
    }
    put_stats(w, &zero, false);
    const int64_t dims[] = {m->hidden,          m->heads,           m->kv_heads,
                            r->p->block_size,   r->p->tp,           r->limits->max_kv,
                            prefill ? 1 : p->x, prefill ? p->x : 0, p->kv};
    for (size_t i = 0; i < LEN(dims); i++)
        csv_put_int(w, dims[i]);
    csv_put_str(w, prefill ? "True" : "False");
    csv_put_str(w, "twinfer");
    for (size_t i = 0; i < LEN(s); i++)
        csv_put_int(w, s[i].n);
    csv_put_int(w, m->head_dim);
    csv_put_str(w, "in_context");
    for (size_t i = 0; r->power && i < LEN(s); i++)
        put_energy(w, r, find_op(ops, attention_vidur[i]), &s[i], !prefill,
                   attention_vidur[i] == OP_ATTN_DECODE ? p->x * p->kv : p->x);
    csv_end_row(w);
}

/* ---- files --------------------------------------------------------------------------------- */

typedef void fill_fn(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                     const struct op_list *ops);

static void fill_mlp(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                     const struct op_list *ops)
{
    int64_t n, *x = cell_counts(a, r, &n);
    mlp_header(w, r);
    for (int64_t i = 0; i < n; i++)
        mlp_row(a, w, r, ops, x[i]);
}

static void fill_attention(struct arena *a, struct csv_writer *w, const struct profile_result *r,
                           const struct op_list *ops)
{
    attention_header(w, r);
    for (int64_t i = 0; i < r->points->n; i++) {
        const enum point_kind kind = r->points->p[i].kind;
        if ((kind == POINT_PREFILL || kind == POINT_DECODE) && profile_measured(r, i))
            attention_row(a, w, r, ops, i);
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
