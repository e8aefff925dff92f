/* Converts CUPTI's activity records to the spool's: one row a kind, with its condition.
 *
 * The writer's thread only. Times come out on CLOCK_MONOTONIC; where CUPTI keeps its own clock they
 * are shifted by the last two pairs of inject_decode_clock. Records without times, and buffers that
 * cannot be parsed, are counted. */
#ifndef INJECT_DECODE_H
#define INJECT_DECODE_H

#include "gpu/abi/cupti.h"
#include "inject/settings.h"

struct activity {
    CUpti_ActivityKind kind;
    void (*decode)(const void *record);
    /* For cupti.c: whether to enable the kind, and its name in notes. NULL: it comes with another
     * one, or is enabled separately (graphs). */
    bool (*wanted)(const struct settings *s);
    const char *name;
};
extern const struct activity inject_activities[]; /* ends with kind CUPTI_ACTIVITY_KIND_INVALID */

bool inject_decode_open(void); /* false = no memory */
void inject_decode_buffer(uint8_t *buffer, size_t valid);

/* Adds host clocks of the same moment. */
void inject_decode_host_clocks(int64_t mono_ns, int64_t wall_ns);
/* Adds a pair, when CUPTI keeps its own clock. */
void inject_decode_clock(int64_t mono_ns, int64_t cupti_ns);

/* Counted since the last call: buffers with records of an unknown layout, records without times. */
uint64_t inject_decode_take_unknown(void);
uint64_t inject_decode_take_no_times(void);

#endif
