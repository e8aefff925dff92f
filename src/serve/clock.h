/* The loop's clock: real (monotonic), virtual (jumps), or scripted: for tests of what runs on the
 * real one, as the virtual one, and the executor may move now_s on. Seconds from the start. */
#ifndef SERVE_CLOCK_H
#define SERVE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct serve_clock {
    bool is_virtual;
    bool spin;        /* real: busy-wait instead of sleeping (a core ramps up slowly after sleep) */
    int64_t mono0_ns; /* real: monotonic time of second 0 */
    double now_s;     /* virtual, scripted */
    bool scripted;
};

struct serve_clock clock_real(void); /* second 0 = now, until serve_run resets it */
struct serve_clock clock_virtual(void);
void clock_restart(struct serve_clock *c); /* second 0 = now */
double clock_now_s(const struct serve_clock *c);
/* Virtual: jump to t (never back). Real: wait until t or a signal. */
void clock_advance_s(struct serve_clock *c, double t);

#endif
