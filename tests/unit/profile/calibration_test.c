#include "profile/calibration.h"

#include "profile/read/power_cap.h"
#include "profile/read/read.h"
#include "support/support.h"

static const struct calibration_setting set = {4, 12, 96, 512, 0.5, 1};

static void a_whole_part_is_the_setting(void **state)
{
    (void)state;
    double seconds;
    struct calibration_part part = calibration_part(&set, 1, 0.004, 0.0001, &seconds);
    assert_int_equal(part.requests, 12);
    assert_int_equal(part.decodes, 96);
    assert_int_equal(part.longest, 512);
    /* 12 requests of 24 decode batches each, and prompts of 504 / ln 64 tokens on average */
    assert_near(seconds, 12 * (24 * 0.004 + 121.19 * 0.0001), 0.001);
}

/* Requests that come by themselves, and the time until the last has come. */
static void few_sequences_of_a_gpu_have_rests(void **state)
{
    (void)state;
    struct calibration_setting rests = set;
    double seconds, busy_s;
    assert_true(calibration_part(&set, 1, 0.004, 0.0001, &busy_s).gap_s == 0);
    rests.busy = 0.5;
    assert_near(calibration_part(&rests, 1, 0.004, 0.0001, &seconds).gap_s, 2 * busy_s / 12, 1e-9);
    assert_near(seconds, 2 * busy_s, 1e-9);
    for (int deep = 0; deep < 2; deep++)
        for (int i = 0; i < CALIBRATION_SETTINGS; i++) {
            const struct calibration_setting *s = &calibration_settings_of(deep)[i];
            assert_true(s->busy == (deep && s->sequences < 20 ? 0.6 : 1));
        }
}

/* Of engines with batches ahead, which classes up to 3,072 tokens and more are for. */
static void few_sequences_have_prompts_of_a_whole_batch(void **state)
{
    (void)state;
    const struct calibration_setting *deep = calibration_settings_of(true);
    for (int i = 0; i < CALIBRATION_SETTINGS; i++)
        assert_int_equal(deep[i].longest, deep[i].sequences <= 20 ? 4096 : 1024);
}

/* Llama-2-7B on an H100, in rounds of the least length: a decode of many sequences takes longer
 * than all the decodes of a request, which once left no prompt above 64 tokens. */
static void many_sequences_have_long_prompts_too(void **state)
{
    (void)state;
    const struct calibration_setting *deep = calibration_settings_of(true);
    for (int i = 0; i < CALIBRATION_SETTINGS; i++) {
        double seconds;
        const double decode_s = 0.005 + 1e-4 * (double)deep[i].sequences;
        const struct calibration_part part =
            calibration_part(&deep[i], 0.1, decode_s, 2.1e-5, &seconds);
        assert_int_equal(part.decodes, CALIBRATION_FEWEST);
        assert_true(part.longest >= (deep[i].sequences > 100 ? 512 : deep[i].longest / 2));
    }
}

static void outputs_get_shorter_before_requests_get_fewer(void **state)
{
    (void)state;
    double seconds;
    struct calibration_part half = calibration_part(&set, 0.5, 0.004, 0.0001, &seconds);
    assert_int_equal(half.requests, 12);
    assert_int_equal(half.decodes, 48);
    struct calibration_part least = calibration_part(&set, 0.05, 0.004, 0.0001, &seconds);
    assert_int_equal(least.decodes, CALIBRATION_FEWEST);
    assert_int_equal(least.requests, 3);
    assert_int_equal(calibration_part(&set, 0, 0.004, 0.0001, &seconds).requests, 2);
}

static void prompts_leave_the_decodes_most_of_the_time(void **state)
{
    (void)state;
    double seconds;
    const double decode_s = 0.005, token_s = 0.0005;
    for (double length = 1; length > 0.2; length /= 1.3) {
        struct calibration_part part = calibration_part(&set, length, decode_s, token_s, &seconds);
        double decodes_s = (double)(part.requests * part.decodes) / 4 * decode_s;
        assert_true(part.longest >= 64);
        if (part.longest > 64)
            assert_true(seconds - decodes_s <= decodes_s / 2);
    }
    assert_int_equal(calibration_part(&set, 0.2, decode_s, token_s, &seconds).longest, 64);
}

