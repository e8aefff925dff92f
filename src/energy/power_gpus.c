#include "energy/power_gpus.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/stats.h"

enum { MAX_GPUS = 1024, LISTED = 16 };

/* ---- rows ------------------------------------------------------------------------------------ */

/* "0", "GPU 0", "gpu0", "card0", "cuda:0"; not "H100". */
static bool number_of(struct sv s, int64_t *out)
{
    static const char *const words[] = {"", "gpu", "card", "cuda", "device", "nvidia", "dev"};
    double value;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i]);
        if (s.n <= n || strncasecmp(s.p, words[i], n) != 0)
            continue;
        struct sv rest = {s.p + n, s.n - n};
        while (n > 0 && rest.n > 1 && memchr(" :_-", *rest.p, 4)) {
            rest.p++;
            rest.n--;
        }
        if (!isdigit((unsigned char)*rest.p))
            continue;
        if (str_int64(rest, out))
            return *out >= 0;
        /* "0.0": pandas makes floats of whole columns */
        if (n == 0 && str_double(rest, &value) && value == floor(value) && value < MAX_GPUS) {
            *out = (int64_t)value;
            return true;
        }
    }
    return false;
}

static bool says_nothing(struct sv s)
{
    return s.n == 0 || s.p[0] == '[' || sv_eq(s, "N/A") || sv_eq(s, "ERR!") ||
           (s.n >= 7 && strncasecmp(s.p, "unknown", 7) == 0);
}

/* The number in a cell of that column. Of a product's name only "GPU 0" and the like: "H100" and
 * "NVIDIA 4090" have none. */
static bool column_number(const struct identity_column *c, struct sv s, int64_t *out)
{
    if (c->kind == ID_NAME)
        return s.n > 3 && strncasecmp(s.p, "gpu", 3) == 0 && number_of(s, out) && *out < MAX_GPUS;
    return c->kind <= ID_LABEL && number_of(s, out);
}

/* Whether a column tells GPUs apart: a host's name does where nothing else is there. */
static bool tells(const struct power_gpus *g, const struct identity_column *c)
{
    return c->kind != ID_HOST || g->columns->only_hosts;
}

struct row_id {
    struct sv id[MAX_IDENTITIES]; /* n = 0: unknown */
    int64_t number;
    int known;
};

static enum st read_ids(const struct power_gpus *g, const struct csv_reader *r, struct row_id *out,
                        struct err *e)
{
    *out = (struct row_id){.number = -1};
    for (int i = 0; i < g->columns->n_id; i++) {
        const struct identity_column *c = &g->columns->id[i];
        const struct sv s = sv_trim(csv_cell(r, c->column));
        int64_t number;
        if (says_nothing(s))
            continue;
        const bool is_number = column_number(c, s, &number);
        if (c->kind == ID_NUMBER && !is_number)
            return csv_err(r, c->column, e, "expected the number of a GPU, got '%.*s'",
                           (int)(s.n < 40 ? s.n : 40), s.p);
        if (is_number && out->number < 0)
            out->number = number;
        out->id[i] = s;
        out->known += tells(g, c);
    }
    return ST_OK;
}

/* Whether no cell contradicts, and one agrees that is not the host's alone. */
static bool same_gpu(const struct power_gpus *g, const struct power_gpu *gpu,
                     const struct row_id *row)
{
    int agree = 0;
    for (int i = 0; i < g->columns->n_id; i++) {
        if (row->id[i].n == 0 || !gpu->id[i])
            continue;
        int64_t a, b;
        const struct identity_column *c = &g->columns->id[i];
        const bool by_number =
            column_number(c, row->id[i], &a) && column_number(c, sv_of(gpu->id[i]), &b);
        if (by_number ? a != b : !sv_eq(row->id[i], gpu->id[i]))
            return false;
        agree += tells(g, c);
    }
    return agree > 0;
}

static void learn(struct power_gpus *g, struct power_gpu *gpu, const struct row_id *row)
{
    for (int i = 0; i < g->columns->n_id; i++)
        if (row->id[i].n && !gpu->id[i])
            gpu->id[i] = arena_strn(g->a, row->id[i].p, row->id[i].n);
    if (gpu->number < 0)
        gpu->number = row->number;
}

enum st power_gpus_row(struct power_gpus *g, const struct csv_reader *r, int64_t *which,
                       struct err *e)
{
    struct row_id row;
    *which = -1;
    TRY(read_ids(g, r, &row, e));
    if (row.known == 0)
        return ST_OK;
    for (size_t k = 0; k < g->list.n; k++) { /* rows come in turn */
        const size_t i = (g->last + 1 + k) % g->list.n;
        if (!same_gpu(g, &g->list.p[i], &row))
            continue;
        learn(g, &g->list.p[i], &row);
        g->list.p[i].rows++;
        g->last = i;
        *which = (int64_t)i;
        return ST_OK;
    }
    if (g->list.n == MAX_GPUS)
        return csv_err(r, g->columns->id[0].column, e, "more than %d GPUs", MAX_GPUS);
    struct power_gpu new = {.number = -1, .rows = 1};
    learn(g, &new, &row);
    vec_push(&g->list, new);
    g->last = g->list.n - 1;
    *which = (int64_t)g->last;
    return ST_OK;
}

