#include "report/report.h"

#include <string.h>

#include "base/embed.h"
#include "report/page.h"
#include "text/html.h"

typedef enum st part_reader(struct arena *a, const char *dir, const struct node *meta,
                            struct part *out, struct err *e);

/* Kinds of directories by their meta files; type NULL = any run_type. */
static const struct artifact_kind {
    const char *meta_name, *type;
    part_reader *read;
} kinds[] = {
    {"run_meta.json", "compare", part_comparison}, {"run_meta.json", "real", part_run},
    {"run_meta.json", "vidur", part_run},          {"run_meta.json", "capacity", part_capacity},
    {"run_meta.json", "search", part_search},      {"workload_meta.json", NULL, part_workload},
    {"bundle_meta.json", NULL, part_bundle},       {"run_meta.json", "trace", part_trace},
    {"run_meta.json", "kernels", part_kernels},    {"run_meta.json", "deep", part_deep},
    {"run_meta.json", "energy", part_energy},      {"run_meta.json", "power", part_power},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void write_parts(struct arena *a, struct buf *html, const struct part *parts, size_t n)
{
    const struct embed_file *css = embed_find(embed_report, "report.css");
    ASSERT(css);
    html_page_begin(html, n == 1 ? parts[0].title : "twinfer report", css->bytes);
    if (n > 1) {
        buf_puts(html, "<nav><ol>\n");
        for (size_t i = 0; i < n; i++) {
            buf_printf(html, "<li><a href=\"#part-%zu\">", i + 1);
            page_text(html, "%s", parts[i].title);
            buf_puts(html, "</a> ");
            if (parts[i].remark)
                page_tag(html, "small", NULL, "%s", parts[i].remark);
            buf_puts(html, "</li>\n");
        }
        buf_puts(html, "</ol></nav>\n");
    }
    for (size_t i = 0; i < n; i++) {
        buf_printf(html, "<article id=\"part-%zu\">\n", i + 1);
        parts[i].body(a, html, &parts[i]);
        buf_puts(html, "</article>\n");
    }
    page_tag(html, "footer", NULL, "twinfer %s", TW_VERSION);
    html_page_end(html);
}

void report_comparison(struct arena *a, struct buf *html, const struct comparison *c,
                       const struct node *meta)
{
    struct part part = part_of_comparison(a, compare_node(a, c), c->curves, meta);
    write_parts(a, html, &part, 1);
}

void report_runs(struct arena *a, struct buf *html, const struct ab *x, const struct node *meta)
{
    struct part part = part_of_runs(a, ab_node(a, x), x->curves, meta);
    write_parts(a, html, &part, 1);
}

void report_deep(struct arena *a, struct buf *html, const struct deep_result *r, const char *id,
                 const struct node *meta)
{
    struct part part = part_of_deep(a, r, id, meta);
    write_parts(a, html, &part, 1);
}

static const char *meta_file_of(struct arena *a, const char *dir)
{
    const char *found = NULL;
    for (int i = 0; i < N_KINDS && !found; i++)
        if (fs_exists(fs_join(a, dir, kinds[i].meta_name)))
            found = kinds[i].meta_name;
    return found;
}

static enum st read_part(struct arena *a, const char *dir, struct part *out, struct err *e)
{
    const char *meta_name = meta_file_of(a, dir), *type;
    struct node *meta;
    /* Without any meta file artifact_open reports what the directory is instead. */
    TRY(artifact_open(a, dir, meta_name ? meta_name : kinds[0].meta_name, NULL, &meta, e));
    type = page_value(a, meta, "run_type");
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].meta_name, meta_name) == 0 &&
            (!kinds[i].type || (type && strcmp(type, kinds[i].type) == 0)))
            return kinds[i].read(a, dir, meta, out, e);
    err_set(e, ST_INPUT, "%s: there is no page for a \"%s\" artifact", dir, type ? type : "");
    return err_hint(
        e, "report takes comparisons, real and simulated runs, capacities, searches, traces, runs "
           "of kernels, deep sessions, power logs and energies, workloads and bundles");
}

enum st report_artifacts(struct arena *a, const char *const *dirs, size_t n, struct buf *html,
                         struct err *e)
{
    if (n == 0) {
        err_set(e, ST_USAGE, "report: no artifact directory given");
        return err_hint(e, "name them in report.inputs=DIR[,DIR...]");
    }
    struct part *parts = arena_array(a, struct part, n);
    for (size_t i = 0; i < n; i++)
        if (read_part(a, dirs[i], &parts[i], e) != ST_OK)
            return err_add(e, "cannot report on %s", dirs[i]);
    write_parts(a, html, parts, n);
    return ST_OK;
}
