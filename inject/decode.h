/* Activity records of CUPTI turned into the spool's: one row a kind, with what switches it on.
 *
 * The writer's thread only. Times come out on CLOCK_MONOTONIC; where CUPTI keeps a clock of its own
 * they are shifted by the last two pairs that inject_decode_clock was told. Records without times,
 * and buffers that cannot be read on, are counted. */
#ifndef INJECT_DECODE_H
#define INJECT_DECODE_H

#include "gpu/abi/cupti.h"
#include "inject/settings.h"

struct activity {
    CUpti_ActivityKind kind;
    void (*decode)(const void *record);
    /* For cupti.c: whether the kind is to be enabled, and what a note calls it. NULL: it comes with
     * another one, or is switched on by itself (graphs). */
    bool (*wanted)(const struct settings *s);
    const char *name;
};
extern const struct activity inject_activities[]; /* ends with kind CUPTI_ACTIVITY_KIND_INVALID */

bool inject_decode_open(void); /* false = no memory */
void inject_decode_buffer(uint8_t *buffer, size_t valid);

/* Host clocks of the same moment. */
void inject_decode_host_clocks(int64_t mono_ns, int64_t wall_ns);
/* A pair, when CUPTI keeps a clock of its own. */
void inject_decode_clock(int64_t mono_ns, int64_t cupti_ns);

/* Counted since the last call: buffers with records of an unknown layout, records without times. */
uint64_t inject_decode_take_unknown(void);
uint64_t inject_decode_take_no_times(void);

#endif
