#include "calibrate/calibration_files.h"

#include <math.h>
#include <string.h>

#include "artifact/artifact.h"
#include "base/clock.h"
#include "base/solve.h"
#include "profile/read/calibrated.h"
#include "profile/read/meta.h"
#include "profile/read/unevenness.h"
#include "text/csv.h"

static const double Z95 = 1.959964;

/* ---- the fit as a tree ------------------------------------------------------------------------
 */

static struct node *param_node(struct arena *a, const struct calibrate_fit *f, int i)
{
    struct node *n = node_new(a, NODE_MAP);
    const double value = exp(f->theta.ln[i]), sd = sqrt(f->covariance[i][i]);
    node_put(a, n, "value", node_float(a, value));
    node_put(a, n, "unit", node_str(a, theta_unit(i)));
    node_put(a, n, "sd", node_float(a, sd));
    node_put(a, n, "low", node_float(a, value * exp(-Z95 * sd)));
    node_put(a, n, "high", node_float(a, value * exp(Z95 * sd)));
    node_put(a, n, "told", node_float(a, 1 - f->told[i]));
    node_put(a, n, "prior_value", node_float(a, exp(f->before.ln[i])));
    node_put(a, n, "prior_sd", node_float(a, f->before_sd[i]));
    return n;
}

static struct node *residual_node(struct arena *a, const struct calibrate_residual *r)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "run", node_str(a, r->stage->run->name));
    node_put(a, n, "stage", node_str(a, r->stage->stage->name));
    node_put(a, n, "metric", node_str(a, observed_metric_name(r->metric)));
    node_put(a, n, "percentile", node_float(a, observed_points[r->point]));
    node_put(a, n, "observed_s", node_float(a, r->observed));
    node_put(a, n, "fitted_s", node_float(a, r->fitted));
    node_put(a, n, "z", node_float(a, r->z));
    return n;
}

static struct node *stage_node(struct arena *a, const struct calibrate_stage *s)
{
    struct node *n = node_new(a, NODE_MAP), *notes = node_new(a, NODE_LIST);
    node_put(a, n, "path", node_str(a, s->run->path));
    node_put(a, n, "format", node_str(a, s->run->format));
    node_put(a, n, "stage", node_str(a, s->stage->name));
    node_put(a, n, "requests", node_int(a, s->stage->completed));
    node_put(a, n, "rate_per_s", node_number(a, s->stage->rate));
    node_put(a, n, "left_out", node_str_or_null(a, s->left_out));
    for (size_t i = 0; i < s->stage->n_notes; i++)
        node_push(a, notes, node_str(a, s->stage->notes[i]));
    node_put(a, n, "notes", notes);
    return n;
}

struct node *files_fit_node(struct arena *a, const struct calibrate_input *in,
                            const struct calibrate_fit *f)
{
    struct node *n = node_new(a, NODE_MAP), *params = node_new(a, NODE_MAP);
    struct node *residuals = node_new(a, NODE_LIST), *notes = node_new(a, NODE_LIST);
    struct node *covariance = node_new(a, NODE_LIST), *stages = node_new(a, NODE_LIST);
    for (int i = 0; i < THETAS; i++) {
        struct node *row = node_new(a, NODE_LIST);
        for (int j = 0; j < THETAS; j++)
            node_push(a, row, node_float(a, f->covariance[i][j]));
        node_push(a, covariance, row);
        if (!f->held[i])
            node_set(a, params, sv_of(theta_name(i)), param_node(a, f, i));
    }
    for (size_t i = 0; i < f->n_residuals; i++)
        node_push(a, residuals, residual_node(a, &f->residuals[i]));
    for (size_t i = 0; i < f->n_notes; i++)
        node_push(a, notes, node_str(a, f->notes[i]));
    for (size_t i = 0; i < in->n; i++)
        node_push(a, stages, stage_node(a, &in->stages[i]));
    node_put(a, n, "stages", stages);
    node_put(a, n, "parameters", params);
    node_put(a, n, "covariance", covariance);
    node_put(a, n, "residuals", residuals);
    node_put(a, n, "fits", node_bool(a, f->fits));
    node_put(a, n, "notes", notes);
    node_put(a, n, "simulations", node_int(a, f->simulations));
    return n;
}

/* ---- writing --------------------------------------------------------------------------------- */

const char *calibrate_dir(struct arena *a, const struct calibrate_written *w)
{
    return arena_printf(a, "%s/data/profiling/compute/%s/%s", w->root, w->hardware, w->model_name);
}

