/* Pages of energy: power over time with what ran when, energy by kernel and tier, predictions
 * against what was measured; and the page of a power log alone. */
#include <math.h>
#include <string.h>

#include "energy/stamp.h"
#include "kernels/gantt.h"
#include "report/energy_figures.h"
#include "report/page.h"
#include "text/json.h"
#include "trace/trace.h"

enum { MAX_KERNELS = 40, TIERS = 3 };

struct energy_data {
    const struct node *meta;
    struct energy_report r;
    struct power_log log;
    struct kernels_gantt timeline;
    bool has_log, has_timeline;
};

/* ---- words ----------------------------------------------------------------------------------- */

static const char *joules(struct arena *a, double j)
{
    return !isfinite(j)                ? "n/a"
           : fabs(j) >= 1e4            ? arena_printf(a, "%.4g kJ", j / 1e3)
           : fabs(j) >= 1              ? arena_printf(a, "%.4g J", j)
           : fabs(j) >= 1e-3 || j == 0 ? arena_printf(a, "%.4g mJ", j * 1e3)
                                       : arena_printf(a, "%.4g µJ", j * 1e6);
}

static const char *watts(struct arena *a, double w)
{
    return isfinite(w) ? arena_printf(a, "%.1f W", w) : "n/a";
}

static const char *between(struct arena *a, double low, double high)
{
    if (!isfinite(low) || !isfinite(high))
        return NULL;
    return arena_printf(a, "%s to %s", joules(a, low), joules(a, high));
}

static void cell_between(struct arena *a, struct page_table *t, double j, double low, double high)
{
    page_cell_begin(t);
    page_text(t->out, "%s", joules(a, j));
    if (between(a, low, high))
        page_tag(t->out, "small", "range", "%s", between(a, low, high));
    page_cell_end(t);
}

/* What was measured of a whole: by the counter, where there is one. */
static double measured_j(const struct energy_whole *w)
{
    return isfinite(w->counter_energy_per_inference_j) ? w->counter_energy_per_inference_j
                                                       : w->energy_per_inference_j;
}

static void tiles(struct arena *a, struct buf *out, const struct energy_report *r)
{
    char text[WORDS_MAX];
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Energy of a run, measured", joules(a, measured_j(&r->full)),
              between(a, r->full.low_j, r->full.high_j));
    page_tile(out, "Mean power", watts(a, r->full.power.mean_w),
              arena_printf(a, "%lld runs in %s", (long long)r->full.num_runs,
                           words_duration(text, r->full.energy.duration_s)));
    if (r->whole.known)
        page_tile(
            out, "Predicted from the kernels", joules(a, r->whole.energy_j),
            arena_printf(a, "%s of what was measured", words_change(text, r->whole.error_percent)));
    if (r->app.known)
        page_tile(
            out, "The application, predicted", joules(a, r->app.energy_j),
            arena_printf(a, "%s of what was measured", words_change(text, r->app.error_percent)));
    if (isfinite(r->idle_w))
        page_tile(out, "Idle power", watts(a, r->idle_w), NULL);
    buf_puts(out, "</dl>\n");
}

/* ---- power over time ------------------------------------------------------------------------- */

static bool times_of(const struct timing_window *w, int64_t *from_ns, int64_t *to_ns)
{
    struct stamp from, to;
    if (!w->start || !w->end || !stamp_parse(sv_of(w->start), &from) ||
        !stamp_parse(sv_of(w->end), &to) || to.ns < from.ns)
        return false;
    *from_ns = from.ns;
    *to_ns = to.ns;
    return true;
}

static void add_mark(struct energy_mark *marks, size_t *n, const struct timing_window *w,
                     double mean_w, enum energy_mark_kind kind, const char *name)
{
    int64_t from_ns, to_ns;
    if (times_of(w, &from_ns, &to_ns))
        marks[(*n)++] = (struct energy_mark){from_ns, to_ns, mean_w, kind, name};
}

/* Kernels of a pool share one window, which is drawn once. */
static void add_kernel_marks(struct arena *a, const struct energy_report *r,
                             struct energy_mark *marks, size_t *n)
{
    size_t pooled = 0;
    const struct energy_kernel *pool = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct energy_kernel *k = &r->kernels[i];
        if (k->pooled) {
            pool = k;
            pooled++;
        } else if (isfinite(k->power.mean_w) && k->tier >= 1 && k->tier <= TIERS) {
            add_mark(marks, n, &k->window, k->power.mean_w,
                     (enum energy_mark_kind)(ENERGY_MARK_COPY + k->tier - 1),
                     trace_short_name(a, k->name ? k->name : ""));
        }
    }
    if (pool)
        add_mark(marks, n, &pool->window, pool->power.mean_w, ENERGY_MARK_POOL,
                 arena_printf(a, "%zu kernels in turn", pooled));
}

