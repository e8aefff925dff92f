#include "serve/decode_set.h"

#include "base/rng.h"
#include "support/support.h"

enum { MEMBERS = 40, BLOCK = 4 };

/* What the set stands for: a counter per member, updated at every tick. */
struct naive {
    struct request q;
    bool in;
    int64_t kv, left, blocks;
};

static int64_t blocks_of(int64_t kv)
{
    return (kv + BLOCK - 1) / BLOCK;
}

static void join(struct decode_set *s, struct naive *m, struct rng *rng, struct kv *kv)
{
    m->in = true;
    m->kv = 1 + (int64_t)rng_below(rng, 50);
    m->left = 1 + (int64_t)rng_below(rng, rng_below(rng, 10) ? 30 : 3 * DECODE_WHEEL);
    m->q = (struct request){.kv = m->kv, .order = (int64_t)rng_below(rng, 1000)};
    m->q.fixed_blocks = rng_below(rng, 8) == 0;
    if (m->q.fixed_blocks)
        m->blocks = blocks_of(m->kv + m->left);
    else
        m->blocks = blocks_of(m->kv);
    kv_take(kv, &m->q, m->blocks);
    decode_set_join(s, &m->q, m->left);
}

static void gone(struct naive *m, struct kv *kv)
{
    m->in = false;
    assert_int_equal(m->q.kv, m->kv);
    assert_int_equal(m->q.n_blocks, m->blocks);
    kv_give(kv, &m->q);
    mem_free(m->q.blocks);
}

static void check_sums(struct decode_set *s, struct naive *m)
{
    int64_t n = 0, kv = 0, need = 0, order = -1, longest = 0;
    for (int i = 0; i < MEMBERS; i++) {
        if (!m[i].in)
            continue;
        bool needs = m[i].kv == m[i].blocks * BLOCK;
        n++;
        kv += m[i].kv;
        longest = m[i].kv > longest ? m[i].kv : longest;
        need += needs && !m[i].q.fixed_blocks;
        assert_int_equal(decode_set_kv(s, &m[i].q), m[i].kv);
        assert_int_equal(decode_set_needs(s, &m[i].q), needs && !m[i].q.fixed_blocks);
    }
    assert_int_equal(s->n, n);
    assert_int_equal(s->kv_sum, kv);
    assert_int_equal(decode_set_kv_max(s), longest);
    assert_int_equal(decode_set_blocks(s), need);
    for (struct link *l = s->members.next; l != &s->members; l = l->next) {
        assert_true(request_of(l)->order >= order);
        order = request_of(l)->order;
    }
    assert_ptr_equal(decode_set_last(s), n ? request_of(s->members.prev) : NULL);
}

static void random_life(struct test *t, bool with_ids)
{
    struct rng rng = rng_stream(with_ids, "decode_set");
    static struct naive m[MEMBERS];
    struct decode_set s;
    struct kv kv;
    kv_init(&kv, t->a, BLOCK, 100000, 0, with_ids);
    decode_set_init(&s, t->a, BLOCK, with_ids);
    memset(m, 0, sizeof m);
    for (int round = 0; round < 6000; round++) {
        struct naive *x = &m[rng_below(&rng, MEMBERS)];
        if (!x->in) {
            join(&s, x, &rng, &kv);
        } else if (rng_below(&rng, 4) == 0) {
            decode_set_leave(&s, &x->q);
            gone(x, &kv);
        }
        check_sums(&s, m);
        if (rng_below(&rng, 3) == 0)
            continue;
        struct link finished;
        link_init(&finished);
        decode_set_take_blocks(&s, &kv);
        decode_set_tick(&s, &finished);
        for (int i = 0; i < MEMBERS; i++) {
            if (!m[i].in)
                continue;
            if (!m[i].q.fixed_blocks && m[i].kv == m[i].blocks * BLOCK)
                m[i].blocks++;
            m[i].kv++;
            if (--m[i].left == 0)
                m[i].in = false;
        }
        while (!link_empty(&finished)) {
            struct request *q = request_of(finished.next);
            link_remove(&q->list);
            struct naive *y = LINK_OF(&q->list, struct naive, q.list);
            assert_false(y->in);
            assert_int_equal(y->left, 0);
            gone(y, &kv);
        }
        check_sums(&s, m);
    }
    for (int i = 0; i < MEMBERS; i++)
        if (m[i].in) {
            decode_set_leave(&s, &m[i].q);
            gone(&m[i], &kv);
        }
    assert_int_equal(kv.free, kv.num_blocks);
    assert_true(link_empty(&s.members));
}

static void agrees_with_counters_per_member(void **state)
{
    random_life(*state, false);
}

static void agrees_with_counters_and_ids(void **state)
{
    random_life(*state, true);
}

static void finishes_in_order_of_joining(void **state)
{
    struct test *t = *state;
    struct decode_set s;
    struct request q[3] = {{.kv = 7, .order = 2}, {.kv = 8, .order = 1}, {.kv = 9, .order = 0}};
    struct link finished;
    link_init(&finished);
    decode_set_init(&s, t->a, BLOCK, false);
    for (int i = 0; i < 3; i++)
        decode_set_join(&s, &q[i], 1);
    assert_ptr_equal(decode_set_last(&s), &q[0]);
    decode_set_tick(&s, &finished);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(finished.next, &q[i].list);
        link_remove(&q[i].list);
    }
    assert_int_equal(s.n, 0);
    assert_int_equal(s.kv_sum, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(agrees_with_counters_per_member),
        TEST(agrees_with_counters_and_ids),
        TEST(finishes_in_order_of_joining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
