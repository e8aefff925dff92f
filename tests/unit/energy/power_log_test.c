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
        {"timestamp,gpu,power_w\n2026-11-21 16:30:05,0,300000\n",
         "power.csv:2:3: power_w: 300000 W is more than a GPU draws\n"
         "hint: milliwatts, as NVML has them, belong in a column power_mw; the sum of several GPUs "
         "in time,sum"},
        {"timestamp,gpu,power [%]\n2026-11-21 16:30:05,0,30\n",
         "power.csv:1:3: 'power [%]' is in no unit of power\n"
         "hint: known are W, mW, uW and kW, in brackets or behind '_'"},
        {"timestamp_ms,gpu,power_w\n1795278605,0,30\n",
         "power.csv:2:1: timestamp_ms: expected a time of day with its date, got '1795278605'\n"
         "hint: as 2026-11-21 16:30:05.123, or seconds since 1970"},
        {"timestamp,gpu,power_w\n2026-11-21 16:30:05,0,1.234,5\n",
         "power.csv:2: 4 cells where the header has 3"},
        {"#Entity   POWER\nID        W\nGPU 0     300.123\n",
         "power.csv:1: the log has powers, and no column of times\n"
         "hint: nvidia-smi dmon -o DT writes them; else put a column timestamp in front, as "
         "2026-11-21 16:30:05.123"},
        {"timestamp,emissions,gpu_power\n2026-11-21 16:30:05,0.1,300\n",
         "power.csv:1: codecarbon's emissions are no power over time\n"
         "hint: its gpu_power is the mean of a whole run over all GPUs: log power with twinfer "
         "energy log, or nvidia-smi --query-gpu"},
        {"2026/11/21 16:30:05.606, 0, 300.00 W\n",
         "power.csv:1: the first line is a reading, not a header\n"
         "hint: log without noheader, or put the names of the columns above it: timestamp, index, "
         "power.draw [W]"},
        {"==============NVSMI LOG==============\n\nTimestamp : Sat Nov 21 16:30:05 2026\n",
         "power.csv is a report of nvidia-smi, not a table\n"
         "hint: nvidia-smi --query-gpu=timestamp,index,power.draw.instant --format=csv -lms 100"},
        {"timestamp,gpu,power_w\n2026-11-21 16:30:05,0,1\ntimestamp,index,power_w\n",
         "power.csv:3: another header than the first, of a log that was appended\n"
         "hint: cut the file there"},
        {"timestamp,gpu,power_w\n2026-11-21 16:30:05,x,1\n",
         "power.csv:2:2: gpu: expected the number of a GPU, got 'x'"},
        {"timestamp,gpu,power_w\n2026-11-21 16:30:05,1,1\n2026-11-21 16:30:05,3,1\n",
         "power.csv has no row of GPU 0\nhint: it has rows of 1, 3: gpu= picks one"},
        {"timestamp, index, power.draw [W]\n2026/11/21 16:30:05, 0, [Not Supported]\n",
         "power.csv has no row with a power: the sensor is not supported, or not permitted"},
        {"time,sum\n", "power.csv has no row with a power"},
        {"timestamp, power.draw [W]\n2026/11/21 16:30:05.000, 90 W\n"
         "2026/11/21 16:30:05.000, 300 W\n",
         "power.csv: its rows come together or share their times, as those of several GPUs do, and "
         "no column says which GPU they are of\n"
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

/* ---- several GPUs ---------------------------------------------------------------------------- */

static void several_gpus_and_none_asked_for(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"timestamp,index,power.draw\n2026/11/21 16:30:05.000,0,90\n"
         "2026/11/21 16:30:05.001,2,300\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0, 2: gpu= picks one"},
        {"timestamp, pci.bus, power.draw [W]\n2026/11/21 16:30:05.000, 0x41, 90 W\n"
         "2026/11/21 16:30:05.003, 0x02, 300 W\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0 = 0x02, 1 = 0x41 (by pci.bus): gpu= picks one"},
        {"timestamp, uuid, power.draw [W]\n2026/11/21 16:30:05.000, GPU-b, 90 W\n"
         "2026/11/21 16:30:05.003, GPU-a, 300 W\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0 = GPU-b, 1 = GPU-a (by uuid): gpu= picks one"},
        {"timestamp,serial,power_w\n2026-11-21 16:30:05.000,17,90\n"
         "2026-11-21 16:30:06.000,18,300\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0 = 17, 1 = 18 (by serial): gpu= picks one"},
        {"time,device,power_w\n1795278605,cuda:0,90\n1795278605,cuda:1,300\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0, 1: gpu= picks one"},
        {"Timestamp, DeviceId, GPU Power (W)\n2026-11-21 16:30:05.000, 0, 90\n"
         "2026-11-21 16:30:06.000, 1, 300\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0, 1: gpu= picks one"},
        {"time,name,power_w\n1795278605,H200,90\n1795278605,L4,30\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0 = H200, 1 = L4 (by name): gpu= picks one"},
        {"timestamp,hostname,power_w\n2026-11-21 16:30:05.000,a,90\n"
         "2026-11-21 16:30:05.000,b,300\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has rows of 0 = a, 1 = b (by hostname): gpu= picks one"},
        {"time,gpu0_power_w,gpu1_power_w\n1795278605,90,30\n",
         "power.csv has the powers of 2 GPUs, and gpu= is not set\n"
         "hint: it has columns of 0, 1: gpu= picks one"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct power_log log;
        err_clear(&t->e);
        assert_err(parse(t, rows[i].text, POWER_LOG_ONLY_GPU, &log), ST_INPUT, t, rows[i].error);
        err_clear(&t->e);
        assert_ok(parse(t, rows[i].text, 0, &log), t);
        assert_int_equal(log.n, 1);
    }
    struct power_log log;
    /* columns of numbers that do not agree are one GPU still */
    err_clear(&t->e);
    assert_ok(parse(t,
                    "timestamp,index,minor_number,power_w\n2026-11-21 16:30:05,0,3,90\n"
                    "2026-11-21 16:30:06,0,3,300\n",
                    POWER_LOG_ONLY_GPU, &log),
              t);
    assert_int_equal(log.n, 2);
    assert_err(parse(t, "time,name,power_w\n1795278605,GPU 1,90\n1795278605,GPU 2,30\n", 0, &log),
               ST_INPUT, t,
               "power.csv has no row of GPU 0\nhint: it has rows of 1, 2: gpu= picks one");
    err_clear(&t->e);
    assert_err(parse(t, "time,host,gpu,power_w\n1795278605,a,0,90\n1795278605,b,0,30\n",
                     POWER_LOG_ONLY_GPU, &log),
               ST_INPUT, t,
               "power.csv has 2 GPUs with the number 0, of several machines\n"
               "hint: they differ by host: keep the rows of one");
    err_clear(&t->e);
    /* two machines whose logs were joined */
    assert_err(parse(t,
                     "timestamp,gpu,uuid,power_w\n2026-11-21 16:30:05,0,GPU-a,90\n"
                     "2026-11-21 16:30:05,0,GPU-b,300\n",
                     0, &log),
               ST_INPUT, t,
               "power.csv has 2 GPUs with the number 0, of several machines\n"
               "hint: they differ by uuid: keep the rows of one");
}