static const char *source_of(struct arena *a, const struct calibrate_input *in)
{
    const char *text = "";
    for (size_t i = 0; i < in->n; i++)
        if (!in->stages[i].left_out)
            text = arena_printf(a, "%s%s%s stage %s", text, *text ? ", " : "",
                                in->stages[i].run->name, in->stages[i].stage->name);
    return text;
}

/* Launching that the fit did not count: it is in the durations that were fitted, or nothing is
 * known of it. */
static bool untold(const struct calibrate_fit *f, int i)
{
    return f->held[i] && iteration_param_is(i, ITERATION_OF_LAUNCHING);
}

static struct node *calibration_node(struct arena *a, const struct calibrate_written *w,
                                     const struct calibrate_input *in,
                                     const struct calibrate_fit *f)
{
    struct doubles *covariance = arena_array(a, struct doubles, ITERATION_PARAMS);
    struct node *residual = node_new(a, NODE_MAP);
    struct calibrated c = {.hardware = *w->peaks,
                           .tp = w->tp,
                           .pp = w->pp,
                           .ep = w->ep,
                           .dtype = w->model->dtype,
                           .weights = w->model->weights,
                           .multiply = w->model->multiply,
                           .kv = w->model->kv,
                           .settings = w->settings,
                           .covariance = covariance,
                           .n_covariance = ITERATION_PARAMS,
                           .first_use_s = f->first_use_s > 0 ? f->first_use_s : (double)NAN,
                           .first_use_sd_s = f->first_use_s > 0 ? f->first_use_sd_s : (double)NAN,
                           .residual = residual,
                           .source = source_of(a, in)};
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        const double value = untold(f, i) ? 0 : exp(f->theta.ln[i]), sd = sqrt(f->covariance[i][i]);
        c.param[i] = (struct calibrated_param){.value = value,
                                               .sd = sd,
                                               .low = value * exp(-Z95 * sd),
                                               .high = value * exp(Z95 * sd),
                                               .fitted = !f->held[i] && f->told[i] <= 0.8};
        covariance[i] =
            (struct doubles){arena_array(a, double, ITERATION_PARAMS), ITERATION_PARAMS};
        memcpy(covariance[i].v, f->covariance[i], ITERATION_PARAMS * sizeof(double));
    }
    node_put(a, residual, "fits", node_bool(a, f->fits));
    node_put(a, residual, "spread", node_float(a, theta_spread(&f->theta)));
    for (int m = 0; m < OBSERVED_METRICS; m++)
        node_put(a, residual,
                 arena_printf(a, "%s_sd", observed_metric_name((enum observed_metric)m)),
                 node_float(a, calibrate_left_over[m]));
    return calibrated_node(a, &c);
}

static void put_ratio(struct csv_writer *w, bool prompt, double ratio)
{
    csv_put_str(w, prompt ? "prompt" : "decode");
    csv_put_int(w, 1);
    csv_put_double(w, round(ratio * 1e4) / 1e4);
    csv_end_row(w);
}

/* Measured ratios, or the wave whose height was fitted: the readers of both are the same. */
static enum st write_unevenness(const struct artifact *art, const struct calibrate_fit *f,
                                struct err *e)
{
    struct csv_writer w = {0};
    static const char *const names[] = {"batches", "from", "ratio"};
    TRY(artifact_create_file(art, BUNDLE_UNEVENNESS, &w.f, e));
    for (int i = 0; i < 3; i++)
        csv_put_str(&w, names[i]);
    csv_end_row(&w);
    for (size_t i = 0; i < f->n_unevenness; i++)
        put_ratio(&w, f->uneven_prompt[i], f->unevenness[i]);
    for (int prompt = 0; f->n_unevenness == 0 && prompt < 2; prompt++)
        for (uint64_t i = 0; i < TRIAL_WAVE; i++)
            put_ratio(&w, prompt, trial_wave(theta_spread(&f->theta), i));
    return artifact_close_file(art, BUNDLE_UNEVENNESS, &w.f, e);
}

