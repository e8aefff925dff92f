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

/* A table's cell in that unit; "" stays empty. */
static void time_cell(struct page_table *t, const char *text, double per_s)
{
    double v;
    if (*text && str_double(sv_of(text), &v))
        page_cell_duration(t, v / per_s);
    else
        page_cell(t, "");
}

static void share_cell(struct page_table *t, int64_t part, int64_t whole)
{
    page_cell_percent(t, whole > 0 ? 100 * (double)part / (double)whole : (double)NAN);
}

static void count_cell(struct page_table *t, const char *text)
{
    double v;
    page_cell_count(t, str_double(sv_of(text), &v) ? v : (double)NAN);
}

/* A percentage with a bar of that length. */
static void bar_cell(struct page_table *t, const char *text)
{
    char words[WORDS_MAX];
    double percent;
    page_cell_begin(t);
    if (str_double(sv_of(text), &percent)) {
        page_text(t->out, "%s", words_percent(words, percent));
        page_bar(t->out, percent);
    }
    page_cell_end(t);
}

/* A change in per cent; "n/a" for entries that are new. */
static void change_cell(struct page_table *t, const char *text)
{
    char words[WORDS_MAX];
    double percent;
    page_cell(t, words_change(words, str_double(sv_of(text), &percent) ? percent : (double)NAN));
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

/* The short name; the full one, which for templates has kilobytes, is shown on demand. */
static void name_cell(struct page_table *t, const char *const *names, const char *const *shorts,
                      int n, int i)
{
    enum { MOST = 64 };
    page_cell_begin(t);
    if (strcmp(names[i], shorts[i]) == 0) {
        page_text(t->out, "%s", names[i]);
        page_cell_end(t);
        return;
    }
    const char *own = own_part(names, shorts, n, i);
    buf_puts(t->out, "<details class=\"name\"><summary>");
    page_text(t->out, "%s", shorts[i]);
    if (own && *own) {
        size_t length = strlen(own), cut = length < MOST ? length : MOST;
        while (cut < length && cut > 0 && ((unsigned char)own[cut] & 0xc0) == 0x80)
            cut--;
        page_tag(t->out, "small", NULL, " … %.*s%s", (int)cut, own, cut < length ? " …" : "");
    }
    buf_puts(t->out, "</summary>");
    page_tag(t->out, "span", "full", "%s", names[i]);
    buf_puts(t->out, "</details>");
    page_cell_end(t);
}

/* Full and short names of rows [1, n] of a table. */
struct names {
    const char **full, **brief;
    int n;
};

static struct names names_of(struct arena *a, const struct table *t, int column, int n)
{
    struct names x = {arena_array(a, const char *, (size_t)n),
                      arena_array(a, const char *, (size_t)n), n};
    for (int i = 0; i < n; i++) {
        x.full[i] = table_at(t, i + 1, column);
        x.brief[i] = trace_short_name(a, x.full[i]);
    }
    return x;
}

static int rows_of(const struct table *t, int most, int *shown)
{
    int rows = t ? table_rows(t) - 1 : 0;
    *shown = rows < most ? rows : most;
    return rows;
}

static void cut_remark(struct buf *out, int rows, int shown, const char *file)
{
    if (rows > shown)
        page_tag(out, "p", "small", "The first %d of %d; %s of twinfer kernels has all.", shown,
                 rows, file);
}

/* ---- sections ---- */

void section_kernels(struct arena *a, struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "kernel"}, {.head = "share"},  {.head = "total"},   {.head = "instances"},
        {.head = "mean"},   {.head = "median"}, {.head = "minimum"}, {.head = "maximum"}};
    enum { SHARE, TOTAL, INSTANCES, MEAN, MEDIAN, MIN, MAX, STDDEV, NAME };
    struct page_table t;
    int shown, rows = rows_of(d->kernels, MAX_KERNELS, &shown);
    if (rows <= 0)
        return;
    struct names names = names_of(a, d->kernels, NAME, shown);
    page_section(out, "Kernels");
    PAGE_TABLE(&t, out, columns);
    for (int i = 0; i < shown; i++) {
        page_row(&t);
        name_cell(&t, names.full, names.brief, shown, i);
        bar_cell(&t, table_at(d->kernels, i + 1, SHARE));
        time_cell(&t, table_at(d->kernels, i + 1, TOTAL), 1e9);
        count_cell(&t, table_at(d->kernels, i + 1, INSTANCES));
        for (int column = MEAN; column <= MAX; column++)
            time_cell(&t, table_at(d->kernels, i + 1, column), 1e9);
    }
    page_table_end(&t);
    cut_remark(out, rows, shown, "trace_cuda_gpu_kern_sum.csv");
    buf_puts(out, "</section>\n");
}

