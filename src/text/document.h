/* What a command found, as one document: sections of facts, tables, notes and figures. The text of
 * a terminal, Markdown, a page (report/document_page.c) and JSON rows are renderers of it, so that
 * a table is written in one place.
 *
 *     static const struct document_column columns[] = {
 *         DOCUMENT_COLUMN(struct stage, name, "Stage", DOCUMENT_WORDS),
 *         DOCUMENT_COLUMN(struct stage, calls, "Calls", DOCUMENT_COUNT),
 *         DOCUMENT_COLUMN(struct stage, total_ms, "Total", DOCUMENT_MS),
 *     };
 *
 *     struct document *d = document_new(a, "Profile", "Two stages");
 *     document_section(d, "Stages");
 *     DOCUMENT_ROWS(document_table(d, columns, 3), stages, n);
 *     document_remark(d, "A stage includes its sub-stages.");
 *     document_markdown(&out, d);
 *
 * Numbers are stored as numbers with a kind; a renderer writes them. NAN is unknown: "n/a", null in
 * JSON. Texts are untrusted: renderers escape them. They are borrowed and live as long as the
 * document; what is made from a format lives in its arena, as all else does. */
#ifndef TEXT_DOCUMENT_H
#define TEXT_DOCUMENT_H

#include "text/node.h"
#include "text/table.h"

/* What a number means and how it is written. */
enum document_kind {
    DOCUMENT_WORDS,  /* no number */
    DOCUMENT_LABEL,  /* a word or two, which stay on a line: "memory-bound" */
    DOCUMENT_COUNT,  /* "1,204" */
    DOCUMENT_ID,     /* "4711": a name that is a number */
    DOCUMENT_NUMBER, /* "3.142": 4 digits */
    DOCUMENT_S,      /* a duration, given in s, ms, us, ns: "2.104 ms" */
    DOCUMENT_MS,
    DOCUMENT_US,
    DOCUMENT_NS,
    DOCUMENT_NS_AS_MS, /* given in ns, written without the unit, which the title has: "2.104" */
    DOCUMENT_PERCENT,  /* "1.2 %", "12 %" */
    DOCUMENT_FINE,     /* percent of 3 digits: "0.00617 %" */
    DOCUMENT_CHANGE,   /* percent with its sign: "+1.2 %" */
    DOCUMENT_SHARE,    /* of 1: "62 %"; nothing where it is unknown */
};

enum document_tone { DOCUMENT_PLAIN, DOCUMENT_GOOD, DOCUMENT_CLOSE, DOCUMENT_OPEN, DOCUMENT_BAD };

/* ---- tables -------------------------------------------------------------------------------- */

struct document_table;

struct document_column {
    const char *title;
    enum document_kind kind;
    const char *key; /* of JSON rows; NULL = not in them */
    int series;      /* its colour is that of a chart's line, from 1; 0 = none */
    bool under;      /* a page has it below the value of the column before */
    const char
        *picture; /* of what its cells are of: a page draws it before the value; NULL = none */
    /* Of DOCUMENT_ROWS: the member, or what adds the one cell. */
    size_t at;
    bool is_text;
    void (*fill)(struct document_table *t, const void *record);
};

/* A member that is a double or a text. */
#define DOCUMENT_COLUMN(T, m, title_, kind_, ...)                                              \
    {                                                                                          \
        .title = title_, .kind = kind_, .key = #m, .at = offsetof(T, m),                     \
        .is_text = _Generic(((T *)0)->m, double : false, const char * : true), __VA_ARGS__ \
    }
/* What a function makes of the record. */
#define DOCUMENT_FILLED(fill_, title_, kind_)         \
    {                                                 \
        .title = title_, .kind = kind_, .fill = fill_ \
    }

enum { DOCUMENT_FOLDED = 2 };

struct document_cell {
    double number;
    const char *words;                   /* written instead of the number, unless NULL */
    const char *remark;                  /* small print behind it; NULL = none */
    const char *folded[DOCUMENT_FOLDED]; /* lines that a page unfolds and others leave out */
    enum document_tone tone;
    const void *of; /* for the column's picture; NULL = none */
};

