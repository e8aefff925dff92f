/* Time. Nothing else in twinfer calls clock_gettime. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

int64_t clock_mono_ns(void); /* CLOCK_MONOTONIC */
int64_t clock_wall_ns(void); /* CLOCK_REALTIME since 1970, for records only */
int64_t clock_cpu_ns(void);  /* CPU time of this process, all threads */

/* Sleep until the monotonic time; returns early when a signal arrives. */
void clock_sleep_until_ns(int64_t mono_ns);

enum { CLOCK_ISO_MAX = 32 };
/* "2026-11-21T16:30:05.123Z" */
void clock_iso8601(int64_t wall_ns, char out[CLOCK_ISO_MAX]);

static inline double ns_to_s(int64_t ns)
{
    return (double)ns / 1e9;
}
/* Seconds to the nearest nanosecond, halves away from zero. |s| below 9.2e9. */
int64_t ns_from_s(double s);

#endif
