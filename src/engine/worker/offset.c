#include "engine/worker/offset.h"

void clock_offset_add(struct clock_offset *o, int64_t t0_ns, int64_t recv_ns, int64_t send_ns,
                      int64_t t3_ns)
{
    int64_t low = send_ns - t3_ns, high = recv_ns - t0_ns;
    int64_t round_trip = (t3_ns - t0_ns) - (send_ns - recv_ns);
    if (o->rounds == 0 || low > o->low_ns)
        o->low_ns = low;
    if (o->rounds == 0 || high < o->high_ns)
        o->high_ns = high;
    if (o->rounds == 0 || round_trip < o->best_round_trip_ns)
        o->best_round_trip_ns = round_trip;
    o->rounds++;
}

int64_t clock_offset_ns(const struct clock_offset *o)
{
    return o->low_ns + (o->high_ns - o->low_ns) / 2;
}

int64_t clock_uncertainty_ns(const struct clock_offset *o)
{
    int64_t width = o->high_ns - o->low_ns;
    return ((width < 0 ? -width : width) + 1) / 2;
}

bool clock_offset_contains(const struct clock_offset *o, int64_t offset_ns)
{
    return o->rounds > 0 && o->low_ns <= offset_ns && offset_ns <= o->high_ns;
}

int64_t clock_offset_drift_ns(const struct clock_offset *before, const struct clock_offset *after)
{
    if (before->rounds == 0 || after->rounds == 0)
        return 0;
    if (after->low_ns > before->high_ns)
        return after->low_ns - before->high_ns;
    if (after->high_ns < before->low_ns)
        return after->high_ns - before->low_ns;
    return 0;
}

struct node *clock_offset_node(struct arena *a, const struct clock_offset *o)
{
    if (o->rounds == 0)
        return node_new(a, NODE_NULL);
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("offset_ns"), node_int(a, clock_offset_ns(o)));
    node_set(a, m, SV("uncertainty_ns"), node_int(a, clock_uncertainty_ns(o)));
    node_set(a, m, SV("low_ns"), node_int(a, o->low_ns));
    node_set(a, m, SV("high_ns"), node_int(a, o->high_ns));
    node_set(a, m, SV("rounds"), node_int(a, o->rounds));
    node_set(a, m, SV("best_round_trip_ns"), node_int(a, o->best_round_trip_ns));
    return m;
}