enum st calibrate_write(struct arena *a, const struct calibrate_written *w,
                        const struct calibrate_input *in, const struct calibrate_fit *f,
                        struct err *e)
{
    struct artifact art;
    struct request_overheads overheads = theta_overheads(&f->theta);
    char now[CLOCK_ISO_MAX];
    struct node *meta = w->meta ? node_copy(a, w->meta) : node_new(a, NODE_MAP);
    overheads.source = source_of(a, in);
    clock_iso8601(clock_wall_ns(), now);
    const struct bundle_title title = {.model = w->model_name,
                                       .hardware_id = w->hardware,
                                       .created_at = now,
                                       .method = in->batches ? "calibrated_batches" : "calibrated",
                                       .tensor_parallel = w->tp};
    fields_put(a, meta, &bundle_title_fields, &title);
    node_put(a, meta, "calibration", files_fit_node(a, in, f));
    TRY(artifact_begin(a, calibrate_dir(a, w), BUNDLE_META, &art, e));
    enum st st =
        artifact_write_json(&art, BUNDLE_CALIBRATION_FILE, calibration_node(a, w, in, f), e);
    if (st == ST_OK)
        st = artifact_write_json(&art, BUNDLE_OVERHEADS,
                                 fields_node(a, &request_overheads_fields, &overheads), e);
    if (st == ST_OK)
        st = write_unevenness(&art, f, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta, e);
    if (st != ST_OK)
        artifact_discard(&art);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Folders below dir that hold a calibration; models may be a folder in a folder. */
static enum st find_all(struct arena *a, const char *dir, int depth, const char **found, size_t *n,
                        struct err *e)
{
    const char **names;
    size_t n_names;
    if (fs_exists(fs_join(a, dir, BUNDLE_CALIBRATION_FILE))) {
        *found = dir;
        ++*n;
        return ST_OK;
    }
    if (depth == 0 || !fs_is_dir(dir))
        return ST_OK;
    TRY(fs_list(a, dir, &names, &n_names, e));
    for (size_t i = 0; i < n_names; i++)
        if (names[i][0] != '.')
            TRY(find_all(a, fs_join(a, dir, names[i]), depth - 1, found, n, e));
    return ST_OK;
}

static enum st read_params(const struct node *params, struct calibrate_fit *out, struct err *e)
{
    for (int i = 0; i < THETAS; i++) {
        const struct node *p = node_find(params, theta_name(i));
        double v;
        if (!p || out->held[i])
            continue;
        TRY(node_get_double(p, "value", 1e-12, 1e3, &v, e));
        out->theta.ln[i] = log(v);
        TRY(node_get_double(p, "prior_value", 1e-12, 1e3, &v, e));
        out->before.ln[i] = log(v);
        TRY(node_get_double(p, "prior_sd", 0, 1e3, &out->before_sd[i], e));
    }
    return ST_OK;
}

static enum st read_covariance(const struct node *list, const struct node *params,
                               struct calibrate_fit *out, struct err *e)
{
    if (list->n != THETAS)
        return node_err(list, ST_INPUT, e, "covariance: expected %d rows", (int)THETAS);
    for (int i = 0; i < THETAS; i++) {
        const struct node *row = list->items[i];
        if (row->kind != NODE_LIST || row->n != THETAS)
            return node_err(row, ST_INPUT, e, "covariance: expected %d numbers", (int)THETAS);
        for (int j = 0; j < THETAS; j++) {
            bool there = node_find(params, theta_name(i)) && node_find(params, theta_name(j));
            double v;
            TRY(node_to_double(row->items[j], "covariance", -1e6, 1e6, &v, e));
            if (there && !out->held[i] && !out->held[j])
                out->covariance[i][j] = v;
        }
    }
    return ST_OK;
}

enum st files_read_fit(struct arena *a, const char *root, const struct theta_prior *prior,
                       struct calibrate_fit *out, struct err *e)
{
    const char *dir = NULL;
    size_t n = 0;
    struct node *meta, *said, *params, *covariance;
    calibrate_none(prior, out);
    TRY(find_all(a, root, 6, &dir, &n, e));
    if (n != 1) {
        err_set(e, ST_INPUT, "%s holds %zu calibrations, and one is needed", root, n);
        return err_hint(e, "twinfer calibrate writes one");
    }
    TRY(artifact_open(a, dir, BUNDLE_META, NULL, &meta, e));
    TRY(node_get(meta, "calibration", NODE_MAP, &said, e));
    TRY(node_get(said, "parameters", NODE_MAP, &params, e));
    TRY(node_get(said, "covariance", NODE_LIST, &covariance, e));
    TRY(read_params(params, out, e));
    return read_covariance(covariance, params, out, e);
}