static void the_gpu_that_is_asked_for(void **state)
{
    struct test *t = *state;
    struct power_log log;
    const char *bus = "timestamp, pci.bus, power.draw.instant [W]\n"
                      "2026/11/21 16:30:05.606, 0x01, 300.0 W\n"
                      "2026/11/21 16:30:05.609, 0x02, 60.0 W\n"
                      "2026/11/21 16:30:05.856, 0x01, 300.0 W\n"
                      "2026/11/21 16:30:05.859, 0x02, 60.0 W\n";
    for (int64_t gpu = 0; gpu < 2; gpu++) {
        assert_ok(parse(t, bus, gpu, &log), t);
        assert_int_equal(log.n, 2);
        assert_near(log.p[1].power_w, gpu ? 60 : 300, 0);
        assert_string_equal(log.what, gpu ? "GPU 1 (pci.bus 0x02)" : "GPU 0 (pci.bus 0x01)");
        assert_true(log.counted);
    }
    assert_ok(parse(t, "time,gpu0_power_w,gpu1_power_w\n1795278605,90,30\n", 1, &log), t);
    assert_near(log.p[0].power_w, 30, 0);
    /* the only one needs no number, and says it */
    assert_ok(parse(t, "timestamp,index,power.draw\n2026/11/21 16:30:05,3,90\n", POWER_LOG_ONLY_GPU,
                    &log),
              t);
    assert_int_equal(log.gpu, 3);
    /* a cell that the driver could not fill is of the GPU that its other cells name */
    assert_ok(parse(t,
                    "timestamp,index,uuid,power.draw\n2026/11/21 16:30:05,3,GPU-a,90\n"
                    "2026/11/21 16:30:06,3,[Unknown Error],[GPU is lost]\n",
                    POWER_LOG_ONLY_GPU, &log),
              t);
    assert_int_equal(log.missing, 1);
}