static void prompts_of_unknown_times_are_not_shortened(void **state)
{
    (void)state;
    double seconds;
    assert_int_equal(calibration_part(&set, 1, 0, 0, &seconds).longest, 512);
    assert_near(seconds, 0, 0);
}

/* ---- batches that waited for launches, and factors ---- */

static void add_batch(struct calibration *r, int round, int32_t decodes, int32_t chunks,
                      int64_t tokens, double device_s, double predicted_s)
{
    struct calibration_batch row = {
        .round = round, .device_s = device_s, .predicted_s = predicted_s};
    row.b = (struct batch){.n_decodes = decodes,
                           .n_chunks = chunks,
                           .prefill_tokens = tokens,
                           .train = chunks ? 0 : 9};
    vec_push(&r->batches, row);
}

/* 2.8 ms of launching behind decodes of 0.8 ms: a batch of 1.3 ms takes 2.0 on the device, and one
 * of 2.1 ms what its kernels take. */
static void batches_that_waited_for_launches_count_nowhere(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct calibration r = {.deep = true};
    struct calibration_scale scale[CALIBRATION_CLASSES];
    for (int i = 0; i < 4; i++) {
        add_batch(&r, i % 2, 4, 0, 0, 0.8e-3, 0.8e-3);
        add_batch(&r, i % 2, 4, 0, 0, 0.8e-3, 0.8e-3);
        add_batch(&r, i % 2, 4, 1, 100, 2.0e-3, 1.3e-3); /* waits, 0.7 ms */
        add_batch(&r, i % 2, 5, 0, 0, 0.8e-3, 0.8e-3);
        add_batch(&r, i % 2, 5, 0, 0, 0.8e-3, 0.8e-3);
        add_batch(&r, i % 2, 5, 1, 103, 2.2e-3, 2.1e-3);
        add_batch(&r, i % 2, 6, 1, 102, 2.7e-3, 2.5e-3); /* launched behind the one before */
    }
    calibration_find_waiting(&r, 2.8e-3);
    for (size_t i = 0; i < r.batches.n; i++)
        assert_int_equal(r.batches.p[i].waited, i % 7 == 2 || i % 7 == 6);
    calibration_scales(a, &r, CALIBRATION_MIXED, scale);
    double factor = 0;
    for (int k = 0; k < CALIBRATION_CLASSES; k++)
        if (scale[k].n) {
            assert_int_equal(scale[k].n, 4);
            factor = scale[k].factor;
        }
    assert_near(factor, 2.2 / 2.1, 1e-9);
    calibration_free(&r);
    arena_free(&a);
}

/* One in twenty, a stall, is not counted, nor what waits for the kernels of the batch before. */
static void launching_is_what_few_batches_exceed(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct calibration r = {.deep = true};
    add_batch(&r, 0, 4, 0, 0, 0.8e-3, 0.8e-3);
    assert_near(calibration_launch_s(a, &r), 0, 0); /* not told apart */
    for (int i = 0; i < 20; i++) {
        add_batch(&r, 0, 4, 1, 100, 2e-3, 2e-3);
        vec_last(&r.batches).launch_s = i == 3 ? 9e-3 : 2e-3 + i * 1e-5;
        if (i % 2) {
            add_batch(&r, 0, 4, 1, 100, 2e-3, 2e-3);
            vec_last(&r.batches).launch_s = 40e-3;
        }
        add_batch(&r, 0, 4, 0, 0, 0.8e-3, 0.8e-3);
    }
    assert_near(calibration_launch_s(a, &r), 2.19e-3, 1e-12);
    calibration_free(&r);
    arena_free(&a);
}

