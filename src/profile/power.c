#include "profile/power.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/session.h"

/* ---- which loops ------------------------------------------------------------------------------
 */

enum { SIZES = 6, KV = 1024, MOST_WINDOWS = 64 };
/* Updates of the sensor in a window: fewest, most. */
static const double FEWEST_UPDATES = 5, MOST_UPDATES = 20;

struct loop_size {
    int64_t point;
    uint64_t rows[OP_ROWS + 1]; /* of each loop; 0 = whole passes */
    int n;
};

/* A measured point of the regime: decodes, or prompts without anything in the cache before. */
static bool is_of(const struct session *s, int64_t i, bool decode)
{
    const struct point *p = &s->points.p[i];
    return (p->kind == POINT_DECODE) == decode && (decode || p->kv == 0) &&
           p->kind != POINT_PROMPTS && s->journal.samples[i].n > 0;
}

/* Largest x of the regime. */
static int64_t most_of(const struct session *s, bool decode)
{
    int64_t most = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        if (is_of(s, i, decode) && s->points.p[i].x > most)
            most = s->points.p[i].x;
    return most;
}

/* The point of the regime that is nearest to x, then to a cache of KV tokens, in octaves; -1 =
 * none.
 */
static int64_t nearest(const struct session *s, bool decode, double x)
{
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t i = 0; i < s->points.n; i++) {
        const struct point *p = &s->points.p[i];
        if (!is_of(s, i, decode))
            continue;
        const double far = 100 * fabs(log2((double)p->x / x)) +
                           (decode ? fabs(log2((double)(p->kv + 1) / KV)) : 0);
        if (far < least) {
            least = far;
            best = i;
        }
    }
    return best;
}

/* Mean seconds of each operator at the point. */
static void op_times(const struct session *s, int64_t point, double op_s[OP_ROWS])
{
    const size_t n = s->journal.samples[point].n;
    for (int k = 0; k < OP_ROWS; k++) {
        op_s[k] = 0;
        for (size_t i = 0; i < n; i++)
            op_s[k] += s->journal.samples[point].p[i].op_s[k] / (double)n;
    }
}

static void choose_loops(const struct session *s, struct loop_size *z)
{
    double op_s[OP_ROWS], all_s = 0;
    uint64_t pool = 0;
    op_times(s, z->point, op_s);
    for (int k = 0; k < OP_ROWS; k++)
        all_s += k == OP_GAP ? 0 : op_s[k];
    z->rows[z->n++] = 0;
    for (int k = 0; k < OP_ROWS; k++) {
        if (k == OP_GAP || !(op_s[k] > 0))
            continue;
        if (op_s[k] < POWER_POOLED * all_s)
            pool |= UINT64_C(1) << k;
        else
            z->rows[z->n++] = UINT64_C(1) << k;
    }
    if (pool)
        z->rows[z->n++] = pool;
}

/* The sizes, the most telling first. */
static int choose_sizes(const struct session *s, struct loop_size out[SIZES])
{
    enum { FEW = 64 }; /* tokens of a short prompt */
    const double rows = (double)most_of(s, true), tokens = (double)most_of(s, false);
    const struct {
        bool decode;
        double x;
    } wanted[SIZES] = {{true, rows},       {false, tokens},
                       {true, 1},          {false, sqrt(FEW * tokens)},
                       {true, sqrt(rows)}, {false, fmin(FEW, tokens)}};
    int n = 0;
    for (int i = 0; i < SIZES; i++) {
        const int64_t point = wanted[i].x >= 1 ? nearest(s, wanted[i].decode, wanted[i].x) : -1;
        bool had = point < 0;
        for (int k = 0; k < n; k++)
            had = had || out[k].point == point;
        if (had)
            continue;
        out[n] = (struct loop_size){.point = point};
        choose_loops(s, &out[n++]);
    }
    return n;
}

static int loops_of(const struct loop_size *sizes, int n)
{
    int loops = 2; /* idle, twice */
    for (int i = 0; i < n; i++)
        loops += sizes[i].n;
    return loops;
}

/* ---- measuring --------------------------------------------------------------------------------
 */

struct power_loops {
    struct session *s;
    const struct power_meter *m;
    double window_s; /* of a loop, settling included */
};

static struct power_reading reading_of(const struct power_loops *x, int64_t from_ns, int64_t to_ns)
{
    return x->m->mean(x->m->self, from_ns + ns_from_s(x->m->settle_s), to_ns);
}

static enum st no_reading(const struct power_loops *x, double s, struct err *e)
{
    return err_set(e, ST_DEVICE, "the sensor %s gave no reading within %.3g s", x->m->sensor, s);
}

