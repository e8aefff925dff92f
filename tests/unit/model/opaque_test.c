#include "model/opaque.h"

#include "model/describe_layers.h"
#include "model/shard.h"
#include "serve/memory.h"
#include "support/support.h"

static const double GIB = 1024.0 * 1024 * 1024;

static struct model made(struct test *t, const struct opaque *sizes)
{
    struct model m;
    assert_ok(opaque_model(t->a, "closed", sizes, &m, &t->e), t);
    return m;
}

static void sizes_are_kept_on_every_number_of_shards(void **state)
{
    struct test *t = *state;
    const struct opaque sizes = {
        .weight_bytes = 61.3 * GIB, .kv_bytes = 36 * 8 * 2 * 128 * 2, .kv_heads = 8, .layers = 36};
    const struct model m = made(t, &sizes);
    for (int64_t tp = 1; tp <= 16; tp *= 2) {
        assert_ok(shard_check(&m, tp, 1, 0, &t->e), t);
        assert_near(memory_weight_bytes(&m, tp, 1, 0), sizes.weight_bytes / (double)tp,
                    4.0 * 2 * 36 + 4);
        assert_near(shard_kv_bytes(&m, tp, 1, 0),
                    (double)sizes.kv_bytes / (double)(tp < 8 ? tp : 8), 0);
    }
    assert_near(model_kv_bytes(&m), (double)sizes.kv_bytes, 0);
}

static void one_head_is_held_by_every_shard(void **state)
{
    struct test *t = *state;
    const struct opaque sizes = {.weight_bytes = GIB, .kv_bytes = 61 * 1152, .kv_heads = 1};
    const struct model m = made(t, &sizes);
    assert_near(shard_kv_bytes(&m, 8, 1, 0), 61 * 1152, 0);
}

/* Windows and states stand in layers of their own. */
static void kinds_of_layers_stand_in_turn(void **state)
{
    struct test *t = *state;
    const struct opaque sizes = {.weight_bytes = GIB,
                                 .kv_bytes = 6000,
                                 .window_kv_bytes = 3000,
                                 .window = 128,
                                 .state_bytes = 4096,
                                 .layers = 8};
    const struct model m = made(t, &sizes);
    const struct structure *s = m.structure;
    const struct layer_bytes b = layer_bytes_of(s, precision_bytes(m.kv), sizeof(float));
    assert_int_equal(s->n_attentions, 3);
    assert_int_equal(structure_layers_of_attention(s, 0), 3);
    assert_int_equal(structure_layers_of_attention(s, 2), 2);
    assert_int_equal(s->attention[1].window, 128);
    assert_near(b.token, 6000, 0);
    assert_near(b.window_token, 3000, 0);
    assert_near(b.window, 3000 * 128, 0);
    assert_near(b.state, 4096, 0);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    struct test *t = *state;
    const struct {
        struct opaque sizes;
        const char *error;
    } cases[] = {
        {{.weight_bytes = 1},
         "model.kv_bytes_per_token: not set: what a token of closed leaves in the cache is not "
         "known\nhint: a server's log has it: the bytes of its KV cache by the tokens in it"},
        {{.weight_bytes = 1, .kv_bytes = 100, .layers = 3},
         "model.kv_bytes_per_token: 100 bytes are not shared evenly by 3 layers"},
        {{.weight_bytes = 1, .kv_bytes = 100, .layers = 2, .kv_heads = 4},
         "model.kv_bytes_per_token: 100 bytes are not shared evenly by 2 layers and "
         "model.kv_heads=4"},
        {{.weight_bytes = 1, .kv_bytes = 100, .state_bytes = 1, .layers = 1},
         "model.layers: 1 for 2 kinds of layers"},
        {{.weight_bytes = 1, .kv_bytes = 100, .window = 4},
         "model.window: model.window_kv_bytes_per_token says what layers with a window keep of a "
         "token, and is not set"},
        {{.weight_bytes = 1, .window_kv_bytes = 4},
         "model.window_kv_bytes_per_token: model.window says for how many tokens they are kept, "
         "and is not set"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        assert_err(opaque_model(t->a, "closed", &cases[i].sizes, &m, &t->e), ST_USAGE, t,
                   cases[i].error);
    }
}

static void degrees_need_the_sizes_that_say_how(void **state)
{
    struct test *t = *state;
    const struct opaque sizes = {.weight_bytes = GIB, .kv_bytes = 100};
    const struct model m = made(t, &sizes);
    assert_ok(shard_check(&m, 1, 1, 0, &t->e), t);
    assert_err(shard_check(&m, 2, 1, 0, &t->e), ST_USAGE, t,
               "parallel.tp: model.kv_heads is not set: how 2 shards share keys and values of "
               "closed is not known\n"
               "hint: model.kv_heads=1 where each holds all of them, as of latent attention");
    assert_err(shard_check(&m, 1, 2, 0, &t->e), ST_USAGE, t,
               "parallel.pp: model.layers is not set: how 2 stages share those of closed is not "
               "known");
    assert_err(shard_check(&m, 1, 1, 8, &t->e), ST_USAGE, t,
               "parallel.ep: the sizes of closed say nothing of experts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sizes_are_kept_on_every_number_of_shards),
        TEST(one_head_is_held_by_every_shard),
        TEST(kinds_of_layers_stand_in_turn),
        TEST(sizes_that_cannot_be_are_refused),
        TEST(degrees_need_the_sizes_that_say_how),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
