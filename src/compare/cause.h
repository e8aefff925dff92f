/* Causes of an inconclusive comparison: one list with stable ids, for compare.json (`cause`,
 * `causes`), the last line of the terminal and the headline of the page.
 *
 * Some causes hold for a run as a whole and leave every judged cell inconclusive; the others excuse
 * a miss, cell by cell. Several may hold at once. Their order by weight: most cells first, then the
 * largest error among them, then the order below. */
#ifndef COMPARE_CAUSE_H
#define COMPARE_CAUSE_H

#include "text/fields.h"

/* Order breaks ties between equal weights. */
enum compare_cause {
    /* Causes of the runs as a whole. */
    CAUSE_CLIENT_LATE,      /* bench rejected a run: its client sent too late */
    CAUSE_WORKLOADS_DIFFER, /* other arrivals or prompt lengths */
    CAUSE_MODELS_DIFFER,    /* the simulation is of another model */
    CAUSE_HARDWARE_DIFFERS, /* profiled on another machine than the real run's */
    /* Causes of a cell that misses. */
    CAUSE_MACHINE_CHANGED,  /* slower or faster than when it was profiled */
    CAUSE_WAITED_FOR_CORES, /* real run or profile shared its cores */
    CAUSE_STATED_ERROR,     /* inside the simulation's own interval */
    CAUSE_SPREAD,           /* the real runs differ among themselves by more than the miss */
    CAUSE_INTERVAL, /* of a gate: too few requests to place the cell on one side of the limit */
    CAUSES
};

/* "client_late", "workloads_differ", "models_differ", "hardware_differs", "machine_changed",
 * "waited_for_cores", "stated_error", "spread", "interval". */
const char *cause_id(enum compare_cause c);
/* The remedy: a clause for "next: ...". */
const char *cause_remedy(enum compare_cause c);
bool cause_is_of_run(enum compare_cause c);

/* A cause that holds. */
struct compare_reason {
    enum compare_cause cause;
    const char *clause;   /* for headlines and cells: "the machine itself had become 12 % slower" */
    const char *text;     /* the same with all its figures; a clause without a full stop */
    struct node *figures; /* map: docs/comparison.md */
    size_t n_cells;       /* judged cells that it leaves inconclusive */
    double largest_error_percent; /* among them, in size */
};

#endif
