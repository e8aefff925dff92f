/* Charts of a run's load over time, from its time_series.csv. */
#include <math.h>

#include "report/page.h"
#include "text/svg.h"

enum { BINS = 160, WIDTH = 400, HEIGHT = 280, DRAWN_REPLICAS = 8 };

/* Lines of the charts, a point a bin; sums over the replicas. */
enum chart_line {
    WAITING,
    LONGEST, /* queue of a replica */
    RUNNING,
    BATCH,
    KV,
    KV_MOST,
    PREFILL,
    DECODE,
    BUSY,
    POWER,
    LINES
};

struct load_series {
    size_t n; /* bins */
    int64_t replicas;
    double kv_all; /* blocks of all replicas; 0 = unknown: drawn as blocks */
    double bin_s;
    double *t, *of[LINES], *replica[DRAWN_REPLICAS]; /* replica: requests running */
};

static int64_t count_replicas(const struct time_series_row *r, size_t n)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = r[i].replica > most ? r[i].replica : most;
    return most + 1;
}

/* Sums of a bin in units times seconds, or plain counts. */
struct bin_sums {
    double waiting, running, kv, busy, joules, longest, kv_most;
    double iterations, sequences, prefill, decode;
    double replica[DRAWN_REPLICAS];
    bool power;
};

static void add_row(struct bin_sums *s, const struct time_series_row *r)
{
    double width_s = (double)r->duration_ns / 1e9, n = (double)r->iterations;
    s->waiting += r->waiting * width_s;
    s->running += r->running * width_s;
    s->kv += r->kv_blocks * width_s;
    s->busy += r->busy * width_s;
    s->longest = fmax(s->longest, (double)r->waiting_max);
    s->kv_most = fmax(s->kv_most, (double)r->kv_blocks_max);
    s->iterations += n;
    s->sequences += n > 0 ? r->batch_size * n : 0;
    s->prefill += (double)r->prefill_tokens;
    s->decode += (double)r->decode_tokens;
    if (r->replica < DRAWN_REPLICAS)
        s->replica[r->replica] += r->running * width_s;
    if (isfinite(r->power_w)) {
        s->power = true;
        s->joules += r->power_w * width_s;
    }
}

static void put_bin(struct load_series *l, const struct bin_sums *s, double from_s, double to_s)
{
    double span_s = to_s - from_s, each = span_s * (double)l->replicas;
    double kv = l->kv_all > 0 ? 100 / l->kv_all : 1, one = l->kv_all > 0 ? (double)l->replicas : 1;
    const double values[LINES] = {
        [WAITING] = s->waiting / span_s,
        [LONGEST] = s->longest,
        [RUNNING] = s->running / span_s,
        [BATCH] = s->iterations > 0 ? s->sequences / s->iterations : (double)NAN,
        [KV] = kv * s->kv / span_s,
        [KV_MOST] = kv * one * s->kv_most,
        [PREFILL] = s->prefill / span_s,
        [DECODE] = s->decode / span_s,
        [BUSY] = 100 * s->busy / each,
        [POWER] = s->power ? s->joules / span_s : (double)NAN,
    };
    l->t[l->n] = (from_s + to_s) / 2;
    for (int i = 0; i < LINES; i++)
        l->of[i][l->n] = values[i];
    for (int i = 0; i < DRAWN_REPLICAS; i++)
        l->replica[i][l->n] = s->replica[i] / span_s;
    l->n++;
}

/* Whole buckets to a bin, so that means stay exact. */
static struct load_series *bin(struct arena *a, const struct time_series_row *r, size_t n,
                               double blocks_of_one)
{
    struct load_series *l = arena_one(a, struct load_series);
    size_t buckets = 0;
    for (size_t i = 0; i < n; i++)
        buckets += i == 0 || r[i].time_ns != r[i - 1].time_ns;
    size_t per_bin = (buckets + BINS - 1) / BINS, seen = 0, bins = buckets / per_bin + 1;
    l->replicas = count_replicas(r, n);
    l->kv_all = blocks_of_one > 0 ? blocks_of_one * (double)l->replicas : 0;
    l->bin_s = (double)per_bin * (double)r[0].duration_ns / 1e9;
    l->t = arena_array(a, double, bins);
    for (int i = 0; i < LINES; i++)
        l->of[i] = arena_array(a, double, bins);
    for (int i = 0; i < DRAWN_REPLICAS; i++)
        l->replica[i] = arena_array(a, double, bins);
    struct bin_sums s = {0};
    double from_s = (double)r[0].time_ns / 1e9;
    for (size_t i = 0; i < n; i++) {
        add_row(&s, &r[i]);
        bool last_row = i + 1 == n || r[i + 1].time_ns != r[i].time_ns;
        if (!last_row || (++seen % per_bin && i + 1 < n))
            continue;
        double to_s = (double)(r[i].time_ns + r[i].duration_ns) / 1e9;
        put_bin(l, &s, from_s, to_s);
        from_s = to_s;
        s = (struct bin_sums){0};
    }
    return l;
}

