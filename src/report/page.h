/* Building blocks of the pages. Private to report/. Every `text` and formatted argument is escaped
 * here; page code writes tags only as literals. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "compare/curves.h"
#include "deep/result.h"
#include "metrics/time_series.h"
#include "text/document.h"
#include "text/svg.h"
#include "text/words.h"

/* ---- one part of the report, per artifact -------------------------------------------------- */

/* A part of a page: its headline is known before its body is written, for the table of contents. */
struct part {
    const char *title;  /* "Comparison cmp_12ab" */
    const char *remark; /* "pass, 160 requests"; may be NULL */
    void (*body)(struct arena *a, struct buf *out, const struct part *p);
    const void *data;
};

/* Fill *out from a directory whose meta was read. */
enum st part_comparison(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                        struct err *e);
enum st part_run(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                 struct err *e);
enum st part_workload(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                      struct err *e);
enum st part_bundle(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                    struct err *e);
enum st part_capacity(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                      struct err *e);
enum st part_trace(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                   struct err *e);
enum st part_kernels(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                     struct err *e);
enum st part_deep(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                  struct err *e);
enum st part_search(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                    struct err *e);
enum st part_energy(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                    struct err *e);
enum st part_power(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                   struct err *e);

/* A comparison of runs; its compare.json was read. */
enum st part_runs(struct arena *a, const char *dir, const struct node *tree,
                  const struct node *meta, struct part *out, struct err *e);

/* The part of a session in memory. */
struct part part_of_deep(struct arena *a, const struct deep_result *r, const char *id,
                         const struct node *meta);
/* The part of a comparison in memory: tree = compare_node, ab_node. */
struct part part_of_comparison(struct arena *a, const struct node *tree,
                               const struct curves *curves, const struct node *meta);
struct part part_of_runs(struct arena *a, const struct node *tree, const struct curves *curves,
                         const struct node *meta);

/* ---- writing ------------------------------------------------------------------------------- */

void page_text(struct buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* <tag class="class">text</tag>; class may be NULL. */
void page_tag(struct buf *out, const char *tag, const char *class, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void page_section(struct buf *out, const char *title); /* closed by "</section>" */
void page_head(struct buf *out, const char *eyebrow, const char *headline);
/* A row of the large figures under a headline, between "<dl class=tiles>" and "</dl>". */
void page_tile(struct buf *out, const char *label, const char *value, const char *note);
/* As a section; title NULL: in one that is open. */
void page_figures(struct buf *out, const char *title, const struct curves *c, int first, int last);
/* Charts of a run's time_series.csv; nothing for no rows. blocks_of_one: KV blocks of a replica, 0
 * or NAN = unknown. */
void page_load(struct arena *a, struct buf *out, const struct time_series_row *rows, size_t n,
               double blocks_of_one);
/* A table of the kinds of batches; nothing without batches.csv. */
void page_iterations(struct arena *a, struct buf *out, const struct run *run);
/* A run over HTTP: its server, for the banner, and its client's punctuality. Nothing for other
 * runs. */
void page_server(struct arena *a, struct buf *out, const struct node *meta);
void page_client(struct arena *a, struct buf *out, const struct node *meta);
/* What the server of a run counted itself (metrics/server_metrics.h); nothing for other runs. */
struct server_metrics;
void page_server_metrics(struct arena *a, struct buf *out, const struct server_metrics *m);
/* Failed requests, by cause; nothing where there are none. */
void page_failures(struct buf *out, const struct run *run);
void page_notes(struct buf *out, const char *title, const char *const *notes, size_t n);

/* A chart of the width used in a "figures" block; height 0 = default. */
enum { PAGE_CHART_WIDTH = 400, PAGE_CHART_HEIGHT = 280 };
void page_chart(struct buf *out, const struct svg_chart *chart);
/* page_notes from a list of a tree; skips items that are no strings. */
void page_note_list(struct arena *a, struct buf *out, const char *title, const struct node *list);

/* Contents of metas, side by side: the main facts first, then everything behind <details>. titles
 * name the columns. */
void page_facts(struct arena *a, struct buf *out, const char *title, const char *const *titles,
                const struct node *const *metas, int n);

/* The same for a run that only analysed another's results: leaves its machine out of the main
 * facts. */
void page_analysis(struct arena *a, struct buf *out, const struct node *meta);

/* ---- tables -------------------------------------------------------------------------------- */

/* A table of numbers; the first cell of a row is its name. On a narrow screen a row becomes a
 * block, its name above and every value under the head of its column, so that no table is wider
 * than the page. Cells come in the order of the columns, every row has them all. */
struct page_column {
    const char *head; /* "" only for the first */
    enum page_look { PAGE_NUMBER, PAGE_WORDS, PAGE_LABEL } look;
    const char *below[2]; /* further lines of the head; NULL = none */
    int series;           /* the head has the colour of a chart's line, from 1; 0 = none */
};
struct page_table {
    struct buf *out;
    const struct page_column *columns;
    int n, at; /* at: the next cell's column */
};
#define PAGE_TABLE(t, out, columns) \
    page_table_begin(t, out, columns, (int)(sizeof(columns) / sizeof *(columns)))
void page_table_begin(struct page_table *t, struct buf *out, const struct page_column *columns,
                      int n);
void page_row(struct page_table *t); /* ends the row before */
void page_row_of(struct page_table *t, const char *class);
/* A heading row for the rows below it; remark may be NULL. */
void page_group(struct page_table *t, const char *title, const char *remark);
void page_cell(struct page_table *t, const char *text);
void page_cell_duration(struct page_table *t, double seconds); /* these: NAN is "n/a" */
void page_cell_percent(struct page_table *t, double percent);
void page_cell_count(struct page_table *t, double n);
/* A cell of several parts, written between the two. */
void page_cell_begin(struct page_table *t);
void page_cell_end(struct page_table *t);
void page_table_end(struct page_table *t);
/* A bar as long as that part of its cell. */
void page_bar(struct buf *out, double percent);

/* ---- documents ----------------------------------------------------------------------------- */

/* Draws the figure of that name (document_figure), or the picture in a column's cells; the other is
 * NULL. The last of a list has the name NULL. */
struct page_drawing {
    const char *name;
    void (*draw)(struct arena *a, struct buf *out, const void *data);
    void (*draw_cell)(struct buf *out, const void *data, const void *of);
};

void page_banner(struct buf *out, const struct document *d); /* its headline and tiles */
/* Its sections. drawings: NULL = it has no figures; data goes to them. */
void page_document(struct arena *a, struct buf *out, const struct document *d,
                   const struct page_drawing *drawings, const void *data);

/* ---- reading trees ------------------------------------------------------------------------- */

/* The value at a dotted path: text of any scalar, NULL when absent, null, a list or a map. */
const char *page_value(struct arena *a, const struct node *root, const char *path);
/* The items of a list; none when it is no list. */
struct node *const *page_items(const struct node *list, uint32_t *n);
/* words_count of a number in a tree: "n/a" for NAN and non-counts. */
const char *page_count(char out[WORDS_MAX], double n);

#endif
