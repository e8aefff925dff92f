/* Page of a deep session: the answer first, then stages, operators, kernels under the roofs. */
#include <math.h>
#include <string.h>

#include "deep/deep.h"
#include "deep/roofline.h"
#include "report/page.h"

struct deep_data {
    struct deep_result r;
    const struct node *meta;
};

/* ---- cells ---- */

static void milliseconds(struct page_table *t, double ms)
{
    page_cell_duration(t, ms / 1e3);
}

static void decimal(struct page_table *t, int decimals, double v)
{
    char text[WORDS_MAX];
    if (isnan(v))
        page_cell(t, "n/a");
    else {
        snprintf(text, sizeof text, "%.*f", decimals, v);
        page_cell(t, text);
    }
}

static void facts(struct buf *out, const struct deep_fact *rows, size_t n)
{
    buf_puts(out, "<div class=\"scroll\"><table class=\"facts\">\n");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, "<tr>");
        page_tag(out, "th", NULL, "%s", rows[i].title);
        page_tag(out, "td", NULL, "%s", rows[i].text);
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</table></div>\n");
}

/* ---- the first page ---- */

static void tiles(struct arena *a, struct buf *out, const struct deep_result *r)
{
    const struct deep_totals *t = &r->totals;
    char text[WORDS_MAX], note[WORDS_MAX];
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, deep_timed(r) ? "Elapsed" : "GPU time",
              words_duration(text, t->elapsed_ms / 1e3), arena_printf(a, "of the %s", t->scope));
    double lanes = t->devices > 1 ? t->devices : 1;
    if (t->elapsed_ms > 0 && deep_timed(r))
        page_tile(out, "GPU busy", words_percent(text, 100 * t->busy_ms / (t->elapsed_ms * lanes)),
                  words_duration(note, t->busy_ms / 1e3));
    page_tile(out, "Operations", page_count(text, t->operations), NULL);
    for (size_t i = 0; i < r->n_stages; i++)
        if (r->stages[i].depth <= 0 && !isnan(r->stages[i].mfu_percent))
            page_tile(out, arena_printf(a, "MFU of %s", r->stages[i].path),
                      arena_printf(a, "%.2g %%", r->stages[i].mfu_percent),
                      isnan(r->stages[i].bandwidth_percent)
                          ? "of peak, over elapsed time"
                          : arena_printf(a, "of peak; bandwidth %.2g %% of the memory's",
                                         r->stages[i].bandwidth_percent));
    buf_puts(out, "</dl>\n");
}

static void bottlenecks(struct arena *a, struct buf *out, const struct deep_result *r)
{
    if (!r->n_bottlenecks)
        return;
    page_section(out, "Bottlenecks");
    buf_puts(out, "<ol class=\"findings\">\n");
    for (size_t i = 0; i < r->n_bottlenecks; i++) {
        buf_puts(out, "<li>");
        page_tag(out, "strong", NULL, "%s", r->bottlenecks[i].what);
        const struct deep_bottleneck *b = &r->bottlenecks[i];
        buf_puts(out, "<br>");
        page_tag(out, "small", NULL, "%s, %.1f %% of %s%s", b->kind, b->share_percent,
                 deep_timed(r) ? "the elapsed time" : "the time under Nsight Compute",
                 isnan(b->gain)
                     ? ""
                     : arena_printf(a, "; at most %.2f times as fast without it", b->gain));
        buf_puts(out, "<br>");
        page_text(out, "%s", deep_paragraph(a, r, i));
        buf_puts(out, "</li>\n");
    }
    buf_puts(out, "</ol>\n</section>\n");
}

static void environment(struct arena *a, struct buf *out, const struct deep_result *r)
{
    struct deep_fact *rows = arena_array(a, struct deep_fact, r->n_environment + 4);
    size_t n = r->n_environment;
    memcpy(rows, r->environment, n * sizeof *rows);
    if (r->command)
        rows[n++] = (struct deep_fact){"Command", r->command};
    if (r->model)
        rows[n++] = (struct deep_fact){"Model", r->model};
    rows[n++] = (struct deep_fact){"Roofs", r->roofs};
    if (r->l2_roof)
        rows[n++] = (struct deep_fact){"Roof of the L2", r->l2_roof};
    page_section(out, "Environment");
    facts(out, rows, n);
    buf_puts(out, "</section>\n");
}

