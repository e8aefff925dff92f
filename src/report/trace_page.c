/* A trace: which kernels took the time, in which regions, and what the GPUs waited for. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "report/page.h"

enum { MAX_KERNELS = 25, MAX_REGIONS = 60, NAME_BYTES = 160 };

struct trace_data {
    const struct node *meta;
    const char *command; /* what was recorded; NULL = unknown */
    struct table *kernels, *regions;
    struct kernels_timeline timeline;
    size_t operations;
    const char *gantt;
    const char **notes;
    size_t n_notes;
};

/* ---- cells ---- */

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static void duration_cell(struct buf *out, double s)
{
    char text[WORDS_MAX];
    page_tag(out, "td", "num", "%s", words_duration(text, s));
}

/* Of a table's cell in ns; "" stays empty. */
static void ns_cell(struct buf *out, const char *ns)
{
    double v = 0;
    if (*ns && str_double(sv_of(ns), &v))
        duration_cell(out, v / 1e9);
    else
        page_tag(out, "td", "num", "%s", "");
}

static void share_cell(struct buf *out, int64_t part, int64_t whole)
{
    char text[WORDS_MAX];
    page_tag(out, "td", "num", "%s",
             words_percent(text, whole > 0 ? 100 * (double)part / (double)whole : (double)NAN));
}

/* Names of templates run to kilobytes: both ends tell most. */
static void name_cell(struct buf *out, const char *name)
{
    size_t n = strlen(name);
    if (n <= NAME_BYTES) {
        page_tag(out, "th", "wide", "%s", name);
        return;
    }
    size_t head = NAME_BYTES * 3 / 4, tail = n - NAME_BYTES / 4;
    while (head > 0 && ((unsigned char)name[head] & 0xc0) == 0x80)
        head--;
    while (tail < n && ((unsigned char)name[tail] & 0xc0) == 0x80)
        tail++;
    page_tag(out, "th", "wide", "%.*s \xe2\x80\xa6 %s", (int)head, name, name + tail);
}

static void heads(struct buf *out, const char *const *names)
{
    buf_puts(out, "<div class=\"scroll\"><table class=\"sure\">\n<thead><tr>");
    for (int i = 0; names[i]; i++)
        page_tag(out, "th", i == 0 ? NULL : "num", "%s", names[i]);
    buf_puts(out, "</tr></thead>\n<tbody>\n");
}

static void cut_remark(struct buf *out, int rows, int shown, const char *file)
{
    buf_puts(out, "</tbody></table></div>\n");
    if (rows > shown)
        page_tag(out, "p", "small", "The first %d of %d; %s of twinfer kernels has all.", shown,
                 rows, file);
}

/* ---- sections ---- */

static void tiles(struct arena *a, struct buf *out, const struct trace_data *d)
{
    char text[WORDS_MAX], note[WORDS_MAX];
    int64_t span = 0, busy = 0, host = 0;
    for (size_t i = 0; i < d->timeline.n_devices; i++) {
        const struct kernels_device *g = &d->timeline.devices[i];
        span += g->last_ns - g->first_ns;
        busy += g->busy_ns;
        host += g->idle_host_ns;
    }
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Kernels, copies, sets", words_count(text, (int64_t)d->operations), NULL);
    if (span > 0) {
        page_tile(out, "GPU busy", words_percent(text, 100 * (double)busy / (double)span),
                  arena_printf(a, "of %s on %zu GPU%s", words_duration(note, seconds(span)),
                               d->timeline.n_devices, d->timeline.n_devices == 1 ? "" : "s"));
        page_tile(out, "Idle, waiting for the host",
                  words_percent(text, 100 * (double)host / (double)span), NULL);
    }
    if (d->timeline.launch_gap.n)
        page_tile(out, "Between two launches",
                  words_duration(text, d->timeline.launch_gap.median / 1e9), "median");
    buf_puts(out, "</dl>\n");
}

static void kernels_section(struct buf *out, const struct trace_data *d)
{
    static const char *const names[] = {"Kernel", "Share",   "Total",   "Instances", "Mean",
                                        "Median", "Minimum", "Maximum", NULL};
    enum { SHARE, TOTAL, INSTANCES, MEAN, MEDIAN, MIN, MAX, STDDEV, NAME };
    int rows = table_rows(d->kernels) - 1;
    if (rows <= 0)
        return;
    page_section(out, "Kernels");
    heads(out, names);
    for (int i = 1; i <= rows && i <= MAX_KERNELS; i++) {
        buf_puts(out, "<tr>");
        name_cell(out, table_at(d->kernels, i, NAME));
        page_tag(out, "td", "num", "%s %%", table_at(d->kernels, i, SHARE));
        ns_cell(out, table_at(d->kernels, i, TOTAL));
        page_tag(out, "td", "num", "%s", table_at(d->kernels, i, INSTANCES));
        for (int column = MEAN; column <= MAX; column++)
            ns_cell(out, table_at(d->kernels, i, column));
        buf_puts(out, "</tr>\n");
    }
    cut_remark(out, rows, MAX_KERNELS, "trace_cuda_gpu_kern_sum.csv");
    buf_puts(out, "</section>\n");
}

