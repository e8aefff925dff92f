#include "serve/request.h"

#include "artifact/run.h"
#include "base/rng.h"
#include "support/support.h"

static void queue_keeps_order_from_both_ends(void **state)
{
    (void)state;
    struct request_queue w = {0};
    static struct request q[2000];
    struct request *model[2000];
    size_t n = 0, next = 0;
    struct rng rng = rng_stream(1, "queue");
    assert_null(queue_head(&w));
    while (next < 2000 || n > 0) {
        uint64_t what = rng_below(&rng, 5);
        if (what < 2 && next < 2000) {
            request_queue_push(&w, &q[next]);
            model[n++] = &q[next++];
        } else if (what == 2 && next < 2000) {
            request_queue_push_front(&w, &q[next]);
            memmove(model + 1, model, n++ * sizeof *model);
            model[0] = &q[next++];
        } else if (what == 3 && n > 0) {
            size_t i = (size_t)rng_below(&rng, n);
            assert_ptr_equal(request_queue_take(&w, i), model[i]);
            memmove(model + i, model + i + 1, (--n - i) * sizeof *model);
        } else if (n > 0) {
            assert_ptr_equal(request_queue_pop(&w), model[0]);
            memmove(model, model + 1, --n * sizeof *model);
        }
        assert_int_equal(w.n, n);
        assert_ptr_equal(queue_head(&w), n ? model[0] : NULL);
        if (n)
            assert_ptr_equal(queue_at(&w, n - 1), model[n - 1]);
    }
    request_queue_free(&w);
}

static void pool_reuses_and_clears(void **state)
{
    struct test *t = *state;
    struct request_pool p;
    request_pool_init(&p, t->a);
    struct request *first = request_take(&p);
    for (int i = 0; i < 1000; i++) {
        struct request *q = request_take(&p);
        assert_int_equal(q->slot, -1);
        assert_int_equal(q->generated, 0);
        assert_int_equal(q->scheduled_ns, RUN_NONE);
        q->generated = 5;
        q->ids = mem_alloc(4);
        request_give(&p, q);
    }
    assert_ptr_not_equal(request_take(&p), first);
    assert_true(arena_used(t->a) < 200 * sizeof(struct request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(queue_keeps_order_from_both_ends),
                                       TEST(pool_reuses_and_clears)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