static void steps(struct buf *out, const struct deep_result *r)
{
    static const struct page_column columns[] = {{"Step", PAGE_WORDS},
                                                 {"State", PAGE_WORDS},
                                                 {"Wall", PAGE_NUMBER},
                                                 {"Overhead", PAGE_NUMBER},
                                                 {"Reason", PAGE_WORDS}};
    struct page_table t;
    page_section(out, "How it was measured");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < r->n_steps; i++) {
        const struct deep_step *s = &r->steps[i];
        page_row(&t);
        page_cell_begin(&t);
        page_text(out, "%s", s->name);
        if (s->tool)
            page_tag(out, "small", NULL, " %s", s->tool);
        page_cell_end(&t);
        page_cell(&t, s->state);
        page_cell_duration(&t, s->wall_s);
        page_cell_percent(&t, s->overhead_percent);
        page_cell_begin(&t);
        if (s->reason)
            page_text(out, "%s%s%s", s->reason, s->remedy ? "; " : "", s->remedy ? s->remedy : "");
        page_cell_end(&t);
    }
    page_table_end(&t);
    buf_puts(out, "</section>\n");
}

static void aggregates(struct arena *a, struct buf *out, const struct deep_result *r)
{
    const struct deep_totals *x = &r->totals;
    char text[WORDS_MAX];
    struct deep_fact rows[9];
    size_t n = 0;
    const struct {
        const char *what;
        double v, per_s; /* per_s 0: a count */
    } all[] = {{"Elapsed", deep_timed(r) ? x->elapsed_ms : (double)NAN, 1e3},
               {"GPU time of all operations", x->gpu_ms, 1e3},
               {"GPU busy", deep_timed(r) ? x->busy_ms : (double)NAN, 1e3},
               {"Operations on the GPU", x->operations, 0},
               {"Kernels by name", x->kernels, 0},
               {"Processes", x->processes, 0},
               {"GPUs", x->devices, 0},
               {"Host, between two launches (median)", x->launch_gap_us, 1e6},
               {"Host, in a launch (median)", x->launch_call_us, 1e6}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!isnan(all[i].v))
            rows[n++] = (struct deep_fact){
                all[i].what,
                arena_str(a, all[i].per_s > 0 ? words_duration(text, all[i].v / all[i].per_s)
                                              : page_count(text, all[i].v))};
    page_section(out, "Aggregates");
    page_tag(out, "p", NULL, "Of the %s.", x->scope);
    facts(out, rows, n);
    buf_puts(out, "</section>\n");
}

/* ---- tables ---- */

/* Of a batch of one a thousandth of a percent may be all there is. */
static void small_share(struct arena *a, struct page_table *t, double percent)
{
    if (percent > 0 && percent < 1)
        page_cell(t, arena_printf(a, "%.2g %%", percent));
    else
        page_cell_percent(t, percent);
}

static void stages(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const struct page_column columns[] = {
        {"Stage", PAGE_WORDS},      {"Instances", PAGE_NUMBER}, {"Elapsed", PAGE_NUMBER},
        {"Each", PAGE_NUMBER},      {"Share", PAGE_NUMBER},     {"GPU", PAGE_NUMBER},
        {"Exclusive", PAGE_NUMBER}, {"GPU busy", PAGE_NUMBER},  {"MFU", PAGE_NUMBER},
        {"Bandwidth", PAGE_NUMBER}};
    struct page_table t;
    if (!r->n_stages)
        return;
    page_section(out, "Per-Stage Timings and MFU");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < r->n_stages; i++) {
        const struct deep_stage_row *s = &r->stages[i];
        const char *name = strrchr(s->path, '/');
        struct buf indent = {0};
        for (int k = 0; k < (int)s->depth && k < 32; k++)
            buf_puts(&indent, "· ");
        page_row(&t);
        page_cell(&t, arena_printf(a, "%s%s", buf_str(&indent), name ? name + 1 : s->path));
        buf_free(&indent);
        page_cell_count(&t, s->instances);
        milliseconds(&t, s->elapsed_ms);
        milliseconds(&t, s->per_instance_ms);
        page_cell_percent(&t, s->share_percent);
        milliseconds(&t, s->gpu_ms);
        milliseconds(&t, s->exclusive_ms);
        page_cell_percent(&t, s->busy_percent);
        small_share(a, &t, s->mfu_percent);
        small_share(a, &t, s->bandwidth_percent);
    }
    page_table_end(&t);
    page_tag(
        out, "p", "small",
        "A stage includes its sub-stages; exclusive time does not. MFU and bandwidth: operations "
        "and bytes of the model's operator list over elapsed time, of the roofs.");
    buf_puts(out, "</section>\n");
}

