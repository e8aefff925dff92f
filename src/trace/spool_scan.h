/* A spool at a glance: what it holds and how it ended, from its block headers. For listings;
 * everything is checked, so any file may be given. */
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
    uint64_t dropped_by[SPOOL_SOURCES]; /* of it; [0] = sources that this version does not know */
    uint64_t bytes;                     /* of the file */
    uint64_t whole_bytes;               /* of it: the header and blocks that are whole */
    uint64_t skipped_blocks;            /* damaged, with whole ones behind them */
    uint64_t skipped_bytes, cut_bytes;  /* of those; behind the last whole block */
    bool ended;                         /* the recorder closed the file itself */
    struct spool_cost cost;             /* the last; at_ns 0 = none was written */
    const char **notes;                 /* [n_notes] warnings and errors */
    size_t n_notes;
};

/* ST_INPUT when it is no spool: "PATH: not a spool: ...". */
enum st trace_spool_scan(struct arena *a, const char *path, struct spool_facts *out, struct err *e);

/* Where reading goes on behind damage at `from`: the next block that is whole beyond doubt (header,
 * checksum, and a number that fits: `sequence` was expected at `from`). m->n = there is none. */
uint64_t trace_spool_find(const struct fs_map *m, uint64_t from, uint32_t sequence);

#endif
