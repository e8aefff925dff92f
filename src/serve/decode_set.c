#include "serve/decode_set.h"

#include "base/vec.h"

void decode_set_init(struct decode_set *s, struct arena *a, int64_t block_size, bool with_ids)
{
    *s = (struct decode_set){.block_size = block_size};
    link_init(&s->members);
    for (int i = 0; i < DECODE_WHEEL; i++)
        link_init(&s->wheel[i]);
    s->crossings = arena_array(a, int32_t, block_size);
    if (!with_ids)
        return;
    s->phases = arena_array(a, struct link, block_size);
    for (int64_t i = 0; i < block_size; i++)
        link_init(&s->phases[i]);
}

void decode_set_see(struct decode_set *s, struct arena *a, const struct key_spans *spans)
{
    span_sums_init(&s->spans, a, spans);
}

/* What the last of q's queries in the next batch would see if it saw all. */
static int64_t last_query(const struct decode_set *s, const struct request *q)
{
    return decode_set_kv(s, q) + 1 + s->draft_tokens;
}

void decode_set_with_looks(struct decode_set *s, struct arena *a)
{
    s->looks = arena_array(a, struct link, DECODE_WHEEL);
    for (int i = 0; i < DECODE_WHEEL; i++)
        link_init(&s->looks[i]);
}

static void look_at(struct decode_set *s, struct request *q, int64_t kv, int64_t now)
{
    q->look_kv = kv;
    q->look = s->tick + (kv > now ? kv - now : 0);
    link_push(&s->looks[q->look % DECODE_WHEEL], &q->phase);
}

void decode_set_look_at(struct decode_set *s, struct request *q, int64_t kv)
{
    link_remove(&q->phase);
    look_at(s, q, kv, decode_set_kv(s, q));
}

void decode_set_due(const struct decode_set *s, struct request_list *out)
{
    const struct link *head = &s->looks[s->tick % DECODE_WHEEL];
    for (struct link *l = head->next; l != head; l = l->next) {
        struct request *q = LINK_OF(l, struct request, phase);
        if (q->look != s->tick)
            continue;
        vec_push(out, q);
        size_t i = out->n - 1;
        for (; i > 0 && out->p[i - 1]->admission > q->admission; i--)
            out->p[i] = out->p[i - 1];
        out->p[i] = q;
    }
}

/* The phase at which a member with q->kv tokens at tick q->t0 has a full last block. */
static int64_t crossing_phase(const struct decode_set *s, const struct request *q)
{
    int64_t p = (q->t0 - q->kv) % s->block_size;
    return p < 0 ? p + s->block_size : p;
}

void decode_set_join(struct decode_set *s, struct request *q, int64_t tokens)
{
    q->t0 = s->tick;
    q->finish = s->tick + tokens - 1;
    struct link *at = s->members.prev;
    while (at != &s->members && request_of(at)->order > q->order)
        at = at->prev;
    link_add_after(at, &q->list);
    link_push(&s->wheel[q->finish % DECODE_WHEEL], &q->wheel);
    if (!q->fixed_blocks) {
        int64_t p = crossing_phase(s, q);
        s->crossings[p]++;
        if (s->phases)
            link_push(&s->phases[p], &q->phase);
    }
    if (s->looks)
        look_at(s, q, q->look_kv, q->kv);
    if (s->n == 0 || q->kv - q->t0 >= s->longest) {
        s->longest = q->kv - q->t0;
        s->longest_left = false;
    }
    s->n++;
    s->kv_sum += q->kv;
    if (s->spans.n)
        span_sums_add(&s->spans, last_query(s, q), s->tick);
}

void decode_set_leave(struct decode_set *s, struct request *q)
{
    link_remove(&q->list);
    link_remove(&q->wheel);
    if (!q->fixed_blocks) {
        s->crossings[crossing_phase(s, q)]--;
        if (s->phases)
            link_remove(&q->phase);
    }
    if (s->looks)
        link_remove(&q->phase);
    s->longest_left |= q->kv - q->t0 == s->longest;
    if (s->spans.n)
        span_sums_remove(&s->spans, last_query(s, q), s->tick);
    int64_t ticks = s->tick - q->t0;
    q->kv += ticks;
    q->generated += ticks;
    s->n--;
    s->kv_sum -= q->kv;
    int64_t blocks = (q->kv + s->block_size - 1) / s->block_size;
    if (!s->phases && !q->fixed_blocks && blocks > q->n_blocks)
        q->n_blocks = blocks;
}

int64_t decode_set_kv_max(struct decode_set *s)
{
    if (s->n == 0)
        return 0;
    if (s->longest_left) {
        s->longest = INT64_MIN;
        for (struct link *l = s->members.next; l != &s->members; l = l->next) {
            const struct request *q = request_of(l);
            s->longest = q->kv - q->t0 > s->longest ? q->kv - q->t0 : s->longest;
        }
        s->longest_left = false;
    }
    return s->longest + s->tick;
}

int64_t decode_set_needs(const struct decode_set *s, const struct request *q)
{
    int64_t n = 0;
    for (int32_t i = 0; !q->fixed_blocks && i <= s->draft_tokens; i++)
        n += crossing_phase(s, q) == (s->phase + i) % s->block_size;
    return n;
}

void decode_set_skip(struct decode_set *s, struct request *q, int64_t extra)
{
    if (extra == 0)
        return;
    if (!q->fixed_blocks)
        s->crossings[crossing_phase(s, q)]--;
    if (s->spans.n)
        span_sums_remove(&s->spans, last_query(s, q), s->tick);
    q->t0 -= extra;
    q->finish -= extra;
    s->kv_sum += extra;
    if (s->spans.n)
        span_sums_add(&s->spans, last_query(s, q), s->tick);
    if (q->kv - q->t0 >= s->longest) {
        s->longest = q->kv - q->t0;
        s->longest_left = false;
    }
    if (!q->fixed_blocks)
        s->crossings[crossing_phase(s, q)]++;
    link_remove(&q->wheel);
    link_push(&s->wheel[q->finish % DECODE_WHEEL], &q->wheel);
}

int64_t decode_set_take_blocks(struct decode_set *s, struct kv *kv)
{
    int64_t n = decode_set_blocks(s);
    if (n == 0)
        return 0;
    ASSERT(n <= kv->free);
    if (!s->phases) {
        kv_count(kv, n);
        return n;
    }
    struct link *head = &s->phases[s->phase];
    for (struct link *l = head->next; l != head; l = l->next)
        kv_take(kv, LINK_OF(l, struct request, phase), 1);
    return n;
}

void decode_set_tick(struct decode_set *s, struct link *finished)
{
    struct link *head = &s->wheel[s->tick % DECODE_WHEEL];
    int64_t tick = s->tick++;
    s->kv_sum += s->n;
    if (s->spans.n)
        span_sums_tick(&s->spans);
    if (++s->phase == s->block_size)
        s->phase = 0;
    for (struct link *l = head->next, *next; l != head; l = next) {
        next = l->next;
        struct request *q = LINK_OF(l, struct request, wheel);
        if (q->finish != tick)
            continue;
        decode_set_leave(s, q);
        link_push(finished, &q->list);
    }
}
