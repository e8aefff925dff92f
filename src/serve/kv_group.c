#include "serve/kv_group.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "serve/kv_spec.h"

enum { LATENT_BLOCK = 128, DELTA_STEP = 64 };

const char *kv_kind_name(enum kv_kind k)
{
    static const char *const names[] = {
        [KV_FULL] = "full", [KV_WINDOW] = "window", [KV_CHUNKED] = "chunked", [KV_STATE] = "state"};
    return names[k];
}

static int64_t divided_up(int64_t n, int64_t parts)
{
    return (n + parts - 1) / parts;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static double token_bytes(const struct kv_maker *m, const struct kv_spec *s)
{
    return ((double)s->elements * m->set->element_bytes + (double)s->bytes) / (double)s->ratio;
}

static int64_t state_bytes(const struct kv_maker *m, const struct kv_spec *s)
{
    return (int64_t)ceil((double)s->state * m->set->state_bytes) +
           s->float32 * (int64_t)sizeof(float);
}

static int64_t own_page(const struct kv_maker *m, const struct kv_spec *s)
{
    return s->kind == KV_STATE ? state_bytes(m, s)
                               : (int64_t)ceil((double)s->block_size * token_bytes(m, s));
}

int64_t kv_spec_page(const struct kv_maker *m, const struct kv_spec *s)
{
    return s->padded ? s->padded : own_page(m, s);
}

/* ---- specs of layers ------------------------------------------------------------------------- */

static enum st not_made(const struct kv_maker *m, const char *what, struct err *e)
{
    err_set(e, ST_INPUT, "model %s: KV blocks of %s are not modelled", m->model, what);
    return err_hint(e, "scheduler=sarathi scheduler.memory_plan=vidur plans requests instead; "
                       "`twinfer model inspect` has what it keeps per token and sequence");
}

/* 0 = not packed. */
static int64_t packed_bytes(const struct kv_settings *set, const struct cache *c)
{
    if (set->element_bytes < 1)
        return c->packed_fp4;
    const bool fp8 = set->packing == KV_PACK_QUANTIZED && set->element_bytes <= 1;
    return fp8 || set->packing == KV_PACK_ALWAYS ? c->packed_fp8 : 0;
}

static enum kv_kind kind_of(const struct attention *t)
{
    return t->type == ATTENTION_WINDOW    ? KV_WINDOW
           : t->type == ATTENTION_CHUNKED ? KV_CHUNKED
                                          : KV_FULL;
}

/* Mamba 2's kernel writes a state anywhere in a prefill (mamba_mixer2.py), FlashInfer's of gated
 * delta nets at multiples of a block (gdn/qwen_gdn_linear_attn.py). */
static bool is_mamba2(const struct attention *t)
{
    return t->heads > 0 && t->weights.n && strcmp(t->weights.w[0].module, "mamba.in_proj") == 0;
}

static bool is_delta(const struct attention *t)
{
    return t->weights.n && strcmp(t->weights.w[0].module, "linear_attn.in_proj_qkv") == 0;
}

struct kv_spec *kv_entry_add(struct kv_maker *m, int64_t layer)
{
    struct kv_entry *x = &m->entries[m->n++];
    memset(x, 0, sizeof *x);
    x->layer = (int32_t)layer;
    x->spec.block_size = m->set->block_size;
    x->spec.ratio = 1;
    return &x->spec;
}

static enum st add_layer(struct kv_maker *m, const struct attention *t, int64_t layer,
                         struct err *e)
{
    if (t->shared_cache)
        return ST_OK;
    if (kv_is_compressed(t)) {
        m->packed = true;
        if (m->set->keeps_all || !m->set->hybrid || !kv_add_compressed(m, t, layer))
            return not_made(m, "layers that keep several tokens in one entry", e);
        return ST_OK;
    }
    for (int32_t i = 0; i < t->n_caches; i++) {
        const struct cache *c = &t->caches[i];
        const bool window = t->type == ATTENTION_WINDOW || t->type == ATTENTION_CHUNKED;
        if (c->ratio > 1 || (c->window && !window) || (i > 0 && window))
            return not_made(m, "layers that keep several lists", e);
        struct kv_spec *s = kv_entry_add(m, layer);
        s->kind = kind_of(t);
        s->span = s->kind == KV_FULL ? 0 : t->window;
        s->latent = t->type == ATTENTION_LATENT || c->bytes > 0;
        s->kv_heads = t->kv_heads;
        s->k_dim = c->bytes ? 0 : t->k_dim;
        s->v_dim = c->bytes ? 0 : t->v_dim;
        const int64_t packed = packed_bytes(m->set, c);
        s->elements = packed ? 0 : c->elements;
        s->bytes = packed ? packed : c->bytes;
    }
    if (t->state.elements + t->state.float32 == 0)
        return ST_OK;
    struct kv_spec *s = kv_entry_add(m, layer);
    s->kind = KV_STATE;
    s->kv_heads = t->heads;
    s->k_dim = t->k_dim;
    s->v_dim = t->v_dim;
    s->state = t->state.elements;
    s->float32 = t->state.float32;
    s->checkpoint = is_mamba2(t) ? 1 : is_delta(t) ? -1 : 0; /* -1: a block, known later */
    return ST_OK;
}

static bool has(const struct kv_maker *m, enum kv_kind kind)
{
    for (int32_t i = 0; i < m->n; i++)
        if (m->entries[i].spec.kind == kind)
            return true;
    return false;
}

/* Tokens of a block whose page of keys and values holds a state. */
static void raise_for_states(struct kv_maker *m)
{
    const struct kv_spec *keys = NULL;
    int64_t state = 0, step = m->set->block_size;
    bool delta = true;
    for (int32_t i = 0; i < m->n; i++) {
        const struct kv_spec *s = &m->entries[i].spec;
        if (s->kind != KV_STATE) {
            keys = keys && keys->kind == KV_FULL ? keys : s;
            continue;
        }
        delta &= s->checkpoint == -1;
        state = state_bytes(m, s) > state ? state_bytes(m, s) : state;
    }
    if (!keys || state == 0)
        return;
    if (keys->latent && step < LATENT_BLOCK)
        step = LATENT_BLOCK;
    if (delta && m->set->prefix_caching)
        step = step / gcd(step, DELTA_STEP) * DELTA_STEP;
    const int64_t least =
        step * (int64_t)ceil((double)state / ((double)step * token_bytes(m, keys)));
    const int64_t block = least > m->set->block_size ? least : m->set->block_size;
    const int64_t all = (int64_t)ceil((double)block * token_bytes(m, keys));
    for (int32_t i = 0; i < m->n; i++) {
        struct kv_spec *s = &m->entries[i].spec;
        s->block_size = block;
        if (s->kind == KV_STATE)
            s->padded = all > state_bytes(m, s) ? all : 0;
    }
}

static void settle_states(struct kv_maker *m)
{
    for (int32_t i = 0; i < m->n; i++) {
        struct kv_spec *s = &m->entries[i].spec;
        if (s->kind != KV_STATE)
            continue;
        if (!m->set->prefix_caching) {
            s->block_size = m->set->max_model_len;
            s->checkpoint = 0;
        } else if (s->checkpoint == -1) {
            s->checkpoint = s->block_size;
        }
    }
}

/* Windows and pieces as full layers. */
static void promote(struct kv_maker *m)
{
    for (int32_t i = 0; i < m->n; i++) {
        struct kv_spec *s = &m->entries[i].spec;
        if (s->kind != KV_WINDOW && s->kind != KV_CHUNKED)
            continue;
        s->kind = KV_FULL;
        s->span = 0;
    }
}

static bool uniform(const struct kv_maker *m)
{
    const struct kv_spec *first = &m->entries[0].spec;
    for (int32_t i = 1; i < m->n; i++) {
        const struct kv_spec *s = &m->entries[i].spec;
        if (s->kind != first->kind || s->block_size != first->block_size || s->span != first->span)
            return false;
        if (s->kind == KV_WINDOW && s->latent != first->latent)
            return false;
        if (s->kind == KV_STATE &&
            (kv_spec_page(m, s) != kv_spec_page(m, first) || s->checkpoint != first->checkpoint))
            return false;
    }
    return true;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static bool make_pages_equal(struct kv_maker *m)
{
    int64_t most = 0;
    for (int32_t i = 0; i < m->n; i++)
        most = kv_spec_page(m, &m->entries[i].spec) > most ? kv_spec_page(m, &m->entries[i].spec)
                                                           : most;
    for (int32_t i = 0; i < m->n; i++) {
        const struct kv_spec *s = &m->entries[i].spec;
        if (s->latent && most % kv_spec_page(m, s) != 0)
            return false;
    }
    for (int32_t i = 0; i < m->n; i++) {
        struct kv_spec *s = &m->entries[i].spec;
        const int64_t own = kv_spec_page(m, s);
        if (own == most)
            continue;
        if (s->kind != KV_STATE && most % own == 0)
            s->block_size *= most / own;
        else
            s->padded = most;
    }
    return true;
}

struct kv_group kv_spec_group(const struct kv_maker *m, const struct kv_spec *s)
{
    return (struct kv_group){.kind = s->kind,
                             .block_size = s->block_size,
                             .span = s->span,
                             .aligned = s->kind == KV_STATE && m->set->prefix_caching,
                             .checkpoint = s->checkpoint};
}

void kv_groups_add(const struct kv_maker *m, struct kv_groups *out, const struct kv_entry *x,
                   int32_t group)
{
    struct kv_group *g = &out->g[group];
    const int64_t bytes = kv_spec_page(m, &x->spec);
    out->pages[out->n_pages++] = (struct kv_page){x->layer, group, bytes};
    g->page_bytes += bytes;
    if (x->spec.kind == KV_STATE)
        g->state_bytes += state_bytes(m, &x->spec);
    else
        g->token_bytes += token_bytes(m, &x->spec);
    bool counted = false;
    for (int32_t i = out->n_pages - 2; i >= 0 && out->pages[i].layer == x->layer; i--)
        counted |= out->pages[i].group == group;
    if (!counted)
        g->layers++;
}

static void one_group(const struct kv_maker *m, struct kv_groups *out)
{
    out->n = 1;
    out->g[0] = kv_spec_group(m, &m->entries[0].spec);
    for (int32_t i = 0; i < m->n; i++)
        kv_groups_add(m, out, &m->entries[i], 0);
}

enum { BUCKETS = KV_GROUPS_MOST };
struct buckets {
    struct kv_spec spec[BUCKETS];
    int64_t layers[BUCKETS];
    int32_t first[BUCKETS]; /* its first group */
    int32_t n;
};

static int32_t bucket_of(const struct buckets *b, const struct kv_spec *s)
{
    for (int32_t i = 0; i < b->n; i++)
        if (memcmp(&b->spec[i], s, sizeof *s) == 0)
            return i;
    return b->n;
}

static bool fill_buckets(const struct kv_maker *m, struct buckets *b)
{
    for (int32_t i = 0; i < m->n; i++) {
        const int32_t k = bucket_of(b, &m->entries[i].spec);
        if (k == BUCKETS)
            return false;
        if (k == b->n) {
            memcpy(&b->spec[k], &m->entries[i].spec, sizeof b->spec[k]);
            b->n++;
        }
        b->layers[k]++;
    }
    return true;
}

static int64_t group_size(const struct buckets *b)
{
    int64_t least = INT64_MAX, most = 0;
    for (int32_t i = 0; i < b->n; i++) {
        least = b->layers[i] < least ? b->layers[i] : least;
        most = b->layers[i] > most ? b->layers[i] : most;
    }
    return 2 * most < 3 * least ? most : least;
}

static bool split(const struct kv_maker *m, struct kv_groups *out)
{
    struct buckets b = {0};
    int64_t seen[BUCKETS] = {0};
    if (!fill_buckets(m, &b))
        return false;
    const int64_t size = group_size(&b);
    for (int32_t i = 0; i < b.n; i++) {
        const int64_t groups = divided_up(b.layers[i], size);
        if (out->n + groups > KV_GROUPS_MOST)
            return false;
        b.first[i] = out->n;
        for (int64_t k = 0; k < groups; k++) {
            out->g[out->n] = kv_spec_group(m, &b.spec[i]);
            out->g[out->n++].spec = i;
        }
    }
    for (int32_t i = 0; i < m->n; i++) {
        const int32_t k = bucket_of(&b, &m->entries[i].spec);
        const int64_t groups = divided_up(b.layers[k], size);
        kv_groups_add(m, out, &m->entries[i], b.first[k] + (int32_t)(seen[k]++ % groups));
    }
    return true;
}

static void measure(struct kv_groups *out)
{
    out->lcm_tokens = out->hash_tokens = out->n ? out->g[0].block_size : 1;
    for (int32_t i = 0; i < out->n; i++) {
        const int64_t block = out->g[i].block_size;
        out->hash_tokens = gcd(out->hash_tokens, block);
        out->lcm_tokens = out->lcm_tokens / gcd(out->lcm_tokens, block) * block;
        if (out->g[i].page_bytes > out->block_bytes)
            out->block_bytes = out->g[i].page_bytes;
    }
}

enum st kv_groups_make(struct arena *a, const char *model, const struct structure *s,
                       const struct kv_settings *set, struct kv_groups *out, struct err *e)
{
    struct kv_maker m = {.set = set, .model = model};
    *out = (struct kv_groups){0};
    m.entries = arena_array(a, struct kv_entry, s->layers * (ATTENTION_CACHES + 1));
    for (int64_t i = 0; i < s->layers; i++)
        TRY(add_layer(&m, &s->attention[s->attention_of[i]], i, e));
    out->pages = arena_array(a, struct kv_page, m.n + 1);
    raise_for_states(&m);
    settle_states(&m);
    const bool hybrid = set->hybrid && (set->chunked || !has(&m, KV_CHUNKED));
    if (set->keeps_all)
        promote(&m);
    else if (!hybrid && has(&m, KV_FULL) && !has(&m, KV_STATE))
        promote(&m);
    else if (!hybrid && m.n && !uniform(&m))
        return not_made(&m, "states and windows without vLLM's hybrid manager", e);
    if (m.n == 0) {
        measure(out);
        return ST_OK;
    }
    if (!uniform(&m) && m.packed) {
        if (has(&m, KV_STATE) || !kv_pack(&m, out))
            return not_made(&m, "so many kinds of layers", e);
        measure(out);
        return ST_OK;
    }
    if (!uniform(&m) && !make_pages_equal(&m)) {
        if (has(&m, KV_STATE) || has(&m, KV_CHUNKED))
            return not_made(&m, "pages that cannot be made equal", e);
        promote(&m);
        if (!uniform(&m))
            return not_made(&m, "pages that cannot be made equal", e);
    }
    if (uniform(&m))
        one_group(&m, out);
    else if (!split(&m, out))
        return not_made(&m, "so many kinds of layers", e);
    measure(out);
    for (int32_t i = 0; i < out->n; i++)
        if (out->g[i].aligned && out->g[i].block_size != out->hash_tokens)
            return not_made(&m, "states and keys with prefix caching, of different lengths,", e);
    return ST_OK;
}

bool kv_groups_plain(const struct kv_groups *g)
{
    return g->n == 0 || (g->n == 1 && g->g[0].kind == KV_FULL);
}

int64_t kv_groups_stage_bytes(const struct kv_groups *g, int64_t from, int64_t to)
{
    int64_t sums[KV_GROUPS_MOST] = {0}, most = 0;
    for (int32_t i = 0; i < g->n_pages; i++)
        if (g->pages[i].layer >= from && g->pages[i].layer < to)
            sums[g->pages[i].group] += g->pages[i].bytes;
    for (int32_t i = 0; i < g->n; i++)
        most = sums[i] > most ? sums[i] : most;
    return most;
}

int64_t kv_group_cap(const struct kv_group *g, int64_t in_flight, int64_t max_model_len)
{
    if (g->kind != KV_WINDOW && g->kind != KV_CHUNKED)
        return INT64_MAX;
    int64_t tokens = in_flight + g->span - (g->kind == KV_WINDOW);
    if (tokens > max_model_len)
        tokens = max_model_len;
    return divided_up(tokens, g->block_size) + (g->kind == KV_WINDOW);
}

int64_t kv_groups_needed(const struct kv_groups *g, int64_t tokens, int64_t in_flight)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < g->n; i++) {
        int64_t n = divided_up(tokens, g->g[i].block_size);
        const int64_t cap = g->g[i].aligned ? 2 + (g->g[i].checkpoint > 0)
                                            : kv_group_cap(&g->g[i], in_flight, INT64_MAX);
        sum += n < cap ? n : cap;
    }
    return sum;
}

int64_t kv_groups_spare(const struct kv_groups *g, int64_t batches)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < g->n; i++)
        sum += g->g[i].aligned ? batches - 1 : 0;
    return sum;
}
