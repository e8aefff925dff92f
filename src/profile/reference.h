/* Reference passes: a few fixed forward passes, timed beside a profile and beside a real run. Where
 * their times differ, the machine's speed changed (a neighbour on the host, a lower clock), which a
 * comparison of the two could not distinguish from a wrong prediction.
 *
 * Points: a decode of one sequence after 128 tokens, of eight after 256, a prompt of 128 tokens, as
 * far as the limits allow. On a 2-core VM they agreed within 2 % while it was left alone; there
 * were whole minutes in which everything took 12 % longer, without any process to explain it. */
#ifndef PROFILE_REFERENCE_H
#define PROFILE_REFERENCE_H

#include "base/vec.h"
#include "profile/drive.h"
#include "profile/read/reference_ratio.h"
#include "text/node.h"

enum { REFERENCE_POINTS = 3 };

struct reference {
    struct drive *drive; /* NULL: the executor gives no operator times, nothing is measured */
    bool fits[REFERENCE_POINTS];
    VEC(double) pass_s[REFERENCE_POINTS];
    double spent_s; /* machine time of all passes so far */
};

/* l: limits of the executor; a sequence may hold max_kv tokens. */
void reference_open(struct arena *a, struct executor ex, const struct grid_limits *l, int64_t vocab,
                    struct reference *out);
void reference_free(struct reference *y);
/* Binds the executor's slots (drive.h). `samples` passes of each point, fewer where they take more
 * than half a second. */
enum st reference_measure(struct reference *y, int samples, struct err *e);

/* {"decode_1x128": {median_s, n, spread_s}, ...}; spread: interquartile range. NULL: nothing
 * measured. */
struct node *reference_node(struct arena *a, const struct reference *y);
#endif