/* Rows of a second: at[i] in ms with watts[i], repeated for ten seconds. */
static enum st mixed(struct test *t, const char *columns, int period_ms, const int *at,
                     const int *watts, int n, int digits, struct power_log *log)
{
    struct buf text = {0};
    uint32_t noise = 1;
    buf_printf(&text, "timestamp,%s\n", columns);
    for (int row = 0; row * period_ms < 10000; row++)
        for (int i = 0; i < n; i++) {
            const int ms = row * period_ms + at[i];
            buf_printf(&text, "2026-11-21 16:30:%02d.%03d", ms / 1000, ms % 1000);
            if (digits == 0)
                text.n -= 4;
            noise = noise * 1664525 + 1013904223;
            buf_printf(&text, ",%d\n", watts[i] + (int)(noise >> 29));
        }
    err_clear(&t->e);
    const enum st st = parse(t, buf_str(&text), POWER_LOG_ONLY_GPU, log);
    buf_free(&text);
    return st;
}

static void rows_without_a_gpu_are_of_one_or_refused(void **state)
{
    struct test *t = *state;
    struct power_log log;
    static const struct {
        const char *what;
        int period_ms, at[4], watts[4], n, digits;
        bool refused, doubtful;
    } rows[] = {
        {"two GPUs, 3 ms apart", 250, {0, 3}, {300, 60}, 2, 3, true, false},
        {"two GPUs of one power", 250, {0, 3}, {300, 300}, 2, 3, true, false},
        {"four GPUs", 500, {0, 2, 5, 7}, {300, 60, 310, 70}, 4, 3, true, false},
        {"two GPUs, two rows each", 5000, {0, 3}, {300, 60}, 2, 3, true, false},
        {"at one time", 250, {0, 0}, {300, 60}, 2, 3, true, false},
        {"at one time, whole seconds", 1000, {0, 0}, {300, 60}, 2, 0, true, false},
        {"one GPU", 250, {0}, {300}, 1, 3, false, false},
        {"one GPU, a varying period",
         400,
         {0, 90, 205, 290},
         {300, 300, 300, 300},
         4,
         3,
         false,
         false},
        {"one GPU, twice in each written second", 500, {0}, {300}, 1, 0, false, true},
        {"one GPU, ten times in each written second", 100, {0}, {300}, 1, 0, false, true},
        {"in turn at even times", 500, {0, 250}, {300, 60}, 2, 3, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const enum st st = mixed(t, "power_w", rows[i].period_ms, rows[i].at, rows[i].watts,
                                 rows[i].n, rows[i].digits, &log);
        if ((st == ST_INPUT) != rows[i].refused ||
            (st == ST_OK && log.doubtful != rows[i].doubtful))
            fail_msg("%s: %s", rows[i].what, st == ST_OK ? "read" : err_cause(&t->e, 0));
        /* a meter is one series, whatever its rows look like */
        assert_ok(mixed(t, "sum", rows[i].period_ms, rows[i].at, rows[i].watts, rows[i].n,
                        rows[i].digits, &log),
                  t);
    }
}

/* ---- what other tools write ------------------------------------------------------------------ */

static void forms_of_one_log(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text;
        int64_t missing, headers;
        bool zoned;
    } rows[] = {
        /* all: 16:30:05.250 with 300 W, 16:30:06.250 with 80.5 W */
        {"timestamp,gpu,power_mw\n2026-11-21 16:30:05.25,0,300000\n"
         "2026-11-21 16:30:06.25,0,80500\n",
         0, 0, false},
        {"timestamp,gpu,power [kW]\n2026-11-21 16:30:05.25,0,0.3\n"
         "2026-11-21 16:30:06.25,0,0.0805\n",
         0, 0, false},
        {"Time,Power (mW)\n1795278605.25,300000\n1795278606.25,80500\n", 0, 0, true},
        {"timestamp_ms,power_usage\n1795278605250,300 W\n1795278606250,80500 mW\n", 0, 0, true},
        {"timestamp,power\n1795278605250,300\n1795278606250,80.5\n", 0, 0, true},
        {"time_ns,gpu_id,power_w\n1795278605250000000,0.0,300\n1795278606250000000,0.0,80.5\n", 0,
         0, true},
        {"timestamp, power.draw [W]\n2026/11/21 16:30:05.250, 300.00 W\n"
         "timestamp, power.draw [W]\n2026/11/21 16:30:06.250, 80.50 W\n",
         0, 1, false},
        {"\xef\xbb\xbftimestamp,index,power.draw [W]\r\n2026/11/21 16:30:05.250,0,300 W\r\n"
         "2026/11/21 16:30:05.500,0,Unknown Error\r\n2026/11/21 16:30:05.700,0,ERR!\r\n"
         "2026/11/21 16:30:06.000,0,[GPU is lost]\r\n"
         "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.\r\n"
         "2026/11/21 16:30:06.250,0,80.5 W\r\n",
         4, 0, false},
        {"timestamp,memory.used,power.draw\n2026-11-21T16:30:05,250456789+00:00, 94, 300.00\n"
         "2026-11-21T16:30:06,250456789+00:00, 94, 80.50\n",
         0, 0, true},
        {"timestamp,power.draw,memory.used\n2026-11-21 16:30:05,250,300.00,94\n"
         "2026-11-21 16:30:06,250,80.50,94\n",
         0, 0, false},
        {"timestamp,index,power.draw [W]\n11/21/2026 4:30:05.25 PM,0,300\n"
         "11/21/2026 4:30:06.25 PM,0,80.5\n",
         0, 0, false},
        {"#Date       Time        gpu    pwr  gtemp\n#YYYYMMDD   HH:MM:SS    Idx     W      C\n"
         " 20261121   16:30:05.25      0    300     35\n 20261121   16:30:05.75      0      -     "
         "35\n"
         "#Date       Time        gpu    pwr  gtemp\n#YYYYMMDD   HH:MM:SS    Idx     W      C\n"
         " 20261121   16:30:06.25      0    80.5     35\n",
         1, 1, false},
        {"#Date, Time, gpu, pwr\n#YYYYMMDD, HH:MM:SS, Idx, mW\n20261121, 16:30:05.25, 0, 300000\n"
         "20261121, 16:30:06.25, 0, 80500\n",
         0, 0, false},
        {"# logger 1.0\ntimestamp\tgpu\tpower_w\n2026-11-21 16:30:05,25\t0\t300\n"
         "2026-11-21 16:30:06,25\t0\t80,5\n",
         0, 0, false},
        {"timestamp,hostname,power_w\n2026-11-21 16:30:05.250,node1,300\n"
         "2026-11-21 16:30:06.250,node1,80.5\n",
         0, 0, false},
        {"timestamp, index, power.draw [W]\n2026/11/21 16:30:05.250, [N/A], 300.00 W\n"
         "2026/11/21 16:30:06.250, [N/A], 80.50 W\n",
         0, 0, false},
        {"timestamp,gpu_0_power_draw_average,gpu_0_power_draw_instant\n"
         "2026-11-21 16:30:05.250,250,300\n2026-11-21 16:30:06.250,90,80.5\n",
         0, 0, false},
        {",timestamp,device,power_w\n0,2026-11-21 16:30:05.250 UTC,GPU 0,300\n"
         "1,2026-11-21 16:30:06.250 UTC,GPU 0,80.5\n",
         0, 0, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct power_log log;
        err_clear(&t->e);
        if (parse(t, rows[i].text, POWER_LOG_ONLY_GPU, &log) != ST_OK)
            fail_msg("row %zu: %s", i, err_cause(&t->e, 0));
        assert_int_equal(log.n, 2);
        assert_int_equal(log.p[0].ns / NS_PER_MS, INT64_C(1795278605250));
        assert_int_equal(log.p[1].ns / NS_PER_MS, INT64_C(1795278606250));
        assert_near(log.p[0].power_w, 300, 1e-9);
        assert_near(log.p[1].power_w, 80.5, 1e-9);
        assert_int_equal(log.missing, rows[i].missing);
        assert_int_equal(log.headers, rows[i].headers);
        assert_int_equal(log.zoned, rows[i].zoned);
        assert_int_equal(log.gpu, 0);
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

/* The sum of several GPUs is more than one draws. */
static void a_meter_is_written_as_a_meter(void **state)
{
    struct test *t = *state;
    struct power_log log, back;
    assert_ok(parse(t, "time,sum\n1795278605.25,31250\n", 0, &log), t);
    const char *text = written(t, &log, true, 0);
    assert_string_equal(text, "time,sum\n2026-11-21 16:30:05.250Z,31250\n");
    assert_ok(parse(t, text, 0, &back), t);
    assert_true(back.meter);
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
        TEST(several_gpus_and_none_asked_for),
        TEST(the_gpu_that_is_asked_for),
        TEST(rows_without_a_gpu_are_of_one_or_refused),
        TEST(forms_of_one_log),
        TEST(a_meter_is_written_as_a_meter),
        TEST(a_log_is_written_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
