/* CSV (RFC 4180) with a header: rows one at a time in constant memory, cells by column number.
 *
 * The header is read at open; callers look their columns up by name once and then read cells by
 * index. Errors name file:line:column (column = the cell's number from 1) and the header's name:
 * trace.csv:7:3: num_prefill_tokens: expected an integer, got 'x'. Bounded: 4,096 columns, 16 MiB a
 * row. A UTF-8 byte-order mark and CRLF are accepted; a NUL byte, invalid UTF-8, a row with another
 * number of cells than the header, or a quote in the wrong place is an error. Duplicate header
 * names are an error. `.gz` files are not read here. */
#ifndef TEXT_CSV_H
#define TEXT_CSV_H

#include <stdio.h>

#include "base/str.h"

struct csv_reader;

enum st csv_open(struct csv_reader **r, const char *path, struct err *e);
/* Reads bytes instead of a file; they are borrowed. */
enum st csv_open_bytes(struct csv_reader **r, const char *source, struct sv bytes, struct err *e);
void csv_close(struct csv_reader **r);

int csv_columns(const struct csv_reader *r);
const char *csv_column_name(const struct csv_reader *r, int column);
int csv_find(const struct csv_reader *r, const char *name); /* -1 when absent */
/* The same; an absent column is an error that lists the header and suggests the nearest name. */
enum st csv_require(const struct csv_reader *r, const char *name, int *column, struct err *e);

/* The next row; ST_END after the last. Blank lines are skipped. */
enum st csv_next(struct csv_reader *r, struct err *e);
long csv_line(const struct csv_reader *r); /* of the current row's first byte, from 1 */

struct sv csv_cell(const struct csv_reader *r, int column); /* valid until the next csv_next */
bool csv_empty(const struct csv_reader *r, int column);
enum st csv_int(const struct csv_reader *r, int column, int64_t min, int64_t max, int64_t *out,
                struct err *e); /* accepts "12.0" as 12: other tools print floats */
enum st csv_double(const struct csv_reader *r, int column, double min, double max, double *out,
                   struct err *e); /* nan and inf are errors; "" too */
enum st csv_err(const struct csv_reader *r, int column, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* ---- writing: cells of a row in order, csv_end_row after the last; quoted only where needed ----
 */

struct csv_writer {
    FILE *f;
    int cells;       /* in the current row */
    bool only_empty; /* the row's first cell is empty */
};
void csv_put_str(struct csv_writer *w, const char *s);
void csv_put_int(struct csv_writer *w, int64_t v);
void csv_put_double(struct csv_writer *w, double v); /* shortest exact form; non-finite = empty */
void csv_put_empty(struct csv_writer *w);
void csv_end_row(struct csv_writer *w);

#endif
