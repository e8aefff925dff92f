#include "capture/capture.h"

#include "support/support.h"

static void a_region_is_a_range_and_a_number(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *range;
        int64_t occurrence;
    } rows[] = {
        {"decode", "decode", 1},   {"decode#3", "decode", 3},   {"decode@LLM#12", "decode@LLM", 12},
        {"profiler", NULL, 1},     {"profiler#2", NULL, 2},     {"profiler2", "profiler2", 1},
        {"step\\#1", "step#1", 1}, {"step\\#1#4", "step#1", 4}, {"a b", "a b", 1},
        {"*@NCCL#1", "*@NCCL", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct capture_region r;
        assert_ok(capture_region_parse(t->a, rows[i].text, &r, &t->e), t);
        assert_int_equal(r.occurrence, rows[i].occurrence);
        if (rows[i].range)
            assert_string_equal(r.range, rows[i].range);
        else
            assert_null(r.range);
    }
}

static void others_are_refused(void **state)
{
    struct test *t = *state;
    static const char *const texts[] = {
        "",          "#1",        "decode#0",   "decode#",
        "decode#-1", "decode#1x", "decode#1.5", "decode#99999999999",
        "@LLM#1",    "a,b#1",     "a\nb"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct capture_region r;
        err_clear(&t->e);
        assert_int_equal(capture_region_parse(t->a, texts[i], &r, &t->e), ST_USAGE);
    }
    err_clear(&t->e);
    struct capture_region r;
    assert_err(capture_region_parse(t->a, "decode#x", &r, &t->e), ST_USAGE, t,
               "region: 'decode#x' is not a range#occurrence\n"
               "hint: region=decode#3 is the third time that NVTX range decode is entered, "
               "region=profiler what lies between cuProfilerStart and cuProfilerStop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_region_is_a_range_and_a_number),
        TEST(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