/* A line of the journal; unknown is -1 there. */
static enum st keep(struct session *s, char kind, double *v, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        v[i] = isnan(v[i]) ? -1 : v[i];
    return journal_row(&s->journal, kind, v, n, e);
}

static void sleep_until(const struct power_loops *x, int64_t end_ns)
{
    while (clock_mono_ns() < end_ns && !session_stopped(x->s)) {
        const int64_t next_ns = clock_mono_ns() + 20 * NS_PER_MS;
        clock_sleep_until_ns(next_ns < end_ns ? next_ns : end_ns);
    }
}

/* With the clocks where the load had them: for a window behind it, and longer only until the sensor
 * was read. */
static enum st rest(const struct power_loops *x, struct err *e)
{
    struct power_reading r = {.mean_w = NAN};
    const int64_t from_ns = clock_mono_ns();
    for (int i = 1; isnan(r.mean_w) && i <= MOST_WINDOWS; i++) {
        sleep_until(x, from_ns + ns_from_s(i * x->window_s));
        if (session_stopped(x->s))
            return session_interrupted(x->s, e);
        r = reading_of(x, from_ns, clock_mono_ns());
    }
    if (isnan(r.mean_w))
        return no_reading(x, ns_to_s(clock_mono_ns() - from_ns), e);
    const struct power_conditions c = x->m->conditions(x->m->self);
    TRY(x->m->check(x->m->self, c.reasons, e));
    double v[] = {r.mean_w,       r.half_w,  c.sm_mhz,          c.sm_mhz_low,
                  c.celsius_high, c.limit_w, (double)c.reasons, x->m->update_s};
    return keep(x->s, 'i', v, sizeof v / sizeof *v, e);
}

static enum st loop(const struct power_loops *x, const struct loop_size *z, uint64_t rows,
                    struct err *e)
{
    struct session *s = x->s;
    const struct point *p = &s->points.p[z->point];
    struct op_loop l = {.rows = rows, .least_s = x->window_s};
    struct op_loop_times t;
    struct power_reading r = {.mean_w = NAN};
    for (; isnan(r.mean_w); l.least_s *= 2) { /* again only where the sensor was not read */
        if (session_stopped(s))
            return session_interrupted(s, e);
        if (l.least_s > MOST_WINDOWS * x->window_s)
            return no_reading(x, ns_to_s(t.to_ns - t.from_ns), e);
        TRY(drive_loop(s->drive, p, &l, &t, e));
        if (t.passes == 0)
            return ST_OK;
        r = reading_of(x, t.from_ns, t.to_ns);
    }
    const bool decode = p->kind == POINT_DECODE;
    double v[] = {decode,
                  (double)point_tokens(p),
                  (double)point_rows(p, &s->limits),
                  (double)(p->x * p->kv),
                  (double)journal_bits(rows),
                  r.mean_w,
                  r.half_w,
                  t.pass_s > 0 ? t.kernels_s / t.pass_s : (double)NAN,
                  t.pass_s,
                  (double)r.readings,
                  ns_to_s(t.to_ns - t.from_ns)};
    return keep(s, 'e', v, sizeof v / sizeof *v, e);
}

static int idle_rows(const struct session *s)
{
    size_t at = s->journal.session_rows;
    int n, rows = 0;
    while (journal_next(&s->journal, 'i', &at, &n))
        rows++;
    return rows;
}

enum st power_measure(struct session *s, const struct power_meter *m, double budget_s,
                      struct err *e)
{
    struct loop_size sizes[SIZES];
    if (!s->ex.ops->loop)
        return err_set(e, ST_DEVICE, "executor %s cannot run operators alone", s->ex.ops->name);
    if (idle_rows(s) >= 2)
        return ST_OK;
    int n = choose_sizes(s, sizes);
    if (n == 0)
        return err_set(e, ST_DEVICE, "no point of the grid was measured");
    const double least_s = m->settle_s + FEWEST_UPDATES * m->update_s;
    const double most_s = m->settle_s + MOST_UPDATES * m->update_s;
    while (n > 2 && loops_of(sizes, n) * least_s > budget_s)
        n--;
    const double each_s = budget_s / loops_of(sizes, n);
    const struct power_loops x = {.s = s, .m = m, .window_s = fmin(fmax(each_s, least_s), most_s)};
    log_info("profile: energy of %d sizes takes about %.0f s (%s, %d windows of %.2f s)", n,
             loops_of(sizes, n) * x.window_s, m->sensor, loops_of(sizes, n), x.window_s);
    drive_bind(s->drive);
    m->conditions(m->self); /* what was before does not count */
    TRY(m->check(m->self, 0, e));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < sizes[i].n; k++)
            TRY(loop(&x, &sizes[i], sizes[i].rows[k], e));
        if (i == 0)
            TRY(rest(&x, e));
    }
    return rest(&x, e);
}