static bool has_power(const struct power_log *log)
{
    for (size_t i = 0; i < log->n; i++)
        if (isfinite(log->p[i].power_w))
            return true;
    return false;
}

static void section_power(struct arena *a, struct buf *out, const struct energy_data *d)
{
    const struct energy_report *r = &d->r;
    struct energy_mark *marks = arena_array(a, struct energy_mark, r->n + 3);
    size_t n = 0;
    if (!d->has_log || !has_power(&d->log))
        return;
    add_mark(marks, &n, &r->full.window, r->full.power.mean_w, ENERGY_MARK_WHOLE, "the whole");
    if (r->has_application)
        add_mark(marks, &n, &r->application.window, r->application.power.mean_w,
                 ENERGY_MARK_APPLICATION, "the application");
    add_kernel_marks(a, r, marks, &n);
    page_section(out, "Power over time");
    energy_draw_power(out, &d->log, marks, n, r->idle_w);
    page_tag(out, "p", "small",
             "The line is what the sensor said. Shaded: the windows in which the whole, or one "
             "kernel alone, ran over and over; the level in each is its mean power.");
    buf_puts(out, "</section>\n");
}

/* ---- predicted and measured ------------------------------------------------------------------ */

static void prediction_row(struct arena *a, struct page_table *t, const char *what,
                           const struct energy_prediction *p)
{
    char text[WORDS_MAX];
    if (!p->known)
        return;
    page_row(t);
    page_cell(t, what);
    cell_between(a, t, p->energy_j, p->low_j, p->high_j);
    page_cell(t, joules(a, p->kernels_j));
    page_cell(t, joules(a, p->idle_j));
    cell_between(a, t, p->measured_j, p->measured_low_j, p->measured_high_j);
    page_cell(t, words_change(text, p->error_percent));
    page_cell(t, words_change(text, p->above_idle_error_percent));
}

static const char *at_loops(struct arena *a, const struct energy_report *r)
{
    char whole[WORDS_MAX], app[WORDS_MAX];
    words_change(whole, r->whole.at_loop_error_percent);
    words_change(app, r->app.at_loop_error_percent);
    return !r->app.known     ? arena_printf(a, "the whole %s", whole)
           : !r->whole.known ? arena_printf(a, "the application %s", app)
                             : arena_printf(a, "the whole %s, the application %s", whole, app);
}

