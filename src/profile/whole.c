#include "profile/whole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "profile/read/meta.h"
#include "profile/read/unevenness.h"
#include "profile/stats.h"
#include "text/csv.h"

enum { QUANTITIES = 4, PER_OCTAVE = 8 };

/* A sample's place among the others. */
struct binned_sample {
    int32_t bin[QUANTITIES];
    size_t at; /* index of the sample */
};

/* One row: samples of `order` from first on. */
struct bin_row {
    size_t first, n;
    struct iterations_batch b;
    struct stats host, device, launch;
    double total_s; /* median */
};

struct bin_rows {
    const struct whole_sample *s;
    struct binned_sample *order; /* [n] */
    struct bin_row *of;          /* [n_rows] */
    size_t *row_of;              /* [n] of each sample */
    size_t n, n_rows;
    bool launches; /* parts of host times are beside the device's */
};

static double total_s(const struct whole_sample *s)
{
    const struct iterations_time t = {s->host_s, s->device_s, s->launch_s};
    return iterations_total_s(&t);
}

/* ---- like batches ---------------------------------------------------------------------------- */

static int32_t bin(double v)
{
    return v > 0 ? (int32_t)floor(PER_OCTAVE * log2(v) + 0.5) : INT32_MIN;
}

static struct binned_sample place(const struct whole_sample *s, size_t at)
{
    const struct iterations_batch *b = &s->b;
    const double context = b->chunk_tokens > 0 ? b->chunk_context / b->chunk_tokens : 0;
    const double kv = b->decode_sequences > 0 ? b->decode_kv_tokens / b->decode_sequences : 0;
    return (struct binned_sample){
        {bin(b->chunk_tokens), bin(b->decode_sequences), bin(context), bin(kv)}, at};
}

static int by_place(const void *pa, const void *pb)
{
    const struct binned_sample *a = pa, *b = pb;
    for (int i = 0; i < QUANTITIES; i++)
        if (a->bin[i] != b->bin[i])
            return a->bin[i] < b->bin[i] ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static bool alike(const struct binned_sample *a, const struct binned_sample *b)
{
    return memcmp(a->bin, b->bin, sizeof a->bin) == 0;
}

/* v: room for the row's samples. */
static void fill(const struct bin_rows *r, struct bin_row *row, double *v)
{
    const double n = (double)row->n;
    for (size_t i = 0; i < row->n; i++) {
        const struct iterations_batch *b = &r->s[r->order[row->first + i].at].b;
        row->b.chunk_tokens += b->chunk_tokens / n;
        row->b.chunk_context += b->chunk_context / n;
        row->b.decode_sequences += b->decode_sequences / n;
        row->b.decode_kv_tokens += b->decode_kv_tokens / n;
    }
    for (size_t i = 0; i < row->n; i++)
        v[i] = r->s[r->order[row->first + i].at].host_s;
    row->host = stats_of(v, (int64_t)row->n);
    for (size_t i = 0; i < row->n; i++)
        v[i] = r->s[r->order[row->first + i].at].device_s;
    row->device = stats_of(v, (int64_t)row->n);
    for (size_t i = 0; i < row->n; i++)
        v[i] = r->s[r->order[row->first + i].at].launch_s;
    row->launch = stats_of(v, (int64_t)row->n);
    for (size_t i = 0; i < row->n; i++)
        v[i] = total_s(&r->s[r->order[row->first + i].at]);
    row->total_s = stats_of(v, (int64_t)row->n).median;
}

static void group(struct arena *a, const struct whole_sample *s, size_t n, struct bin_rows *out)
{
    *out = (struct bin_rows){.s = s, .n = n};
    out->order = arena_array(a, struct binned_sample, n + 1);
    out->of = arena_array(a, struct bin_row, n + 1);
    out->row_of = arena_array(a, size_t, n + 1);
    double *v = arena_array(a, double, n + 1);
    for (size_t i = 0; i < n; i++) {
        out->order[i] = place(&s[i], i);
        out->launches |= s[i].launch_s > 0;
    }
    if (n)
        qsort(out->order, n, sizeof *out->order, by_place);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !alike(&out->order[i], &out->order[i - 1]))
            out->of[out->n_rows++] = (struct bin_row){.first = i};
        out->of[out->n_rows - 1].n++;
        out->row_of[out->order[i].at] = out->n_rows - 1;
    }
    for (size_t i = 0; i < out->n_rows; i++)
        fill(out, &out->of[i], v);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int64_t ns(double s)
{
    return llround(s * 1e9);
}