static void ranks(struct buf *out, const struct deep_result *r)
{
    static const struct page_column columns[] = {
        {"Stage", PAGE_WORDS},      {"Process", PAGE_NUMBER},   {"GPU", PAGE_NUMBER},
        {"Instances", PAGE_NUMBER}, {"Elapsed", PAGE_NUMBER},   {"GPU time", PAGE_NUMBER},
        {"GPU busy", PAGE_NUMBER},  {"Operations", PAGE_NUMBER}};
    struct page_table t;
    if (!r->n_ranks)
        return;
    page_section(out, "Stages by Process");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < r->n_ranks; i++) {
        const struct deep_rank_row *k = &r->ranks[i];
        page_row(&t);
        page_cell(&t, k->path);
        decimal(&t, 0, k->process);
        decimal(&t, 0, k->device);
        page_cell_count(&t, k->instances);
        milliseconds(&t, k->elapsed_ms);
        milliseconds(&t, k->gpu_ms);
        page_cell_percent(&t, k->busy_percent);
        page_cell_count(&t, k->operations);
    }
    page_table_end(&t);
    page_tag(out, "p", "small", "The kernels of each: regions.md beside this page.");
    buf_puts(out, "</section>\n");
}

static void timeline(struct buf *out, const struct deep_result *r)
{
    if (!r->n_gantt)
        return;
    page_section(out, "Timeline");
    page_tag(out, "p", NULL,
             "%s, all processes on one clock: ranges of the host above the GPUs' "
             "streams.",
             r->n_stages ? "The last instance of the first stage and what followed it"
                         : "All of the trace");
    kernels_gantt_draw(out, r->gantt, false);
    buf_puts(out, "</section>\n");
}

static void operators(struct buf *out, const struct deep_result *r)
{
    static const struct page_column columns[] = {{"Operator", PAGE_WORDS},
                                                 {"Total", PAGE_NUMBER},
                                                 {"Calls", PAGE_NUMBER},
                                                 {"Mean", PAGE_NUMBER},
                                                 {"Share", PAGE_NUMBER}};
    struct page_table t;
    if (!r->n_operators)
        return;
    page_section(out, "Top Operators");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < r->n_operators && i < 15; i++) {
        const struct deep_operator_row *o = &r->operators[i];
        page_row(&t);
        page_cell(&t, o->name);
        milliseconds(&t, o->total_ms);
        page_cell_count(&t, o->calls);
        milliseconds(&t, o->mean_ms);
        page_cell_percent(&t, o->share_percent);
    }
    page_table_end(&t);
    buf_puts(out, "</section>\n");
}

/* ", 12.3 MB": nothing where the figure is not known. */
static void figure(struct buf *out, const char *before, double v, const char *after)
{
    if (!isnan(v))
        buf_printf(out, "%s%s%.4g%s", out->n ? ", " : "", before, v, after);
}

