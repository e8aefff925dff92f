/* What the server of a run counted itself. */
#include <math.h>

#include "metrics/server_metrics.h"
#include "report/page.h"

static void number_cell(struct page_table *t, double v, bool seconds)
{
    if (seconds)
        page_cell_duration(t, v);
    else
        page_cell_count(t, isnan(v) ? v : round(v));
}

/* "20 ms to 40 ms" */
static void bracket_cell(struct arena *a, struct page_table *t, double low, double high,
                         bool seconds)
{
    char from[WORDS_MAX], to[WORDS_MAX];
    if (isnan(low) && isnan(high)) {
        page_cell(t, "n/a");
        return;
    }
    if (seconds) {
        words_duration(from, low);
        words_duration(to, high);
    } else {
        page_count(from, low);
        page_count(to, high);
    }
    if (!isfinite(high))
        page_cell(t, arena_printf(a, "above %s", from));
    else
        page_cell(t, isfinite(low) ? arena_printf(a, "%s to %s", from, to)
                                   : arena_printf(a, "up to %s", to));
}

static void histograms(struct arena *a, struct buf *out, const struct server_metrics *m)
{
    static const struct page_column columns[] = {
        {.head = ""},          {.head = "observations"}, {.head = "mean"},
        {.head = "P50 is in"}, {.head = "P90 is in"},    {.head = "metric", .look = PAGE_WORDS}};
    struct page_table t;
    PAGE_TABLE(&t, out, columns);
    for (unsigned i = 0; i < SERVER_STATS; i++) {
        const struct server_stat *s = &m->of[i];
        const bool seconds = *server_stat_unit(i) == 's';
        if (!s->metric)
            continue;
        page_row(&t);
        page_cell(&t, server_stat_label(i));
        page_cell_count(&t, s->count);
        number_cell(&t, s->mean, seconds);
        bracket_cell(a, &t, s->p50_low, s->p50_high, seconds);
        bracket_cell(a, &t, s->p90_low, s->p90_high, seconds);
        page_cell(&t, s->metric);
    }
    page_table_end(&t);
}

static void first_tokens(struct arena *a, struct buf *out, const struct server_metrics *m)
{
    struct first_token_split s;
    const char *why;
    char value[WORDS_MAX];
    if (!first_token_split(a, m, &s, &why)) {
        page_tag(out, "p", "small", "First tokens are not split: %s.", why);
        return;
    }
    const struct {
        const char *label, *note;
        double v;
    } parts[] = {
        {"Queue", "in the engine, until it is scheduled", s.queue_s},
        {"Prefill", "in the engine, until its first token", s.prefill_s},
        {"Server's front", "the rest of the server's own TTFT", s.front_s},
        {"Outside the server", "client, wire, HTTP", s.outside_s},
    };
    page_tag(out, "p", NULL, "First tokens: %s from the send, mean of %lld requests.",
             words_duration(value, s.client_s), (long long)s.requests);
    buf_puts(out, "<dl class=\"tiles\">\n");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        page_tile(out, parts[i].label, words_duration(value, parts[i].v), parts[i].note);
    buf_puts(out, "</dl>\n");
}

static void cache(struct buf *out, const struct server_metrics *m)
{
    const double looked = m->counters[SERVER_CACHE_QUERIES].value;
    const double found = m->counters[SERVER_CACHE_HITS].value;
    const double preempted = m->counters[SERVER_PREEMPTIONS].value;
    char text[WORDS_MAX];
    if (looked > 0 && isfinite(found))
        page_tag(out, "p", NULL, "Prefix cache: %s of the prompts' tokens were found.",
                 words_percent(text, 100 * found / looked));
    if (preempted > 0)
        page_tag(out, "p", NULL, "Preemptions: %s.", page_count(text, preempted));
}

void page_server_metrics(struct arena *a, struct buf *out, const struct server_metrics *m)
{
    if (!m)
        return;
    page_section(out, "The server's own metrics");
    if (!m->alone)
        page_tag(out, "p", NULL, "They are not of this run alone%s%s.", m->why ? ": " : "",
                 m->why ? m->why : "");
    first_tokens(a, out, m);
    histograms(a, out, m);
    cache(out, m);
    page_tag(out, "p", "small",
             "A histogram knows of a quantile only the bucket it is in; means are exact.");
    buf_puts(out, "</section>\n");
}
