/* What queries see, counted token by token. */
#include "profile/read/seen.h"

#include "profile/read/table.h"
#include "support/models.h"

static double keys_of(const struct seen *s, int64_t v)
{
    const int64_t w = (int64_t)s->tokens;
    return (double)(w == 0 ? v : s->piece ? (v - 1) % w + 1 : v < w ? v : w);
}

static void pairs_and_cached_tokens(void **state)
{
    static const struct seen all[] = {{0, false, -1}, {7, false, 0}, {7, true, 0}, {1, false, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int64_t kv = 0; kv < 30; kv++) {
            double pairs = 0;
            assert_near(seen_kv(&all[i], (double)kv), keys_of(&all[i], kv + 1) - 1, 1e-12);
            for (int64_t c = 1; c < 30; c++) {
                pairs += keys_of(&all[i], kv + c);
                assert_near(seen_pairs(&all[i], (double)kv, (double)c), pairs, 1e-9);
                /* tokens that no query sees change nothing */
                assert_near(seen_pairs(&all[i], seen_kv(&all[i], (double)kv), (double)c), pairs,
                            1e-9);
            }
        }
}

/* Four sequences around 40: 25, 35, 45 and 55 tokens. */
static void lengths_that_differ(void **state)
{
    const struct seen window = {41, false, 0}, all = {0, false, -1};
    const struct seen_rows rows = {1000, 5}, near_the_end = {51, 5}, at_it = {41, 5};
    (void)state;
    assert_near(seen_kv_mean(&window, 40, 4, &rows), (25 + 35 + 40 + 40) / 4.0, 1e-12);
    assert_near(seen_kv_mean(&window, 40, 4, &near_the_end), (35 + 40 + 40 + 40) / 4.0, 1e-12);
    assert_near(seen_kv_mean(&window, 40, 4, &at_it), 40, 1e-12); /* as a profile drives it */
    assert_near(seen_kv_mean(&window, 40, 4, NULL), 40, 1e-12);
    assert_near(seen_kv_mean(&window, 40, 1, &rows), 40, 1e-12);
    assert_near(seen_kv_mean(&all, 40, 4, &rows), 40, 1e-12);
}

/* A table of such attention: points beyond the window are one place, and look-ups end there. */
static void tables_saturate(void **state)
{
    struct test *t = *state;
    const struct seen window = {64, false, 0};
    struct grid_set known = {0};
    struct surface_point *p = arena_array(t->a, struct surface_point, 400);
    struct op_table table;
    int n = 0;
    bool outside = false;
    for (int x = 1; x <= 32; x *= 2)
        for (int kv = 0; kv <= 512; kv += 32)
            p[n++] = (struct surface_point){x, kv, 1e-6 + 1e-8 * x * (kv < 63 ? kv : 63)};
    op_table_build_seen(t->a, AXIS_DECODE, &window, NULL, &known, p, n, &table);
    for (int kv = 0; kv <= 512; kv += 5)
        assert_near_rel(op_table_at(&table, 8, kv, &outside), 1e-6 + 1e-8 * 8 * (kv < 63 ? kv : 63),
                        1e-9);
    assert_near_rel(op_table_at(&table, 8, 1e6, &outside), 1e-6 + 1e-8 * 8 * 63, 1e-9);
    assert_false(outside);
}

static struct seen of(struct test *t, const char *json, enum op_kind k, int32_t part)
{
    const struct model m = model_of_json(t, json);
    struct op_list l;
    model_ops(&m, &l);
    return seen_of(&m, op_list_at(&l, op_list_row(&l, k, part)));
}

static void of_models(void **state)
{
    struct test *t = *state;
    static const char gpt_oss[] =
        "{\"model_type\": \"gpt_oss\", \"vocab_size\": 500, \"hidden_size\": 64, "
        "\"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 48, "
        "\"num_local_experts\": 4, \"num_experts_per_tok\": 2}";
    static const char qwen[] =
        "{\"model_type\": \"qwen3\", \"vocab_size\": 500, \"hidden_size\": 64, "
        "\"intermediate_size\": 128, \"num_hidden_layers\": 3, \"num_attention_heads\": 4}";
    assert_true(of(t, gpt_oss, OP_ATTN_DECODE, 0).tokens == 48);
    assert_int_equal(of(t, gpt_oss, OP_ATTN_DECODE, 0).span, 0);
    assert_true(of(t, gpt_oss, OP_ATTN_PREFILL, 1).tokens == 0);
    assert_true(of(t, gpt_oss, OP_MOE_UP_PROJ, 0).tokens == 0);
    assert_true(of(t, qwen, OP_ATTN_DECODE, 0).tokens == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pairs_and_cached_tokens),
        TEST(lengths_that_differ),
        TEST(tables_saturate),
        TEST(of_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