/* ---- what was measured ------------------------------------------------------------------------
 */

enum { E_DECODE, E_TOKENS, E_ROWS, E_KV, E_OPS, E_W, E_HALF, E_PART, E_PASS, E_READINGS, E_S, E_N };
enum { I_W, I_HALF, I_SM, I_SM_LOW, I_CELSIUS, I_LIMIT, I_REASONS, I_UPDATE, I_N };

/* The row from which the newest session that measured begins; false = none. */
static bool newest(const struct journal *j, size_t *from)
{
    size_t begun = 0;
    bool found = false;
    for (size_t i = 0; i < j->rows.n; i++) {
        if (j->rows.p[i].kind == 'n')
            begun = i;
        if (j->rows.p[i].kind == 'i') {
            *from = begun;
            found = true;
        }
    }
    return found;
}

static void idle_of(const struct journal *j, size_t from, struct power_table *out)
{
    double sum = 0, half = -1;
    int n, rows = 0;
    for (const double *v; (v = journal_next(j, 'i', &from, &n)); rows++) {
        sum += v[I_W];
        half = fmax(half, v[I_HALF]); /* -1: unknown */
    }
    out->idle_w = sum / rows;
    out->idle_half_w = half;
}

/* What the size of an operator is in a loop. */
static double size_of(const double *v, const struct op *op)
{
    if (op->axis == AXIS_DECODE)
        return v[E_KV];
    return op->axis == AXIS_ROWS ? v[E_ROWS] : v[E_TOKENS];
}

/* The loop was of that operator, alone or among others. */
static bool has(const double *v, const struct op *op)
{
    return (journal_rows_of((uint64_t)v[E_OPS]) & UINT64_C(1) << op->row) != 0;
}

static void add_point(struct arena *a, struct power_curve_1d *c, double x, double w)
{
    int i = c->n;
    struct power_point *p = arena_array(a, struct power_point, c->n + 1);
    if (c->n)
        memcpy(p, c->p, (size_t)c->n * sizeof *p);
    for (; i > 0 && p[i - 1].x > x; i--)
        p[i] = p[i - 1];
    p[i] = (struct power_point){x, w};
    *c = (struct power_curve_1d){p, c->n + 1};
}

bool power_load(struct arena *a, const struct journal *j, const struct op_list *ops,
                struct power_table *out)
{
    size_t from;
    int n;
    *out = (struct power_table){.idle_w = NAN, .idle_half_w = NAN, .ops = ops};
    if (!newest(j, &from))
        return false;
    idle_of(j, from, out);
    for (const double *v; (v = journal_next(j, 'e', &from, &n));) {
        const double w = out->idle_w + (v[E_W] - out->idle_w) / v[E_PART];
        for (int i = 0; i < ops->n && v[E_PART] > 0; i++) {
            const struct op *op = &ops->ops[i];
            if (has(v, op))
                add_point(a, v[E_DECODE] != 0 ? &out->decode[op->row] : &out->prompt[op->row],
                          fmax(size_of(v, op), 1), w);
        }
    }
    return true;
}

static double curve_w(const struct power_curve_1d *c, double x)
{
    int i = 0;
    while (i < c->n && c->p[i].x < x)
        i++;
    if (c->n == 0)
        return NAN;
    if (i == 0 || i == c->n)
        return c->p[i == 0 ? 0 : c->n - 1].w;
    const struct power_point low = c->p[i - 1], high = c->p[i];
    if (high.x <= low.x)
        return (low.w + high.w) / 2;
    return low.w + (high.w - low.w) * log(x / low.x) / log(high.x / low.x);
}

double power_at(const struct power_table *t, const struct op *op, bool decode, double x)
{
    if (op->kind == OP_GAP)
        return t->idle_w;
    /* what depends on rows is the same work in both regimes, and prompts have few of them */
    const bool rows = op->axis == AXIS_ROWS;
    const struct power_curve_1d *own = decode || rows ? &t->decode[op->row] : &t->prompt[op->row];
    const struct power_curve_1d *other = decode || rows ? &t->prompt[op->row] : &t->decode[op->row];
    return curve_w(own->n ? own : other, fmax(x, 1));
}

double power_cell_j(const struct power_table *t, const struct op *op, bool decode, double x,
                    double seconds)
{
    return seconds == 0 ? 0 : power_at(t, op, decode, x) * seconds;
}

/* ---- bundle_meta.json -------------------------------------------------------------------------
 */