/* ---- charts ------------------------------------------------------------------------------- */

/* One chart: up to two lines, the second one dashed; of_many: their names with several replicas. */
static const struct load_chart {
    const char *title, *y_label, *names[2], *of_many[2];
    enum chart_line lines[2];
    int n;
    double y_max; /* 0 = from the data */
} charts[] = {
    {.title = "Requests waiting",
     .y_label = "requests in the queue",
     .names = {"mean", "most"},
     .of_many = {"mean of all together", "longest queue of one"},
     .lines = {WAITING, LONGEST},
     .n = 2},
    {.title = "Requests running",
     .y_label = "requests",
     .names = {"holding KV blocks", "mean batch"},
     .of_many = {"holding KV blocks, all", "mean batch of one"},
     .lines = {RUNNING, BATCH},
     .n = 2},
    {.title = "KV cache in use",
     .names = {"mean", "most"},
     .of_many = {"mean of all together", "most in one"},
     .lines = {KV, KV_MOST},
     .n = 2},
    {.title = "Tokens computed",
     .y_label = "tokens/s",
     .names = {"prompt", "output"},
     .of_many = {"prompt", "output"},
     .lines = {PREFILL, DECODE},
     .n = 2},
    {.title = "Busy",
     .y_label = "% of the time with a batch",
     .lines = {BUSY},
     .n = 1,
     .y_max = 100},
    {.title = "Power", .y_label = "W, energy of the batches", .lines = {POWER}, .n = 1},
};

static bool has_values(const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i]))
            return true;
    return false;
}

static void draw(struct buf *out, const char *title, const char *y_label, double y_max,
                 const struct svg_series *series, size_t n)
{
    buf_puts(out, "<figure>");
    svg_chart(out, &(struct svg_chart){.title = title,
                                       .x_label = "s",
                                       .y_label = y_label,
                                       .width = WIDTH,
                                       .height = HEIGHT,
                                       .y_max = y_max,
                                       .series = series,
                                       .n_series = n});
    buf_puts(out, "</figure>\n");
}

static void draw_chart(struct buf *out, const struct load_series *l, const struct load_chart *c)
{
    struct svg_series series[2];
    const char *y_label = c->y_label;
    if (c->lines[0] == KV)
        y_label = l->kv_all > 0 ? "% of the blocks" : "blocks";
    for (int i = 0; i < c->n; i++)
        series[i] = (struct svg_series){.name = l->replicas > 1 ? c->of_many[i] : c->names[i],
                                        .x = l->t,
                                        .y = l->of[c->lines[i]],
                                        .n = l->n,
                                        .dashed = i > 0};
    if (has_values(series[0].y, l->n))
        draw(out, c->title, y_label, c->y_max, series, (size_t)c->n);
}

/* Draws the load of each replica: shows whether the router balances them. */
static void draw_replicas(struct arena *a, struct buf *out, const struct load_series *l)
{
    struct svg_series series[DRAWN_REPLICAS];
    int64_t n = l->replicas;
    if (n < 2 || n > DRAWN_REPLICAS)
        return;
    for (int64_t i = 0; i < n; i++)
        series[i] = (struct svg_series){.name = arena_printf(a, "replica %lld", (long long)i),
                                        .x = l->t,
                                        .y = l->replica[i],
                                        .n = l->n};
    draw(out, "Requests running, by replica", "requests", 0, series, (size_t)n);
}

void page_load(struct arena *a, struct buf *out, const struct time_series_row *rows, size_t n,
               double blocks_of_one)
{
    if (n == 0)
        return;
    const struct load_series *l = bin(a, rows, n, blocks_of_one);
    char text[WORDS_MAX];
    page_section(out, "Over time");
    buf_puts(out, "<div class=\"figures\">\n");
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        draw_chart(out, l, &charts[i]);
    draw_replicas(a, out, l);
    buf_puts(out, "</div>\n");
    page_tag(out, "p", "small", "Means over %s each%s; most and longest are of any moment.",
             words_duration(text, l->bin_s),
             l->replicas > 1
                 ? arena_printf(a, ", of %lld replicas together", (long long)l->replicas)
                 : "");
    buf_puts(out, "\n</section>\n");
}
