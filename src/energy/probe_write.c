/* Probe and idle power as JSON and as text. */
#include <math.h>

#include "energy/probe.h"
#include "text/table.h"

static const struct field sensor_rows[] = {
    FIELD_AS(struct probe_sensor, name, "sampler"),
    FIELD(struct probe_sensor, what),
    FIELD(struct probe_sensor, missing),
    FIELD(struct probe_sensor, updates),
    FIELD(struct probe_sensor, update_s),
    FIELD(struct probe_sensor, read_s),
    FIELD(struct probe_sensor, stated_averages_s),
    FIELD(struct probe_sensor, averages_s),
    FIELD(struct probe_sensor, lag_s),
    FIELD(struct probe_sensor, idle_w),
    FIELD(struct probe_sensor, idle_spread_w),
    FIELD(struct probe_sensor, load_w),
    FIELD(struct probe_sensor, load_spread_w),
    FIELD(struct probe_sensor, window_s),
};
static const struct fields sensor_fields = FIELDS(struct probe_sensor, sensor_rows);

static struct node *board_node(struct arena *a, const struct board *b)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "gpu", node_int(a, b->gpu));
    node_put(a, n, "name", node_str(a, b->name));
    node_put(a, n, "uuid", node_str(a, b->uuid));
    return n;
}

static struct node *pair(struct arena *a, double low, double high)
{
    struct node *n = node_new(a, NODE_LIST);
    if (isnan(low) || isnan(high))
        return node_new(a, NODE_NULL);
    node_push(a, n, node_number(a, low));
    node_push(a, n, node_number(a, high));
    return n;
}

struct node *probe_node(struct arena *a, const struct probe *p)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "board", board_node(a, &p->board));
    node_put(a, n, "power_limit_w", node_number(a, p->limits.power_limit_w));
    node_put(a, n, "idle_power_w", node_number(a, p->idle_w));
    node_put(a, n, "idle_power_interval_w", pair(a, p->idle_low_w, p->idle_high_w));
    node_put(a, n, "load_power_w", node_number(a, p->load_w));
    node_put(a, n, "interval_percent", node_number(a, p->percent));
    struct node *list = node_put(a, n, "sensors", node_new(a, NODE_LIST));
    for (size_t i = 0; i < p->n; i++)
        node_push(a, list, fields_node(a, &sensor_fields, &p->sensors[i]));
    node_put(a, n, "idle_under", gpu_conditions_node(a, &p->idle_under));
    node_put(a, n, "load_under", gpu_conditions_node(a, &p->load_under));
    return n;
}

static const char *text_of(struct arena *a, int decimals, double v)
{
    return isnan(v) ? "n/a" : arena_printf(a, "%.*f", decimals, v);
}

void probe_text(struct arena *a, struct buf *out, const struct probe *p)
{
    static const char *const heads[] = {"sensor", "update ms", "read ms", "averages ms",
                                        "lag ms", "idle W",    "+-",      "load W",
                                        "+-",     "window s"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    struct table *t = table_new(a, COLUMNS);
    buf_printf(out, "GPU %d: %s, %s\n", p->board.gpu, p->board.name, p->board.uuid);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", heads[i]);
    for (size_t i = 0; i < p->n; i++) {
        const struct probe_sensor *s = &p->sensors[i];
        if (s->missing)
            continue;
        table_cell(t, "%s", s->name);
        table_cell(t, "%s", text_of(a, 0, s->update_s * 1e3));
        table_cell(t, "%s", text_of(a, 1, s->read_s * 1e3));
        if (s->averages_s < 2 * s->update_s)
            table_cell(t, "none");
        else
            table_cell(t, "%s", text_of(a, 0, s->averages_s * 1e3));
        table_cell(t, "%s", text_of(a, 0, s->lag_s * 1e3));
        table_cell(t, "%s", text_of(a, 1, s->idle_w));
        table_cell(t, "%s", text_of(a, 1, s->idle_spread_w));
        table_cell(t, "%s", text_of(a, 1, s->load_w));
        table_cell(t, "%s", text_of(a, 1, s->load_spread_w));
        table_cell(t, "%s", text_of(a, 1, s->window_s));
    }
    table_text(out, t);
    for (size_t i = 0; i < p->n; i++)
        if (p->sensors[i].missing)
            buf_printf(out, "%s does not answer: %s\n", p->sensors[i].name, p->sensors[i].missing);
    buf_printf(out,
               "window: how long a steady load must run until its mean power is known to +-%g %% "
               "at 95 %%\n",
               p->percent);
    if (!isnan(p->idle_w)) {
        buf_printf(out, "idle power, a context open: %.1f W", p->idle_w);
        if (!isnan(p->idle_low_w))
            buf_printf(out, " (%.1f to %.1f)", p->idle_low_w, p->idle_high_w);
        buf_printf(out, ", at %s MHz, %s C\n", text_of(a, 0, p->idle_under.sm_mhz),
                   text_of(a, 0, p->idle_under.celsius_high));
    }
    const char *held = gpu_reason_words(a, p->load_under.reasons);
    buf_printf(out, "under load: %s W at %s MHz, %s C%s%s\n", text_of(a, 1, p->load_w),
               text_of(a, 0, p->load_under.sm_mhz), text_of(a, 0, p->load_under.celsius_high),
               *held ? "; clocks held by: " : "", held);
}

struct node *idle_node(struct arena *a, const struct idle *i)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "board", board_node(a, &i->board));
    node_put(a, n, "context", node_bool(a, i->context));
    node_put(a, n, "duration_s", node_number(a, i->duration_s));
    node_put(a, n, "idle_power_w", node_number(a, i->power_w));
    node_put(a, n, "idle_power_interval_w", pair(a, i->low_w, i->high_w));
    node_put(a, n, "spread_w", node_number(a, i->spread_w));
    node_put(a, n, "readings", node_int(a, i->readings));
    node_put(a, n, "counter_power_w", node_number(a, i->counter_w));
    node_put(a, n, "under", gpu_conditions_node(a, &i->under));
    return n;
}

void idle_text(struct arena *a, struct buf *out, const struct idle *i)
{
    buf_printf(out, "GPU %d: %s, %s\n", i->board.gpu, i->board.name,
               i->context ? "a context open" : "no context of this program");
    buf_printf(out, "idle_power %.2f W", i->power_w);
    if (!isnan(i->low_w))
        buf_printf(out, ", 95 %% interval %.2f to %.2f", i->low_w, i->high_w);
    buf_printf(out, "; %lld readings in %.1f s, spread %s W\n", (long long)i->readings,
               i->duration_s, text_of(a, 2, i->spread_w));
    const char *held = gpu_reason_words(a, i->under.reasons);
    buf_printf(out, "at %s MHz, %s C%s%s\n", text_of(a, 0, i->under.sm_mhz),
               text_of(a, 0, i->under.celsius_high), *held ? "; clocks held by: " : "", held);
    buf_printf(out, "next: twinfer energy report idle_power=%.2f power=... full=... isolated=...\n",
               i->power_w);
}
