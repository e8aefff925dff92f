/* The tables on a trace's page. */
#include <math.h>
#include <string.h>

#include "report/trace_page.h"

enum { MAX_KERNELS = 25, MAX_OPERATORS = 25, MAX_CHANGES = 25, MAX_REGIONS = 60 };

/* ---- cells ---- */

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

/* A cell that was empty stays so. */
static void time_cell(struct page_table *t, double v, double per_s)
{
    if (isnan(v))
        page_cell(t, "");
    else
        page_cell_duration(t, v / per_s);
}

static void share_cell(struct page_table *t, int64_t part, int64_t whole)
{
    page_cell_percent(t, whole > 0 ? 100 * (double)part / (double)whole : (double)NAN);
}

/* A number, and a bar as long as that part of the whole. */
static void bar_cell(struct page_table *t, double percent)
{
    char words[WORDS_MAX];
    page_cell_begin(t);
    if (!isnan(percent)) {
        page_text(t->out, "%s", words_percent(words, percent));
        page_bar(t->out, percent);
    }
    page_cell_end(t);
}

/* ---- names ---- */

static size_t common(const char *x, const char *y)
{
    size_t n = 0;
    while (x[n] && x[n] == y[n])
        n++;
    return n;
}

/* For names that share a short name: the part from which this one differs from all others (template
 * arguments of elementwise kernels). NULL where the short name is unique. */
static const char *own_part(const char *const *names, const char *const *shorts, int n, int i)
{
    size_t same = SIZE_MAX;
    for (int k = 0; k < n; k++)
        if (k != i && strcmp(shorts[k], shorts[i]) == 0) {
            size_t length = common(names[k], names[i]);
            same = length < same ? length : same;
        }
    if (same == SIZE_MAX)
        return NULL;
    const char *p = names[i] + same;
    while (p > names[i] && !strchr("<,( ", p[-1]))
        p--;
    return p;
}

/* Full and short names of n rows. */
struct row_names {
    const char **full, **brief;
    int n;
};

static struct row_names names_new(struct arena *a, size_t n)
{
    return (struct row_names){arena_array(a, const char *, n), arena_array(a, const char *, n), 0};
}

static void names_add(struct arena *a, struct row_names *x, const char *full)
{
    x->full[x->n] = full;
    x->brief[x->n++] = trace_short_name(a, full);
}

/* The function's name; behind it, on demand, the whole one, which for templates runs to
 * kilobytes. */
static void name_cell(struct page_table *t, const struct row_names *names, int i)
{
    enum { MOST = 64 };
    const char *full = names->full[i], *brief = names->brief[i];
    page_cell_begin(t);
    if (strcmp(full, brief) == 0) {
        page_text(t->out, "%s", full);
        page_cell_end(t);
        return;
    }
    const char *own = own_part(names->full, names->brief, names->n, i);
    buf_puts(t->out, "<details class=\"name\"><summary>");
    page_text(t->out, "%s", brief);
    if (own && *own) {
        size_t length = strlen(own), cut = length < MOST ? length : MOST;
        while (cut < length && cut > 0 && ((unsigned char)own[cut] & 0xc0) == 0x80)
            cut--;
        page_tag(t->out, "small", NULL, " … %.*s%s", (int)cut, own, cut < length ? " …" : "");
    }
    buf_puts(t->out, "</summary>");
    page_tag(t->out, "span", "full", "%s", full);
    buf_puts(t->out, "</details>");
    page_cell_end(t);
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

static void cut_remark(struct buf *out, size_t rows, size_t shown, const char *file)
{
    if (rows > shown)
        page_tag(out, "p", "small", "The first %zu of %zu; %s of twinfer kernels has all.", shown,
                 rows, file);
}

/* ---- sections ---- */

/* A section of times by name; `file` has all rows. */
static void times_by_name(struct arena *a, struct buf *out, const char *heading, const char *head,
                          const struct kernels_by_name *all, size_t rows, const char *file)
{
    const struct page_column columns[] = {
        {.head = head},   {.head = "share"},  {.head = "total"},   {.head = "instances"},
        {.head = "mean"}, {.head = "median"}, {.head = "minimum"}, {.head = "maximum"}};
    const size_t shown = least(rows, MAX_KERNELS);
    struct row_names names = names_new(a, shown);
    struct page_table t;
    if (!rows)
        return;
    for (size_t i = 0; i < shown; i++)
        names_add(a, &names, all[i].name);
    page_section(out, heading);
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < shown; i++) {
        page_row(&t);
        name_cell(&t, &names, (int)i);
        bar_cell(&t, all[i].share_percent);
        time_cell(&t, all[i].total_ns, 1e9);
        page_cell_count(&t, all[i].instances);
        time_cell(&t, all[i].mean_ns, 1e9);
        time_cell(&t, all[i].median_ns, 1e9);
        time_cell(&t, all[i].min_ns, 1e9);
        time_cell(&t, all[i].max_ns, 1e9);
    }
    page_table_end(&t);
    cut_remark(out, rows, shown, file);
    buf_puts(out, "</section>\n");
}

