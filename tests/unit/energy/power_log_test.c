/* Power logs of three kinds, and what is wrong with others. */
#include "energy/power_log.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "energy/stamp.h"
#include "support/support.h"

static enum st parse(struct test *t, const char *text, int64_t gpu, struct power_log *log)
{
    return power_log_parse(t->a, "power.csv", sv_of(text), gpu, log, &t->e);
}

static void our_form_has_the_rows_of_one_gpu(void **state)
{
    struct test *t = *state;
    struct power_log log;
    assert_ok(parse(t,
                    "timestamp,gpu,power_w,energy_j\n"
                    "2026-11-21 10:00:00.000,0,100,1000\n"
                    "2026-11-21 10:00:00.000,1,700,5\n"
                    "2026-11-21 10:00:00.040,0,110.5,1000\n"
                    "2026-11-21 10:00:00.080,0,,1012\n",
                    0, &log),
              t);
    assert_int_equal(log.n, 3);
    assert_int_equal(log.p[1].ns - log.p[0].ns, 40 * NS_PER_MS);
    assert_near(log.p[1].power_w, 110.5, 0);
    assert_near(log.p[0].energy_j, 1000, 0);
    assert_true(isnan(log.p[1].energy_j)); /* the counter had not moved: no tick */
    assert_near(log.p[2].energy_j, 1012, 0);
    assert_true(isnan(log.p[2].power_w));
    assert_int_equal(log.missing, 1);
    assert_false(log.zoned || log.averaged || log.cut);
    assert_string_equal(log.what, "GPU 0");
    assert_ok(parse(t, "gpu,x,power_w,timestamp\n 1 ,a,700,2026-11-21 10:00:00\n", 1, &log), t);
    assert_int_equal(log.n, 1);
}

static void a_row_that_says_nothing_is_left_out(void **state)
{
    struct test *t = *state;
    struct power_log log;
    assert_ok(parse(t,
                    "timestamp,gpu,power_w,energy_j\n"
                    "2026-11-21 10:00:00.080,0,,1012\n"
                    "2026-11-21 10:00:00.180,0,,1012\n" /* no power, and no tick */
                    "2026-11-21 10:00:00.280,0,120,1024\n",
                    0, &log),
              t);
    assert_int_equal(log.n, 2);
    assert_near(log.p[0].energy_j, 1012, 0);
    assert_near(log.p[1].energy_j, 1024, 0);
    assert_int_equal(log.missing, 2);
}

static void a_meter_has_no_gpus(void **state)
{
    struct test *t = *state;
    struct power_log log;
    assert_ok(parse(t, "time,sum\n1795278605.25,312.5\n1795278606,313\n", 3, &log), t);
    assert_int_equal(log.n, 2);
    assert_true(log.zoned);
    assert_int_equal(log.p[0].ns, INT64_C(1795278605250000000));
    assert_string_equal(log.what, "the meter's sum");
}

static void nvidia_smi_in_its_variants(void **state)
{
    struct test *t = *state;
    struct power_log log;
    assert_ok(parse(t,
                    "timestamp, index, power.draw [W]\n"
                    "2026/11/21 10:00:00.000, 0, 126.31 W\n"
                    "2026/11/21 10:00:00.001, 1, 80.00 W\n"
                    "2026/11/21 10:00:00.100, 0, [N/A]\n"
                    "2026/11/21 10:00:00.200, 0, 127 W\n",
                    0, &log),
              t);
    assert_int_equal(log.n, 2);
    assert_int_equal(log.missing, 1);
    assert_near(log.p[0].power_w, 126.31, 0);
    assert_true(log.averaged);
    assert_ok(
        parse(t, "timestamp, power.draw.instant [W]\n2026/11/21 10:00:00.000, 90.5\n", 0, &log), t);
    assert_near(log.p[0].power_w, 90.5, 0);
    assert_false(log.averaged);
}

/* Of a spreadsheet, or a logger in a locale with a decimal comma. */
static void a_decimal_comma_stands_between_semicolons(void **state)
{
    struct test *t = *state;
    struct power_log log;
    assert_ok(parse(t,
                    "timestamp;gpu;power_w\r\n2026-11-21 10:00:00,250;0;126,31\r\n"
                    "2026-11-21 10:00:00,500;1;80,5\r\n2026-11-21 10:00:01;0;\"127\"\r\n",
                    0, &log),
              t);
    assert_int_equal(log.n, 2);
    assert_near(log.p[0].power_w, 126.31, 0);
    assert_int_equal(log.p[1].ns - log.p[0].ns, 750000000);
    assert_near(log.p[1].power_w, 127, 0);
    /* with the comma between cells a fraction behind a comma is quoted */
    assert_ok(parse(t, "time,sum\n\"2026-11-21 10:00:00,250\",126.31\n", 0, &log), t);
    assert_int_equal(log.p[0].ns % 1000000000, 250000000);
}

/* A query without index on a machine with several GPUs. */
static void gpus_without_numbers_are_one(void **state)
{
    struct test *t = *state;
    struct power_log log;
    assert_ok(parse(t,
                    "timestamp, name, power.draw.instant [W]\n2026/11/21 10:00:00.000, H200, 90 W\n"
                    "2026/11/21 10:00:00.000, H200, 90 W\n2026/11/21 10:00:00.100, H200, 91 W\n",
                    0, &log),
              t);
    assert_int_equal(log.n, 3);
}

