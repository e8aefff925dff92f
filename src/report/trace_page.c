/* Page of a trace: time by kernel and region, and what the GPUs waited for. */
#include "report/trace_page.h"

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static void tiles(struct arena *a, struct buf *out, const struct trace_data *d)
{
    char text[WORDS_MAX], note[WORDS_MAX];
    int64_t span = 0, busy = 0, host = 0;
    double communication = 0, overlap = 0;
    for (size_t i = 0; i < d->s.timeline.n_devices; i++) {
        const struct kernels_device *g = &d->s.timeline.devices[i];
        span += g->last_ns - g->first_ns;
        busy += g->busy_ns;
        host += g->idle_host_ns;
        communication += g->communication_ns;
        overlap += g->overlap_ns;
    }
    buf_puts(out, "<dl class=\"tiles\">\n");
    page_tile(out, "Kernels, copies, sets", words_count(text, (int64_t)d->s.n_operations), NULL);
    if (span > 0) {
        page_tile(out, "GPU busy", words_percent(text, 100 * (double)busy / (double)span),
                  arena_printf(a, "of %s on %zu GPU%s", words_duration(note, seconds(span)),
                               d->s.timeline.n_devices, d->s.timeline.n_devices == 1 ? "" : "s"));
        page_tile(out, "Idle, waiting for the host",
                  words_percent(text, 100 * (double)host / (double)span), NULL);
    }
    if (span > 0 && communication > 0)
        page_tile(out, "Communication", words_percent(text, 100 * communication / (double)span),
                  arena_printf(a, "%s of it beside compute",
                               words_percent(note, 100 * overlap / communication)));
    if (d->s.timeline.launch_gap.n)
        page_tile(out, "Between two launches",
                  words_duration(text, d->s.timeline.launch_gap.median / 1e9), "median");
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
    page_notes(out, "Notes", d->s.notes, d->s.n_notes);
    if (d->s.n_operations) {
        page_section(out, "Timeline");
        kernels_gantt_draw(out, &d->s.gantt, false);
        buf_puts(out, "</section>\n");
    }
    section_kernels(a, out, d);
    section_diff(a, out, d);
    section_operators(out, d);
    section_regions(out, d);
    section_iterations(out, d);
    section_busy(a, out, d);
    section_launch(out, d);
    section_machine(out, d);
    if (d->s.recording)
        page_facts(a, out, "How it was recorded", NULL, &d->s.recording, 1);
    if (d->analysis)
        page_analysis(a, out, d->analysis);
}

/* ---- reading ---- */

static struct part part_of(struct arena *a, const char *what, const char *dir,
                           const struct node *meta, struct trace_data *d)
{
    const char *id = page_value(a, meta, "run_id");
    return (struct part){.title = arena_printf(a, "%s %s", what, id ? id : fs_base(dir)),
                         .remark = arena_printf(a, "%zu operations", d->s.n_operations),
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

/* A trace is analysed as `kernels` does it. */
enum st part_trace(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                   struct err *e)
{
    struct trace_data *d = arena_one(a, struct trace_data);
    struct trace t;
    struct kernels k;
    TRY(trace_load(&t, dir, NULL, e));
    kernels_open(&k, &t, NULL);
    kernels_summary_of(a, &k, dir, &d->s);
    kernels_close(&k);
    trace_free(&t);
    d->s.recording = meta;
    d->command = command_of(a, meta);
    section_machine_facts(a, d);
    *out = part_of(a, "Trace", dir, meta, d);
    return ST_OK;
}

enum st part_kernels(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                     struct err *e)
{
    struct trace_data *d = arena_one(a, struct trace_data);
    const char *path = fs_join(a, dir, "kernels.json");
    if (!fs_exists(path)) {
        err_set(e, ST_INPUT, "%s: kernels.json is missing, which the page is made from", dir);
        return err_hint(e, "an earlier twinfer wrote the folder: run twinfer kernels again");
    }
    TRY(kernels_summary_load(a, path, &d->s, e));
    d->analysis = meta;
    d->command = arena_printf(a, "Kernels of %s", d->s.trace);
    section_machine_facts(a, d);
    *out = part_of(a, "Kernels", dir, meta, d);
    return ST_OK;
}
