#include "metrics/backlog.h"

#include <math.h>

#include "base/clock.h"

enum { FIRST_WIDTH_NS = 1 << 20 };

static void widen(struct backlog *b)
{
    for (int i = 0; i < BACKLOG_BUCKETS; i++) {
        const int from = 2 * i;
        const bool there = from < BACKLOG_BUCKETS;
        b->n[i] = there ? b->n[from] + b->n[from + 1] : 0;
        b->wait_ns[i] = there ? b->wait_ns[from] + b->wait_ns[from + 1] : 0;
    }
    b->width_ns *= 2;
}

void backlog_add(struct backlog *b, const struct run_request *r)
{
    const int64_t until = r->scheduled_ns == RUN_NONE ? r->first_token_ns : r->scheduled_ns;
    if (r->warmup || r->status != RUN_OK || until == RUN_NONE || r->arrival_ns < 0)
        return;
    if (b->width_ns == 0)
        b->width_ns = FIRST_WIDTH_NS;
    while (r->arrival_ns / b->width_ns >= BACKLOG_BUCKETS)
        widen(b);
    const int64_t at = r->arrival_ns / b->width_ns;
    b->n[at]++;
    b->wait_ns[at] += (double)(until - r->arrival_ns);
    b->last_ns = r->arrival_ns > b->last_ns ? r->arrival_ns : b->last_ns;
}

struct backlog_trend backlog_trend(const struct backlog *b)
{
    int64_t n[BACKLOG_QUARTERS] = {0}, all = 0;
    double sum[BACKLOG_QUARTERS] = {0};
    struct backlog_trend t = {.waiting = (double)NAN};
    int first = 0;
    while (first < BACKLOG_BUCKETS && b->n[first] == 0)
        first++;
    const int last = b->width_ns ? (int)(b->last_ns / b->width_ns) : -1;
    const int buckets = last - first + 1;
    for (int i = first; i <= last; i++) {
        const int q = (i - first) * BACKLOG_QUARTERS / buckets;
        n[q] += b->n[i];
        all += b->n[i];
        sum[q] += b->wait_ns[i];
    }
    for (int q = 0; q < BACKLOG_QUARTERS; q++)
        t.wait_s[q] = n[q] > 0 ? sum[q] / (double)n[q] / 1e9 : (double)NAN;
    if (buckets < BACKLOG_QUARTERS)
        return t;
    const int begin = first + (3 * buckets + BACKLOG_QUARTERS - 1) / BACKLOG_QUARTERS;
    const double last_quarter_ns = (double)(b->last_ns - begin * b->width_ns);
    t.waiting = last_quarter_ns > 0 ? sum[3] / last_quarter_ns : (double)NAN;
    t.grew = all >= BACKLOG_LEAST && t.waiting >= sqrt((double)all) && t.wait_s[3] > t.wait_s[2] &&
             t.wait_s[3] > 1.5 * t.wait_s[1];
    return t;
}

const char *backlog_words(struct arena *a, const struct backlog_trend *t)
{
    return arena_printf(
        a,
        "the run is saturated: requests waited %.3g s in the second quarter of the "
        "arrivals and %.3g s in the last, %.3g of them at a time: the load is above "
        "what the system carries, and latencies grow with the number of requests",
        t->wait_s[1], t->wait_s[3], t->waiting);
}