/* A prompt with no decodes beside it begins on an idle device, whatever the batch before took. */
static void prompts_alone_overlap_with_nothing(void **state)
{
    (void)state;
    struct calibration r = {.deep = true};
    add_batch(&r, 0, 1, 0, 0, 9e-3, 9e-3);
    add_batch(&r, 0, 0, 1, 600, 2.8e-3, 2.5e-3);
    add_batch(&r, 0, 1, 0, 0, 9e-3, 9e-3);
    add_batch(&r, 0, 0, 1, 900, 3.3e-3, 3.2e-3);
    calibration_find_waiting(&r, 2.8e-3);
    assert_true(r.batches.p[1].waited);
    assert_false(r.batches.p[3].waited);
    for (size_t i = 0; i < r.batches.n; i++)
        r.batches.p[i].waited = false;
    calibration_find_waiting(&r, 0); /* not launched so: none waits */
    for (size_t i = 0; i < r.batches.n; i++)
        assert_false(r.batches.p[i].waited);
    calibration_free(&r);
}

/* Classes from 512, 768 and 1,024 tokens: of one batch, of three, of one. */
static void a_class_of_one_batch_is_joined_to_its_neighbour(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct calibration r = {.deep = true};
    struct calibration_scale scale[CALIBRATION_CLASSES];
    add_batch(&r, 0, 0, 1, 600, 1.4e-3, 1e-3);
    for (int i = 0; i < 3; i++)
        add_batch(&r, 0, 0, 1, 900, 3e-3, 3e-3);
    add_batch(&r, 0, 0, 1, 1035, 2.6e-3, 4e-3);
    calibration_scales(a, &r, CALIBRATION_PROMPT, scale);
    int told = 0;
    for (int k = 0; k < CALIBRATION_CLASSES; k++) {
        assert_near(scale[k].factor, 13.0 / 14, 1e-9);
        told += scale[k].n > 0;
    }
    assert_int_equal(told, 1);
    add_batch(&r, 0, 0, 1, 1100, 4.4e-3, 4e-3); /* a second one: a class of its own */
    calibration_scales(a, &r, CALIBRATION_PROMPT, scale);
    assert_near(scale[0].factor, 10.4 / 10, 1e-9);
    assert_near(scale[CALIBRATION_CLASSES - 1].factor, 7.0 / 8, 1e-9);
    calibration_free(&r);
    arena_free(&a);
}

static const struct model model = {.layers = 2, .hidden = 64, .heads = 4, .head_dim = 16};

/* Batches of a device whose clock falls, over tables of a millisecond a token: in order, with the
 * times that they took, nothing is left for a factor. Another round begins rested. */
static void the_power_cap_is_in_no_factor(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const double ends[] = {1, 4096}, per_token[] = {1e-3, 4.096};
    static const double size[] = {0, 12}, rested[] = {0.9, 0.9}, sustained[] = {1.1, 1.3},
                        target[] = {0.5, 1};
    struct grid *g = grid_new(a, size, 2);
    const struct power_cap cap = {.smoothing_s = 0.2,
                                  .control_s = 0.1,
                                  .decode_below = 0.3,
                                  .rest_below = 2,
                                  .decode_ratio = 1.2,
                                  .rested = {g, rested},
                                  .sustained = {g, sustained},
                                  .target = {g, target}};
    struct bundle b = {.power_cap = &cap};
    b.counts = arena_one(a, struct bundle_counts);
    b.tokens.n = 1;
    b.tokens.curve[0] = (struct curve){grid_new(a, ends, 2), per_token};
    struct calibration r = {.deep = true};
    struct power_cap_state clock = power_cap_rested(&cap);
    double highest = 0;
    for (int i = 0; i < 60; i++) {
        const bool chunk = i % 3 < 2;
        const int64_t tokens = chunk ? 64 << i % 5 : 8;
        if (i == 30)
            clock = power_cap_rested(&cap);
        add_batch(&r, i / 30, chunk ? 0 : 8, chunk, chunk ? tokens : 0, 0, 0);
        struct calibration_batch *row = &vec_last(&r.batches);
        row->first_chunk = r.chunks.n;
        if (chunk)
            vec_push(&r.chunks, (struct chunk){.tokens = tokens});
        const struct power_cap_batch x = {.tokens = tokens, .chunks = chunk};
        const struct power_cap_factors f = power_cap_factors(&cap, &x);
        row->idle_s = i % 7 == 3 ? 0.1 : 0;
        power_cap_rest(&cap, row->idle_s, &clock);
        row->device_s = power_cap_run(&cap, &f, 1e-3 * (double)tokens, 0, &clock);
        highest = clock.held > highest ? clock.held : highest;
    }
    calibration_predict(a, &r, &model, &b);
    for (size_t i = 0; i < r.batches.n; i++)
        assert_near(r.batches.p[i].predicted_s / r.batches.p[i].device_s, 1, 1e-4);
    assert_true(highest > 0.5);
    b.power_cap = NULL; /* without it the factors have it */
    calibration_predict(a, &r, &model, &b);
    assert_near(r.batches.p[29].predicted_s, 8e-3, 1e-12);
    assert_true(r.batches.p[29].device_s > 8.1e-3);
    calibration_free(&r);
    arena_free(&a);
}

