/* Keys that queries see, against counting them one by one. */
#include "model/spans.h"

#include "base/rng.h"
#include "model/model.h"
#include "support/models.h"

/* Whether the query at position q sees entry i. Of chosen ones any: the first. */
static bool sees(const struct key_span *s, int64_t q, int64_t i)
{
    const int64_t v = q + 1, entries = v / s->unit;
    if (s->chunk)
        return i / s->chunk == q / s->chunk && i <= q;
    if (s->most == 0 || entries <= s->most)
        return i < entries;
    return s->chosen || s->unit > 1 ? i < s->most : i < entries && i >= entries - s->most;
}

static void check_chunk(const struct key_span *s, int64_t before, int64_t tokens)
{
    static bool read[4096];
    int64_t pairs = 0, keys = 0;
    memset(read, 0, sizeof read);
    for (int64_t q = before; q < before + tokens; q++) {
        int64_t seen = 0;
        for (int64_t i = 0; i <= q; i++)
            if (sees(s, q, i)) {
                seen++;
                keys += !read[i];
                read[i] = true;
            }
        assert_int_equal(span_seen(s, q + 1), seen);
        pairs += seen;
    }
    if (s->chosen) { /* different ones for each query, at worst */
        const int64_t all = (before + tokens) / s->unit;
        keys = pairs < all ? pairs : all;
    } else if (s->unit > 1) {
        keys = pairs < (before + tokens) / s->unit ? pairs : (before + tokens) / s->unit;
    }
    const struct span_chunk c = span_chunk(s, before, tokens);
    assert_int_equal(c.pairs, pairs);
    assert_int_equal(c.keys, keys);
}

static void counts_one_by_one(void **state)
{
    static const struct key_span spans[] = {
        {.unit = 1},
        {.unit = 1, .most = 1},
        {.unit = 1, .most = 7},
        {.unit = 1, .most = 64},
        {.unit = 1, .most = 64, .chosen = true},
        {.unit = 1, .chunk = 1},
        {.unit = 1, .chunk = 16},
        {.unit = 1, .chunk = 50},
        {.unit = 4},
        {.unit = 128},
        {.unit = 4, .most = 8, .chosen = true},
        {.unit = 3, .most = 5, .chosen = true},
    };
    struct rng rng = rng_stream(1, "spans");
    (void)state;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        for (int k = 0; k < 60; k++)
            check_chunk(&spans[i], (int64_t)rng_below(&rng, k % 2 ? 300 : 20),
                        1 + (int64_t)rng_below(&rng, k % 3 ? 200 : 10));
}

static void absurd_prompts_end_at_the_largest(void **state)
{
    const struct key_span all = {.unit = 1}, window = {.unit = 1, .most = 128};
    const int64_t many = INT64_C(1) << 40;
    (void)state;
    assert_true(span_chunk(&all, 0, many).pairs == INT64_MAX);
    assert_true(span_chunk(&window, 0, many).pairs == 128 * many - 128 * 127 / 2);
    assert_true(span_chunk(&window, many, many).keys == many + 127);
}

#define SMALL                                                                \
    "\"vocab_size\": 1000, \"hidden_size\": 64, \"intermediate_size\": 128," \
    " \"num_hidden_layers\": 4, \"num_attention_heads\": 4"

static struct key_spans of(struct test *t, const char *json)
{
    const struct model m = model_of_json(t, json);
    return model_spans(&m);
}

