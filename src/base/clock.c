#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void clock_sleep_until_ns(int64_t mono_ns)
{
    struct timespec t = {.tv_sec = mono_ns / NS_PER_S, .tv_nsec = mono_ns % NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

void clock_iso8601(int64_t wall_ns, char out[CLOCK_ISO_MAX])
{
    int64_t part_ns = (wall_ns % NS_PER_S + NS_PER_S) % NS_PER_S;
    time_t s = (time_t)((wall_ns - part_ns) / NS_PER_S);
    struct tm tm;
    gmtime_r(&s, &tm);
    char day[24];
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_ISO_MAX, "%.19s.%03dZ", day, (int)(part_ns / NS_PER_MS));
}

int64_t ns_from_s(double s)
{
    return llround(s * 1e9);
}