/* Quantities of equal batches are whole numbers, their mean too. */
static void put_quantity(struct csv_writer *w, double v)
{
    csv_put_double(w, round(v * 1e3) / 1e3);
}

static void put_names(struct csv_writer *w, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        csv_put_str(w, names[i]);
    csv_end_row(w);
}

static enum st write_iterations(const struct artifact *art, const struct bin_rows *r, int64_t tp,
                                struct err *e)
{
    static const char *const names[] = {"num_tensor_parallel_workers",
                                        "chunk_tokens",
                                        "chunk_context",
                                        "decode_sequences",
                                        "decode_kv_tokens",
                                        "host_ns",
                                        "device_ns",
                                        "n",
                                        "host_std_ns",
                                        "device_std_ns",
                                        "launch_ns"};
    struct csv_writer w = {0};
    TRY(artifact_create_file(art, BUNDLE_ITERATIONS_FILE, &w.f, e));
    put_names(&w, names, sizeof names / sizeof *names - !r->launches);
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct bin_row *row = &r->of[i];
        const int64_t host_ns = ns(row->host.median), device_ns = ns(row->device.median);
        csv_put_int(&w, tp);
        put_quantity(&w, row->b.chunk_tokens);
        put_quantity(&w, row->b.chunk_context);
        put_quantity(&w, row->b.decode_sequences);
        put_quantity(&w, row->b.decode_kv_tokens);
        csv_put_int(&w, host_ns);
        csv_put_int(&w, host_ns + device_ns > 0 ? device_ns : 1);
        csv_put_int(&w, (int64_t)row->n);
        csv_put_int(&w, ns(row->host.std));
        csv_put_int(&w, ns(row->device.std));
        if (r->launches) /* of medians each */
            csv_put_int(&w, ns(fmin(row->launch.median, row->host.median)));
        csv_end_row(&w);
    }
    return artifact_close_file(art, BUNDLE_ITERATIONS_FILE, &w.f, e);
}

static void put_ratio(struct csv_writer *w, bool prompt, int64_t from, double ratio)
{
    csv_put_str(w, prompt ? "prompt" : "decode");
    csv_put_int(w, from);
    csv_put_double(w, fmax(1e-3, fmin(1e3, round(ratio * 1e4) / 1e4)));
    csv_end_row(w);
}

/* rests: of the calibration run; NULL = there was none. */
static enum st write_unevenness(const struct artifact *art, const struct bin_rows *r,
                                const struct calibration_rests *rests, struct err *e)
{
    static const char *const names[] = {"batches", "from", "ratio"};
    struct csv_writer w = {0};
    TRY(artifact_create_file(art, BUNDLE_UNEVENNESS, &w.f, e));
    put_names(&w, names, sizeof names / sizeof *names);
    for (size_t i = 0; rests && i < rests->of.n; i++)
        put_ratio(&w, rests->of.p[i].prompt, rests->of.p[i].from, rests->of.p[i].ratio);
    for (size_t i = 0; !rests && i < r->n; i++) {
        const struct bin_row *row = &r->of[r->row_of[i]];
        const struct whole_sample *s = &r->s[i];
        if (row->n >= WHOLE_LIKE)
            put_ratio(&w, s->b.chunk_tokens > 0, 1, total_s(s) / row->total_s);
    }
    return artifact_close_file(art, BUNDLE_UNEVENNESS, &w.f, e);
}

static void add_all(struct arena *a, struct node *to, const struct node *from)
{
    for (uint32_t i = 0; from && i < from->n; i++)
        node_set(a, to, from->pairs[i].key, node_copy(a, from->pairs[i].value));
}

/* What a bundle says of the calibration run. */
static void add_loop(struct arena *a, struct node *m, const struct rehearsal *loop,
                     const struct rehearsal_result *x)
{
    struct bundle_meta said = {0};
    struct node *run = node_new(a, NODE_MAP);
    for (unsigned k = 0; k < CALIBRATION_KINDS; k++)
        said.iteration[k] = calibration_classes(a, x->scale[k]);
    said.has_wake = wake_said(a, &loop->wake, &said.wake);
    add_all(a, m, fields_node(a, &bundle_loop_fields, &said));
    node_put(a, run, "rounds", node_int(a, loop->rounds));
    node_put(a, run, "batches", node_int(a, (int64_t)loop->batches.batches.n));
    node_put(a, run, "unknown", node_int(a, loop->unknown));
    node_put(a, run, "took_s", node_float(a, loop->took_s));
    node_put(a, m, "calibration_run", run);
    node_put(a, m, "padded", node_bool(a, x->padded));
}