static void spans_of_models(void **state)
{
    struct test *t = *state;
    assert_int_equal(of(t, "{\"model_type\": \"llama\"," SMALL "}").n, 0);

    struct key_spans s =
        of(t, "{\"model_type\": \"gpt_oss\"," SMALL ", \"head_dim\": 16,"
              " \"num_key_value_heads\": 2, \"sliding_window\": 8, \"num_local_experts\": 4,"
              " \"num_experts_per_tok\": 2}");
    assert_int_equal(s.n, 1);
    assert_int_equal(s.of[0].most, 8);
    assert_false(s.of[0].chosen);

    /* a window that bounds nothing */
    s = of(t, "{\"model_type\": \"gpt_oss\"," SMALL ", \"head_dim\": 16,"
              " \"num_key_value_heads\": 2, \"sliding_window\": 1048576,"
              " \"num_local_experts\": 4, \"num_experts_per_tok\": 2}");
    assert_int_equal(s.n, 0);

    s = of(t, "{\"model_type\": \"deepseek_v4\", \"vocab_size\": 1000, \"hidden_size\": 64,"
              " \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"head_dim\": 16, "
              "\"q_lora_rank\": 24,"
              " \"o_lora_rank\": 16, \"o_groups\": 2, \"sliding_window\": 8,"
              " \"index_head_dim\": 8, \"index_n_heads\": 2, \"index_topk\": 6,"
              " \"compress_ratios\": [0, 4, 128, 4], \"moe_intermediate_size\": 32,"
              " \"n_shared_experts\": 1, \"n_routed_experts\": 8, \"num_experts_per_tok\": 2,"
              " \"hc_mult\": 4}");
    /* a window, six chosen of entries of 4, all of them for the index, entries of 128 */
    assert_int_equal(s.n, 4);
    assert_int_equal(s.of[0].most, 8);
    assert_int_equal(s.of[1].unit, 4);
    assert_int_equal(s.of[1].most, 6);
    assert_true(s.of[1].chosen);
    assert_int_equal(s.of[2].unit, 4);
    assert_int_equal(s.of[2].most, 0);
    assert_int_equal(s.of[3].unit, 128);
}

#define BLOCK(window)                                                           \
    "{\"attention\": {\"n_heads_in_group\": 2, \"window_length\": " window "}," \
    " \"ffn\": {\"ffn_mult\": 1.0}}"

static void more_spans_than_there_is_room_for(void **state)
{
    struct test *t = *state;
    static const char json[] =
        "{\"model_type\": \"nemotron-nas\", \"vocab_size\": 1000, \"hidden_size\": 64,"
        " \"num_hidden_layers\": 7, \"num_attention_heads\": 4, \"block_configs\": ["
        // clang-format off
        BLOCK("8") ", " BLOCK("16") ", " BLOCK("24") ", " BLOCK("32") ", " BLOCK("40") ", "
        BLOCK("48") ", " BLOCK("56") "]}";
    // clang-format on
    const struct model m = model_of_json(t, json);
    assert_err(model_check_modelled(&m, &t->e), ST_INPUT, t,
               "model test: more than 6 different windows of attention (type nemotron-nas) are "
               "not modelled yet");
}

static void loads_add_up(void **state)
{
    const struct key_spans spans = {.n = 2,
                                    .of = {{.unit = 1, .most = 100}, {.unit = 1, .chunk = 64}}};
    struct op_load l = {0}, plain = {0};
    (void)state;
    op_load_add_chunk(&l, &spans, 0, 150);
    op_load_add_chunk(&l, &spans, 1000, 10);
    op_load_add_keys(&l, &spans, 70);
    op_load_add_keys(&l, &spans, 500);
    assert_int_equal(l.chunks, 2);
    assert_int_equal(l.kv_tokens, 570);
    assert_int_equal(l.chunk_sq, 150 * 151 / 2 + 55);
    assert_int_equal(l.spans[0].pairs, 100 * 101 / 2 + 50 * 100 + 10 * 100);
    assert_int_equal(l.spans[0].keys, 150 + 109);
    assert_int_equal(l.spans[0].kv_tokens, 170);
    /* pieces of 64, 64 and 22; positions 40 .. 49 of the sixteenth */
    assert_int_equal(l.spans[1].pairs, 2 * (64 * 65 / 2) + 22 * 23 / 2 + 10 * 40 + 55);
    assert_int_equal(l.spans[1].keys, 150 + 40 + 10);
    assert_int_equal(l.spans[1].kv_tokens, 6 + 52);
    op_load_add_chunk(&plain, NULL, 5, 7);
    assert_int_equal(plain.n_spans, 0);
    assert_int_equal(plain.kv_read_tokens, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(counts_one_by_one), TEST(absurd_prompts_end_at_the_largest),
        TEST(spans_of_models),   TEST(more_spans_than_there_is_room_for),
        TEST(loads_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
