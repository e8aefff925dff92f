/* The first batch of each shape, on a predictor of known times. */
#include "sim/first_use.h"

#include "support/support.h"

static enum st known_times(void *self, const struct batch *b, struct stage_time *stages,
                           struct err *e)
{
    (void)self;
    (void)e;
    stages[0] = (struct stage_time){.host_s = 1e-3, .device_s = 1e-3 * b->n_decodes};
    stages[1] = (struct stage_time){.device_s = 2e-3};
    return ST_OK;
}

static const struct predictor_ops known = {.name = "known", .predict = known_times};

static void shapes_are_told_apart(void **state)
{
    struct test *t = *state;
    struct shapes s = {0};
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 1000; i++) {
            const int64_t rows = i % 16, kv = rows * i;
            const struct shape shapes[] = {
                {.sequences = rows, .longest = i, .kv_tokens = kv},
                {.sequences = rows, .longest = i, .kv_tokens = kv - 1}, /* one row is padded */
                {.chunks = 1, .chunk_tokens = i},
                {.chunks = 2, .chunk_tokens = i},
            };
            for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
                assert_int_equal(shapes_seen(t->a, &s, &shapes[k]), again);
        }
    assert_int_equal(s.n, 4000);
}

static void only_first_batches_take_longer(void **state)
{
    struct test *t = *state;
    const struct predictor inner = {.ops = &known, .stages = 2, .idle_w = 70};
    const struct predictor p = predictor_first_use(t->a, &inner, 0.04, 0.07);
    const struct batch decodes = {.n_decodes = 4, .decode_kv_max = 100, .decode_kv_tokens = 390};
    const struct batch others = {.n_decodes = 4, .decode_kv_max = 100, .decode_kv_tokens = 310};
    const struct batch even = {.n_decodes = 4, .decode_kv_max = 100, .decode_kv_tokens = 400};
    const struct batch longer = {.n_decodes = 4, .decode_kv_max = 101, .decode_kv_tokens = 390};
    const struct batch prompt = {.n_chunks = 1, .prefill_tokens = 100};
    const struct {
        const struct batch *b;
        bool first;
    } rows[] = {{&decodes, true},  {&decodes, false}, {&longer, true},  {&prompt, true},
                {&decodes, false}, {&prompt, false},  {&longer, false}, {&others, false},
                {&even, true},     {&even, false},    {&decodes, false}};
    assert_string_equal(p.ops->name, "known");
    assert_near(p.idle_w, 70, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stage_time s[2];
        assert_ok(p.ops->predict(p.self, rows[i].b, s, &t->e), t);
        const double more = rows[i].b->n_chunks ? 0.07 : 0.04;
        assert_near(s[0].host_s, 0.001 + (rows[i].first ? more : 0), 1e-15);
        assert_near(s[0].device_s, 1e-3 * rows[i].b->n_decodes, 1e-15);
        assert_near(s[1].host_s, 0, 0);
        assert_near(s[1].device_s, 2e-3, 1e-15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(shapes_are_told_apart),
                                       TEST(only_first_batches_take_longer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
