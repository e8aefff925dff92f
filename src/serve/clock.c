#include "serve/clock.h"

#include "base/clock.h"

struct serve_clock clock_real(void)
{
    return (struct serve_clock){.mono0_ns = clock_mono_ns()};
}

struct serve_clock clock_virtual(void)
{
    return (struct serve_clock){.is_virtual = true};
}

double clock_now_s(const struct serve_clock *c)
{
    return c->is_virtual || c->scripted ? c->now_s : ns_to_s(clock_mono_ns() - c->mono0_ns);
}

void clock_restart(struct serve_clock *c)
{
    c->mono0_ns = clock_mono_ns();
    c->now_s = 0;
}

void clock_advance_s(struct serve_clock *c, double t)
{
    if (c->is_virtual || c->scripted) {
        if (t > c->now_s)
            c->now_s = t;
    } else if (c->spin) {
        while (clock_now_s(c) < t)
            ;
    } else {
        clock_sleep_until_ns(c->mono0_ns + ns_from_s(t));
    }
}