/* What Nsight Compute says of one launch. */
static const char *launch_words(struct arena *a, const struct deep_kernel_row *k)
{
    struct buf out = {0};
    figure(&out, "", k->gflop, " GFLOP");
    if (k->units && k->gflop > 0)
        buf_printf(&out, " (%s)", k->units);
    figure(&out, "", k->intensity, " FLOP per byte of DRAM");
    figure(&out, "", k->dram_mb, " MB of DRAM");
    figure(&out, "", k->l2_mb, " MB of L2");
    figure(&out, "", k->registers, " registers");
    figure(&out, "", k->shared_bytes, " bytes of shared memory");
    figure(&out, "", k->waves, " waves");
    figure(&out, "occupancy of ", k->occupancy_limit_percent, " % possible");
    if (k->occupied)
        buf_printf(&out, "%soccupancy limited by %s", out.n ? ", " : "", k->occupied);
    figure(&out, "", k->ncu_us, " us under Nsight Compute");
    if (!isnan(k->app_us))
        figure(&out, "in the application ", k->app_us, " us");
    const char *text = out.n ? arena_str(a, buf_str(&out)) : NULL;
    buf_free(&out);
    return text;
}

static void kernel_name(struct arena *a, struct page_table *t, const struct deep_kernel_row *k,
                        size_t i)
{
    const char *launch = k->profiled > 0 ? launch_words(a, k) : NULL;
    bool brief = strcmp(k->name, k->label) != 0;
    page_cell_begin(t);
    if (!brief && !launch) {
        page_tag(t->out, "div", "name", "%zu. %s", i + 1, k->name);
    } else {
        buf_puts(t->out, "<details class=\"name kernel\"><summary>");
        page_text(t->out, "%zu. %s", i + 1, k->label);
        buf_puts(t->out, "</summary>");
        if (launch)
            page_tag(t->out, "span", "full", "A launch: %s.", launch);
        if (brief)
            page_tag(t->out, "span", "full", "%s", k->name);
        buf_puts(t->out, "</details>");
    }
    page_cell_end(t);
}

static void not_placed(struct buf *out, const struct deep_result *r)
{
    struct buf numbers = {0};
    for (size_t i = 0; i < r->n_kernels; i++)
        if (!deep_roofline_places(&r->kernels[i]))
            buf_printf(&numbers, "%s%zu", numbers.n ? ", " : "", i + 1);
    if (numbers.n)
        page_tag(out, "p", "small",
                 "Not in the picture, as their operations are none or not known: %s.",
                 buf_str(&numbers));
    buf_free(&numbers);
}

static void kernels(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const struct page_column columns[] = {
        {"Kernel", PAGE_WORDS}, {"Total", PAGE_NUMBER}, {"Calls", PAGE_NUMBER},
        {"Mean", PAGE_NUMBER},  {"Share", PAGE_NUMBER}, {"Compute", PAGE_NUMBER},
        {"DRAM", PAGE_NUMBER},  {"L2", PAGE_NUMBER},    {"Occupancy", PAGE_NUMBER},
        {"Class", PAGE_NUMBER}};
    struct page_table t;
    if (!r->n_kernels)
        return;
    page_section(out, "Top Kernels");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < r->n_kernels; i++) {
        const struct deep_kernel_row *k = &r->kernels[i];
        page_row(&t);
        kernel_name(a, &t, k, i);
        milliseconds(&t, k->total_ms);
        page_cell_count(&t, k->calls);
        page_cell_duration(&t, k->mean_us / 1e6);
        page_cell_percent(&t, k->share_percent);
        page_cell_percent(&t, k->compute_percent);
        page_cell_percent(&t, k->dram_percent);
        page_cell_percent(&t, k->l2_percent);
        page_cell_percent(&t, k->occupancy_percent);
        page_cell(&t, k->class ? k->class : "not measured");
    }
    page_table_end(&t);
    page_tag(out, "p", "small",
             "Compute, DRAM and L2: of the roof. Times are %s. Behind a name: operations, bytes, "
             "registers and what limits occupancy, of one launch.",
             deep_timed(r) ? "the application's" : "those under Nsight Compute");
    buf_puts(out, "</section>\n");
    if (!deep_roofline_any(r))
        return;
    page_section(out, "Roofline");
    page_tag(out, "p", NULL, "Numbers are those of the table. Roofs: %s.", r->roofs);
    buf_puts(out, "<figure class=\"on-screen\">\n");
    deep_roofline(out, r, true);
    buf_puts(out, "</figure>\n<figure class=\"on-phone\">\n");
    deep_roofline(out, r, false);
    buf_puts(out, "</figure>\n");
    not_placed(out, r);
    buf_puts(out, "</section>\n");
}

