#include "profile/calibration.h"

#include "support/support.h"

static const struct calibration_setting set = {4, 12, 96, 512};

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

/* Of engines with batches ahead, which classes up to 3,072 tokens and more are for. */
static void few_sequences_have_prompts_of_a_whole_batch(void **state)
{
    (void)state;
    const struct calibration_setting *deep = calibration_settings_of(true);
    for (int i = 0; i < CALIBRATION_SETTINGS; i++)
        assert_int_equal(deep[i].longest, deep[i].sequences <= 20 ? 4096 : 1024);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_sequences_have_prompts_of_a_whole_batch),
        cmocka_unit_test(a_whole_part_is_the_setting),
        cmocka_unit_test(outputs_get_shorter_before_requests_get_fewer),
        cmocka_unit_test(prompts_leave_the_decodes_most_of_the_time),
        cmocka_unit_test(prompts_of_unknown_times_are_not_shortened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
