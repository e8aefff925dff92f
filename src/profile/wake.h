/* What an engine pays for having been idle: the first iterations after a pause take longer (caches
 * and page tables went cold, clocks went down). Measured through the serving loop: a short request
 * after a pause is held against the same request right after another one. */
#ifndef PROFILE_WAKE_H
#define PROFILE_WAKE_H

#include <signal.h>

#include "base/vec.h"
#include "profile/journal.h"
#include "profile/profile.h"

enum { WAKE_ITERATIONS = 4, WAKE_LEVELS = 3 }; /* a prompt and three decodes; lengths of pauses */
extern const double wake_pauses_s[WAKE_LEVELS];

/* One pair: how much longer iteration k took after the pause than without it. May be negative. */
struct wake_sample {
    int level;
    double pause_s; /* as it was */
    double device_s[WAKE_ITERATIONS], host_s[WAKE_ITERATIONS];
};

struct wake {
    VEC(struct wake_sample) samples;
};

/* One round: a pair at each level. */
enum st wake_measure(const struct profile_params *p, struct executor ex,
                     const volatile sig_atomic_t *stop, struct wake *out, struct err *e);
/* Seconds that a round waits. */
double wake_round_s(void);

/* The samples from number `from` on into the journal, and all of it back. */
enum st wake_keep(const struct wake *w, size_t from, struct journal *j, struct err *e);
void wake_load(const struct journal *j, struct wake *out);

/* The part "wake" of bundle_meta.json: {pause_s: [..], device_s: [[..] per level], host_s: [[..]],
 * samples, spread_s: [..]}; medians, never below 0; spread: interquartile range of the first
 * iteration. Pauses ascend: a level whose pause became no longer than that of the level before it,
 * because the machine stood still in that one, is left out. NULL without samples. */
struct node *wake_node(struct arena *a, const struct wake *w);

#endif
