/* The columns of a run's CSV files as data: one row per column, in the order in which they are
 * written. Writer, reader and docs/formats.md (tests/unit/artifact/columns_test.c) follow these
 * tables. */
#ifndef ARTIFACT_COLUMNS_H
#define ARTIFACT_COLUMNS_H

#include "artifact/run.h"

enum run_file { RUN_REQUESTS, RUN_TOKENS, RUN_BATCHES, RUN_FILES };

enum run_cell {
    CELL_INT,    /* int64_t >= 0; RUN_NONE = empty */
    CELL_COUNT,  /* int64_t in 0 .. INT32_MAX, so that sums over a run fit */
    CELL_INT32,  /* int32_t >= 0 */
    CELL_TEXT,   /* const char *; NULL = empty */
    CELL_STATUS, /* enum run_status */
    CELL_FLAG,   /* bool, 0 or 1 */
    CELL_DOUBLE, /* double > 0; 0 = empty */
    CELL_SPAN,   /* int64_t at offset minus int64_t at minus; empty when one is missing */
};

enum run_need {
    NEED_VALUE,    /* the column must be there and no cell may be empty */
    NEED_COLUMN,   /* the column must be there, a cell may be empty = missing */
    NEED_OURS,     /* we always write it; foreign files may lack the column */
    NEED_OPTIONAL, /* as NEED_OURS, and outside the contract's required set */
};

struct run_column {
    const char *name;
    enum run_cell cell;
    enum run_need need;
    size_t offset;    /* of the member in struct run_request, run_token or run_batch */
    size_t minus;     /* CELL_SPAN: offset of the member subtracted */
    const char *help; /* one line for docs/formats.md */
};

struct run_table {
    const char *file; /* "request_metrics.csv" */
    size_t row_bytes; /* sizeof the struct */
    const struct run_column *columns;
    size_t n;
};

enum { RUN_MAX_COLUMNS = 24 };
extern const struct run_table run_tables[RUN_FILES];

#endif
