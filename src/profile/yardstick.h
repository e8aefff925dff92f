/* How fast is the machine right now? A few forward passes that never change, timed beside a profile
 * and beside a real run: where their times differ, the machine changed (a neighbour on the host, a
 * lower clock), and a comparison of the two cannot tell that from a wrong prediction.
 *
 * Points: a decode of one sequence after 128 tokens, of eight after 256, a prompt of 128 tokens, as
 * far as the limits allow. On a 2-core VM they agreed within 2 % while it was left alone; whole
 * minutes in which everything took 12 % longer came and went without any process to blame. */
#ifndef PROFILE_YARDSTICK_H
#define PROFILE_YARDSTICK_H

#include "base/vec.h"
#include "profile/drive.h"
#include "profile/read/yardstick_ratio.h"
#include "text/node.h"

enum { YARDSTICK_POINTS = 3 };

struct yardstick {
    struct drive *drive; /* NULL: the executor gives no operator times, nothing is measured */
    bool fits[YARDSTICK_POINTS];
    VEC(double) pass_s[YARDSTICK_POINTS];
    double spent_s; /* machine time of all passes so far */
};

/* l: what the executor takes; a sequence may hold max_kv tokens. */
void yardstick_open(struct arena *a, struct executor ex, const struct grid_limits *l, int64_t vocab,
                    struct yardstick *out);
void yardstick_free(struct yardstick *y);
/* Takes the executor's slots, as drive.h says. `samples` passes of each point, fewer where they
 * take more than half a second. */
enum st yardstick_measure(struct yardstick *y, int samples, struct err *e);

/* {"decode_1x128": {median_s, n, spread_s}, ...}; spread: interquartile range. NULL: nothing
 * measured. */
struct node *yardstick_node(struct arena *a, const struct yardstick *y);
#endif