static void collectives(struct buf *out, const struct deep_result *r)
{
    static const struct page_column columns[] = {
        {"Collective", PAGE_WORDS}, {"Process", PAGE_NUMBER}, {"GPU", PAGE_NUMBER},
        {"Calls", PAGE_NUMBER},     {"Total", PAGE_NUMBER},   {"Waiting", PAGE_NUMBER},
        {"Moving", PAGE_NUMBER}};
    struct page_table t;
    if (!r->n_collectives)
        return;
    page_section(out, "Collectives");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < r->n_collectives; i++) {
        const struct deep_collective_row *c = &r->collectives[i];
        page_row(&t);
        page_cell(&t, c->name);
        decimal(&t, 0, c->process);
        decimal(&t, 0, c->device);
        page_cell_count(&t, c->calls);
        milliseconds(&t, c->total_ms);
        milliseconds(&t, c->waiting_ms);
        milliseconds(&t, c->moving_ms);
    }
    page_table_end(&t);
    page_tag(out, "p", "small", "Waiting: until the last process had begun the operation.");
    buf_puts(out, "</section>\n");
}

static void repeat(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const struct page_column columns[] = {
        {"Kernel", PAGE_WORDS}, {"Calls then", PAGE_NUMBER}, {"Calls now", PAGE_NUMBER},
        {"Then", PAGE_NUMBER},  {"Now", PAGE_NUMBER},        {"Change", PAGE_NUMBER}};
    struct page_table t;
    if (!r->n_repeat)
        return;
    page_section(out, "A Second Time");
    page_tag(out, "p", NULL, "Against %s: %s", r->repeat->folder, deep_repeat_words(a, r->repeat));
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < r->repeat->n_rows; i++) {
        const struct deep_repeat_row *k = &r->repeat->rows[i];
        page_row(&t);
        page_cell(&t, k->label);
        page_cell_count(&t, k->calls_before);
        page_cell_count(&t, k->calls);
        milliseconds(&t, k->before_ms);
        milliseconds(&t, k->ms);
        page_cell_percent(&t, k->change_percent);
    }
    page_table_end(&t);
    buf_puts(out, "</section>\n");
}

static void body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct deep_data *d = part->data;
    const struct deep_result *r = &d->r;
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title,
              r->model && r->command ? r->model
              : r->command           ? r->command
              : deep_timed(r)        ? "A timeline made before"
                                     : "What Nsight Compute measured");
    tiles(a, out, r);
    buf_puts(out, "</header>\n");
    bottlenecks(a, out, r);
    page_notes(out, "Notes", r->notes, r->n_notes);
    environment(a, out, r);
    aggregates(a, out, r);
    stages(a, out, r);
    ranks(out, r);
    timeline(out, r);
    operators(out, r);
    kernels(a, out, r);
    collectives(out, r);
    repeat(a, out, r);
    steps(out, r);
    if (d->meta)
        page_analysis(a, out, d->meta);
}

struct part part_of_deep(struct arena *a, const struct deep_result *r, const char *id,
                         const struct node *meta)
{
    struct deep_data *d = arena_one(a, struct deep_data);
    *d = (struct deep_data){*r, meta};
    return (struct part){.title = arena_printf(a, "Deep profile %s", id),
                         .remark = arena_printf(a, "%zu kernels", r->n_kernels),
                         .body = body,
                         .data = d};
}

enum st part_deep(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                  struct err *e)
{
    struct deep_result r;
    const char *id = page_value(a, meta, "run_id");
    TRY(deep_result_load(a, fs_join(a, dir, "deep.json"), &r, e));
    *out = part_of_deep(a, &r, id ? id : fs_base(dir), meta);
    return ST_OK;
}
