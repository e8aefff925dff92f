/* Rows of a table that stands in other text: what a tool and the program that it ran said before,
 * between and after. Private to deep/.
 *
 * Cells are separated by one byte, in quotes where they hold it; a quote in quotes is doubled. A
 * quote that is followed neither by the separator nor by the end of the row is part of the cell, as
 * tools that double none write it. A row may span lines while a quote is open, but then its quotes
 * must be faultless: else a line of text with a single quote would swallow the table behind it. */
#ifndef DEEP_NCU_TEXT_H
#define DEEP_NCU_TEXT_H

#include "base/str.h"
#include "base/vec.h"

enum { NCU_MAX_COLUMNS = 16384 };

struct ncu_lines {
    const char *p, *end;
    long next, at; /* number of the next line; of the line taken last, from 1 */
};

struct ncu_cells {
    struct arena *a; /* of cells whose quotes are taken away */
    VEC(struct sv) v;
};

enum ncu_fate {
    NCU_ROW,  /* cells are filled */
    NCU_OPEN, /* a quote is open at the end of the line */
    NCU_WIDE, /* more than NCU_MAX_COLUMNS */
};

/* Text in UTF-8 without a byte order mark; UTF-16 with one is converted into the arena. */
struct sv ncu_utf8(struct arena *a, struct sv text);

struct ncu_lines ncu_lines_of(struct sv text);
/* The next line without its break ("\n" or "\r\n"). False at the end. */
bool ncu_line(struct ncu_lines *l, struct sv *line);
enum ncu_fate ncu_split(struct ncu_cells *c, struct sv line, char separator);
/* After NCU_OPEN: the row from that line on to the line that closes its quotes, and the place
 * behind. False, and nothing is taken: it is no row. */
bool ncu_split_on(struct ncu_cells *c, struct ncu_lines *l, struct sv line, char separator);

struct sv ncu_cell(const struct ncu_cells *c, int column); /* empty where there is none */
void ncu_swap(struct ncu_cells *a, struct ncu_cells *b);

#endif
