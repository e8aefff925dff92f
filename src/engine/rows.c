#include "engine/rows.h"

#include <string.h>

#include "base/arena.h"

/* ---- the decode set of a lane ---------------------------------------------------------------- */

struct lane_slots {
    int32_t *slots; /* [n] ascending */
    int32_t n, cap;
};

/* Index of the first slot >= slot. */
static int32_t place_of(const struct lane_slots *s, int32_t slot)
{
    int32_t low = 0, high = s->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->slots[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void leave(struct lane_slots *s, int32_t slot)
{
    const int32_t at = place_of(s, slot);
    ASSERT(at < s->n && s->slots[at] == slot);
    s->n--;
    memmove(s->slots + at, s->slots + at + 1, (size_t)(s->n - at) * sizeof *s->slots);
}

static void enter(struct lane_slots *s, int32_t slot)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->slots = mem_resize(s->slots, (size_t)s->cap * sizeof *s->slots);
    }
    const int32_t at = place_of(s, slot);
    ASSERT(at == s->n || s->slots[at] != slot);
    memmove(s->slots + at + 1, s->slots + at, (size_t)(s->n - at) * sizeof *s->slots);
    s->slots[at] = slot;
    s->n++;
}

/* O(changes * n), moves of a few bytes. */
static void apply(struct lane_slots *s, const struct batch *b)
{
    for (int32_t i = 0; i < b->n_left; i++)
        leave(s, b->left[i]);
    for (int32_t i = 0; i < b->n_entered; i++)
        enter(s, b->entered[i]);
    ASSERT(b->n_decodes == 0 || b->n_decodes == s->n);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void rows_open(struct rows *r, const struct rows_params *p)
{
    *r = (struct rows){.p = *p};
    r->p.lanes = p->lanes ? p->lanes : 1;
    r->lanes = mem_alloc((size_t)r->p.lanes * sizeof *r->lanes);
}

void rows_bind(struct rows *r, struct slot_source source)
{
    r->source = source;
    for (int32_t i = 0; i < r->p.lanes; i++)
        r->lanes[i].n = 0;
    if (r->n_slots)
        memset(r->out, 0, (size_t)r->n_slots * sizeof *r->out);
}

void rows_close(struct rows *r)
{
    for (int32_t i = 0; r->lanes && i < r->p.lanes; i++)
        mem_free(r->lanes[i].slots);
    mem_free(r->lanes);
    mem_free(r->out);
    *r = (struct rows){0};
}

/* Capacity: the maximum of a batch at once, where that is known. */
static int64_t room_for(int64_t need, int64_t most)
{
    return most ? most : 2 * need;
}

static void reserve(const struct rows_params *p, struct row_batch *b, int64_t tokens, int64_t rows,
                    int64_t segments)
{
    if (tokens > b->tokens_cap) {
        const size_t n = (size_t)(b->tokens_cap = room_for(tokens, p->max_tokens));
        b->ids = mem_resize(b->ids, n * sizeof *b->ids);
        b->positions = mem_resize(b->positions, n * sizeof *b->positions);
        b->kv_at = mem_resize(b->kv_at, n * sizeof *b->kv_at);
    }
    if (rows > b->rows_cap) {
        const size_t n = (size_t)(b->rows_cap = room_for(rows, p->max_rows));
        b->row_slot = mem_resize(b->row_slot, n * sizeof *b->row_slot);
        b->row_token = mem_resize(b->row_token, n * sizeof *b->row_token);
        b->row_sampling = mem_resize(b->row_sampling, n * sizeof *b->row_sampling);
        b->tokens = mem_resize(b->tokens, n * sizeof *b->tokens);
        b->ended = mem_resize(b->ended, n * sizeof *b->ended);
    }
    if (segments > b->segments_cap) {
        b->segments_cap = 2 * segments;
        b->segments = mem_resize(b->segments, (size_t)b->segments_cap * sizeof *b->segments);
    }
}

void row_batch_free(struct row_batch *b)
{
    void *const all[] = {b->segments,  b->ids,          b->positions, b->kv_at, b->row_slot,
                         b->row_token, b->row_sampling, b->tokens,    b->ended};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mem_free(all[i]);
    *b = (struct row_batch){0};
}

/* ---- from a batch to rows -------------------------------------------------------------------- */

static int32_t *out_of(struct rows *r, int32_t slot)
{
    if (slot >= r->n_slots) {
        const int32_t had = r->n_slots;
        r->n_slots = slot < 32 ? 64 : 2 * slot;
        r->out = mem_resize(r->out, (size_t)r->n_slots * sizeof *r->out);
        memset(r->out + had, 0, (size_t)(r->n_slots - had) * sizeof *r->out);
    }
    return &r->out[slot];
}

static enum st check_size(const struct rows_params *p, int64_t tokens, int64_t rows, struct err *e)
{
    if (p->max_tokens && tokens > p->max_tokens)
        return err_set(e, ST_USAGE, "a batch of %lld tokens: the engine was opened for %lld",
                       (long long)tokens, (long long)p->max_tokens);
    if (p->max_rows && rows > p->max_rows)
        return err_set(e, ST_USAGE, "a batch of %lld emitting rows: the engine was opened for %lld",
                       (long long)rows, (long long)p->max_rows);
    return ST_OK;
}

static enum st add_tokens(const struct rows *r, struct row_batch *b, const struct slot_view *view,
                          int64_t start, int64_t tokens, bool is_out, struct err *e)
{
    const struct rows_params *p = &r->p;
    if (start + tokens > p->max_position)
        return err_set(e, ST_USAGE,
                       "a sequence of %lld tokens: the model and its KV cache hold %lld at most",
                       (long long)(start + tokens), (long long)p->max_position);
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t position = start + i, at = b->n_tokens + i;
        const int32_t id = is_out ? ROW_TOKEN_OUT : view->ids[position];
        const int32_t block = view->blocks[position / p->block_size];
        if (!is_out && (id < 0 || id >= p->model->vocab))
            return err_set(e, ST_USAGE, "token id %d: the model has %lld", id,
                           (long long)p->model->vocab);
        ASSERT(block >= 0 && block < p->num_blocks);
        b->top_block = block > b->top_block ? block : b->top_block;
        b->ids[at] = id;
        b->positions[at] = position;
        b->kv_at[at] = block * p->block_size + position % p->block_size;
    }
    return ST_OK;
}