static struct node *number(struct arena *a, double v)
{
    return isfinite(v) && v != -1 ? node_float(a, v) : node_new(a, NODE_NULL);
}

static struct node *loop_node(struct arena *a, const struct op_list *list, const double *v)
{
    struct node *map = node_new(a, NODE_MAP);
    struct node *ops = node_new(a, NODE_LIST);
    for (int32_t row = 0; row < list->rows; row++) {
        const struct op *op = op_list_at(list, row);
        if (op && has(v, op))
            node_push(a, ops, node_str(a, op->name));
    }
    node_set(a, map, SV("regime"), node_str(a, v[E_DECODE] != 0 ? "decode" : "prompt"));
    node_set(a, map, SV("tokens"), node_int(a, (int64_t)v[E_TOKENS]));
    node_set(a, map, SV("kv_tokens"), node_int(a, (int64_t)v[E_KV]));
    node_set(a, map, SV("operators"), ops);
    node_set(a, map, SV("power_w"), number(a, v[E_W]));
    node_set(a, map, SV("half_interval_w"), number(a, v[E_HALF]));
    node_set(a, map, SV("readings"), node_int(a, (int64_t)v[E_READINGS]));
    node_set(a, map, SV("seconds"), number(a, v[E_S]));
    node_set(a, map, SV("pass_us"), number(a, v[E_PASS] * 1e6));
    node_set(a, map, SV("kernels_share"), number(a, v[E_PART]));
    return map;
}

/* Of a whole pass at that size, from its operators' loops: their energy over their time, gaps at
 * idle power. The loops of one size stand together, the whole first. */
static double predicted_w(const struct journal *j, size_t at, const double *whole, double idle_w)
{
    double kernels_j = 0, kernels_s = 0;
    int n;
    for (const double *v; (v = journal_next(j, 'e', &at, &n)) && v[E_OPS] != 0;) {
        const double busy_s = v[E_PASS] * v[E_PART];
        kernels_j += (v[E_W] - idle_w) * v[E_PASS] + idle_w * busy_s;
        kernels_s += busy_s;
    }
    if (!(kernels_s > 0))
        return NAN;
    const double part = whole[E_PART];
    return part * kernels_j / kernels_s + (1 - part) * idle_w;
}

static struct node *conditions_node(struct arena *a, const double *v, const struct power_meter *m)
{
    struct node *map = node_new(a, NODE_MAP);
    node_set(a, map, SV("power_limit_w"), number(a, v[I_LIMIT]));
    node_set(a, map, SV("sm_mhz"), number(a, v[I_SM]));
    node_set(a, map, SV("sm_mhz_low"), number(a, v[I_SM_LOW]));
    node_set(a, map, SV("celsius_high"), number(a, v[I_CELSIUS]));
    node_set(a, map, SV("clocks_held_by"),
             m ? node_str(a, m->words(a, (unsigned long long)v[I_REASONS]))
               : node_int(a, (int64_t)v[I_REASONS]));
    return map;
}

struct node *power_node(struct arena *a, const struct journal *j, const struct power_table *t,
                        const struct power_meter *m)
{
    struct node *map = node_new(a, NODE_MAP), *loops = node_new(a, NODE_LIST);
    struct node *wholes = node_new(a, NODE_LIST);
    const double *idle = NULL;
    double seconds = 0;
    size_t from = 0, at;
    int n;
    newest(j, &from);
    at = from;
    for (const double *v; (v = journal_next(j, 'i', &at, &n));)
        idle = v; /* that behind all loops */
    at = from;
    for (const double *v; (v = journal_next(j, 'e', &at, &n));) {
        struct node *one = loop_node(a, t->ops, v);
        seconds += v[E_S];
        if (v[E_OPS] == 0) {
            const double w = predicted_w(j, at, v, t->idle_w);
            node_set(a, one, SV("predicted_w"), number(a, w));
            node_set(a, one, SV("error_percent"), number(a, 100 * (w / v[E_W] - 1)));
        }
        node_push(a, v[E_OPS] == 0 ? wholes : loops, one);
    }
    node_set(a, map, SV("idle_w"), number(a, t->idle_w));
    node_set(a, map, SV("idle_half_interval_w"), number(a, t->idle_half_w));
    node_set(a, map, SV("sensor"), m ? node_str(a, m->sensor) : node_new(a, NODE_NULL));
    node_set(a, map, SV("sensor_update_s"), number(a, idle[I_UPDATE]));
    node_set(a, map, SV("seconds"), number(a, seconds));
    node_set(a, map, SV("conditions"), conditions_node(a, idle, m));
    node_set(a, map, SV("whole_passes"), wholes);
    node_set(a, map, SV("loops"), loops);
    return map;
}