void section_operators(struct buf *out, const struct trace_data *d)
{
    enum { NAME, TOTAL, CALLS, MEAN, SHARE };
    const char *what = table_at(d->operators, 0, NAME);
    const struct page_column columns[] = {
        {.head = strcmp(what, "Range") == 0 ? "range" : "operator"},
        {.head = "share"},
        {.head = "total"},
        {.head = "calls"},
        {.head = "mean"}};
    struct page_table t;
    int shown, rows = rows_of(d->operators, MAX_OPERATORS, &shown);
    if (rows <= 0 || (rows == 1 && strcmp(table_at(d->operators, 1, NAME), "(outside)") == 0))
        return;
    page_section(out, "Operators");
    PAGE_TABLE(&t, out, columns);
    for (int i = 1; i <= shown; i++) {
        page_row(&t);
        page_cell(&t, table_at(d->operators, i, NAME));
        bar_cell(&t, table_at(d->operators, i, SHARE));
        time_cell(&t, table_at(d->operators, i, TOTAL), 1e3);
        count_cell(&t, table_at(d->operators, i, CALLS));
        time_cell(&t, table_at(d->operators, i, MEAN), 1e3);
    }
    page_table_end(&t);
    cut_remark(out, rows, shown, "operators.md");
    page_tag(out, "p", "small",
             "Time on the GPU by %s: each launch is charged to the innermost. Calls are instances "
             "that launched something themselves.",
             strcmp(what, "Range") == 0 ? "NVTX range" : "PyTorch operator");
    buf_puts(out, "\n</section>\n");
}

void section_diff(struct arena *a, struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "kernel"}, {.head = "before"},       {.head = "after"},      {.head = "change"},
        {.head = "in %"},   {.head = "calls before"}, {.head = "calls after"}};
    enum { NAME, STATUS, BEFORE, AFTER, CHANGE, PERCENT, CALLS_BEFORE, CALLS_AFTER };
    struct page_table t;
    int shown, rows = rows_of(d->diff, MAX_CHANGES, &shown);
    if (rows <= 0)
        return;
    struct names names = names_of(a, d->diff, NAME, shown);
    page_section(out, "Before and after");
    if (d->against)
        page_tag(out, "p", NULL, "Before: %s. After: this trace.", d->against);
    PAGE_TABLE(&t, out, columns);
    for (int i = 0; i < shown; i++) {
        page_row(&t);
        name_cell(&t, names.full, names.brief, shown, i);
        for (int column = BEFORE; column <= CHANGE; column++)
            time_cell(&t, table_at(d->diff, i + 1, column), 1e3);
        change_cell(&t, table_at(d->diff, i + 1, PERCENT));
        count_cell(&t, table_at(d->diff, i + 1, CALLS_BEFORE));
        count_cell(&t, table_at(d->diff, i + 1, CALLS_AFTER));
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
    struct page_table t;
    int shown, rows = rows_of(d->regions, MAX_REGIONS, &shown);
    if (rows <= 0)
        return;
    page_section(out, "Regions");
    PAGE_TABLE(&t, out, columns);
    for (int i = 1; i <= shown; i++) {
        page_row(&t);
        page_cell(&t, table_at(d->regions, i, 0));
        count_cell(&t, table_at(d->regions, i, 1));
        for (int column = 2; column <= 4; column++)
            time_cell(&t, table_at(d->regions, i, column), 1e3);
        count_cell(&t, table_at(d->regions, i, 5));
    }
    page_table_end(&t);
    cut_remark(out, rows, shown, "regions.md");
    page_tag(out, "p", "small",
             "A launch counts for the ranges open around it on its thread: exclusive time goes to "
             "the innermost, inclusive time to all. Times are sums over the instances.");
    buf_puts(out, "\n</section>\n");
}

