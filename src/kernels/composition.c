#include "kernels/composition.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "text/csv.h"
#include "text/json.h"

static const char *const names[COMPOSITION_FIELDS] = {
    [COMPOSITION_PREFILL_TOKENS] = "prefill_tokens",
    [COMPOSITION_PREFILLS] = "prefills",
    [COMPOSITION_CONTEXT] = "context",
    [COMPOSITION_CHUNK_CONTEXT] = "chunk_context",
    [COMPOSITION_DECODE] = "decode",
    [COMPOSITION_KV] = "kv",
};
static const double MOST[COMPOSITION_FIELDS] = {1e9, 1e6, 1e12, 1e18, 1e9, 1e15};

/* vLLM 0.11 and newer under its profiler; TensorRT-LLM's PyTorch executor. */
const struct composition_template composition_known[] = {
    {"twinfer", "step prefill_tokens={prefill_tokens} context={context} decode={decode} kv={kv}"},
    {"vllm", "execute_context_{prefills}({prefill_tokens})_generation_{decode}(*)"},
    {"tensorrt_llm", "*_forward_step *: {prefills} ctx reqs, {prefill_tokens} ctx tokens, {decode} "
                     "gen reqs*"},
    {NULL, NULL},
};

/* ---- templates ------------------------------------------------------------------------------- */

/* The field whose name begins at t; COMPOSITION_FIELDS when there is none. *n: bytes of "name}". */
static enum composition_field field_at(const char *t, size_t *n)
{
    const size_t length = strcspn(t, "}");
    *n = length + 1;
    for (int f = 0; t[length] && f < COMPOSITION_FIELDS; f++)
        if (strlen(names[f]) == length && memcmp(names[f], t, length) == 0)
            return (enum composition_field)f;
    return COMPOSITION_FIELDS;
}

enum st composition_check(const char *template, struct err *e)
{
    bool used[COMPOSITION_FIELDS] = {false};
    for (const char *t = template; (t = strchr(t, '{'));) {
        size_t n;
        const enum composition_field f = field_at(++t, &n);
        if (f == COMPOSITION_FIELDS) {
            err_set(e, ST_USAGE, "kernels.composition: '{%.*s' is no field", (int)strcspn(t, "} "),
                    t);
            return err_hint(e, "fields: {prefill_tokens}, {prefills}, {context}, {chunk_context}, "
                               "{decode}, {kv}");
        }
        used[f] = true;
        t += n;
    }
    if (used[COMPOSITION_PREFILL_TOKENS] || used[COMPOSITION_DECODE])
        return ST_OK;
    err_set(e, ST_USAGE, "kernels.composition: neither {prefill_tokens} nor {decode} in '%s'",
            template);
    return err_hint(e, "a template is a range's name with fields for its numbers and * for any "
                       "text, or the word auto");
}

/* Digits at s; NULL: none, or more than the field holds. */
static const char *number_at(const char *s, enum composition_field f, double *out)
{
    const char *from = s;
    double v = 0;
    for (; *s >= '0' && *s <= '9'; s++)
        v = v * 10 + (*s - '0');
    *out = v;
    return s > from && v <= MOST[f] ? s : NULL;
}

/* After a mismatch behind a * that one takes one byte more, the last one only: an earlier one need
 * never take more. */
bool composition_match(const char *t, const char *s, struct composition *out)
{
    const char *star = NULL, *again = NULL;
    *out = (struct composition){0};
    for (;;) {
        size_t n = 0;
        const enum composition_field f = *t == '{' ? field_at(t + 1, &n) : COMPOSITION_FIELDS;
        const char *end;
        double v;
        if (*t == '*') {
            star = ++t;
            again = s;
            continue;
        }
        if (!*t && !*s)
            return true;
        if (f < COMPOSITION_FIELDS && (end = number_at(s, f, &v))) {
            out->v[f] = v;
            out->known[f] = true;
            t += n + 1;
            s = end;
            continue;
        }
        if (*t && *t != '{' && *t == *s) {
            t++;
            s++;
            continue;
        }
        if (!star || !*again)
            return false;
        t = star;
        s = ++again;
    }
}

