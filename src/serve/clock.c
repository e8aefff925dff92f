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
    return c->is_virtual ? c->now_s : ns_to_s(clock_mono_ns() - c->mono0_ns);
}

void clock_advance_s(struct serve_clock *c, double t)
{
    if (!c->is_virtual)
        clock_sleep_until_ns(c->mono0_ns + ns_from_s(t));
    else if (t > c->now_s)
        c->now_s = t;
}
