#include <math.h>

#include "base/fs.h"
#include "base/vec.h"
#include "sim/predictor.h"
#include "text/csv.h"
#include "text/gz.h"

/* Vidur's constants: rounding of tokens and of KV lengths, the time added to a collective (ms), and
 * the extra cost factor of a batch where heads share keys. */
enum { TOKEN_STEP = 8, KV_STEP = 64 };
static const double LAUNCH_MS = 0.02, BATCHING = 0.1;

enum { MAX_TOKENS = 1 << 22, MAX_KV = 1 << 24, MAX_CELLS = 1 << 26, MAX_FILE = 1 << 30 };
static const double MAX_MS = 1e9;

/* Precomputed sums of terms of Tr that are adjacent in Vidur's sum. NAN = not in the tables. */
struct by_tokens {
    double head; /* pre_proj + post_proj + rope */
    double comm, input_norm;
    double mlp; /* all of it */
    double add, send;
};

/* ms[x * n_kv + kv / KV_STEP], NAN = not in the table */
struct by_kv {
    double *ms;
    int64_t n_x, n_kv;
};

struct vidur_tables {
    const char *dir;
    double layers;          /* of one stage */
    double decode, prefill; /* factors for more than one request */
    int32_t stages;
    struct by_tokens *rows; /* [n_rows] by Tr / TOKEN_STEP */
    double *save;           /* [n_save] by T */
    int64_t n_rows, n_save;
    struct by_kv decodes;  /* x: rows */
    struct by_kv prefills; /* x: tokens of the chunk */
};

/* ---- reading --------------------------------------------------------------------------------- */

struct table_cell {
    int64_t a, b;
    double ms;
};

struct cells {
    struct table_cell *p;
    size_t n, cap;
};

static enum st read_cells(struct csv_reader *r, const char *a, int64_t max_a, const char *b,
                          int64_t max_b, struct cells *to, struct err *e)
{
    int ca, cb = -1, cv;
    TRY(csv_require(r, a, &ca, e));
    if (b)
        TRY(csv_require(r, b, &cb, e));
    TRY(csv_require(r, "prediction", &cv, e));
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        struct table_cell c = {0};
        TRY(csv_int(r, ca, 0, max_a, &c.a, e));
        if (b)
            TRY(csv_int(r, cb, 0, max_b, &c.b, e));
        TRY(csv_double(r, cv, 0, MAX_MS, &c.ms, e));
        vec_push(to, c);
    }
    return st == ST_END ? ST_OK : st;
}

static enum st read_table(const char *dir, const char *op, const char *a, int64_t max_a,
                          const char *b, int64_t max_b, struct cells *to, struct err *e)
{
    struct arena *scratch = arena_new();
    const char *path = arena_printf(scratch, "%s/%s.csv", dir, op);
    if (!fs_exists(path))
        path = arena_printf(scratch, "%s/%s.csv.gz", dir, op);
    struct sv text;
    struct csv_reader *r = NULL;
    to->n = 0;
    enum st st = gz_read(scratch, path, MAX_FILE, &text, e);
    if (st == ST_OK)
        st = csv_open_bytes(&r, path, text, e);
    if (st == ST_OK)
        st = read_cells(r, a, max_a, b, max_b, to, e);
    if (st == ST_OK && to->n == 0)
        st = err_set(e, ST_INPUT, "%s has no rows", path);
    csv_close(&r);
    arena_free(&scratch);
    return st;
}

