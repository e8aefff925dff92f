/* Who touched which bytes last, for races.c. */
#ifndef SUPPORT_GPU_EMULATOR_SHADOW_H
#define SUPPORT_GPU_EMULATOR_SHADOW_H

#include "support/gpu_emulator/races.h"

enum {
    SHADOW_EPOCHS = 1 << 15,
    SHADOW_PENDING = SHADOW_EPOCHS - 1, /* a copy that nobody has waited for */
    SHADOW_THREADS = 1 << 25,           /* of a grid */
    SHADOW_PCS = 1 << 22
};

struct shadow_mark {
    unsigned thread; /* of the grid */
    unsigned epoch;
    unsigned kind; /* enum races_kind */
    unsigned pc;   /* from the program's start; 0: not known */
};
struct shadow_conflict {
    struct shadow_mark with;
    const char *shared; /* which shared memory; NULL = other memory */
    size_t at;          /* in it; static: all programs' one behind the other */
};

void shadow_begin(unsigned blocks_at_once, size_t shared_bytes);
void shadow_block(unsigned slot, const void *shared); /* its shared memory was touched by nobody */
/* Marks the bytes. True: the access is not ordered with one before. */
bool shadow_touch(const struct racer *t, unsigned slot, const void *p, size_t bytes,
                  const struct shadow_mark *m, struct shadow_conflict *c);
/* A copy there of m's thread that was under way belongs to m. */
void shadow_settle(unsigned slot, const void *p, size_t bytes, const struct shadow_mark *m);

#endif
