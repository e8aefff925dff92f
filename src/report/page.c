#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "compare/compare.h"
#include "text/html.h"

PRINTF_LIKE(2, 0) static void text_v(struct buf *out, const char *fmt, va_list ap)
{
    char room[512];
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(room, sizeof room, fmt, ap);
    ASSERT(n >= 0);
    if ((size_t)n < sizeof room) {
        html_escape(out, room);
    } else {
        char *all = mem_alloc((size_t)n + 1);
        vsnprintf(all, (size_t)n + 1, fmt, again);
        html_escape(out, all);
        mem_free(all);
    }
    va_end(again);
}

void page_text(struct buf *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_v(out, fmt, ap);
    va_end(ap);
}

void page_tag(struct buf *out, const char *tag, const char *class, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (class)
        buf_printf(out, "<%s class=\"%s\">", tag, class);
    else
        buf_printf(out, "<%s>", tag);
    text_v(out, fmt, ap);
    buf_printf(out, "</%s>", tag);
    va_end(ap);
}

void page_section(struct buf *out, const char *title)
{
    buf_puts(out, "<section>\n");
    page_tag(out, "h2", NULL, "%s", title);
    buf_puts(out, "\n");
}

void page_head(struct buf *out, const char *eyebrow, const char *headline)
{
    page_tag(out, "p", "eyebrow", "%s", eyebrow);
    page_tag(out, "h1", NULL, "%s", headline);
}

void page_tile(struct buf *out, const char *label, const char *value, const char *remark)
{
    buf_puts(out, "<div>");
    page_tag(out, "dt", NULL, "%s", label);
    page_tag(out, "dd", NULL, "%s", value);
    if (remark)
        page_tag(out, "dd", "small", "%s", remark);
    buf_puts(out, "</div>\n");
}

void page_figures(struct buf *out, const char *title, const struct curves *c, int first, int last)
{
    struct buf svg = {0};
    bool open = false;
    for (int i = first; i < last; i++) {
        buf_clear(&svg);
        if (!curves_figure(c, i, &svg))
            continue;
        if (!open) {
            if (title)
                page_section(out, title);
            buf_puts(out, "<div class=\"figures\">\n");
        }
        open = true;
        buf_puts(out, "<figure>");
        buf_add(out, svg.p, svg.n);
        buf_puts(out, "</figure>\n");
    }
    if (open)
        buf_puts(out, title ? "</div>\n</section>\n" : "</div>\n");
    buf_free(&svg);
}

void page_notes(struct buf *out, const char *title, const char *const *notes, size_t n)
{
    if (n == 0)
        return;
    page_section(out, title);
    buf_puts(out, "<ul class=\"notes\">\n");
    for (size_t i = 0; i < n; i++) {
        page_tag(out, "li", NULL, "%s", notes[i]);
        buf_puts(out, "\n");
    }
    buf_puts(out, "</ul>\n</section>\n");
}

void page_chart(struct buf *out, const struct svg_chart *chart)
{
    struct svg_chart c = *chart;
    c.width = PAGE_CHART_WIDTH;
    c.height = c.height ? c.height : PAGE_CHART_HEIGHT;
    buf_puts(out, "<figure>");
    svg_chart(out, &c);
    buf_puts(out, "</figure>\n");
}

void page_note_list(struct arena *a, struct buf *out, const char *title, const struct node *list)
{
    uint32_t n;
    struct node *const *items = page_items(list, &n);
    const char **texts = arena_array(a, const char *, n);
    size_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        if (items[i]->kind == NODE_STR)
            texts[k++] = items[i]->s.p;
    page_notes(out, title, texts, k);
}

/* ---- trees --------------------------------------------------------------------------------- */

