/* Building blocks of the pages. Private to report/. Every `text` and formatted argument is escaped
 * here; page code writes tags only as literals. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "compare/curves.h"
#include "compare/words.h"
#include "metrics/time_series.h"
#include "text/svg.h"

/* ---- one part of the report, per artifact -------------------------------------------------- */

/* A page knows its headline before its body is written: the table of contents shows it. */
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
enum st part_search(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                    struct err *e);

/* The part of a comparison in memory: tree = compare_node. */
struct part part_of_comparison(struct arena *a, const struct node *tree,
                               const struct curves *curves, const struct node *meta);

/* ---- writing ------------------------------------------------------------------------------- */

void page_text(struct buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* <tag class="class">text</tag>; class may be NULL. */
void page_tag(struct buf *out, const char *tag, const char *class, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void page_section(struct buf *out, const char *title); /* closed by "</section>" */
void page_head(struct buf *out, const char *eyebrow, const char *headline);
/* A row of the large figures under a headline, between "<dl class=tiles>" and "</dl>". */
void page_tile(struct buf *out, const char *label, const char *value, const char *note);
void page_figures(struct buf *out, const char *title, const struct curves *c, int first, int last);
/* Charts of a run's time_series.csv; nothing for no rows. blocks_of_one: KV blocks of a replica, 0
 * or NAN = unknown. */
void page_load(struct arena *a, struct buf *out, const struct time_series_row *rows, size_t n,
               double blocks_of_one);
/* A table of the kinds of batches; nothing without batches.csv. */
void page_iterations(struct arena *a, struct buf *out, const struct run *run);
void page_notes(struct buf *out, const char *title, const char *const *notes, size_t n);

/* One chart of the width that stands in a "figures" block. */
enum { PAGE_CHART_WIDTH = 400, PAGE_CHART_HEIGHT = 280 };
void page_chart(struct buf *out, const struct svg_chart *chart);
/* page_notes from a list of a tree; items that are no strings are passed over. */
void page_note_list(struct arena *a, struct buf *out, const char *title, const struct node *list);

/* What stands in metas, side by side: the facts people ask for first, then all of it behind
 * <details>. titles name the columns. */
void page_facts(struct arena *a, struct buf *out, const char *title, const char *const *titles,
                const struct node *const *metas, int n);

/* ---- reading trees ------------------------------------------------------------------------- */

/* The value at a dotted path: text of any scalar, NULL when absent, null, a list or a map. */
const char *page_value(struct arena *a, const struct node *root, const char *path);
/* The items of a list, or of nothing when it is none. */
struct node *const *page_items(const struct node *list, uint32_t *n);
double page_number_of(const struct node *n); /* NAN when it is NULL or no number */
/* words_count of a number in a tree: "n/a" for NAN and what is no count. */
const char *page_count(char out[WORDS_MAX], double n);
double page_number(const struct node *root, const char *path);

#endif