static void regions_section(struct buf *out, const struct trace_data *d)
{
    static const char *const names[] = {"Region",    "Instances",      "On the host", "Inclusive",
                                        "Exclusive", "GPU operations", NULL};
    int rows = table_rows(d->regions) - 1;
    if (rows <= 0)
        return;
    page_section(out, "Regions");
    heads(out, names);
    for (int i = 1; i <= rows && i <= MAX_REGIONS; i++) {
        double ms;
        buf_puts(out, "<tr>");
        name_cell(out, table_at(d->regions, i, 0));
        page_tag(out, "td", "num", "%s", table_at(d->regions, i, 1));
        for (int column = 2; column <= 4; column++)
            duration_cell(out, str_double(sv_of(table_at(d->regions, i, column)), &ms)
                                   ? ms / 1e3
                                   : (double)NAN);
        page_tag(out, "td", "num", "%s", table_at(d->regions, i, 5));
        buf_puts(out, "</tr>\n");
    }
    cut_remark(out, rows, MAX_REGIONS, "regions.md");
    page_tag(out, "p", "small",
             "A launch counts for the ranges open around it on its thread: exclusive time goes to "
             "the innermost, inclusive time to all. Times are sums over the instances.");
    buf_puts(out, "\n</section>\n");
}

static void busy_section(struct buf *out, const struct trace_data *d)
{
    static const char *const names[] = {
        "GPU",   "From first to last", "Busy", "Idle: host", "launch",
        "queue", "launch unknown",     "Gaps", NULL};
    if (!d->timeline.n_devices)
        return;
    page_section(out, "Busy and idle");
    heads(out, names);
    for (size_t i = 0; i < d->timeline.n_devices; i++) {
        const struct kernels_device *g = &d->timeline.devices[i];
        int64_t span = g->last_ns - g->first_ns;
        buf_puts(out, "<tr>");
        page_tag(out, "th", NULL, "%u", g->number);
        duration_cell(out, seconds(span));
        share_cell(out, g->busy_ns, span);
        share_cell(out, g->idle_host_ns, span);
        share_cell(out, g->idle_launch_ns, span);
        share_cell(out, g->idle_queue_ns, span);
        share_cell(out, g->idle_unknown_ns, span);
        page_tag(out, "td", "num", "%llu", (unsigned long long)g->gaps);
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</tbody></table></div>\n");
    page_tag(out, "p", "small",
             "Each gap is charged to the operation that ends it: before its launch began the host "
             "had nothing for the GPU; during the launch it was handing it over; after it the work "
             "waited in the queue.");
    buf_puts(out, "\n</section>\n");
}

static void launch_section(struct buf *out, const struct trace_data *d)
{
    static const char *const names[] = {"Launches", "Count",   "Mean",    "Median",
                                        "Minimum",  "Maximum", "Std dev", NULL};
    const struct kernels_timeline *t = &d->timeline;
    const struct {
        const char *name;
        const struct kern_stats *s;
    } rows[] = {{"the call", &t->launch_call},
                {"gap to the next launch of the thread", &t->launch_gap},
                {"from the call's return to the start on the GPU", &t->queue}};
    if (!t->launch_call.n)
        return;
    page_section(out, "Launch gaps");
    heads(out, names);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct kern_stats *s = rows[i].s;
        if (!s->n)
            continue;
        buf_puts(out, "<tr>");
        page_tag(out, "th", "wide", "%s", rows[i].name);
        page_tag(out, "td", "num", "%zu", s->n);
        duration_cell(out, s->mean / 1e9);
        duration_cell(out, s->median / 1e9);
        duration_cell(out, seconds(s->min));
        duration_cell(out, seconds(s->max));
        duration_cell(out, s->stddev / 1e9);
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</tbody></table></div>\n</section>\n");
}

static void trace_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct trace_data *d = part->data;
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title, d->command ? d->command : "What the GPUs did");
    tiles(a, out, d);
    buf_puts(out, "</header>\n");
    page_notes(out, "Notes", d->notes, d->n_notes);
    if (d->operations) {
        page_section(out, "Timeline");
        buf_puts(out, "<div class=\"scroll\">\n");
        buf_puts(out, d->gantt);
        buf_puts(out, "</div>\n</section>\n");
    }
    busy_section(out, d);
    regions_section(out, d);
    launch_section(out, d);
    kernels_section(out, d); /* the longest */
    page_facts(a, out, "How it was recorded", NULL, &d->meta, 1);
}