void section_kernels(struct arena *a, struct buf *out, const struct trace_data *d)
{
    times_by_name(a, out, "Kernels", "kernel", d->s.kernels, d->s.n_kernels,
                  "trace_cuda_gpu_kern_sum.csv");
    times_by_name(a, out, "Copies and sets", "operation", d->s.copies, d->s.n_copies,
                  "trace_cuda_gpu_mem_time_sum.csv");
}

void section_operators(struct buf *out, const struct trace_data *d)
{
    const struct kernels_by_operator *all = d->s.operators;
    const size_t rows = d->s.n_operators, shown = least(rows, MAX_OPERATORS);
    const struct page_column columns[] = {{.head = d->s.by_range ? "range" : "operator"},
                                          {.head = "share"},
                                          {.head = "total"},
                                          {.head = "calls"},
                                          {.head = "mean"}};
    struct page_table t;
    if (!rows || (rows == 1 && strcmp(all[0].name, "(outside)") == 0))
        return;
    page_section(out, "Operators");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < shown; i++) {
        page_row(&t);
        page_cell(&t, all[i].name);
        bar_cell(&t, all[i].share_percent);
        time_cell(&t, all[i].total_ms, 1e3);
        page_cell_count(&t, all[i].calls);
        time_cell(&t, all[i].mean_ms, 1e3);
    }
    page_table_end(&t);
    cut_remark(out, rows, shown, "operators.md");
    page_tag(out, "p", "small",
             "Time on the GPU by %s: each launch is charged to the innermost. Calls are instances "
             "that launched something themselves.",
             d->s.by_range ? "NVTX range" : "PyTorch operator");
    buf_puts(out, "\n</section>\n");
}

void section_diff(struct arena *a, struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "kernel"}, {.head = "before"},       {.head = "after"},      {.head = "change"},
        {.head = "in %"},   {.head = "calls before"}, {.head = "calls after"}};
    const size_t rows = d->s.n_changes, shown = least(rows, MAX_CHANGES);
    struct row_names names = names_new(a, shown);
    char words[WORDS_MAX];
    struct page_table t;
    if (!rows)
        return;
    for (size_t i = 0; i < shown; i++)
        names_add(a, &names, d->s.changes[i].name);
    page_section(out, "Before and after");
    if (d->s.against)
        page_tag(out, "p", NULL, "Before: %s. After: this trace.", d->s.against);
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < shown; i++) {
        const struct kernels_change *c = &d->s.changes[i];
        page_row(&t);
        name_cell(&t, &names, (int)i);
        time_cell(&t, c->before_ms, 1e3);
        time_cell(&t, c->after_ms, 1e3);
        time_cell(&t, c->change_ms, 1e3);
        page_cell(&t, words_change(words, c->change_percent)); /* "n/a": it was not there before */
        page_cell_count(&t, c->calls_before);
        page_cell_count(&t, c->calls_after);
    }
    page_table_end(&t);
    cut_remark(out, rows, shown, "kernels_diff.csv");
    page_tag(out, "p", "small", "Time on the GPU by kernel, the largest change first.");
    buf_puts(out, "\n</section>\n");
}

void section_regions(struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "region"},    {.head = "instances"}, {.head = "on the host"},
        {.head = "inclusive"}, {.head = "exclusive"}, {.head = "GPU operations"}};
    const size_t rows = d->s.n_regions, shown = least(rows, MAX_REGIONS);
    struct page_table t;
    if (!rows)
        return;
    page_section(out, "Regions");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < shown; i++) {
        const struct kernels_by_region *r = &d->s.regions[i];
        page_row(&t);
        page_cell(&t, r->name);
        page_cell_count(&t, r->instances);
        time_cell(&t, r->host_ms, 1e3);
        time_cell(&t, r->inclusive_ms, 1e3);
        time_cell(&t, r->exclusive_ms, 1e3);
        page_cell_count(&t, r->operations);
    }
    page_table_end(&t);
    cut_remark(out, rows, shown, "regions.md");
    page_tag(out, "p", "small",
             "A launch counts for the ranges open around it on its thread: exclusive time goes to "
             "the innermost, inclusive time to all. Times are sums over the instances.");
    buf_puts(out, "\n</section>\n");
}

