#include "job/calibrate.h"
#include "config/override.h"

#include <math.h>

#include "base/log.h"
#include "calibrate/calibration_files.h"
#include "cmd/commands.h"
#include "text/fields.h"
#include "text/table.h"

static const double Z95 = 1.959964;

/* "0.812", "45.3 us" */
static const char *shown(struct arena *a, double v, const char *unit)
{
    if (*unit != 's')
        return arena_printf(a, "%.3g", v);
    return v < 1e-3 ? arena_printf(a, "%.3g us", v * 1e6) : arena_printf(a, "%.3g ms", v * 1e3);
}

static void parameter_table(struct arena *a, struct buf *out, const struct job_calibration *j)
{
    struct table *t = table_new(a, 6);
    static const char *const head[] = {"parameter", "value", "95 % from", "to", "prior", "told %"};
    for (int i = 0; i < 6; i++)
        table_cell(t, "%s", head[i]);
    for (int i = 0; i < THETAS; i++) {
        const char *unit = theta_unit(i);
        const double value = exp(j->fit.theta.ln[i]), sd = sqrt(j->fit.covariance[i][i]);
        if (j->fit.held[i])
            continue;
        table_cell(t, "%s", theta_name(i));
        table_cell(t, "%s", shown(a, value, unit));
        table_cell(t, "%s", shown(a, value * exp(-Z95 * sd), unit));
        table_cell(t, "%s", shown(a, value * exp(Z95 * sd), unit));
        table_cell(t, "%s", shown(a, exp(j->prior.mean.ln[i]), unit));
        table_cell(t, "%.0f", 100 * (1 - j->fit.told[i]));
    }
    table_text(out, t);
}

static void checked_table(struct arena *a, struct buf *out, const struct job_calibration *j)
{
    static const char *const head[] = {"check",       "stage",   "metric",    "observed s",
                                       "predicted s", "error %", "95 % from", "to"};
    enum { COLUMNS = sizeof head / sizeof *head };
    struct table *t = table_new(a, COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", head[i]);
    for (size_t i = 0; i < j->n_checked; i++) {
        const struct job_checked *x = &j->checked[i];
        table_cell(t, "%s", x->run);
        table_cell(t, "%s", x->stage);
        table_cell(t, "%s", x->name);
        table_cell(t, "%.4g", x->observed);
        table_cell(t, "%.4g", x->predicted);
        table_cell(t, "%+.1f", 100 * (x->predicted / x->observed - 1));
        table_cell(t, "%.4g", x->low);
        table_cell(t, "%.4g", x->high);
    }
    table_text(out, t);
}

static const struct field checked_rows[] = {
    FIELD_AS(struct job_checked, run, "experiment"),
    FIELD(struct job_checked, stage),
    FIELD_AS(struct job_checked, name, "metric"),
    FIELD_AS(struct job_checked, observed, "observed_s"),
    FIELD_AS(struct job_checked, predicted, "predicted_s"),
    FIELD_AS(struct job_checked, low, "low_s"),
    FIELD_AS(struct job_checked, high, "high_s"),
    FIELD_AS(struct job_checked, copied, "copied_s"),
    FIELD(struct job_checked, doubt, .omit = true),
};
static const struct fields checked_fields = FIELDS(struct job_checked, checked_rows);

static struct node *checked_node(struct arena *a, const struct job_calibration *j)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < j->n_checked; i++)
        node_push(a, list, fields_node(a, &checked_fields, &j->checked[i]));
    return list;
}

static void print(struct job_context *c, const struct job_calibration *j)
{
    struct arena *a = c->a;
    struct node *result = j->in.n ? files_fit_node(a, &j->in, &j->fit) : node_new(a, NODE_MAP);
    struct buf text = {0};
    node_put(a, result, "out", node_str(a, j->root));
    node_put(a, result, "setup", job_setup_node(a, &j->setup));
    buf_printf(&text, "setup   %s\n", job_setup_words(a, &j->setup));
    node_put(a, result, "bundle", node_str_or_null(a, j->dir));
    node_put(a, result, "prior", node_str(a, j->prior.source));
    if (j->n_checked)
        node_put(a, result, "check", checked_node(a, j));
    if (j->n_checked)
        node_put(a, result, "check_note", node_str_or_null(a, j->idle_note));
    if (j->in.n) {
        parameter_table(a, &text, j);
        for (size_t i = 0; i < j->fit.n_notes; i++)
            buf_printf(&text, "%s\n", j->fit.notes[i]);
        buf_printf(&text, "bundle  %s\nnext: ", j->dir);
        override_word(&text, "profile.root", j->root);
        buf_puts(&text, " in simulate, capacity or search\n");
    }
    if (j->n_checked)
        checked_table(a, &text, j);
    if (j->idle_note)
        buf_printf(&text, "%s\n", j->idle_note);
    job_result(c, result, buf_str(&text));
    buf_free(&text);
}

static void warn_of(const struct observed *runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i].n_doubts; k++)
            log_warn("%s: %s", runs[i].path, runs[i].doubts[k]);
}

static void warn(const struct job_context *c, const struct job_calibration *j)
{
    warn_of(j->runs, c->plan->calibrate.from.n);
    warn_of(j->checks, c->plan->calibrate.check.n);
    for (size_t i = 0; i < j->in.n; i++) {
        const struct calibrate_stage *s = &j->in.stages[i];
        if (s->left_out && !j->in.batches &&
            !s->run->logged) /* batches are fitted, not the stage */
            log_warn("stage %s of %s is left out: %s", s->stage->name, s->run->path, s->left_out);
        for (size_t k = 0; k < s->stage->n_notes; k++)
            log_info("stage %s of %s: %s", s->stage->name, s->run->path, s->stage->notes[k]);
    }
    if (!j->in.n)
        log_warn("nothing was fitted: predictions are uncalibrated, by the prior alone");
}

static int run_calibrate(struct job_context *c, struct err *e)
{
    struct job_calibration *j = arena_one(c->a, struct job_calibration);
    if (job_calibrate(c, j, e) != ST_OK) {
        err_add(e, "calibrate");
        return err_exit_code(e->st);
    }
    warn(c, j);
    print(c, j);
    if (j->fit.fits)
        return 0;
    log_warn("the model does not fit these runs: see the notes");
    return err_exit_code(ST_REJECTED);
}

const struct cmd cmd_calibrate = {
    .id = COMMAND_CALIBRATE,
    .columns = "fits",
    .summary = "fit the simulator to observed latencies of a running service",
    .about =
        "Takes records of runs below capacity, with the server's settings, and writes a bundle "
        "that simulate, capacity and search take by profile.root. Exit code 5 when the model "
        "does not fit the runs: the bundle is written all the same.",
    .example = "twinfer calibrate from=[runs/real/a,bench.json] model=llama3_8b hardware=h100 "
               "out=calibrated",
    .run = run_calibrate,
};