struct document_row {
    const char *group, *group_remark; /* a heading of the rows below it: no cells; NULL = none */
    bool detail;                      /* of the row above */
    struct document_row *next;
    struct document_cell cells[]; /* one for each column */
};

struct document_table {
    struct arena *a;
    const struct document_column *columns;
    size_t n, n_rows;
    const char *group_title; /* of the column that text and Markdown have for groups; NULL = none */
    struct document_row *first, *last;
    size_t filled; /* cells of the last row */
};

/* A table that stands by itself; columns live as long as it. */
struct document_table *document_table_new(struct arena *a, const struct document_column *columns,
                                          size_t n);
/* Rows from an array of records, by the columns' members. */
#define DOCUMENT_ROWS(t, records, n) document_rows(t, records, n, sizeof *(records))
void document_rows(struct document_table *t, const void *records, size_t n, size_t size);

/* The same by hand: a row, then its cells in the order of the columns. The cell that is returned
 * takes a remark or a tone: document_words(t, "%s", step)->remark = tool; */
struct document_row *document_row(struct document_table *t);
struct document_cell *document_words(struct document_table *t, const char *fmt, ...)
    PRINTF_LIKE(2, 3);
struct document_cell *document_number(struct document_table *t, double v);
/* A heading for the rows that follow. Text and Markdown repeat it in a first column of that title;
 * remark may be NULL. */
void document_group(struct document_table *t, const char *column, const char *title,
                    const char *remark);

struct table *document_plain(const struct document_table *t); /* for table_text, table_markdown */
/* A list of maps, by key; no words are null. */
struct node *document_json(const struct document_table *t);

/* "12.3 ms"; the cell's words or its number. */
const char *document_value(struct arena *a, enum document_kind kind, double v);
const char *document_cell_text(const struct document_table *t, const struct document_row *row,
                               size_t column);

/* ---- documents ----------------------------------------------------------------------------- */

struct document_item {
    const char *title;  /* NULL = none */
    const char *text;   /* its value, formatted */
    const char *remark; /* NULL = none */
    struct document_item *next;
};

enum document_block_kind {
    DOCUMENT_PARAGRAPH,
    DOCUMENT_REMARK, /* small print */
    DOCUMENT_FACTS,
    DOCUMENT_NOTES,
    DOCUMENT_FINDINGS, /* numbered */
    DOCUMENT_TABLE,
    DOCUMENT_FIGURE /* only pages have it, and the section that has nothing else */
};

struct document_block {
    enum document_block_kind kind;
    const char *text;                /* of a paragraph or remark; a figure's name */
    struct document_item *items;     /* of facts, notes, findings */
    const struct document_table *of; /* of a table */
    struct document_block *next;
};

struct document_section {
    const char *title;
    struct document_block *blocks;
    struct document_section *next;
};

struct document {
    struct arena *a;
    const char *title, *headline;      /* "Comparison of runs", "B is slower than A" */
    enum document_tone tone;           /* of the headline */
    struct document_item *tiles;       /* the few figures to know first */
    struct document_section *sections; /* those without blocks are not written */
};

/* headline may be NULL. */
struct document *document_new(struct arena *a, const char *title, const char *headline);
void document_tile(struct document *d, const char *title, const char *text, const char *remark);

/* What follows goes into the last section. */
void document_section(struct document *d, const char *title);
void document_paragraph(struct document *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
void document_remark(struct document *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Facts, notes and findings in a row become one table or list. */
void document_fact(struct document *d, const char *title, const char *text); /* NULL: none */
void document_fact_of(struct document *d, const char *title, enum document_kind kind,
                      double v); /* NAN: none */
void document_note(struct document *d, const char *text);
void document_finding(struct document *d, const char *title, const char *remark, const char *text);
struct document_table *document_table(struct document *d, const struct document_column *columns,
                                      size_t n);
void document_add(struct document *d, const struct document_table *t);
/* A place for a picture that the page draws, by its name. */
void document_figure(struct document *d, const char *name);

void document_text(struct buf *out, const struct document *d);
void document_markdown(struct buf *out, const struct document *d);

#endif