static const char *scalar_text(struct arena *a, const struct node *n)
{
    char text[STR_DOUBLE_MAX];
    if (!n)
        return NULL;
    switch (n->kind) {
    case NODE_BOOL:
        return n->b ? "yes" : "no";
    case NODE_INT:
        return arena_printf(a, "%lld", (long long)n->i);
    case NODE_FLOAT:
        if (!isfinite(n->f))
            return NULL;
        str_from_double(text, n->f);
        return arena_str(a, text);
    case NODE_STR:
        return n->s.p;
    case NODE_NULL:
    case NODE_LIST:
    case NODE_MAP:
        break;
    }
    return NULL;
}

const char *page_value(struct arena *a, const struct node *root, const char *path)
{
    return scalar_text(a, node_path(root, path));
}

struct node *const *page_items(const struct node *list, uint32_t *n)
{
    *n = list && list->kind == NODE_LIST ? list->n : 0;
    return *n ? list->items : NULL;
}

const char *page_count(char out[WORDS_MAX], double n)
{
    return n >= 0 && n < 1e15 ? words_count(out, (int64_t)n) : "n/a";
}

/* ---- facts --------------------------------------------------------------------------------- */

enum { MAX_COLUMNS = CURVES_MAX_RUNS, MAX_FACTS = 400, MAX_DEPTH = 8 };

static const struct {
    const char *label, *path;
} first_facts[] = {
    {"Run", "run_id"},
    {"Workload", "workload_id"},
    {"Engine", "backend"},
    {"Model", "model"},
    {"Hardware", "hardware.hardware_id"},
    {"Device", "hardware.device"},
    {"Seed", "seed"},
    {"Seed", "params.seed"},
    {"Started", "started_at"},
    {"Ended", "ended_at"},
    {"Created", "created_at"},
    {"Workload from", "workload_dir"},
    {"Profile from", "profiling_root"},
    {"GPU", "gpu_name"},
    {"Power by", "power_sensor.sampler"}, /* energy and power logs */
    {"Energy by", "energy_sensor.sampler"},
    {"Capsule", "capsule"},
    {"Each kernel alone, s", "window.seconds"},
    {"Processor", "host.cpu"},
    {"Cores", "host.cores"},
    {"NVIDIA driver", "host.nvidia_driver"},
    {"twinfer", "tool.version"},
    {"twinfer's commit", "tool.commit"},
    {"Changed since", "tool.dirty"},
    {"Compiler", "tool.compiler"},
    {"Working directory's commit", "working_directory_git.commit"},
    {"Changed since", "working_directory_git.dirty"},
    {"Working directory's commit", "git_commit"}, /* in runs of older versions */
    {"Changed since", "git_dirty"},
};

static bool fact_row(struct arena *a, struct buf *out, const char *label, const char *path,
                     const char *const *titles, const struct node *const *metas, int n)
{
    const char *value[MAX_COLUMNS];
    bool any = false;
    for (int i = 0; i < n; i++) {
        value[i] = page_value(a, metas[i], path);
        any = any || value[i];
    }
    if (!any)
        return false;
    buf_puts(out, "<tr>");
    page_tag(out, "th", NULL, "%s", label);
    for (int i = 0; i < n; i++) {
        buf_puts(out, value[i] ? "<td" : "<td class=\"none\"");
        if (n > 2) { /* shown before the value on narrow screens */
            buf_puts(out, " data-head=\"");
            page_text(out, "%s", titles[i]);
            buf_puts(out, "\"");
        }
        buf_puts(out, ">");
        page_text(out, "%s", value[i] ? value[i] : "–");
        buf_puts(out, "</td>");
    }
    buf_puts(out, "</tr>\n");
    return true;
}

static void facts_head(struct buf *out, const char *const *titles, int n)
{
    buf_printf(out, "<div class=\"scroll\"><table class=\"facts%s\">\n", n > 2 ? " stack" : "");
    if (n < 2)
        return;
    buf_puts(out, n > 2 ? "<thead><tr><td></td>" : "<tr><td></td>");
    for (int i = 0; i < n; i++)
        page_tag(out, "th", n > 2 ? NULL : i == 0 ? "real" : "sim", "%s", titles[i]);
    buf_puts(out, n > 2 ? "</tr></thead>\n" : "</tr>\n");
}