/* ---- picking --------------------------------------------------------------------------------- */

static bool all_numbered(const struct power_gpus *g)
{
    for (size_t i = 0; i < g->list.n; i++)
        if (g->list.p[i].number < 0)
            return false;
    return true;
}

/* The column that is shown beside a number: the first that differs between GPUs; -1 = none. */
static int telling_column(const struct power_gpus *g)
{
    for (int c = 0; c < g->columns->n_id; c++) {
        if (g->columns->id[c].kind <= ID_LABEL && all_numbered(g))
            continue;
        for (size_t i = 0; i < g->list.n; i++) {
            const char *a = g->list.p[0].id[c], *b = g->list.p[i].id[c];
            if (b && (g->list.n == 1 || !a || strcmp(a, b) != 0))
                return c;
        }
    }
    return -1;
}

static int by_bus(const struct power_gpus *g, size_t a, size_t b)
{
    for (int c = 0; c < g->columns->n_id; c++) {
        const char *x = g->list.p[a].id[c], *y = g->list.p[b].id[c];
        const int order = g->columns->id[c].kind == ID_BUS && x && y ? strcasecmp(x, y) : 0;
        if (order != 0)
            return order;
    }
    return a < b ? -1 : 1;
}

/* What gpu= has to be for this one. */
static int64_t number_for(const struct power_gpus *g, size_t which)
{
    if (all_numbered(g))
        return g->list.p[which].number;
    int64_t before = 0;
    for (size_t i = 0; i < g->list.n; i++)
        before += i != which && by_bus(g, i, which) < 0;
    return before;
}

static void list_gpus(const struct power_gpus *g, struct buf *out)
{
    const bool numbered = all_numbered(g);
    const int column = numbered ? -1 : telling_column(g);
    size_t shown = 0;
    for (size_t i = 0; i < g->list.n && shown < LISTED; i++, shown++) {
        /* ours are listed in order of their numbers where the log does not have these */
        size_t at = i;
        for (size_t k = 0; !numbered && k < g->list.n; k++)
            if (number_for(g, k) == (int64_t)i)
                at = k;
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)number_for(g, at));
        if (column >= 0 && g->list.p[at].id[column])
            buf_printf(out, " = %.60s", g->list.p[at].id[column]);
    }
    if (g->list.n > shown)
        buf_printf(out, " and %zu more", g->list.n - shown);
    if (column >= 0)
        buf_printf(out, " (by %s)", g->columns->id[column].name);
}

static enum st refuse(const struct power_gpus *g, struct err *e)
{
    struct buf text = {0};
    list_gpus(g, &text);
    err_hint(e, "it has rows of %s: gpu= picks one", buf_str(&text));
    buf_free(&text);
    return ST_INPUT;
}

static size_t with_number(const struct power_gpus *g, int64_t number, int64_t *which)
{
    size_t found = 0;
    for (size_t i = 0; i < g->list.n; i++)
        if (number_for(g, i) == number) {
            *which = (int64_t)i;
            found++;
        }
    return found;
}

static enum st of_machines(const struct power_gpus *g, const char *source, int64_t number,
                           size_t found, struct err *e)
{
    const int column = telling_column(g);
    err_set(e, ST_INPUT, "%s has %zu GPUs with the number %lld, of several machines", source, found,
            (long long)number);
    return err_hint(e, "they differ by %s: keep the rows of one",
                    column >= 0 ? g->columns->id[column].name : "their identity");
}

enum st power_gpus_pick(const struct power_gpus *g, const char *source, int64_t gpu, int64_t *which,
                        struct err *e)
{
    *which = 0;
    if (g->list.n <= 1 && (gpu < 0 || !all_numbered(g)))
        return ST_OK;
    for (size_t i = 0; i < g->list.n && all_numbered(g); i++)
        for (size_t k = 0; k < i; k++)
            if (g->list.p[i].number == g->list.p[k].number)
                return of_machines(g, source, g->list.p[i].number,
                                   with_number(g, g->list.p[i].number, which), e);
    if (gpu < 0) {
        err_set(e, ST_INPUT, "%s has the powers of %zu GPUs, and gpu= is not set", source,
                g->list.n);
        return refuse(g, e);
    }
    if (with_number(g, gpu, which) == 1)
        return ST_OK;
    err_set(e, ST_INPUT, "%s has no row of GPU %lld", source, (long long)gpu);
    return refuse(g, e);
}