static void add_row(struct rows *r, struct row_batch *b, int32_t slot,
                    const struct sampling *sampling)
{
    b->row_slot[b->n_rows] = slot;
    b->row_sampling[b->n_rows] = sampling;
    b->sampled |= sampling != NULL;
    b->row_token[b->n_rows++] = b->n_tokens - 1;
    ++*out_of(r, slot);
}

/* Adds the segment of a chunk or of a decode row. */
static enum st add_segment(struct rows *r, struct row_batch *b, const struct chunk *c, bool decode,
                           struct err *e)
{
    struct slot_view view = {0};
    int64_t start = c->start;
    if (r->p.model) {
        view = r->source.view(r->source.self, c->slot);
        start = decode ? view.kv_tokens : start;
        TRY(add_tokens(r, b, &view, start, c->tokens, decode && *out_of(r, c->slot) > 0, e));
    }
    b->segments[b->n_chunks + b->n_decodes] =
        (struct segment){b->n_tokens, c->tokens, start, view.blocks};
    b->n_tokens += c->tokens;
    *(decode ? &b->n_decodes : &b->n_chunks) += 1;
    if (c->last)
        add_row(r, b, c->slot, view.sampling);
    return ST_OK;
}

enum st rows_resolve(struct rows *r, const struct batch *b, struct row_batch *out, struct err *e)
{
    const int64_t tokens = b->prefill_tokens + b->n_decodes, rows = b->n_last_chunks + b->n_decodes;
    const struct lane_slots *set = &r->lanes[b->lane];
    TRY(check_size(&r->p, tokens, rows, e));
    apply(&r->lanes[b->lane], b);
    reserve(&r->p, out, r->p.model ? tokens : 0, rows, b->n_chunks + b->n_decodes);
    out->n_tokens = out->n_rows = out->n_chunks = out->n_decodes = 0;
    out->top_block = -1;
    out->sampled = false;
    for (int32_t i = 0; i < b->n_chunks; i++)
        TRY(add_segment(r, out, &b->chunks[i], false, e));
    for (int32_t i = 0; i < b->n_decodes; i++)
        TRY(add_segment(r, out, &(struct chunk){.slot = set->slots[i], .tokens = 1, .last = true},
                        true, e));
    ASSERT(out->n_tokens == tokens && out->n_rows == rows);
    return ST_OK;
}

/* ---- from rows to a completion --------------------------------------------------------------- */

static bool ends_sequence(const struct rows_params *p, int32_t id)
{
    for (int64_t i = 0; p->model && i < p->model->n_eos; i++)
        if (p->model->eos_ids[i] == id)
            return !p->ignore_eos;
    return false;
}

void rows_answer(struct rows *r, struct row_batch *b, const int32_t *ids, struct completion *out)
{
    out->tokens = b->tokens;
    out->ended = b->ended;
    out->n_tokens = (int32_t)b->n_rows;
    out->n_ended = 0;
    for (int64_t i = 0; i < b->n_rows; i++) {
        const int32_t slot = b->row_slot[i];
        b->tokens[i] = (struct emitted){slot, ids[i]};
        if (ends_sequence(&r->p, ids[i]))
            b->ended[out->n_ended++] = slot;
        --*out_of(r, slot);
    }
}