static const char *const launched_as[SERVING_KINDS] = {"one graph", "graphs of pieces", "no graph"};

static void iteration_rows(struct page_table *t, const struct kernels_summary *s)
{
    for (size_t i = 0; i < s->n_iterations; i++) {
        const struct serving_sum *x = &s->iterations[i];
        page_row(t);
        page_cell(t, launched_as[x->kind]);
        page_cell_count(t, (double)x->iterations);
        page_cell_count(t, x->tokens);
        page_cell_count(t, x->calls);
        time_cell(t, x->launch_ms, 1e3);
        time_cell(t, x->before_ms, 1e3);
        time_cell(t, x->busy_ms, 1e3);
        time_cell(t, x->gaps_ms, 1e3);
        time_cell(t, x->idle_ms, 1e3);
        time_cell(t, x->period_ms, 1e3);
    }
}

static void class_rows(struct page_table *t, const struct kernels_summary *s)
{
    for (unsigned c = 0; c < KERNELS_CLASSES; c++) {
        double any = 0;
        for (size_t i = 0; i < s->n_iterations; i++)
            any += s->iterations[i].class_ms[c];
        if (!(any > 0))
            continue;
        page_row(t);
        page_cell(t, kernels_class_name(c));
        for (size_t i = 0; i < s->n_iterations; i++)
            time_cell(t, s->iterations[i].class_ms[c], 1e3);
    }
}

void section_iterations(struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "launched as"},    {.head = "iterations"}, {.head = "tokens"},
        {.head = "launches"},       {.head = "launching"},  {.head = "host before"},
        {.head = "GPU busy"},       {.head = "gaps in it"}, {.head = "GPU idle before"},
        {.head = "from end to end"}};
    struct page_column kinds[SERVING_KINDS + 1] = {{.head = "operator"}};
    struct page_table t;
    if (!d->s.n_iterations)
        return;
    page_section(out, "Iterations");
    PAGE_TABLE(&t, out, columns);
    iteration_rows(&t, &d->s);
    page_table_end(&t);
    for (size_t i = 0; i < d->s.n_iterations && i < SERVING_KINDS; i++)
        kinds[i + 1].head = launched_as[d->s.iterations[i].kind];
    page_table_begin(&t, out, kinds, (int)d->s.n_iterations + 1);
    class_rows(&t, &d->s);
    page_table_end(&t);
    page_tag(
        out, "p", "small",
        "Medians over the iterations of a kind. Launching reaches from the first launch to the "
        "last; host before: processing and scheduling since the last launch before, without "
        "waits for the GPU. Operators are sums of their kernels.");
    buf_puts(out, "\n</section>\n");
}

static bool communicates(const struct trace_data *d)
{
    for (size_t i = 0; i < d->s.timeline.n_devices; i++)
        if (d->s.timeline.devices[i].communication_ns > 0)
            return true;
    return false;
}

void section_busy(struct arena *a, struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "GPU"},           {.head = "first to last"}, {.head = "busy"},
        {.head = "idle: host"},    {.head = "idle: launch"},  {.head = "idle: queue"},
        {.head = "idle: unknown"}, {.head = "gaps"},          {.head = "compute"},
        {.head = "communication"}, {.head = "overlap"}};
    const bool links = communicates(d);
    const int n = (int)(sizeof columns / sizeof *columns) - (links ? 0 : 3);
    struct page_table t;
    if (!d->s.timeline.n_devices)
        return;
    page_section(out, "Busy and idle");
    page_table_begin(&t, out, columns, n);
    for (size_t i = 0; i < d->s.timeline.n_devices; i++) {
        const struct kernels_device *g = &d->s.timeline.devices[i];
        int64_t span = g->last_ns - g->first_ns;
        page_row(&t);
        page_cell(&t, arena_printf(a, "%u", g->number));
        page_cell_duration(&t, seconds(span));
        share_cell(&t, g->busy_ns, span);
        share_cell(&t, g->idle_host_ns, span);
        share_cell(&t, g->idle_launch_ns, span);
        share_cell(&t, g->idle_queue_ns, span);
        share_cell(&t, g->idle_unknown_ns, span);
        page_cell_count(&t, (double)g->gaps);
        if (!links)
            continue;
        page_cell_percent(&t, 100 * g->compute_ns / (double)span);
        page_cell_percent(&t, 100 * g->communication_ns / (double)span);
        page_cell_percent(&t, 100 * g->overlap_ns / g->communication_ns);
    }
    page_table_end(&t);
    page_tag(out, "p", "small",
             "Each gap is charged to the operation that ends it: before its launch began the host "
             "had nothing for the GPU; during the launch it was handing it over; after it the work "
             "waited in the queue; unknown where the launch was not recorded.");
    if (links)
        page_tag(
            out, "p", "small",
            "Communication: a kernel of NCCL, RCCL, oneCCL or their kin runs; compute: another "
            "kernel does. Overlap is the part of communication beside which something "
            "computes; the rest is what communication costs.");
    buf_puts(out, "\n</section>\n");
}

