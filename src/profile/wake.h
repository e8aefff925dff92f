/* Idle ramp-up: the first iterations after a pause take longer (cold caches and page tables, lower
 * clocks). Measured through the serving loop: a short request after a pause is compared with the
 * same request right after another one. */
#ifndef PROFILE_WAKE_H
#define PROFILE_WAKE_H

#include <signal.h>

#include "base/vec.h"
#include "profile/journal.h"
#include "profile/profile.h"
#include "profile/read/meta.h"

enum { WAKE_ITERATIONS = 4, WAKE_LEVELS = 3 }; /* a prompt and three decodes; number of pauses */
extern const double wake_pauses_s[WAKE_LEVELS];

/* One pair: extra time of iteration k after the pause. May be negative. */
struct wake_sample {
    int level;
    double pause_s; /* actual length */
    double device_s[WAKE_ITERATIONS], host_s[WAKE_ITERATIONS];
};

struct wake {
    VEC(struct wake_sample) samples;
};

/* One round: a pair at each level. */
enum st wake_measure(const struct profile_params *p, struct executor ex,
                     const volatile sig_atomic_t *stop, struct wake *out, struct err *e);
/* Sum of a round's pauses. */
double wake_round_s(void);

/* Writes the samples from number `from` on to the journal; wake_load reads all of it. */
enum st wake_keep(const struct wake *w, size_t from, struct journal *j, struct err *e);
void wake_load(const struct journal *j, struct wake *out);

/* What the bundle says of it (profile/read/meta.h): medians, never below 0. Pauses ascend: a level
 * whose pause became no longer than that of the level before it, because the machine stood still in
 * that one, is left out. False without samples. */
bool wake_said(struct arena *a, const struct wake *w, struct bundle_wake *out);

#endif