/* A logger that is killed leaves half a line: 127 of 1270 would be believed. */
static void a_line_without_its_end_is_left_out(void **state)
{
    struct test *t = *state;
    struct power_log log;
    assert_ok(parse(t,
                    "time,sum\n2026-11-21 10:00:00,300\n2026-11-21 10:00:01,310\n"
                    "2026-11-21 10:00:02,3",
                    0, &log),
              t);
    assert_int_equal(log.n, 2);
    assert_true(log.cut);
}

static void errors_name_the_place(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"time,watts\n1795278605,1\n",
         "power.csv:1: this header is of no power log\n"
         "hint: known are timestamp,gpu,power_w; time,sum; and what nvidia-smi "
         "--query-gpu=timestamp,index,power.draw --format=csv writes"},
        {"time,sum\n0.04,300\n",
         "power.csv:2:1: time: expected a time of day with its date, got '0.04'\n"
         "hint: as 2026-11-21 16:30:05.123, or seconds since 1970"},
        {"time,sum\n1795278605,abc\n", "power.csv:2:2: sum: expected a number, got 'abc'"},
        {"time,sum\n1795278605,-3\n", "power.csv:2:2: sum: -3 is not within 0 and 1e+07"},
        {"time,sum\n1795278605,1\n1795278604.5,1\n",
         "power.csv:3:1: time: the time is 0.500 s before that of the row above\n"
         "hint: the clock was set, daylight saving ended, or two logs were joined: cut the file "
         "there"},
        {"time,sum\n1795278605,1\n2026-11-21 16:30:05,1\n",
         "power.csv:3:1: time: some times have a zone and some have none"},
        {"timestamp,gpu,power_w\n2026-11-21 16:30:05,x,1\n",
         "power.csv:2:2: gpu: expected the number of a GPU, got 'x'"},
        {"timestamp,gpu,power_w\n2026-11-21 16:30:05,1,1\n2026-11-21 16:30:05,3,1\n",
         "power.csv has no row of GPU 0\nhint: it has rows of 1, 3: gpu= picks one"},
        {"timestamp, index, power.draw [W]\n2026/11/21 16:30:05, 0, [Not Supported]\n",
         "power.csv has no row with a power: the sensor is not supported, or not permitted"},
        {"time,sum\n", "power.csv has no row with a power"},
        {"timestamp, uuid, power.draw.instant [W]\n2026/11/21 16:30:05.000, GPU-a, 90 W\n"
         "2026/11/21 16:30:05.001, GPU-b, 300 W\n",
         "power.csv:3:2:  uuid: another GPU than in the rows above: the powers of several GPUs "
         "cannot be told apart\n"
         "hint: log index too: nvidia-smi --query-gpu=timestamp,index,power.draw.instant"},
        {"timestamp, power.draw [W]\n2026/11/21 16:30:05.000, 90 W\n"
         "2026/11/21 16:30:05.000, 300 W\n",
         "power.csv:3:2:  power.draw [W]: two powers at one time: the powers of several GPUs "
         "cannot "
         "be told apart\n"
         "hint: log index too: nvidia-smi --query-gpu=timestamp,index,power.draw.instant"},
        {"time;sum\n1795278605,5;1.234,5\n",
         "power.csv:2:2: sum: expected a number, got '1.234.5'"},
        {"\xff\xfet",
         "power.csv is UTF-16\nhint: PowerShell's > writes that: nvidia-smi -f FILE, or "
         "Out-File -Encoding utf8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct power_log log;
        err_clear(&t->e);
        assert_err(parse(t, rows[i].text, 0, &log), ST_INPUT, t, rows[i].error);
    }
}

static const char *written(struct test *t, const struct power_log *log, bool zoned,
                           int64_t offset_s)
{
    const char *path = test_path(t, "written.csv");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    if (zoned)
        power_log_write_zoned(f, log, 2);
    else
        power_log_write(f, log, 2, offset_s);
    assert_int_equal(fclose(f), 0);
    return test_read(t, path);
}

static void a_log_is_written_as_it_is_read(void **state)
{
    struct test *t = *state;
    const struct power_sample p[] = {{INT64_C(1795278605250000000), 100.25, 7},
                                     {INT64_C(1795278605290000000), NAN, 8},
                                     {INT64_C(1795278605330000000), 101, NAN}};
    const struct power_log log = {.p = p, .n = 3, .zoned = true}, plain = {.p = &p[2], .n = 1};
    struct power_log back;
    const char *text = written(t, &log, false, 3600);
    assert_string_equal(text, "timestamp,gpu,power_w,energy_j\n"
                              "2026-11-21 17:30:05.250,2,100.25,7\n"
                              "2026-11-21 17:30:05.290,2,,8\n"
                              "2026-11-21 17:30:05.330,2,101,\n");
    assert_ok(parse(t, text, 2, &back), t);
    assert_false(back.zoned);
    assert_int_equal(back.n, 3);
    text = written(t, &log, true, 0);
    assert_ok(parse(t, text, 2, &back), t);
    assert_true(back.zoned);
    assert_int_equal(back.p[0].ns, p[0].ns);
    assert_string_equal(written(t, &plain, false, 3600),
                        "timestamp,gpu,power_w\n2026-11-21 16:30:05.330,2,101\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(our_form_has_the_rows_of_one_gpu),
        TEST(a_row_that_says_nothing_is_left_out),
        TEST(a_meter_has_no_gpus),
        TEST(nvidia_smi_in_its_variants),
        TEST(a_decimal_comma_stands_between_semicolons),
        TEST(gpus_without_numbers_are_one),
        TEST(a_line_without_its_end_is_left_out),
        TEST(errors_name_the_place),
        TEST(a_log_is_written_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
