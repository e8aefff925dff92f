/* Rows of a trace of which some follow others: sessions are made of them. */
#ifndef WORKLOAD_CHAINS_H
#define WORKLOAD_CHAINS_H

#include "base/vec.h"
#include "text/node.h"
#include "workload/workload.h"

#define CHAIN_NONE SIZE_MAX

/* Ids of pieces that a trace gives none, from here on. */
#define CHAIN_OWN_IDS (INT64_C(1) << 40)

struct chain_row {
    struct workload_request q;
    size_t parent;    /* row of the turn before, which stands before this one; CHAIN_NONE = none */
    int64_t think_ns; /* from the end of that turn */
};
typedef VEC(struct chain_row) chain_vec;

/* The requests, the turns of a session one after the other at the arrival of the first, sessions
 * in order of arrival. Of several rows with one parent the first goes on with its session, and each
 * other one begins one of its own, at its own arrival. */
void chains_order(struct arena *a, const chain_vec *rows, struct workload *out);

/* ---- members of a line ----------------------------------------------------------------------- */

/* A time in units of so many ns: whole ones exactly, others to the nearest nanosecond. */
enum st line_time(const struct node *line, const char *key, int64_t unit_ns, int64_t *ns,
                  struct err *e);
/* Its hash_ids: one for each `block` tokens of the prompt, the last piece possibly shorter. */
enum st line_hash_ids(struct arena *a, const struct node *line, int64_t block,
                      struct workload_request *q, struct err *e);

#endif