static double *nans(struct arena *a, int64_t n)
{
    double *x = arena_array(a, double, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

/* [*n] by number of tokens. */
static enum st read_tokens(struct arena *a, const char *dir, const char *op, double **ms,
                           int64_t *n, struct err *e)
{
    struct cells cells = {0};
    enum st st = read_table(dir, op, "num_tokens", MAX_TOKENS, NULL, 0, &cells, e);
    *n = 0;
    for (size_t i = 0; st == ST_OK && i < cells.n; i++)
        *n = cells.p[i].a >= *n ? cells.p[i].a + 1 : *n;
    if (st == ST_OK) {
        *ms = nans(a, *n);
        for (size_t i = 0; i < cells.n; i++)
            (*ms)[cells.p[i].a] = cells.p[i].ms;
    }
    vec_free(&cells);
    return st;
}

static int64_t root(int64_t square) /* rounded to the nearest; halves do not occur */
{
    int64_t r = (int64_t)sqrt((double)square);
    while (r * r > square)
        r--;
    while ((r + 1) * (r + 1) <= square)
        r++;
    return square > r * r + r ? r + 1 : r;
}

static enum st read_by_kv(struct arena *a, const char *dir, const char *op, const char *x,
                          bool squared, struct by_kv *t, struct err *e)
{
    struct cells cells = {0};
    int64_t max_x = squared ? (int64_t)MAX_TOKENS * MAX_TOKENS : MAX_TOKENS;
    enum st st = read_table(dir, op, x, max_x, "kv_cache_size", MAX_KV, &cells, e);
    *t = (struct by_kv){.n_x = 1, .n_kv = 1};
    for (size_t i = 0; st == ST_OK && i < cells.n; i++) {
        struct table_cell *c = &cells.p[i];
        int64_t key = c->a;
        if (squared)
            c->a = root(key);
        if (c->b % KV_STEP || (squared && c->a * c->a != key))
            st = err_set(e, ST_INPUT, "%s/%s: kv_cache_size %lld, %s %lld is no key of Vidur's",
                         dir, op, (long long)c->b, x, (long long)key);
        c->b /= KV_STEP;
        t->n_x = c->a >= t->n_x ? c->a + 1 : t->n_x;
        t->n_kv = c->b >= t->n_kv ? c->b + 1 : t->n_kv;
    }
    if (st == ST_OK && t->n_x > MAX_CELLS / t->n_kv)
        st = err_set(e, ST_INPUT, "%s/%s: a table of %lld x %lld cells is too large", dir, op,
                     (long long)t->n_x, (long long)t->n_kv);
    if (st == ST_OK) {
        t->ms = nans(a, t->n_x * t->n_kv);
        for (size_t i = 0; i < cells.n; i++)
            t->ms[cells.p[i].a * t->n_kv + cells.p[i].b] = cells.p[i].ms;
    }
    vec_free(&cells);
    return st;
}

enum term { PRE, POST, ROPE, INPUT_NORM, UP, DOWN, ACT, POST_NORM, ADD, REDUCE, SEND, TERMS };

static const char *const term_names[TERMS] = {
    "attn_pre_proj", "attn_post_proj", "attn_rope", "input_layernorm",
    "mlp_up_proj",   "mlp_down_proj",  "mlp_act",   "post_attention_layernorm",
    "add",           "all_reduce",     "send_recv"};

static struct by_tokens combine(const double *const ms[TERMS], int64_t at)
{
    double v[TERMS];
    for (int k = 0; k < TERMS; k++)
        v[k] = ms[k] ? ms[k][at] : 0;
    double comm = ms[REDUCE] ? v[REDUCE] + LAUNCH_MS : 0;
    return (struct by_tokens){.head = v[PRE] + v[POST] + v[ROPE],
                              .comm = comm,
                              .input_norm = v[INPUT_NORM],
                              .mlp = v[UP] + v[DOWN] + v[ACT] + comm + v[POST_NORM],
                              .add = v[ADD],
                              .send = v[SEND]};
}

static enum st read_rows(struct arena *a, const struct predictor_params *p, struct vidur_tables *t,
                         struct err *e)
{
    double *ms[TERMS] = {0};
    int64_t most = INT64_MAX;
    struct arena *scratch = arena_new();
    enum st st = ST_OK;
    for (int k = 0; k < TERMS && st == ST_OK; k++) {
        int64_t n;
        if ((k == REDUCE && p->tp == 1) || (k == SEND && p->pp == 1))
            continue;
        st = read_tokens(scratch, p->tables, term_names[k], &ms[k], &n, e);
        most = n < most ? n : most;
    }
    if (st == ST_OK) {
        t->n_rows = (most - 1) / TOKEN_STEP + 1;
        t->rows = arena_array(a, struct by_tokens, t->n_rows);
        for (int64_t i = 0; i < t->n_rows; i++)
            t->rows[i] = combine((const double *const *)ms, i * TOKEN_STEP);
    }
    arena_free(&scratch);
    return st;
}

static enum st open_tables(struct arena *a, const struct predictor_params *p, void **self,
                           struct err *e)
{
    if (!p->tables) {
        err_set(e, ST_USAGE, "predictor.tables: vidur_tables needs the folder of Vidur's tables");
        return err_hint(e, "predictor.tables=DIR with attn_pre_proj.csv and so on, or .csv.gz");
    }
    struct vidur_tables *t = arena_one(a, struct vidur_tables);
    const struct model *m = p->model;
    if (m->layers % p->pp != 0)
        return err_set(
            e, ST_USAGE,
            "parallel.pp: %lld stages do not divide the %lld layers of %s, as Vidur wants",
            (long long)p->pp, (long long)m->layers, m->name);
    double more = m->heads > m->kv_heads ? BATCHING : 0;
    t->dir = arena_str(a, p->tables);
    t->layers = (double)(m->layers / p->pp);
    t->stages = (int32_t)p->pp;
    t->decode = t->prefill = 1 + more;
    enum st st = read_rows(a, p, t, e);
    if (st == ST_OK)
        st = read_tokens(a, p->tables, "attn_kv_cache_save", &t->save, &t->n_save, e);
    if (st == ST_OK)
        st = read_by_kv(a, p->tables, "attn_decode", "batch_size", false, &t->decodes, e);
    if (st == ST_OK)
        st = read_by_kv(a, p->tables, "attn_prefill", "prefill_chunk_size_squared", true,
                        &t->prefills, e);
    *self = t;
    return st == ST_OK ? ST_OK : err_add(e, "predictor vidur_tables");
}

/* ---- predicting ------------------------------------------------------------------------------ */

static int64_t kv_steps(int64_t tokens)
{
    return (tokens + KV_STEP - 1) / KV_STEP;
}

static double at(const struct by_kv *t, int64_t x, int64_t steps)
{
    return x < t->n_x && steps < t->n_kv ? t->ms[x * t->n_kv + steps] : (double)NAN;
}

static enum st absent(const struct vidur_tables *t, const char *op, const char *x, int64_t n,
                      int64_t steps, struct err *e)
{
    if (steps < 0)
        err_set(e, ST_INPUT, "%s has no prediction of %s for %lld %s", t->dir, op, (long long)n, x);
    else
        err_set(e, ST_INPUT, "%s has no prediction of %s for %lld %s and kv_cache_size %lld",
                t->dir, op, (long long)n, x, (long long)(steps * KV_STEP));
    return err_hint(e, "make the tables with larger prediction_max_* in Vidur's configuration, or "
                       "limit batches and lengths");
}

static enum st decode_ms(const struct vidur_tables *t, const struct batch *b, double *ms,
                         struct err *e)
{
    int64_t steps = kv_steps((b->decode_kv_tokens + b->n_decodes) / b->n_decodes);
    double v = at(&t->decodes, b->n_decodes, steps);
    if (isnan(v))
        return absent(t, "attn_decode", "sequences", b->n_decodes, steps, e);
    *ms = b->n_decodes > 1 ? v * t->decode : v;
    return ST_OK;
}

static enum st prefill_ms(const struct vidur_tables *t, const struct batch *b, double *ms,
                          struct err *e)
{
    int64_t steps = 0, square = 0;
    if (b->prefill_tokens > MAX_TOKENS) /* in no table, and squares would not fit */
        return absent(t, "operators", "tokens", b->prefill_tokens, -1, e);
    for (int32_t i = 0; i < b->n_chunks; i++) {
        steps += kv_steps(b->chunks[i].start);
        square += b->chunks[i].tokens * b->chunks[i].tokens;
    }
    int64_t tokens = b->n_chunks == 1 ? b->chunks[0].tokens : root(square);
    double v = at(&t->prefills, tokens, steps);
    if (isnan(v))
        return absent(t, "attn_prefill", "tokens", tokens, steps, e);
    *ms = b->n_chunks > 1 ? v * t->prefill : v;
    return ST_OK;
}

static enum st predict(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    const struct vidur_tables *t = self;
    int64_t tokens = b->prefill_tokens + b->n_decodes;
    int64_t row = (tokens + TOKEN_STEP - 1) / TOKEN_STEP;
    double decode = 0, prefill = 0;
    if (b->n_decodes > 0)
        TRY(decode_ms(t, b, &decode, e));
    if (b->n_chunks > 0)
        TRY(prefill_ms(t, b, &prefill, e));
    if (row >= t->n_rows || tokens >= t->n_save)
        return absent(t, "operators", "tokens", tokens, -1, e);
    const struct by_tokens *r = &t->rows[row];
    double attn = r->head + t->save[tokens] + decode + prefill + r->comm + r->input_norm;
    double ms = (attn + r->mlp + r->add) * t->layers;
    if (isnan(ms + r->send))
        return absent(t, "operators", "tokens", tokens, -1, e);
    for (int32_t i = 0; i < t->stages; i++)
        stages[i] = (struct stage_time){.device_s = (i < t->stages - 1 ? ms + r->send : ms) * 1e-3};
    return ST_OK;
}

const struct predictor_ops predictor_vidur_tables = {
    .name = "vidur_tables",
    .help = "Vidur's own prediction tables and formula",
    .version = PREDICTOR_VERSION,
    .open = open_tables,
    .predict = predict,
};
