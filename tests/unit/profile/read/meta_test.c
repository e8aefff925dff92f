#include "profile/read/meta.h"

#include <math.h>

#include "support/support.h"
#include "text/json.h"

static void read_text(struct test *t, const char *text, struct bundle_meta *out)
{
    struct node *map;
    assert_ok(json_load(t->a, test_write(t, "meta.json", text), NULL, &map, &t->e), t);
    assert_ok(fields_read(t->a, &bundle_meta_fields, map, out, &t->e), t);
}

static void what_is_written_is_read(void **state)
{
    struct test *t = *state;
    struct bundle_operator op = {"lm_head", 3, 60, 1, 0.02, NAN};
    struct bundle_class class = {.x = 8, .factor = 1.25, .error = 0.5, .batches = 7, .rounds = 2};
    struct bundle_meta in = {
        .operators = &op, .n_operators = 1, .host = {9, 1.5, 2, .overlaps = true}};
    struct bundle_meta out;
    in.iteration[CALIBRATION_MIXED] = (struct bundle_classes){&class, 1};
    const struct node *map = fields_node(t->a, &bundle_meta_fields, &in);
    assert_null(node_find(map, "wake")); /* not measured: not said */
    assert_int_equal(node_path(map, "iteration.decode")->n, 0);
    assert_ok(fields_read(t->a, &bundle_meta_fields, map, &out, &t->e), t);
    assert_int_equal(out.n_operators, 1);
    assert_string_equal(out.operators[0].name, "lm_head");
    assert_true(out.operators[0].loo_error == 0.02 && isnan(out.operators[0].loo_error_p90));
    assert_int_equal(out.iteration[CALIBRATION_MIXED].n, 1);
    assert_true(out.iteration[CALIBRATION_MIXED].of[0].factor == 1.25);
    assert_int_equal(out.iteration[CALIBRATION_MIXED].of[0].batches, 7);
    assert_true(out.host.overlaps && out.host.prefill_scale == 2 && out.host.answer_s == 0);
    assert_false(out.has_wake);
}

static void what_is_missing_changes_nothing(void **state)
{
    struct bundle_meta m;
    read_text(*state, "{\"iteration\": {\"prompt\": [{\"x\": 1, \"factor\": 2}]}}", &m);
    assert_true(m.host.scale == 1 && m.host.prefill_scale == 1);
    assert_false(m.host.overlaps || m.has_wake);
    assert_int_equal(m.n_operators, 0);
    assert_int_equal(m.iteration[CALIBRATION_DECODE].n, 0);
    assert_true(isnan(m.iteration[CALIBRATION_PROMPT].of[0].error));
    assert_int_equal(m.iteration[CALIBRATION_PROMPT].of[0].rounds, 1);
}

static void every_kind_has_its_name(void **state)
{
    static const char *const names[CALIBRATION_KINDS] = {"decode", "decode_first", "decode_second",
                                                         "prompt", "prompt_mixed"};
    (void)state;
    for (unsigned k = 0; k < CALIBRATION_KINDS; k++)
        assert_string_equal(calibration_kind_name(k), names[k]);
}

static void a_factor_out_of_range_is_named(void **state)
{
    struct test *t = *state;
    struct node *map;
    struct bundle_meta m;
    const char *path =
        test_write(t, "meta.json", "{\"iteration\": {\"decode\": [{\"x\": 1, \"factor\": 0}]}}");
    assert_ok(json_load(t->a, path, NULL, &map, &t->e), t);
    assert_int_equal(fields_read(t->a, &bundle_meta_fields, map, &m, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "meta.json:1:"));
    assert_non_null(
        strstr(err_cause(&t->e, 0), "iteration.decode[0].factor: 0 is below the minimum 0.1"));
    err_clear(&t->e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(what_is_missing_changes_nothing),
        TEST(every_kind_has_its_name),
        TEST(a_factor_out_of_range_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
