/* Sums that go by the clock, against a decode set whose members are counted one by one. */
#include "serve/span_sums.h"

#include "base/rng.h"
#include "serve/decode_set.h"
#include "support/support.h"

enum { MEMBERS = 30, BLOCK = 4 };

static const struct key_spans spans = {.n = 6,
                                       .of = {{.unit = 1, .most = 1},
                                              {.unit = 1, .most = 24},
                                              {.unit = 1, .chunk = 10},
                                              {.unit = 4},
                                              {.unit = 4, .most = 6, .chosen = true},
                                              {.unit = 128}}};

struct member {
    struct request q;
    bool in;
    int64_t kv, left;
};

static void check(struct decode_set *s, const struct member *m)
{
    for (int32_t k = 0; k < spans.n; k++) {
        int64_t sum = 0;
        for (int i = 0; i < MEMBERS; i++)
            sum += m[i].in ? span_seen(&spans.of[k], m[i].kv + 1 + s->draft_tokens) : 0;
        assert_int_equal(s->spans.of[k].sum, sum);
    }
}

static void take_finished(struct link *finished, struct member *m)
{
    for (int i = 0; i < MEMBERS; i++)
        if (m[i].in && m[i].left == 0)
            m[i].in = false;
    while (!link_empty(finished)) {
        struct request *q = request_of(finished->next);
        assert_false(LINK_OF(&q->list, struct member, q.list)->in);
        link_remove(&q->list);
    }
}

/* Members join at any length, leave before their end as preempted ones do, skip tokens that drafts
 * brought, and end. */
static void random_life(struct test *t, int32_t drafts)
{
    struct rng rng = rng_stream((uint64_t)drafts, "span_sums");
    static struct member m[MEMBERS];
    struct decode_set s;
    memset(m, 0, sizeof m);
    decode_set_init(&s, t->a, BLOCK, false);
    s.draft_tokens = drafts;
    decode_set_see(&s, t->a, &spans);
    for (int round = 0; round < 6000; round++) {
        struct member *x = &m[rng_below(&rng, MEMBERS)];
        if (!x->in) {
            *x = (struct member){.in = true,
                                 .kv = 1 + (int64_t)rng_below(&rng, rng_below(&rng, 4) ? 40 : 700),
                                 .left = 1 + (int64_t)rng_below(&rng, 200)};
            x->q = (struct request){.kv = x->kv};
            decode_set_join(&s, &x->q, x->left);
        } else if (rng_below(&rng, 4) == 0) {
            decode_set_leave(&s, &x->q);
            x->in = false;
        }
        check(&s, m);
        struct link finished;
        link_init(&finished);
        for (int i = 0; drafts && i < MEMBERS; i++) {
            const int64_t more = m[i].in ? (int64_t)rng_below(&rng, (uint64_t)drafts + 1) : 0;
            const int64_t extra = more < m[i].left ? more : m[i].left - 1;
            if (!m[i].in || extra == 0)
                continue;
            decode_set_skip(&s, &m[i].q, extra);
            m[i].kv += extra;
            m[i].left -= extra;
        }
        check(&s, m);
        decode_set_tick(&s, &finished);
        for (int i = 0; i < MEMBERS; i++) {
            m[i].kv += m[i].in;
            m[i].left -= m[i].in;
        }
        take_finished(&finished, m);
        check(&s, m);
    }
    for (int i = 0; i < MEMBERS; i++)
        if (m[i].in)
            decode_set_leave(&s, &m[i].q);
    for (int32_t k = 0; k < spans.n; k++)
        assert_int_equal(s.spans.of[k].sum, 0);
}

static void agrees_with_members_one_by_one(void **state)
{
    random_life(*state, 0);
}

static void agrees_with_drafts(void **state)
{
    random_life(*state, 3);
}

static void models_that_see_all_have_none(void **state)
{
    struct test *t = *state;
    struct span_sums s;
    span_sums_init(&s, t->a, NULL);
    assert_int_equal(s.n, 0);
    span_sums_init(&s, t->a, &(struct key_spans){0});
    assert_int_equal(s.n, 0);
    span_sums_add(&s, 5, 0);
    span_sums_tick(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(agrees_with_members_one_by_one),
        TEST(agrees_with_drafts),
        TEST(models_that_see_all_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
