#include "base/heap.h"

#include "base/rng.h"
#include "support/support.h"

struct event {
    uint64_t at, seq;
};

static bool earlier(const struct event *a, const struct event *b)
{
    return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

/* Against a look at all that are in it, with many equal times, pushes and pops mixed. */
static void the_first_comes_first(void **state)
{
    (void)state;
    enum { MOST = 200, STEPS = 20000 };
    struct rng r = rng_stream(1, "heap");
    struct event in[MOST];
    size_t n = 0, most = 0;
    VEC(struct event) v = {0};
    for (uint64_t step = 0; step < STEPS; step++) {
        if (n < MOST && (n == 0 || rng_below(&r, 100) < (step / 1000 % 2 ? 40u : 60u))) {
            in[n] = (struct event){rng_below(&r, 50), step};
            heap_push(&v, earlier, in[n]);
            n++;
        } else {
            size_t first = 0;
            for (size_t i = 1; i < n; i++)
                first = earlier(&in[i], &in[first]) ? i : first;
            struct event got;
            heap_pop(&v, earlier, &got);
            assert_int_equal(got.at, in[first].at);
            assert_int_equal(got.seq, in[first].seq);
            in[first] = in[--n];
        }
        assert_int_equal(v.n, n);
        most = n > most ? n : most;
    }
    assert_true(most > MOST / 2);
    vec_free(&v);
}

static void what_was_just_pushed_can_be_ordered(void **state)
{
    (void)state;
    struct rng r = rng_stream(2, "heap");
    for (uint64_t n = 0; n < 40; n++) {
        VEC(struct event) v = {0};
        for (uint64_t i = 0; i < n; i++)
            vec_push(&v, (struct event){rng_below(&r, 10), i});
        heap_make(&v, earlier);
        assert_int_equal(v.n, n);
        struct event last = {0}, next;
        for (uint64_t i = 0; i < n; i++, last = next) {
            heap_pop(&v, earlier, &next);
            assert_true(i == 0 || earlier(&last, &next));
        }
        vec_free(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_comes_first),
        TEST(what_was_just_pushed_can_be_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
