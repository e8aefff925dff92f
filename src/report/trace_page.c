/* Page of a trace: time by kernel and region, and what the GPUs waited for. */
#include "report/trace_page.h"

#include <math.h>
#include <string.h>

#include "text/csv.h"
#include "text/json.h"

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

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

static void trace_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct trace_data *d = part->data;
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, part->title, d->command ? d->command : "What the GPUs did");
    section_machine_line(a, out, d);
    tiles(a, out, d);
    buf_puts(out, "</header>\n");
    page_notes(out, "Notes", d->notes, d->n_notes);
    if (d->operations) {
        page_section(out, "Timeline");
        buf_puts(out, d->gantt);
        buf_puts(out, "</section>\n");
    }
    section_kernels(a, out, d);
    section_diff(a, out, d);
    section_operators(out, d);
    section_regions(out, d);
    section_busy(a, out, d);
    section_launch(out, d);
    section_machine(out, d);
    if (d->meta)
        page_facts(a, out, "How it was recorded", NULL, &d->meta, 1);
    if (d->analysis)
        page_analysis(a, out, d->analysis);
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
    d->operators = kernels_operator_table(a, &k);
    d->regions = kernels_region_table(a, &k);
    d->timeline = kernels_timeline_of(a, &k);
    kernels_gantt_inline(&gantt, &k);
    d->gantt = arena_strn(a, buf_str(&gantt), gantt.n);
    take_notes(a, d, &t);
    section_machine_facts(a, d, &t.dict);
    buf_free(&gantt);
    kernels_close(&k);
    trace_free(&t);
    return ST_OK;
}

static struct part part_of(struct arena *a, const char *what, const char *dir,
                           const struct node *meta, struct trace_data *d)
{
    const char *id = page_value(a, meta, "run_id");
    return (struct part){.title = arena_printf(a, "%s %s", what, id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%zu operations", d->operations),
                         .body = trace_body,
                         .data = d};
}

static const char *command_of(struct arena *a, const struct node *meta)
{
    uint32_t n;
    struct node *const *words = page_items(node_find(meta, "command"), &n);
    struct buf command = {0};
    for (uint32_t i = 0; i < n; i++)
        if (words[i]->kind == NODE_STR)
            buf_printf(&command, "%s%.*s", i ? " " : "", (int)words[i]->s.n, words[i]->s.p);
    const char *text = command.n ? arena_strn(a, buf_str(&command), command.n) : NULL;
    buf_free(&command);
    return text;
}

enum st part_trace(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                   struct err *e)
{
    struct trace_data *d = arena_one(a, struct trace_data);
    d->meta = meta;
    d->command = command_of(a, meta);
    TRY(load(a, dir, NULL, NULL, d, e));
    *out = part_of(a, "Trace", dir, meta, d);
    return ST_OK;
}

/* ---- a run of kernels ---- */

/* The recording's meta, where the trace is its folder. NULL where it cannot be read. */
static const struct node *recording_of(struct arena *a, const char *trace)
{
    struct err ignored = {0};
    struct node *meta;
    const char *path = fs_join(a, trace, "run_meta.json");
    const char *type = fs_exists(path) && json_load(a, path, NULL, &meta, &ignored) == ST_OK
                           ? page_value(a, meta, "run_type")
                           : NULL;
    return type && strcmp(type, "trace") == 0 ? meta : NULL;
}

/* kernels_diff.csv as the table it was written from. */
static enum st load_diff(struct arena *a, const char *path, struct table **out, struct err *e)
{
    static const char *const wanted[] = {"Name",         "Status",      "Before (ms)",
                                         "After (ms)",   "Change (ms)", "Change (%)",
                                         "Calls before", "Calls after"};
    enum { N = sizeof wanted / sizeof *wanted };
    struct csv_reader *r;
    int column[N];
    TRY(csv_open(&r, path, e));
    enum st st = ST_OK;
    struct table *t = table_new(a, N);
    for (int i = 0; i < N && st == ST_OK; i++) {
        st = csv_require(r, wanted[i], &column[i], e);
        table_cell(t, "%s", wanted[i]);
    }
    while (st == ST_OK && (st = csv_next(r, e)) == ST_OK)
        for (int i = 0; i < N; i++) {
            struct sv cell = csv_cell(r, column[i]);
            table_cell(t, "%.*s", (int)cell.n, cell.p);
        }
    csv_close(&r);
    *out = t;
    return st == ST_END ? ST_OK : st;
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
    d->analysis = meta;
    if (!path)
        return err_set(e, ST_INPUT, "%s/run_meta.json: trace is missing", dir);
    d->meta = recording_of(a, path);
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
    const char *diff = fs_join(a, dir, "kernels_diff.csv");
    if (fs_exists(diff))
        TRY(load_diff(a, diff, &d->diff, e));
    d->against = own ? page_value(a, own, "against") : NULL;
    d->command = arena_printf(a, "Kernels of %s", path);
    *out = part_of(a, "Kernels", dir, meta, d);
    return ST_OK;
}