void section_launch(struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "launches"}, {.head = "count"},   {.head = "mean"},   {.head = "median"},
        {.head = "minimum"},  {.head = "maximum"}, {.head = "std dev"}};
    const struct kernels_timeline *time = &d->s.timeline;
    const struct {
        const char *name;
        const struct kernels_stats *s;
    } rows[] = {{"the call", &time->launch_call},
                {"gap to the next launch of the thread", &time->launch_gap},
                {"from the call's return to the start on the GPU", &time->queue}};
    struct page_table t;
    if (!time->launch_call.n)
        return;
    page_section(out, "Launch gaps");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct kernels_stats *s = rows[i].s;
        if (!s->n)
            continue;
        page_row(&t);
        page_cell(&t, rows[i].name);
        page_cell_count(&t, (double)s->n);
        page_cell_duration(&t, s->mean / 1e9);
        page_cell_duration(&t, s->median / 1e9);
        page_cell_duration(&t, seconds(s->min));
        page_cell_duration(&t, seconds(s->max));
        page_cell_duration(&t, s->stddev / 1e9);
    }
    page_table_end(&t);
    buf_puts(out, "</section>\n");
}

/* ---- the machine ---- */

/* The first of a title counts. */
static void add_fact(struct trace_data *d, const char *title, const char *text)
{
    for (size_t i = 0; i < d->n_machine; i++)
        if (strcmp(d->machine[i].title, title) == 0)
            return;
    if (text && *text)
        d->machine[d->n_machine++] = (struct kernels_fact){title, text};
}

void section_machine_facts(struct arena *a, struct trace_data *d)
{
    static const struct {
        const char *title, *path;
    } of_meta[] = {{"Recorded", "started_at"}, {"NVIDIA driver", "host.nvidia_driver"},
                   {"Processor", "host.cpu"},  {"Cores", "host.cores"},
                   {"Kernel", "host.kernel"},  {"Recorder", "tool.version"}};
    enum { N_META = sizeof of_meta / sizeof *of_meta };
    d->machine = arena_array(a, struct kernels_fact, d->s.n_machine + N_META);
    for (size_t i = 0; i < d->s.n_machine; i++)
        add_fact(d, d->s.machine[i].title, d->s.machine[i].text);
    for (int i = 0; i < N_META && d->s.recording; i++)
        add_fact(d, of_meta[i].title, page_value(a, d->s.recording, of_meta[i].path));
}

static const char *machine_text(const struct trace_data *d, const char *title)
{
    for (size_t i = 0; i < d->n_machine; i++)
        if (strcmp(d->machine[i].title, title) == 0)
            return d->machine[i].text;
    return NULL;
}

void section_machine_line(struct arena *a, struct buf *out, const struct trace_data *d)
{
    const char *host = machine_text(d, trace_fact_names[TRACE_HOST].title), *gpu = NULL;
    size_t gpus = 0;
    for (size_t i = 0; i < d->n_machine; i++)
        if (strncmp(d->machine[i].title, "GPU ", 4) == 0 && gpus++ == 0)
            gpu = d->machine[i].text;
    if (host || gpu)
        page_tag(out, "p", NULL, "Recorded on %s%s%s%s", host ? host : "", host && gpu ? ": " : "",
                 gpu ? gpu : "",
                 gpus > 1 ? arena_printf(a, ", and %zu more GPU%s", gpus - 1, gpus == 2 ? "" : "s")
                          : "");
}

void section_machine(struct buf *out, const struct trace_data *d)
{
    page_section(out, "The machine that was recorded");
    if (!d->n_machine)
        page_tag(out, "p", NULL, "The trace does not say.");
    buf_puts(out, d->n_machine ? "<div class=\"scroll\"><table class=\"facts\">\n" : "");
    for (size_t i = 0; i < d->n_machine; i++) {
        buf_puts(out, "<tr>");
        page_tag(out, "th", NULL, "%s", d->machine[i].title);
        page_tag(out, "td", NULL, "%s", d->machine[i].text);
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, d->n_machine ? "</table></div>\n</section>\n" : "\n</section>\n");
}