static bool counter_is_first(const char *key)
{
    static const char *const names[] = {"iterations",          "tokens",        "preemptions",
                                        "loop_seconds",        "setup_seconds", "lookups",
                                        "extrapolated_lookups"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], key) == 0)
            return true;
    return false;
}

/* Dotted keys, unique and sorted, as in the file with its sorted maps. */
struct flat {
    struct arena *a;
    VEC(const char *) paths;
};

static bool flat_has(const struct flat *f, const char *path)
{
    for (size_t i = 0; i < f->paths.n; i++)
        if (strcmp(f->paths.p[i], path) == 0)
            return true;
    return false;
}

static void flatten(struct flat *f, const struct node *map, const char *prefix, int depth)
{
    for (uint32_t i = 0; i < map->n && f->paths.n < MAX_FACTS; i++) {
        const struct node_pair *p = &map->pairs[i];
        const char *path = arena_printf(f->a, "%s%.*s", prefix, (int)p->key.n, p->key.p);
        if (p->value->kind == NODE_MAP && depth < MAX_DEPTH)
            flatten(f, p->value, arena_printf(f->a, "%s.", path), depth + 1);
        else if (scalar_text(f->a, p->value) && !flat_has(f, path))
            vec_push(&f->paths, path);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_of_the_machine(const char *path)
{
    return strncmp(path, "host.", 5) == 0 || strncmp(path, "hardware.", 9) == 0;
}

static void facts(struct arena *a, struct buf *out, const char *title, const char *const *titles,
                  const struct node *const *metas, int n, bool machine)
{
    ASSERT(n <= MAX_COLUMNS);
    struct flat all = {.a = a};
    const char *last = "";
    for (int i = 0; i < n; i++)
        if (metas[i] && metas[i]->kind == NODE_MAP)
            flatten(&all, metas[i], "", 0);
    if (all.paths.n > 1)
        qsort(all.paths.p, all.paths.n, sizeof *all.paths.p, by_text);
    page_section(out, title);
    facts_head(out, titles, n);
    for (size_t i = 0; i < sizeof first_facts / sizeof *first_facts; i++)
        if (strcmp(last, first_facts[i].label) != 0 &&
            (machine || !is_of_the_machine(first_facts[i].path)) &&
            fact_row(a, out, first_facts[i].label, first_facts[i].path, titles, metas, n))
            last = first_facts[i].label;
    for (size_t i = 0; i < all.paths.n; i++) {
        const char *path = all.paths.p[i];
        if (strncmp(path, "counters.", 9) == 0 && counter_is_first(path + 9)) {
            char *label = arena_str(a, path + 9);
            for (char *c = label; *c; c++)
                *c = *c == '_' ? ' ' : *c;
            label[0] = (char)(label[0] - 'a' + 'A');
            fact_row(a, out, label, path, titles, metas, n);
        }
    }
    buf_puts(out, "</table></div>\n<details><summary>All that was recorded</summary>\n");
    facts_head(out, titles, n);
    for (size_t i = 0; i < all.paths.n; i++)
        fact_row(a, out, all.paths.p[i], all.paths.p[i], titles, metas, n);
    buf_puts(out, "</table></div>\n");
    if (all.paths.n == MAX_FACTS)
        page_tag(out, "p", "small", "The first %d only; the meta file has all.", MAX_FACTS);
    buf_puts(out, "</details>\n</section>\n");
    vec_free(&all.paths);
}

void page_facts(struct arena *a, struct buf *out, const char *title, const char *const *titles,
                const struct node *const *metas, int n)
{
    facts(a, out, title, titles, metas, n, true);
}

void page_analysis(struct arena *a, struct buf *out, const struct node *meta)
{
    facts(a, out, "How it was analysed", NULL, &meta, 1, false);
}
