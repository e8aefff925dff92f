/* The timing files of a replay, and of the system before. */
#include "energy/timing.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "support/support.h"
#include "text/json.h"

static const char full[] = "{\"start_timestamp\": \"2026-11-21 10:00:01.000\",\n"
                           " \"end_timestamp\": \"2026-11-21 10:00:03.500\",\n"
                           " \"num_runs\": 500, \"full_model_inference_us\": 5000.5,\n"
                           " \"min_time_us\": 4900, \"max_time_us\": 5200}\n";
static const char isolated[] =
    "{\"start_timestamp\": \"2026-11-21 10:00:04\", \"end_timestamp\": \"2026-11-21 10:00:09\",\n"
    " \"kernels\": [\n"
    "  {\"name\": \"gemm\", \"tier\": 2, \"invocation_count\": 28, \"benchmark_runs\": 1000,\n"
    "   \"single_time_us\": 12.5, \"start_timestamp\": \"2026-11-21 10:00:04.000\",\n"
    "   \"end_timestamp\": \"2026-11-21 10:00:06.000\", \"in_context_us\": 14},\n"
    "  {\"name\": \"softmax\", \"tier\": 3, \"invocation_count\": 28, \"benchmark_runs\": 0,\n"
    "   \"single_time_us\": null, \"start_timestamp\": null, \"end_timestamp\": null,\n"
    "   \"not_measured\": \"unknown\"}]}\n";

static void files_are_read_with_what_they_lack(void **state)
{
    struct test *t = *state;
    struct full_timing f;
    struct isolated_timing i;
    assert_ok(full_timing_read(t->a, test_write(t, "full.json", full), &f, &t->e), t);
    assert_int_equal(f.num_runs, 500);
    assert_near(f.inference_us, 5000.5, 0);
    assert_int_equal(f.window.to_ns - f.window.from_ns, 5 * NS_PER_S / 2);
    assert_false(f.window.zoned);
    assert_ok(isolated_timing_read(t->a, test_write(t, "isolated.json", isolated), &i, &t->e), t);
    assert_int_equal(i.n, 2);
    assert_string_equal(i.kernels[0].name, "gemm");
    assert_near(i.kernels[0].in_context_us, 14, 0);
    assert_int_equal(i.kernels[0].window.to_ns - i.kernels[0].window.from_ns, 2 * NS_PER_S);
    assert_int_equal(i.kernels[1].benchmark_runs, 0); /* was not run alone */
    assert_true(isnan(i.kernels[1].single_time_us) && isnan(i.kernels[1].in_context_us));
    /* What is written reads back. */
    struct buf text = {0};
    struct isolated_timing back;
    i.n = 1;
    json_write(&text, isolated_timing_node(t->a, &i), 2, true);
    assert_ok(isolated_timing_read(t->a, test_write(t, "back.json", buf_str(&text)), &back, &t->e),
              t);
    assert_int_equal(back.kernels[0].window.from_ns, i.kernels[0].window.from_ns);
    assert_near(back.kernels[0].in_context_us, 14, 0);
    buf_free(&text);
}

/* Where the program rested. */
static void idle_windows_are_read(void **state)
{
    struct test *t = *state;
    struct full_timing f;
    static const char rests[] = "{\"start_timestamp\": \"2026-11-21 10:00:05\",\n"
                                " \"end_timestamp\": \"2026-11-21 10:00:10\", \"num_runs\": 3,\n"
                                " \"idle\": [{\"start_timestamp\": \"2026-11-21 10:00:01\",\n"
                                "  \"end_timestamp\": \"2026-11-21 10:00:03\"}]}\n";
    assert_ok(full_timing_read(t->a, test_write(t, "rests.json", rests), &f, &t->e), t);
    assert_int_equal(f.n_idle, 1);
    assert_int_equal(f.idle[0].to_ns - f.idle[0].from_ns, 2 * NS_PER_S);
    assert_int_equal(f.window.from_ns - f.idle[0].to_ns, 2 * NS_PER_S);
    struct buf text = {0};
    json_write(&text, full_timing_node(t->a, &f), 2, true);
    assert_ok(full_timing_read(t->a, test_write(t, "rests2.json", buf_str(&text)), &f, &t->e), t);
    assert_int_equal(f.n_idle, 1);
    buf_free(&text);
    char zoned[sizeof rests + 1];
    const char *at = strstr(rests, "10:00:03\"");
    snprintf(zoned, sizeof zoned, "%.*sZ%s", (int)(at - rests) + 8, rests, at + 8);
    assert_err(full_timing_read(t->a, test_write(t, "rests3.json", zoned), &f, &t->e), ST_INPUT, t,
               "cannot read when the whole ran\n"
               "DIR/rests3.json:4:20: end_timestamp: one time has a zone and the other has none");
}

/* A file with one text in place of another, and the error of reading it. */
static void refused(struct test *t, bool all, const char *from, const char *to, const char *error)
{
    const char *text = all ? full : isolated, *at = strstr(text, from);
    struct full_timing f;
    struct isolated_timing i;
    assert_non_null(at);
    const char *path = test_write(
        t, "t.json", arena_printf(t->a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)));
    err_clear(&t->e);
    assert_err(all ? full_timing_read(t->a, path, &f, &t->e)
                   : isolated_timing_read(t->a, path, &i, &t->e),
               ST_INPUT, t, error);
}

static void errors_name_the_place(void **state)
{
    struct test *t = *state;
    refused(
        t, true, "10:00:01.000", "10:00:01.0 xm",
        "cannot read when the whole ran\n"
        "DIR/t.json:1:21: start_timestamp: '2026-11-21 10:00:01.0 xm' is no time of day with its "
        "date\nhint: as 2026-11-21 16:30:05.123");
    refused(t, true, "10:00:03.500", "10:00:00.500",
            "cannot read when the whole ran\n"
            "DIR/t.json:2:19: end_timestamp: it is before start_timestamp");
    refused(t, true, "03.500", "03.500Z",
            "cannot read when the whole ran\n"
            "DIR/t.json:2:19: end_timestamp: one time has a zone and the other has none");
    refused(t, true, "\"num_runs\": 500, ", "",
            "cannot read when the whole ran\n"
            "DIR/t.json:1:1: num_runs: missing\n"
            "hint: full= takes the full_model_timing.json of a replay");
    refused(t, true, "500,", "0,",
            "cannot read when the whole ran\nDIR/t.json:3:14: num_runs: 0 is below the minimum 1\n"
            "hint: full= takes the full_model_timing.json of a replay");
    refused(t, false, "\"tier\": 2", "\"tier\": 4",
            "cannot read when each kernel ran\n"
            "DIR/t.json:3:28: kernels[0].tier: 4 is above the maximum 3\n"
            "hint: isolated= takes the isolated_kernels_timing.json of a replay");
}

static void windows_are_written_in_one_offset(void **state)
{
    struct test *t = *state;
    const struct timing_window w =
        timing_window_of(t->a, INT64_C(1795278605250000000), INT64_C(1795278606000000000), 3600);
    assert_string_equal(w.start, "2026-11-21 17:30:05.250");
    assert_string_equal(w.end, "2026-11-21 17:30:06.000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_read_with_what_they_lack),
        TEST(idle_windows_are_read),
        TEST(errors_name_the_place),
        TEST(windows_are_written_in_one_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
