#include "model/structure_bytes.h"

#include <string.h>

/* ---- its strings ----------------------------------------------------------------------------- */

typedef bool visit(void *self, const char **string);

static bool in_projections(struct projections *w, visit *f, void *self)
{
    bool ok = w->n >= 0 && w->n <= PROJECTIONS_MOST;
    for (int32_t i = 0; ok && i < w->n; i++)
        ok = f(self, &w->w[i].module);
    return ok;
}

/* All of them, in an order of its own. False: one was refused, or a count is none. */
static bool each_string(struct structure *s, visit *f, void *self)
{
    const char **const own[] = {&s->name,         &s->family,     &s->own_type, &s->act,
                                &s->rope_scaling, &s->uncomputed, &s->encoder};
    bool ok = s->n_attentions >= 0 && s->n_attentions <= STRUCTURE_ATTENTIONS && s->n_mlps >= 0 &&
              s->n_mlps <= STRUCTURE_MLPS && s->n_ropes >= 0 && s->n_ropes <= STRUCTURE_ROPES;
    for (size_t i = 0; ok && i < sizeof own / sizeof *own; i++)
        ok = f(self, own[i]);
    ok = ok && in_projections(&s->outside, f, self);
    for (int32_t i = 0; ok && i < s->n_attentions; i++)
        ok = in_projections(&s->attention[i].weights, f, self);
    for (int32_t i = 0; ok && i < s->n_mlps; i++)
        ok = in_projections(&s->mlp[i].weights, f, self);
    for (int32_t i = 0; ok && i < s->n_ropes; i++)
        ok = f(self, &s->ropes[i].name);
    return ok;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Bytes with the end, 0 = NULL; then these. */
static bool write_string(void *self, const char **string)
{
    struct buf *out = self;
    const uint32_t n = *string ? (uint32_t)strlen(*string) + 1 : 0;
    buf_add(out, (const char *)&n, sizeof n);
    if (n)
        buf_add(out, *string, n);
    return true;
}

void structure_write(const struct structure *s, struct buf *out)
{
    struct structure copy = *s;
    buf_add(out, (const char *)s, sizeof *s);
    buf_add(out, (const char *)s->attention_of, (size_t)s->layers);
    buf_add(out, (const char *)s->mlp_of, (size_t)s->layers);
    each_string(&copy, write_string, out);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct bytes_reader {
    struct arena *a;
    struct sv *left;
};

static bool take(struct bytes_reader *r, void *to, size_t n)
{
    if (r->left->n < n)
        return false;
    memcpy(to, r->left->p, n);
    *r->left = (struct sv){r->left->p + n, r->left->n - n};
    return true;
}

static bool read_string(void *self, const char **string)
{
    struct bytes_reader *r = self;
    uint32_t n;
    *string = NULL;
    if (!take(r, &n, sizeof n))
        return false;
    if (n == 0)
        return true;
    if (n > r->left->n || r->left->p[n - 1] != 0)
        return false;
    *string = arena_strn(r->a, r->left->p, n - 1);
    *r->left = (struct sv){r->left->p + n, r->left->n - n};
    return true;
}

/* A kind of each layer, below n. */
static bool read_kinds(struct bytes_reader *r, uint8_t **kinds, int64_t layers, int32_t n)
{
    bool ok = layers >= 0 && (uint64_t)layers <= r->left->n;
    *kinds = ok ? arena_array(r->a, uint8_t, layers) : NULL;
    ok = ok && take(r, *kinds, (size_t)layers);
    for (int64_t i = 0; ok && i < layers; i++)
        ok = (*kinds)[i] < n;
    return ok;
}

bool structure_read(struct arena *a, struct sv *left, struct structure *out)
{
    struct bytes_reader r = {a, left};
    return take(&r, out, sizeof *out) &&
           read_kinds(&r, &out->attention_of, out->layers, out->n_attentions) &&
           read_kinds(&r, &out->mlp_of, out->layers, out->n_mlps) &&
           each_string(out, read_string, &r);
}