static void section_predictions(struct arena *a, struct buf *out, const struct energy_report *r)
{
    static const struct page_column columns[] = {{.head = ""},
                                                 {.head = "predicted"},
                                                 {.head = "of it kernels"},
                                                 {.head = "and idle"},
                                                 {.head = "measured"},
                                                 {.head = "error"},
                                                 {.head = "error above idle"}};
    struct page_table t;
    char text[WORDS_MAX];
    if (!r->n)
        return;
    page_section(out, "Predicted and measured");
    if (r->whole.known || r->app.known) {
        energy_draw_predictions(out, r);
        PAGE_TABLE(&t, out, columns);
        prediction_row(a, &t, "the whole", &r->whole);
        prediction_row(a, &t, "the application", &r->app);
        page_table_end(&t);
        page_tag(
            out, "p", "small",
            "Power of each kernel while it runs alone, times its time inside the whole; idle power "
            "for the rest of a run. 95 %% intervals of predictions, bounds of what was measured.");
        if (isfinite(r->busy_share))
            page_tag(out, "p", "small",
                     "Kernels ran %.1f %% of the time of their loops, the gaps between them are "
                     "taken at idle power. With the gaps as if they were kernels: %s.",
                     100 * r->busy_share, at_loops(a, r));
    }
    if (isfinite(r->predicted_j))
        page_tag(
            out, "p", NULL,
            "The energies of the kernels' own windows sum to %s, %s of what was measured: alone, "
            "with warm caches, a kernel takes another time.",
            joules(a, r->predicted_j), words_change(text, r->predicted_error_percent));
    buf_puts(out, "\n</section>\n");
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Of a run: in context, where that is known, else alone. */
static double kernel_j(const struct energy_report *r, const struct energy_kernel *k)
{
    return isfinite(r->in_context_j) ? k->in_context_energy_j : k->energy_per_inference_j;
}

static void percent_bar(struct page_table *t, double percent)
{
    char text[WORDS_MAX];
    page_cell_begin(t);
    if (isfinite(percent)) {
        page_text(t->out, "%s", words_percent(text, percent));
        page_bar(t->out, percent);
    }
    page_cell_end(t);
}

static void section_tiers(struct arena *a, struct buf *out, const struct energy_report *r)
{
    static const struct page_column columns[] = {
        {.head = "tier"}, {.head = "kernels"}, {.head = "energy of a run"}, {.head = "share"}};
    static const char *const names[TIERS] = {"copies and sets", "matrix products of libraries",
                                             "other kernels"};
    double sum[TIERS] = {0}, all = 0;
    int64_t count[TIERS] = {0}, known[TIERS] = {0};
    struct page_table t;
    if (!r->n)
        return;
    for (size_t i = 0; i < r->n; i++) {
        const double j = kernel_j(r, &r->kernels[i]);
        const int64_t tier = r->kernels[i].tier - 1;
        if (tier < 0 || tier >= TIERS)
            continue;
        count[tier]++;
        known[tier] += isfinite(j);
        sum[tier] += isfinite(j) ? j : 0;
        all += isfinite(j) ? j : 0;
    }
    page_section(out, "Energy by tier");
    PAGE_TABLE(&t, out, columns);
    for (int i = 0; i < TIERS; i++) {
        page_row(&t);
        page_cell(&t, names[i]);
        page_cell_count(&t, (double)count[i]);
        page_cell(&t, joules(a, known[i] ? sum[i] : (double)NAN));
        percent_bar(&t, all > 0 && known[i] ? 100 * sum[i] / all : (double)NAN);
    }
    page_table_end(&t);
    buf_puts(out, "</section>\n");
}

/* The function's name; the whole one, which for templates runs to kilobytes, on demand. */
static void name_cell(struct arena *a, struct page_table *t, const char *full)
{
    const char *brief = strchr(full, '(') || strchr(full, '<') ? trace_short_name(a, full) : full;
    page_cell_begin(t);
    if (strcmp(full, brief) == 0) {
        page_text(t->out, "%s", full);
    } else {
        buf_puts(t->out, "<details class=\"name kernel\"><summary>");
        page_text(t->out, "%s", brief);
        buf_puts(t->out, "</summary>");
        page_tag(t->out, "span", "full", "%s", full);
        buf_puts(t->out, "</details>");
    }
    page_cell_end(t);
}

static void section_kernels(struct arena *a, struct buf *out, const struct energy_report *r)
{
    static const struct page_column columns[] = {
        {.head = "kernel"},       {.head = "share"},    {.head = "energy of a run"},
        {.head = "steady power"}, {.head = "in a run"}, {.head = "time inside"},
        {.head = "alone, a run"}};
    const size_t shown = r->n < MAX_KERNELS ? r->n : MAX_KERNELS;
    struct page_table t;
    if (!r->n)
        return;
    page_section(out, "Energy by kernel");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < shown; i++) {
        const struct energy_kernel *k = &r->kernels[i];
        page_row(&t);
        name_cell(a, &t, k->name ? k->name : "");
        percent_bar(&t, k->share_percent);
        page_cell(&t, joules(a, k->in_context_energy_j));
        page_cell_begin(&t);
        page_text(out, "%s", watts(a, k->power.mean_w));
        if (isfinite(k->power_low_w) && isfinite(k->power_high_w))
            page_tag(out, "small", "range", "%.1f to %.1f W", k->power_low_w, k->power_high_w);
        if (isfinite(k->busy_share))
            page_tag(out, "small", "range", "running %.0f %%", 100 * k->busy_share);
        if (isfinite(k->under.sm_mhz))
            page_tag(out, "small", "range", "SM at %.0f MHz%s%s", k->under.sm_mhz,
                     k->under.clock_limits && *k->under.clock_limits ? ", " : "",
                     k->under.clock_limits ? k->under.clock_limits : "");
        page_cell_end(&t);
        page_cell_count(&t, (double)k->invocation_count);
        page_cell_duration(&t, k->in_context_us * (double)k->invocation_count / 1e6);
        page_cell(&t, k->pooled ? "in turn with others" : joules(a, k->energy_per_inference_j));
    }
    page_table_end(&t);
    if (r->n > shown)
        page_tag(out, "p", "small", "The first %zu of %zu; gpu_energy_report.json has all.", shown,
                 r->n);
    buf_puts(out, "</section>\n");
}

