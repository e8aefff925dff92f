/* Tables for people: aligned text for a terminal, Markdown for files.
 *
 * Cells are given row by row; the first row is the header. Numbers align right, text left. Width is
 * counted in characters (UTF-8), not bytes. Markdown cells have | and newlines escaped. */
#ifndef TEXT_TABLE_H
#define TEXT_TABLE_H

#include "base/str.h"

struct table;

struct table *table_new(struct arena *a, int columns);
void table_cell(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_text(struct buf *out, const struct table *t);
void table_markdown(struct buf *out, const struct table *t);

#endif
