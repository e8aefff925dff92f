/* What a thread is ordered behind: of the threads of its block, up to which epoch; of other blocks,
 * which handovers it has seen. A clock belongs to all that point to it, and is copied before it
 * changes. NULL: behind nothing. */
#ifndef SUPPORT_GPU_EMULATOR_CLOCKS_H
#define SUPPORT_GPU_EMULATOR_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct clock {
    int owners;
    unsigned words;      /* of handovers */
    uint64_t *handovers; /* bits, by number; NULL: none */
    uint32_t epochs[];
};

/* Clocks of blocks of so many threads, until the next call. */
void clocks_begin(unsigned threads);
struct clock *clock_share(struct clock *c);
void clock_drop(struct clock **c);
/* One that may be changed. */
struct clock *clock_own(struct clock **c);
void clock_join(struct clock **into, struct clock *from);
/* The handover, with all that it was itself behind: `of`. */
void clock_saw(struct clock **into, unsigned handover, const struct clock *of);
bool clock_has_seen(const struct clock *c, unsigned handover);
unsigned clock_handovers_end(const struct clock *c);

#endif