/* ---- reading ---- */

static void take_notes(struct arena *a, struct trace_data *d, const struct trace *t)
{
    const char *impossible = trace_impossible(a, &t->dict);
    d->notes = arena_array(a, const char *, t->dict.n_notes + 2);
    for (uint32_t i = 0; i < t->dict.n_notes; i++)
        d->notes[d->n_notes++] = arena_str(a, t->dict.notes[i].text);
    if (t->dict.dropped)
        d->notes[d->n_notes++] =
            arena_printf(a, "The recorder lost %llu records: sums are too small.",
                         (unsigned long long)t->dict.dropped);
    if (impossible)
        d->notes[d->n_notes++] =
            arena_printf(a, "Left out for times that cannot be: %s.", impossible);
}

static enum st load(struct arena *a, const char *path, const struct trace_window *w,
                    const struct kernels_params *p, struct trace_data *d, struct err *e)
{
    struct trace t;
    struct kernels k;
    struct buf gantt = {0};
    TRY(trace_load(&t, path, w, e));
    kernels_open(&k, &t, p);
    d->operations = t.ops.n;
    d->kernels = kernels_report_table(a, &k, &kernels_reports[0]);
    d->regions = kernels_region_table(a, &k);
    d->timeline = kernels_timeline_of(a, &k);
    kernels_gantt_inline(&gantt, &k);
    d->gantt = arena_strn(a, buf_str(&gantt), gantt.n);
    take_notes(a, d, &t);
    buf_free(&gantt);
    kernels_close(&k);
    trace_free(&t);
    return ST_OK;
}

static struct part part_of(struct arena *a, const char *what, const char *dir, struct trace_data *d)
{
    const char *id = page_value(a, d->meta, "run_id");
    return (struct part){.title = arena_printf(a, "%s %s", what, id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%zu operations", d->operations),
                         .body = trace_body,
                         .data = d};
}

enum st part_trace(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                   struct err *e)
{
    struct trace_data *d = arena_one(a, struct trace_data);
    uint32_t n;
    struct node *const *words = page_items(node_find(meta, "command"), &n);
    struct buf command = {0};
    d->meta = meta;
    for (uint32_t i = 0; i < n; i++)
        if (words[i]->kind == NODE_STR)
            buf_printf(&command, "%s%.*s", i ? " " : "", (int)words[i]->s.n, words[i]->s.p);
    d->command = command.n ? arena_strn(a, buf_str(&command), command.n) : NULL;
    buf_free(&command);
    TRY(load(a, dir, NULL, NULL, d, e));
    *out = part_of(a, "Trace", dir, d);
    return ST_OK;
}

static const char *const *patterns(struct arena *a, const struct node *meta, const char *path,
                                   size_t *n)
{
    uint32_t items;
    struct node *const *list = page_items(node_find(meta, path), &items);
    const char **out = arena_array(a, const char *, items + 1);
    *n = 0;
    for (uint32_t i = 0; i < items; i++)
        if (list[i]->kind == NODE_STR)
            out[(*n)++] = arena_strn(a, list[i]->s.p, list[i]->s.n);
    return out;
}

static int64_t ns_of_ms(double ms)
{
    return isfinite(ms) && ms > 0 && ms < 1e12 ? (int64_t)(ms * 1e6) : 0;
}

/* A run of `kernels` names its trace; the page is made from that, under the same patterns. */
enum st part_kernels(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                     struct err *e)
{
    struct trace_data *d = arena_one(a, struct trace_data);
    const char *path = page_value(a, meta, "trace");
    struct kernels_params p = {0};
    d->meta = meta;
    if (!path)
        return err_set(e, ST_INPUT, "%s/run_meta.json: trace is missing", dir);
    const struct node *params = node_find(meta, "params");
    const struct node *own = params ? node_find(params, "kernels") : NULL;
    struct trace_window w = {0};
    if (own) {
        p.include = patterns(a, own, "include", &p.n_include);
        p.exclude = patterns(a, own, "exclude", &p.n_exclude);
        w.from_ns = ns_of_ms(page_number(own, "from_ms"));
        w.to_ns = ns_of_ms(page_number(own, "to_ms"));
    }
    if (load(a, path, &w, &p, d, e) != ST_OK) {
        err_add(e, "%s: the page is made from the trace that its run_meta.json names", dir);
        return err_hint(e, "run the report in the folder where twinfer kernels ran");
    }
    d->command = arena_printf(a, "Kernels of %s", path);
    *out = part_of(a, "Kernels", dir, d);
    return ST_OK;
}
