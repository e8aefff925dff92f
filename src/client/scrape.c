#include "client/scrape.h"

#include <math.h>

#include "base/clock.h"

static enum st fetch(const struct scrape *s, struct arena *a, struct prom_snapshot *out,
                     struct err *e)
{
    struct sv text;
    long status;
    TRY(client_get(a, s->client, s->url, &text, &status, e));
    return prom_parse(a, s->url, text, out, e);
}

static bool is_stopped(const struct scrape *s)
{
    return s->stop && *s->stop;
}

static void sleep_pause(void)
{
    clock_sleep_until_ns(clock_mono_ns() + SCRAPE_PAUSE_MS * NS_PER_MS);
}

/* A snapshot with its count of ended requests. */
static enum st fetch_ended(const struct scrape *s, struct arena *a, struct prom_snapshot *out,
                           double *ended, struct err *e)
{
    TRY(fetch(s, a, out, e));
    return server_metrics_ended(a, out, ended, e);
}

/* The count alone: a snapshot of a large server is some MB, and a hundred may be asked for. */
static enum st count_ended(const struct scrape *s, double *ended, struct err *e)
{
    struct arena *scratch = arena_new();
    struct prom_snapshot ignored;
    const enum st st = fetch_ended(s, scratch, &ignored, ended, e);
    arena_free(&scratch);
    return st;
}

/* A count that is unknown repeats at once. */
static bool same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

static enum st fetch_settled(struct scrape *s, struct err *e)
{
    const int64_t until = clock_mono_ns() + SCRAPE_WAIT_S * NS_PER_S;
    double last, now;
    TRY(count_ended(s, &now, e));
    do {
        last = now;
        sleep_pause();
        TRY(count_ended(s, &now, e));
    } while (!same(last, now) && clock_mono_ns() < until && !is_stopped(s));
    return fetch_ended(s, s->a, &s->before, &s->ended, e);
}

/* What went wrong becomes words; of metrics that do not fit together, with what that means. */
static void give_up(struct scrape *s, struct err *e)
{
    const char *hint = e->st == ST_REJECTED ? err_hint_text(e) : NULL;
    s->on = false;
    s->why = arena_printf(s->a, "%s%s%s%s", err_cause(e, 0), hint ? " (" : "", hint ? hint : "",
                          hint ? ")" : "");
    err_clear(e);
}

enum st scrape_begin(struct scrape *s, struct err *e)
{
    s->on = false;
    s->why = "they were not asked for";
    if (!s->url || s->mode == SCRAPE_NONE)
        return ST_OK;
    s->why = NULL;
    const enum st st = fetch_settled(s, e);
    s->on = st == ST_OK;
    if (st != ST_OK && s->mode == SCRAPE_REQUIRED)
        return err_add(e, "client.server_metrics=required: the server's metrics are missing");
    if (st != ST_OK)
        give_up(s, e);
    return ST_OK;
}

static enum st fetch_caught_up(const struct scrape *s, const struct client_side *sent,
                               struct prom_snapshot *after, double *waited_s, struct err *e)
{
    const int64_t begin = clock_mono_ns(), until = begin + SCRAPE_WAIT_S * NS_PER_S;
    double ended;
    TRY(count_ended(s, &ended, e));
    while (ended >= s->ended && ended < s->ended + (double)sent->requests &&
           clock_mono_ns() < until && !is_stopped(s)) {
        sleep_pause();
        TRY(count_ended(s, &ended, e));
    }
    *waited_s = ns_to_s(clock_mono_ns() - begin);
    return fetch(s, s->a, after, e);
}

void scrape_end(struct scrape *s, const struct client_side *sent, struct server_metrics *out)
{
    struct prom_snapshot after;
    struct err e = {0};
    if (!s->on)
        return;
    *out = (struct server_metrics){.url = s->url, .client = *sent};
    if (fetch_caught_up(s, sent, &after, &out->waited_s, &e) != ST_OK ||
        server_metrics_make(s->a, &s->before, &after, out, &e) != ST_OK)
        give_up(s, &e);
}

struct client_side scrape_client_side(const struct client_result *results, size_t n)
{
    struct client_side c = {.ttft_s = 0};
    for (size_t i = 0; i < n; i++) {
        const struct client_result *r = &results[i];
        if (r->status != RUN_OK)
            continue;
        c.requests++;
        c.ttft_s += r->chunks.n ? ns_to_s(r->chunks.p[0].time_ns - r->sent_ns) : (double)NAN;
        c.e2e_s += ns_to_s(r->end_ns - r->sent_ns);
    }
    c.ttft_s = c.requests ? c.ttft_s / (double)c.requests : (double)NAN;
    c.e2e_s = c.requests ? c.e2e_s / (double)c.requests : (double)NAN;
    return c;
}