bool composition_of_json(const char *json, struct composition *out)
{
    struct arena *a = arena_new();
    struct err ignored = {0};
    struct node *map;
    *out = (struct composition){0};
    if (json_parse(a, "payload", sv_of(json), NULL, &map, &ignored) == ST_OK &&
        map->kind == NODE_MAP)
        for (int f = 0; f < COMPOSITION_FIELDS; f++)
            out->known[f] =
                node_find(map, names[f]) &&
                node_get_double(map, names[f], 0, MOST[f], &out->v[f], &ignored) == ST_OK;
    err_clear(&ignored);
    arena_free(&a);
    return out->known[COMPOSITION_PREFILL_TOKENS] || out->known[COMPOSITION_DECODE];
}

/* ---- batches --------------------------------------------------------------------------------- */

struct iterations_batch composition_batch(const struct composition *c)
{
    const double tokens = c->v[COMPOSITION_PREFILL_TOKENS];
    const double chunks = c->v[COMPOSITION_PREFILLS] > 0 ? c->v[COMPOSITION_PREFILLS] : 1;
    double pairs = tokens * (c->v[COMPOSITION_CONTEXT] / chunks + (tokens / chunks + 1) / 2);
    if (c->known[COMPOSITION_CHUNK_CONTEXT])
        pairs = c->v[COMPOSITION_CHUNK_CONTEXT];
    return (struct iterations_batch){tokens, tokens > 0 ? pairs : 0, c->v[COMPOSITION_DECODE],
                                     c->v[COMPOSITION_DECODE] > 0 ? c->v[COMPOSITION_KV] : 0};
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int by_step(const void *pa, const void *pb)
{
    const struct composition_row *a = pa, *b = pb;
    return a->step < b->step ? -1 : a->step > b->step;
}

typedef VEC(struct composition_row) row_list;

static enum st read_rows(const char *path, struct csv_reader *r, row_list *rows, struct err *e)
{
    int step, column[COMPOSITION_FIELDS];
    bool any = false;
    enum st st;
    TRY(csv_require(r, "step", &step, e));
    for (int f = 0; f < COMPOSITION_FIELDS; f++)
        any |= (column[f] = csv_find(r, names[f])) >= 0;
    if (!any)
        return err_set(e, ST_INPUT,
                       "%s: no column of prefill_tokens, prefills, context, "
                       "chunk_context, decode, kv",
                       path);
    while ((st = csv_next(r, e)) == ST_OK) {
        struct composition_row row = {0};
        TRY(csv_int(r, step, 0, INT64_MAX, &row.step, e));
        for (int f = 0; f < COMPOSITION_FIELDS; f++) {
            if (column[f] < 0 || csv_empty(r, column[f]))
                continue;
            TRY(csv_double(r, column[f], 0, MOST[f], &row.of.v[f], e));
            row.of.known[f] = true;
        }
        vec_push(rows, row);
    }
    return st == ST_END ? ST_OK : st;
}

enum st composition_load(struct arena *a, const char *path, struct composition_table *out,
                         struct err *e)
{
    struct csv_reader *r = NULL;
    row_list rows = {0};
    TRY(csv_open(&r, path, e));
    enum st st = read_rows(path, r, &rows, e);
    csv_close(&r);
    out->n = rows.n;
    out->rows = arena_array(a, struct composition_row, rows.n + 1);
    if (rows.n) {
        memcpy(out->rows, rows.p, rows.n * sizeof *rows.p);
        qsort(out->rows, rows.n, sizeof *rows.p, by_step);
    }
    vec_free(&rows);
    for (size_t i = 1; st == ST_OK && i < out->n; i++)
        if (out->rows[i].step == out->rows[i - 1].step)
            st = err_set(e, ST_INPUT, "%s: step %lld twice", path, (long long)out->rows[i].step);
    return st;
}

const struct composition *composition_at(const struct composition_table *t, int64_t step)
{
    const struct composition_row want = {.step = step};
    const struct composition_row *row =
        t->n ? bsearch(&want, t->rows, t->n, sizeof *t->rows, by_step) : NULL;
    return row ? &row->of : NULL;
}
