#include "deep/session_files.h"

#include <math.h>
#include <string.h>

#include "deep/deep.h"
#include "deep/roofline.h"
#include "kernels/analysis_files.h"
#include "kernels/gantt.h"
#include "text/document.h"

/* ---- tables of kernels ---- */

static void cell(struct table *t, const char *format, double v)
{
    char text[64];
    if (isnan(v)) {
        table_cell(t, "n/a");
        return;
    }
    snprintf(text, sizeof text, "%.*f", format[0] - '0', v);
    table_cell(t, "%s", text);
}

/* Columns of a group; the format is the number of decimals. */
static const struct figure_column {
    enum deep_group group;
    const char *head, *format;
    size_t at;
} columns[] = {
#define C(group, head, format, member)                                \
    {                                                                 \
        group, head, format, offsetof(struct deep_kernel_row, member) \
    }
    C(GROUP_TIME, "Total (ms)", "3", total_ms),
    C(GROUP_TIME, "Calls", "0", calls),
    C(GROUP_TIME, "Mean (us)", "2", mean_us),
    C(GROUP_TIME, "Share (%)", "1", share_percent),
    C(GROUP_FLOP, "GFLOP", "4", gflop),
    C(GROUP_FLOP, "TFLOP/s", "2", tflop_per_s),
    C(GROUP_FLOP, "Compute (% of roof)", "1", compute_percent),
    C(GROUP_FLOP, "FLOP/byte", "2", intensity),
    C(GROUP_MEMORY, "DRAM (MB)", "3", dram_mb),
    C(GROUP_MEMORY, "DRAM (GB/s)", "0", dram_gb_per_s),
    C(GROUP_MEMORY, "DRAM (% of roof)", "1", dram_percent),
    C(GROUP_MEMORY, "L2 (MB)", "3", l2_mb),
    C(GROUP_MEMORY, "L2 (% of roof)", "1", l2_percent),
    C(GROUP_OCCUPANCY, "Occupancy (%)", "1", occupancy_percent),
    C(GROUP_OCCUPANCY, "Possible (%)", "1", occupancy_limit_percent),
    C(GROUP_OCCUPANCY, "Waves", "2", waves),
    C(GROUP_LIMITS, "Registers", "0", registers),
    C(GROUP_LIMITS, "Shared (bytes)", "0", shared_bytes),
#undef C
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct shown {
    bool group[GROUPS];
    bool ncu; /* any row has its figures: without, only times are shown */
};

static struct shown shown_of(struct texts groups)
{
    struct shown s = {.ncu = true};
    for (unsigned g = 0; g < GROUPS; g++) {
        s.group[g] = groups.n == 0;
        for (size_t i = 0; i < groups.n; i++)
            s.group[g] |= strcmp(deep_group_name(g), groups.items[i]) == 0;
    }
    return s;
}

static bool shows(const struct shown *s, enum deep_group g)
{
    return s->group[g] && (s->ncu || g == GROUP_TIME);
}

static void kernel_table(struct arena *a, struct buf *out, const struct deep_kernel_row *rows,
                         size_t n, struct shown s)
{
    int width = 1;
    s.ncu = false;
    for (size_t i = 0; i < n; i++)
        s.ncu |= rows[i].profiled > 0;
    for (int c = 0; c < COLUMNS; c++)
        width += shows(&s, columns[c].group);
    bool limits = shows(&s, GROUP_LIMITS), class = s.ncu;
    struct table *t = table_new(a, width + limits + class);
    table_cell(t, "Kernel");
    for (int c = 0; c < COLUMNS; c++)
        if (shows(&s, columns[c].group))
            table_cell(t, "%s", columns[c].head);
    if (limits)
        table_cell(t, "Limited by");
    if (class)
        table_cell(t, "Class");
    for (size_t i = 0; i < n; i++) {
        table_cell(t, "%s", rows[i].label);
        for (int c = 0; c < COLUMNS; c++)
            if (shows(&s, columns[c].group))
                cell(t, columns[c].format,
                     *(const double *)((const char *)&rows[i] + columns[c].at));
        if (limits)
            table_cell(t, "%s", rows[i].occupied ? rows[i].occupied : "n/a");
        if (class)
            table_cell(t, "%s", rows[i].class ? rows[i].class : "not measured");
    }
    table_markdown(out, t);
}

/* "prefill/sam, process 71, GPU 0" */
static void put_title(struct buf *out, const struct deep_region_row *r)
{
    buf_puts(out, "## ");
    table_markdown_text(out, r->region);
    if (!isnan(r->process))
        buf_printf(out, ", process %.0f, GPU %.0f", r->process, r->device);
    buf_printf(out, "\n\n%.3f ms of GPU time, %.0f operations", r->gpu_ms, r->operations);
    buf_puts(out, isnan(r->process) ? ", all processes and GPUs\n\n" : "\n\n");
}

static enum st write_text(const struct artifact *art, const char *name, struct buf *text,
                          struct err *e)
{
    enum st st = artifact_write(art, name, text, e);
    buf_free(text);
    return st;
}

static enum st write_regions(struct arena *a, const struct deep_analysis *x,
                             const struct artifact *art, struct texts groups, struct err *e)
{
    size_t n;
    struct deep_region_row *rows = deep_regions_of(a, x, &n);
    struct buf text = {0}, json = {0};
    buf_puts(&text, "# Kernels by region\n\n");
    for (size_t i = 0; i < n; i++) {
        put_title(&text, &rows[i]);
        kernel_table(a, &text, rows[i].kernels, rows[i].n_kernels, shown_of(groups));
        buf_putc(&text, '\n');
    }
    TRY(write_text(art, "regions.md", &text, e));
    deep_regions_json(&json, rows, n);
    return write_text(art, "regions.json", &json, e);
}

static enum st write_timeline(const struct deep_analysis *x, const struct artifact *art,
                              struct err *e)
{
    struct buf operators = {0}, gantt = {0}, timeline = {0};
    struct arena *a = arena_new();
    kernels_operators_markdown(&operators, x->k);
    const struct kernels_gantt g = kernels_gantt_of(a, x->k);
    const struct kernels_timeline line = kernels_timeline_of(a, x->k);
    kernels_gantt_draw(&gantt, &g, true);
    kernels_timeline_json(&timeline, &line);
    arena_free(&a);
    enum st st = write_text(art, "operators.md", &operators, e);
    if (st == ST_OK)
        st = write_text(art, "gantt.svg", &gantt, e);
    if (st == ST_OK)
        st = write_text(art, "timeline.json", &timeline, e);
    return st;
}

enum st deep_files_write(struct arena *a, const struct deep_analysis *x, const struct artifact *art,
                         struct texts groups, const struct deep_result *r, struct err *e)
{
    struct buf kernels = {0}, roofline = {0}, json = {0}, summary = {0};
    if (x->k)
        kernels_markdown(&kernels, x->k);
    else
        kernel_table(a, &kernels, r->kernels, r->n_kernels, shown_of(groups));
    TRY(write_text(art, "kernels.md", &kernels, e));
    if (x->k)
        TRY(write_timeline(x, art, e));
    if (x->k || x->ncu)
        TRY(write_regions(a, x, art, groups, e));
    if (x->ncu) {
        deep_roofline(&roofline, r, true);
        TRY(write_text(art, "roofline.svg", &roofline, e));
    }
    deep_result_json(&json, r);
    TRY(write_text(art, "deep.json", &json, e));
    document_markdown(&summary, deep_document(a, r, "Deep profile"));
    return write_text(art, "stakeholder_summary.md", &summary, e);
}
