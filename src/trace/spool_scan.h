/* Summary of a spool from its block headers: counts and how it ended. For listings; accepts any
 * file, since everything is checked. */
#ifndef TRACE_SPOOL_SCAN_H
#define TRACE_SPOOL_SCAN_H

#include "base/arena.h"
#include "base/fs.h"
#include "trace/spool.h"

struct spool_facts {
    struct spool_header header;
    const char *command; /* "" = unknown */
    int32_t rank;        /* -1 = none */
    uint64_t counts[SPOOL_KINDS];
    uint64_t dropped;                   /* by all SPOOL_DROPS */
    uint64_t dropped_by[SPOOL_SOURCES]; /* per source; [0] = unknown sources */
    uint64_t bytes;                     /* of the file */
    uint64_t whole_bytes;               /* of the header and valid blocks */
    uint64_t skipped_blocks;            /* damaged, with valid ones behind them */
    uint64_t skipped_bytes;             /* of skipped blocks */
    uint64_t cut_bytes;                 /* behind the last valid block */
    bool ended;                         /* the recorder closed the file itself */
    struct spool_cost cost;             /* the last; at_ns 0 = none was written */
    const char **notes;                 /* [n_notes] warnings and errors */
    size_t n_notes;
};

/* ST_INPUT when it is no spool: "PATH: not a spool: ...". */
enum st trace_spool_scan(struct arena *a, const char *path, struct spool_facts *out, struct err *e);

/* ", 12 ms before its last sign of life", for behind "last flush", or "" where the header does not
 * say. Returns out. */
enum { SPOOL_SINCE_TEXT = 64 };
const char *trace_spool_since_flush(const struct spool_header *h, char out[SPOOL_SINCE_TEXT]);

/* Offset of the next certainly valid block behind damage at `from` (header, checksum, and a number
 * that fits: `sequence` was expected at `from`). m->n = none. */
uint64_t trace_spool_find(const struct fs_map *m, uint64_t from, uint32_t sequence);

#endif
