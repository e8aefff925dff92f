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
               "region=profiler what lies between cuProfilerStart and cuProfilerStop, "
               "region=graph:3 the third launch of a CUDA graph");
}

static void a_region_may_be_launches_of_graphs(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text;
        bool profiler;
        int64_t first, last;
    } rows[] = {
        {"graph:1", false, 1, 1},
        {"graph:3-6", false, 3, 6},
        {"profiler/graph:12", true, 12, 12},
        {"profiler/graph:1-2", true, 1, 2},
    };
    static const char *const wrongs[] = {
        "graph:",      "graph:0",   "graph:6-3", "graph:1-",        "graph:-3",         "graph:x",
        "graph:1-2-3", "graph:1.5", "graph:1 ",  "profiler/graph:", "graph:99999999999"};
    struct capture_region r;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(capture_region_parse(t->a, rows[i].text, &r, &t->e), t);
        assert_string_equal(r.text, rows[i].text);
        assert_null(r.range);
        assert_int_equal(r.profiler, rows[i].profiler);
        assert_int_equal(r.graph_first, rows[i].first);
        assert_int_equal(r.graph_last, rows[i].last);
        assert_int_equal(r.occurrence, 1);
    }
    /* an NVTX range of such a name */
    assert_ok(capture_region_parse(t->a, "graph:3#1", &r, &t->e), t);
    assert_string_equal(r.range, "graph:3");
    assert_int_equal(r.graph_first, 0);
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        err_clear(&t->e);
        assert_int_equal(capture_region_parse(t->a, wrongs[i], &r, &t->e), ST_USAGE);
    }
    err_clear(&t->e);
    assert_err(
        capture_region_parse(t->a, "graph:6-3", &r, &t->e), ST_USAGE, t,
        "region: 'graph:6-3' is not graph:first or graph:first-last\n"
        "hint: region=graph:3-6 begins with the third launch of a CUDA graph and ends with "
        "the sixth; region=profiler/graph:3 counts from cuProfilerStart on; an NVTX range of "
        "that name is written with #1 behind it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_region_is_a_range_and_a_number),
        TEST(others_are_refused),
        TEST(a_region_may_be_launches_of_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
