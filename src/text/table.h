/* Tables for people: aligned text for a terminal, Markdown for files.
 *
 * Cells are given row by row; the first row is the header. A column whose cells are all numbers
 * ("12", "-0.5 ms", "3 %"; also "", "-" and "n/a") aligns right, the others left; table_align
 * decides it for a table instead. Width is counted in characters (UTF-8), not bytes. Control
 * characters in a cell become spaces. Markdown cells have what Markdown would take for markup
 * escaped. */
#ifndef TEXT_TABLE_H
#define TEXT_TABLE_H

#include <stdbool.h>

#include "base/str.h"

struct table;

struct table *table_new(struct arena *a, int columns);
/* With its header. */
struct table *table_headed(struct arena *a, const char *const *heads, int columns);
void table_cell(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Whether it aligns right; those of which it is not said align left then. */
void table_align(struct table *t, int column, bool right);
void table_text(struct buf *out, const struct table *t);
/* Untrusted text as Markdown: escaped, so that no tag, link or emphasis results. */
void table_markdown_text(struct buf *out, const char *s);
void table_markdown(struct buf *out, const struct table *t);

/* Size so far; an incomplete row does not count. */
int table_columns(const struct table *t);
int table_rows(const struct table *t); /* with the header */
const char *table_at(const struct table *t, int row, int column);
bool table_right(const struct table *t, int column); /* aligns right */

#endif