/* ---- decode attention beside prompts ---- */

static const double TOKEN_S = 1e-3, KEY_S = 2e-7, ROW_S = 1e-4; /* of the batches below */

/* A batch whose class has another factor than the next; not_told: seconds that no part has. */
static void add_beside(struct calibration *r, int i, double key_s, double row_s, double not_told)
{
    static const int rows[] = {2, 7, 20, 60, 3}, keys[] = {60, 900, 300};
    const int64_t tokens = 40 << i % 4;
    const int n = rows[i % 5], kv = n * keys[i % 3];
    const double factor = i % 4 < 2 ? 1.2 : 0.9;
    add_batch(r, i / 40, n, 1, tokens, 0, 1);
    struct calibration_batch *row = &vec_last(&r->batches);
    row->first_chunk = r->chunks.n;
    vec_push(&r->chunks, (struct chunk){.tokens = tokens});
    row->b.decode_kv_tokens = kv;
    row->b.decode_kv_max = 2 * keys[i % 3];
    row->device_s = factor * (TOKEN_S * (double)(tokens + n) + key_s * kv + row_s * n) + not_told;
}

/* Tables of a millisecond a token that know nothing of decode attention. */
static void beside_tables(struct arena *a, struct bundle *b)
{
    static const double ends[] = {1, 4096}, per_token[] = {1e-3, 4.096};
    *b = (struct bundle){.counts = arena_one(a, struct bundle_counts)};
    b->tokens.n = 1;
    b->tokens.curve[0] = (struct curve){grid_new(a, ends, 2), per_token};
}

static struct bundle_decode_beside fitted(struct arena *a, struct calibration *r, struct bundle *b)
{
    static struct bundle_decode_beside out; /* the bundle borrows it */
    beside_tables(a, b);
    calibration_predict(a, r, &model, b);
    calibration_fit_beside(a, r, &model, b, &out);
    return out;
}

static void decode_attention_beside_prompts_is_found(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b;
    struct calibration_scale scale[CALIBRATION_CLASSES];
    struct calibration r = {.deep = true};
    for (int i = 0; i < 80; i++)
        add_beside(&r, i, KEY_S, ROW_S, 0);
    add_beside(&r, 80, KEY_S, ROW_S, 60); /* a stall */
    const struct bundle_decode_beside out = fitted(a, &r, &b);
    assert_int_equal(out.batches, 80);
    assert_near_rel(out.per_key_s, KEY_S, 1e-3);
    assert_near_rel(out.per_row_s, ROW_S, 1e-3);
    assert_near_rel(predict_decode_beside_s(&b, 5, 1000, 300, 0, NULL), 5 * ROW_S + 1000 * KEY_S,
                    1e-3);
    assert_near_rel(predict_decode_beside_s(&b, 5, 1000, 300, 2, NULL), 5 * ROW_S + 1010 * KEY_S,
                    1e-3);
    assert_true(predict_decode_beside_s(&b, 0, 0, 0, 0, NULL) == 0);
    r.batches.n--;
    calibration_scales(a, &r, CALIBRATION_MIXED, scale);
    for (int k = 0; k < CALIBRATION_CLASSES; k++)
        assert_true(scale[k].n == 0 || scale[k].error < 2e-3);
    calibration_free(&r);
    arena_free(&a);
}