/* ---- timeline -------------------------------------------------------------------------------- */

static void section_timeline(struct buf *out, const struct energy_data *d)
{
    if (!d->has_timeline || d->timeline.lane.n == 0)
        return;
    page_section(out, "The region in the application");
    kernels_gantt_draw(out, &d->timeline, false);
    page_tag(out, "p", "small",
             "What was captured, as the GPU ran it in the program; a row is a stream. Gaps are the "
             "time in which the prediction has idle power.");
    buf_puts(out, "</section>\n");
}

/* ---- the pages ------------------------------------------------------------------------------- */

static void energy_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct energy_data *d = part->data;
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title, "Energy of a model and of its kernels");
    tiles(a, out, &d->r);
    buf_puts(out, "</header>\n");
    page_notes(out, "Notes", d->r.notes, d->r.n_notes);
    section_power(a, out, d);
    section_predictions(a, out, &d->r);
    section_tiers(a, out, &d->r);
    section_kernels(a, out, &d->r);
    section_timeline(out, d);
    page_facts(a, out, "How it was measured", NULL, &d->meta, 1);
}

static void power_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct energy_data *d = part->data;
    char text[WORDS_MAX];
    const struct power_log *log = &d->log;
    const struct energy e = energy_of(log, log->p[0].ns, log->p[log->n - 1].ns);
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title, "Power over time");
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Energy", joules(a, e.joules), words_duration(text, e.duration_s));
    page_tile(out, "Mean power", watts(a, e.joules / e.duration_s), NULL);
    page_tile(out, "Highest", watts(a, e.high_w), NULL);
    page_tile(out, "Samples", words_count(text, e.samples), NULL);
    buf_puts(out, "</dl>\n</header>\n");
    page_section(out, "Power over time");
    energy_draw_power(out, log, NULL, 0, NAN);
    buf_puts(out, "</section>\n");
    page_facts(a, out, "How it was measured", NULL, &d->meta, 1);
}

/* The log in the folder: rows of the one GPU it was written for. */
static enum st read_log(struct arena *a, const char *dir, const struct node *meta,
                        struct power_log *out, struct err *e)
{
    const struct node *gpu = node_find(meta, "gpu");
    return power_log_read(a, fs_join(a, dir, "power.csv"),
                          gpu && gpu->kind == NODE_INT ? gpu->i : 0, out, e);
}

/* Of the region that was replayed; a report of given files has none. */
static bool read_timeline(struct arena *a, const char *dir, struct kernels_gantt *out)
{
    struct err e = {0};
    struct node *tree;
    const char *path = fs_join(a, dir, "timeline.json");
    return fs_exists(path) && json_load(a, path, NULL, &tree, &e) == ST_OK &&
           fields_read(a, &kernels_gantt_fields, tree, out, &e) == ST_OK && kernels_gantt_ok(out);
}

enum st part_energy(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                    struct err *e)
{
    struct energy_data *d = arena_one(a, struct energy_data);
    const char *id = page_value(a, meta, "run_id");
    struct err no_log = {0};
    struct node *tree;
    TRY(json_load(a, fs_join(a, dir, "gpu_energy_report.json"), NULL, &tree, e));
    TRY(node_check_version(tree, "schema_version", 1, e));
    fields_read_loose(a, &energy_report_fields, tree, &d->r);
    d->meta = meta;
    d->has_log = read_log(a, dir, meta, &d->log, &no_log) == ST_OK;
    d->has_timeline = read_timeline(a, dir, &d->timeline);
    *out = (struct part){.title = arena_printf(a, "Energy %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%s a run", joules(a, measured_j(&d->r.full))),
                         .body = energy_body,
                         .data = d};
    return ST_OK;
}

enum st part_power(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                   struct err *e)
{
    struct energy_data *d = arena_one(a, struct energy_data);
    const char *id = page_value(a, meta, "run_id");
    TRY(read_log(a, dir, meta, &d->log, e));
    d->meta = meta;
    *out = (struct part){.title = arena_printf(a, "Power %s", id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%zu samples", d->log.n),
                         .body = power_body,
                         .data = d};
    return ST_OK;
}