void section_busy(struct arena *a, struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "GPU"},           {.head = "first to last"}, {.head = "busy"},
        {.head = "idle: host"},    {.head = "idle: launch"},  {.head = "idle: queue"},
        {.head = "idle: unknown"}, {.head = "gaps"}};
    struct page_table t;
    if (!d->timeline.n_devices)
        return;
    page_section(out, "Busy and idle");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < d->timeline.n_devices; i++) {
        const struct kernels_device *g = &d->timeline.devices[i];
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
    }
    page_table_end(&t);
    page_tag(out, "p", "small",
             "Each gap is charged to the operation that ends it: before its launch began the host "
             "had nothing for the GPU; during the launch it was handing it over; after it the work "
             "waited in the queue; unknown where the launch was not recorded.");
    buf_puts(out, "\n</section>\n");
}

void section_launch(struct buf *out, const struct trace_data *d)
{
    static const struct page_column columns[] = {
        {.head = "launches"}, {.head = "count"},   {.head = "mean"},   {.head = "median"},
        {.head = "minimum"},  {.head = "maximum"}, {.head = "std dev"}};
    const struct kernels_timeline *time = &d->timeline;
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

/* Copies text: the trace is freed before the page is written. */
static void add_fact(struct arena *a, struct trace_data *d, const char *title, const char *text)
{
    for (size_t i = 0; i < d->n_machine; i++)
        if (strcmp(d->machine[i].title, title) == 0)
            return;
    if (text && *text)
        d->machine[d->n_machine++] = (struct trace_machine_fact){title, arena_str(a, text)};
}

static const char *device_words(struct arena *a, const struct trace_dict *dict,
                                const struct trace_device *g)
{
    const char *name = trace_text(dict, g->name);
    const char *text = *name ? name : "unknown";
    if (g->memory_bytes)
        text = arena_printf(a, "%s, %.0f GiB", text, (double)g->memory_bytes / (1 << 30));
    if (g->sms)
        text = arena_printf(a, "%s, %u SMs", text, g->sms);
    if (g->major)
        text = arena_printf(a, "%s, compute capability %u.%u", text, g->major, g->minor);
    return text;
}

void section_machine_facts(struct arena *a, struct trace_data *d, const struct trace_dict *dict)
{
    static const struct {
        const char *title, *path;
    } of_meta[] = {{"Recorded", "started_at"}, {"NVIDIA driver", "host.nvidia_driver"},
                   {"Processor", "host.cpu"},  {"Cores", "host.cores"},
                   {"Kernel", "host.kernel"},  {"Recorder", "tool.version"}};
    enum { N_META = sizeof of_meta / sizeof *of_meta };
    d->machine = arena_array(a, struct trace_machine_fact, dict->n_devices + TRACE_FACTS + N_META);
    for (uint32_t i = 0; i < dict->n_devices; i++)
        add_fact(a, d, arena_printf(a, "GPU %u", dict->devices[i].number),
                 device_words(a, dict, &dict->devices[i]));
    for (int i = 0; i < TRACE_FACTS; i++)
        add_fact(a, d, trace_fact_names[i].title,
                 trace_fact_words(a, dict, (enum trace_fact_kind)i));
    for (int i = 0; i < N_META && d->meta; i++)
        add_fact(a, d, of_meta[i].title, page_value(a, d->meta, of_meta[i].path));
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