/* Rows that take less than nothing take nothing, and the keys what is best then. */
static void nothing_takes_less_than_no_time(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b;
    struct calibration r = {.deep = true};
    for (int i = 0; i < 80; i++)
        add_beside(&r, i, KEY_S, -ROW_S, 0);
    const struct bundle_decode_beside out = fitted(a, &r, &b);
    assert_int_equal(out.batches, 80);
    assert_true(out.per_row_s == 0 && out.per_key_s > 0 && out.per_key_s < KEY_S);
    calibration_free(&r);
    arena_free(&a);
}

/* Of experts rows of decodes take more beside prompts too: what a key takes is the tables'. */
static void with_experts_keys_are_those_of_the_tables(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b;
    struct calibration r = {.deep = true};
    struct model experts = model;
    experts.experts = 8;
    for (int i = 0; i < 80; i++)
        add_beside(&r, i, 2 * KEY_S, ROW_S, 0);
    beside_tables(a, &b);
    struct bundle_decode_beside out;
    calibration_predict(a, &r, &experts, &b);
    calibration_fit_beside(a, &r, &experts, &b, &out);
    assert_near_rel(out.per_key_s, 2 * KEY_S, 1e-3); /* the tables have none */
    static struct op decode = {.kind = OP_ATTN_DECODE, .row = OP_ATTN_DECODE, .repeat = 1};
    struct surface_point at[] = {{1, 64, 1e-3 + 64 * KEY_S},
                                 {1, 4096, 1e-3 + 4096 * KEY_S},
                                 {64, 64, 64 * (1e-3 + 64 * KEY_S)},
                                 {64, 4096, 64 * (1e-3 + 4096 * KEY_S)}};
    struct grid_set known = {0};
    decode.axis = AXIS_DECODE;
    op_table_build_for(a, &experts, &decode, NULL, &known, at, 4, &b.table[OP_ATTN_DECODE]);
    b.ops = (struct op_list){.n = 1, .ops = {decode}};
    bundle_find_attention(&b);
    calibration_predict(a, &r, &experts, &b);
    calibration_fit_beside(a, &r, &experts, &b, &out);
    assert_near_rel(out.per_key_s, KEY_S, 1e-3);
    assert_true(out.per_row_s > ROW_S);
    calibration_free(&r);
    arena_free(&a);
}

static void few_batches_and_other_executors_keep_the_tables(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    for (int deep = 0; deep < 2; deep++) {
        struct bundle b;
        struct calibration r = {.deep = deep};
        for (int i = 0; i < (deep ? 49 : 80); i++)
            add_beside(&r, i, KEY_S, ROW_S, 0);
        const struct bundle_decode_beside out = fitted(a, &r, &b);
        assert_int_equal(out.batches, 0);
        assert_null(b.decode_beside);
        assert_near(r.batches.p[0].predicted_s, 42e-3, 1e-9);
        calibration_free(&r);
    }
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_that_waited_for_launches_count_nowhere),
        cmocka_unit_test(launching_is_what_few_batches_exceed),
        cmocka_unit_test(prompts_alone_overlap_with_nothing),
        cmocka_unit_test(the_power_cap_is_in_no_factor),
        cmocka_unit_test(decode_attention_beside_prompts_is_found),
        cmocka_unit_test(nothing_takes_less_than_no_time),
        cmocka_unit_test(with_experts_keys_are_those_of_the_tables),
        cmocka_unit_test(few_batches_and_other_executors_keep_the_tables),
        cmocka_unit_test(a_class_of_one_batch_is_joined_to_its_neighbour),
        cmocka_unit_test(few_sequences_of_a_gpu_have_rests),
        cmocka_unit_test(few_sequences_have_prompts_of_a_whole_batch),
        cmocka_unit_test(many_sequences_have_long_prompts_too),
        cmocka_unit_test(a_whole_part_is_the_setting),
        cmocka_unit_test(outputs_get_shorter_before_requests_get_fewer),
        cmocka_unit_test(prompts_leave_the_decodes_most_of_the_time),
        cmocka_unit_test(prompts_of_unknown_times_are_not_shortened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