const char *power_gpus_what(const struct power_gpus *g, int64_t which, int64_t gpu)
{
    const int column = g->list.n > 1 && !all_numbered(g) ? telling_column(g) : -1;
    const char *id = column >= 0 ? g->list.p[which].id[column] : NULL;
    if (!id)
        return arena_printf(g->a, "GPU %lld", (long long)gpu);
    return arena_printf(g->a, "GPU %lld (%s %s)", (long long)gpu, g->columns->id[column].name, id);
}

/* ---- rows that name no GPU --------------------------------------------------------------------
 */

enum { MOST_GPUS = 16 /* of one machine */, FEWEST_BUNCHES = 2 };
/* Rows of one query are milliseconds apart, two queries a period: where the long gaps are not this
 * much longer, the period varied. */
#define APART 4.0

static int compare_ns(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_step(const struct power_sample *p, size_t n, size_t lag)
{
    if (n <= lag)
        return 0;
    double *steps = mem_alloc((n - lag) * sizeof *steps);
    size_t known = 0;
    for (size_t i = 0; i + lag < n; i++) {
        const double step = fabs(p[i + lag].power_w - p[i].power_w);
        if (!isnan(step))
            steps[known++] = step;
    }
    const double median = known ? stats_median(steps, known) : 0;
    mem_free(steps);
    return median;
}

/* Where the gaps between rows fall into short and long ones: the shortest long one; 0 = they do
 * not. Of k rows in a bunch (k-1)/k of the gaps are short. */
static int64_t long_gap(const struct power_sample *p, size_t n, int64_t resolution_ns)
{
    const size_t gaps = n - 1;
    int64_t *g = mem_alloc(gaps * sizeof *g), found = 0;
    double widest = APART;
    for (size_t i = 0; i < gaps; i++)
        g[i] = p[i + 1].ns - p[i].ns;
    qsort(g, gaps, sizeof *g, compare_ns);
    for (size_t i = gaps * 2 / 5; i + 1 < gaps && i < gaps * 49 / 50; i++) {
        const double below = (double)(g[i] > resolution_ns ? g[i] : resolution_ns);
        if ((double)g[i + 1] / below > widest) {
            widest = (double)g[i + 1] / below;
            found = g[i + 1];
        }
    }
    mem_free(g);
    return found;
}

/* How many rows stand in each bunch, 0 = not always as many; gaps of at least long_ns part them. */
static size_t bunch_size(const struct power_sample *p, size_t n, int64_t long_ns)
{
    size_t count[MOST_GPUS + 1] = {0}, bunches = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        size++;
        if (i + 1 < n && p[i + 1].ns - p[i].ns < long_ns)
            continue;
        const bool cut_off = bunches == 0 || i + 1 == n; /* the first and the last may be */
        if (!cut_off || size > 1) {
            count[size <= MOST_GPUS ? size : 0]++;
            bunches++;
        }
        size = 0;
    }
    for (size_t k = 2; k <= MOST_GPUS && bunches >= FEWEST_BUNCHES; k++)
        if (count[k] * 10 >= bunches * 8)
            return k;
    return 0;
}

/* Rows of one time, and most of them with different powers. */
static bool differ_at_once(const struct power_sample *p, size_t n)
{
    size_t pairs = 0, differ = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        if (p[i].ns != p[i + 1].ns)
            continue;
        pairs++;
        differ += p[i].power_w != p[i + 1].power_w;
    }
    return differ * 2 > pairs;
}

/* The row k before is much nearer than the row before: several series in turn. */
static bool in_turn(const struct power_sample *p, size_t n, size_t k)
{
    return n > 2 * k && median_step(p, n, k) * APART < median_step(p, n, 1);
}

enum power_mix power_gpus_mixed(const struct power_sample *p, size_t n, int digits)
{
    int64_t resolution_ns = NS_PER_S;
    for (int i = 0; i < digits && resolution_ns > 1; i++)
        resolution_ns /= 10;
    if (n < 2)
        return POWER_ONE;
    const bool shared = differ_at_once(p, n);
    if (shared && resolution_ns <= NS_PER_MS)
        return POWER_MIXED; /* a query takes longer than that */
    const int64_t long_ns = long_gap(p, n, resolution_ns);
    if (long_ns > 0 && bunch_size(p, n, long_ns) > 0)
        return POWER_MIXED;
    for (size_t k = 2; k <= MOST_GPUS; k++)
        if (in_turn(p, n, k))
            return shared ? POWER_MIXED : POWER_DOUBTFUL;
    return shared && bunch_size(p, n, 1) > 0 ? POWER_DOUBTFUL : POWER_ONE;
}