/* Median of measured / predicted over batches of the calibration run. */
static double factor_of(struct arena *a, const struct rehearsal *loop, bool prompt)
{
    double *ratio = arena_array(a, double, loop->batches.batches.n + 1);
    int64_t n = 0;
    for (size_t i = 0; i < loop->batches.batches.n; i++) {
        const struct calibration_batch *row = &loop->batches.batches.p[i];
        if ((row->b.n_chunks > 0) == prompt && row->device_s > 0 && row->predicted_s > 0)
            ratio[n++] = row->device_s / row->predicted_s;
    }
    return n ? stats_of(ratio, n).median : (double)NAN;
}

static struct node *meta_of(struct arena *a, const struct whole_params *p, const struct bin_rows *r)
{
    char now[CLOCK_ISO_MAX];
    clock_iso8601(clock_wall_ns(), now);
    const struct bundle_title title = {.model = p->model_name,
                                       .hardware_id = p->hardware,
                                       .created_at = now,
                                       .method = p->method,
                                       .tensor_parallel = p->tp};
    struct node *m = fields_node(a, &bundle_title_fields, &title);
    node_put(a, m, "iterations", node_int(a, (int64_t)r->n));
    node_put(a, m, "rows", node_int(a, (int64_t)r->n_rows));
    add_all(a, m, p->meta);
    return m;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum st check_name(const char *setting, const char *name, struct err *e)
{
    if (name && *name && !strstr(name, "..") && *name != '/')
        return ST_OK;
    return err_set(e, ST_USAGE, "%s: '%s' cannot be the name of a folder", setting,
                   name ? name : "");
}

enum st whole_check(struct arena *a, const struct whole_params *p, const char **dir, struct err *e)
{
    TRY(check_name("hardware.id", p->hardware, e));
    TRY(check_name("model.name", p->model_name, e));
    *dir = arena_printf(a, "%s/data/profiling/compute/%s/%s", p->root, p->hardware, p->model_name);
    if (!fs_exists(*dir))
        return ST_OK;
    err_set(e, ST_USAGE, "%s already exists", *dir);
    return err_hint(e, "a bundle is never overwritten: remove it, or choose another root or "
                       "hardware.id=");
}

enum st whole_write(struct arena *a, const struct whole_params *p, const struct whole_sample *s,
                    size_t n, struct whole_result *out, struct err *e)
{
    struct bin_rows r;
    struct artifact art;
    struct iterations *read = NULL;
    struct rehearsal_result loop = {0};
    out->factor[false] = out->factor[true] = (double)NAN;
    TRY(whole_check(a, p, &out->dir, e));
    group(a, s, n, &r);
    TRY(artifact_begin(a, out->dir, BUNDLE_META, &art, e));
    enum st st = write_iterations(&art, &r, p->tp, e);
    if (st == ST_OK) /* as a simulation will read it */
        st = iterations_load(a, artifact_path(a, &art, BUNDLE_ITERATIONS_FILE), p->tp, &read, e);
    if (st == ST_OK && p->loop) {
        rehearsal_judge(a, p->loop, read, p->first_use_s, &loop);
        for (int prompt = 0; prompt < 2; prompt++)
            out->factor[prompt] = factor_of(a, p->loop, prompt);
    }
    if (st == ST_OK)
        st = write_unevenness(&art, &r, p->loop ? &loop.rests : NULL, e);
    if (st == ST_OK) {
        struct node *meta = meta_of(a, p, &r);
        if (p->loop)
            add_loop(a, meta, p->loop, &loop);
        out->rows = r.n_rows;
        out->error = iterations_facts(read).error;
        node_put(a, meta, "loo_error",
                 out->error.tested ? node_float(a, out->error.mean) : node_new(a, NODE_NULL));
        st = artifact_commit(&art, meta, e);
    }
    if (st != ST_OK)
        artifact_discard(&art);
    vec_free(&loop.rests.of);
    return st;
}
