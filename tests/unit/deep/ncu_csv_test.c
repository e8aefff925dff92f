/* Every form in which Nsight Compute writes tables. */
#include "deep/ncu_csv.h"

#include <math.h>

#include "support/support.h"

static void parse(struct test *t, struct ncu_table *x, const char *text)
{
    ncu_table_init(x, t->a);
    assert_ok(ncu_csv_parse(x, "t.csv", sv_of(text), &t->e), t);
}

static double value(const struct ncu_table *x, size_t launch, const char *metric)
{
    assert_true(launch < x->launches.n);
    return ncu_value(x, &x->launches.p[launch], metric);
}

#define LONG_HEAD                                                                                  \
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\"," \
    "\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\","             \
    "\"Metric Unit\",\"Metric Value\"\n"
#define LONG(id, kernel, metric, unit, v)              \
    "\"" id "\",\"7\",\"app\",\"127.0.0.1\",\"" kernel \
    "\",\"1\",\"7\",\"(128, 1, 1)\",\"(1,024, 2, "     \
    "1)\",\"0\",\"9.0\",\"Command line profiler metrics\",\"" metric "\",\"" unit "\",\"" v "\"\n"

/* The table of --metrics, between what the tool and the program say. */
static void the_long_form(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(t, &x,
          "==PROF== Connected to process 7 (/usr/bin/app)\n"
          "the program's \"own\" line, with commas\n" LONG_HEAD LONG(
              "0", "gemm", "gpu__time_duration.sum", "ns",
              "3,136") LONG("0", "gemm", "dram__bytes_read.sum", "Mbyte", "1.5")
              LONG("0", "gemm", "sm__ops_path_tensor_src_fp16_dst_fp32.sum", "",
                   "n/a") "==PROF== Disconnected from process 7\n" LONG("1", "gemm",
                                                                        "gpu__time_duration.sum",
                                                                        "us", "12.50"));
    assert_int_equal(x.launches.n, 2);
    assert_string_equal(x.launches.p[0].kernel, "gemm");
    assert_int_equal(x.launches.p[0].pid, 7);
    assert_int_equal(x.launches.p[0].block[0], 128);
    assert_int_equal(x.launches.p[0].grid[2], 2);
    assert_true(value(&x, 0, "gpu__time_duration.sum") == 3136);
    assert_true(value(&x, 0, "dram__bytes_read.sum") == 1.5e6);
    assert_true(isnan(value(&x, 0, "sm__ops_path_tensor_src_fp16_dst_fp32.sum")));
    assert_true(value(&x, 1, "gpu__time_duration.sum") == 12500);
    ncu_table_free(&x);
}

static void the_wide_form_has_a_row_of_units(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(t, &x,
          "\xef\xbb\xbf\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"thread "
          "Domain:Push/Pop_Range:"
          "PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg\",\"Kernel Name\",\"Block Size\",\"Grid "
          "Size\",\"Device\",\"CC\",\"device__attribute_display_name\",\"gpu__time_duration.sum\","
          "\"dram__bytes.sum.per_second\"\r\n"
          "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"us\",\"Gbyte/s\"\r\n"
          "\"0\",\"9\",\"p\",\"h\",\"9 \"\"<default domain>:decode:none:none\"\" \"\"LLM:step "
          "3:none\"\" \",\"_Z4gemmPfS_S_\",\"64x2x1\",\"8x1x1\",\"1\",\"8.6\",\"Some "
          "GPU\",\"2.000\",\"700.125\"\r\n");
    assert_int_equal(x.launches.n, 1);
    assert_string_equal(x.launches.p[0].device_name, "Some GPU");
    assert_int_equal(x.launches.p[0].block[1], 2);
    assert_int_equal(x.launches.p[0].device, 1);
    assert_true(x.launches.p[0].cc == 8.6);
    assert_true(value(&x, 0, "gpu__time_duration.sum") == 2000);
    assert_true(value(&x, 0, "dram__bytes.sum.per_second") == 700.125e9);
    assert_true(ncu_inside(&x.launches.p[0], "decode"));
    assert_true(ncu_inside(&x.launches.p[0], "step*"));
    assert_false(ncu_inside(&x.launches.p[0], "prefill"));
    ncu_table_free(&x);
}

/* The details page: titles for metrics; rows of rules are longer or shorter than the header. */
static void titles_of_the_details_page(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(t, &x,
          "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\","
          "\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\","
          "\"Rule Description\"\n"
          "\"0\",\"7\",\"f\",\"(1, 1, 1)\",\"(1, 1, "
          "1)\",\"0\",\"9.0\",\"S\",\"Duration\",\"us\",\"2.85\",\n"
          "\"0\",\"7\",\"f\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"S\",\"Memory "
          "Throughput\",\"Gbyte/s\",\"1.25\",\n"
          "\"0\",\"7\",\"f\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"S\",\"Memory "
          "Throughput\",\"%\",\"33.00\",\n"
          "\"0\",\"7\",\"f\",\"(1, 1, 1)\",\"(1, 1, "
          "1)\",\"0\",\"9.0\",\"S\",\"\",\"\",\"\",\"SOL\",\"two\n"
          "lines, and a comma\",\"OPT\",\"12\"\n"
          "\"0\",\"7\",\"f\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"S\",\"Registers Per "
          "Thread\",\"register/thread\",\"32\",\n");
    assert_int_equal(x.launches.n, 1);
    assert_true(value(&x, 0, "gpu__time_duration.sum") == 2850);
    assert_true(value(&x, 0, "dram__bytes.sum.per_second") == 1.25e9);
    assert_true(value(&x, 0, "launch__registers_per_thread") == 32);
    assert_true(value(&x, 0, "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed") ==
                33);
    ncu_table_free(&x);
}

/* In each locale one number of the file shows what its separators mean; the others follow. */
static void numbers_of_any_locale(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *plain, *telling;
    } rows[] = {{"3,136", "1,234,567"},
                {"3.136", "1.234.567"},
                {"3.136", "0,04"},
                {"3'136", "1.5"},
                {"3 136", "1,25"},
                {"3\xe2\x80\xaf"
                 "136",
                 "1,25"},
                {"3\xc2\xa0"
                 "136",
                 "1\xc2\xa0"
                 "234,5"},
                {"3,136", "1,234.50"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ncu_table x;
        struct buf text = {0};
        buf_puts(&text, LONG_HEAD);
        buf_printf(&text, LONG("0", "f", "gpu__time_duration.sum", "ns", "%s"), rows[i].plain);
        buf_printf(&text, LONG("0", "f", "other", "", "%s"), rows[i].telling);
        parse(t, &x, buf_str(&text));
        if (value(&x, 0, "gpu__time_duration.sum") != 3136)
            fail_msg("%s beside %s is %g", rows[i].plain, rows[i].telling,
                     value(&x, 0, "gpu__time_duration.sum"));
        ncu_table_free(&x);
        buf_free(&text);
    }
}

static void a_comma_alone_separates_thousands(void **state)
{
    (void)state;
    double v;
    const struct ncu_locale point = {'.'}, comma = {','};
    assert_true(ncu_number(SV("3,136"), point, &v) && v == 3136);
    assert_true(ncu_number(SV("-1,234.5"), point, &v) && v == -1234.5);
    assert_true(ncu_number(SV("1.234,5"), comma, &v) && v == 1234.5);
    assert_true(ncu_number(SV("1e+06"), point, &v) && v == 1e6);
    assert_false(ncu_number(SV("n/a"), point, &v));
    assert_false(ncu_number(SV("no data"), point, &v));
    assert_false(ncu_number(SV(""), point, &v));
    assert_false(ncu_number(SV("1,2"), point, &v)); /* no thousands */
    assert_false(ncu_number(SV("1.2.3"), point, &v));
    assert_true(ncu_number(SV("12,34,567"), point, &v) && v == 1234567); /* lakhs */
    assert_false(ncu_number(SV("12,34,56"), point, &v));
}

static void units_are_brought_to_a_base(void **state)
{
    (void)state;
    assert_true(ncu_unit_factor(SV("ns")) == 1);
    assert_true(ncu_unit_factor(SV("nsecond")) == 1);
    assert_true(ncu_unit_factor(SV("usecond")) == 1000);
    assert_true(ncu_unit_factor(SV("ms")) == 1e6);
    assert_true(ncu_unit_factor(SV("s")) == 1e9);
    assert_true(ncu_unit_factor(SV("Kbyte")) == 1e3);
    assert_true(ncu_unit_factor(SV("Tbyte/second")) == 1e12);
    assert_true(ncu_unit_factor(SV("Ghz")) == 1e9);
    assert_true(ncu_unit_factor(SV("%")) == 1);
    assert_true(ncu_unit_factor(SV("register/thread")) == 1);
    assert_true(ncu_unit_factor(SV("")) == 1);
    assert_true(ncu_unit_factor(SV("cycle/nsecond")) == 1e9); /* a frequency, before 2021 */
    assert_true(ncu_unit_factor(SV("cycle/usecond")) == 1e6);
    assert_true(ncu_unit_factor(SV("byte/ns")) == 1e9);
    assert_true(ncu_unit_factor(SV("Kbyte/block")) == 1e3);
    assert_true(ncu_unit_factor(SV("KiB")) == 1024);
    assert_true(ncu_unit_factor(SV("\xc2\xb5s")) == 1000);
    assert_true(ncu_unit_factor(SV("%/pass")) == 1);
}

static void a_cut_file_keeps_its_whole_rows(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(t, &x,
          LONG_HEAD LONG("0", "f", "gpu__time_duration.sum", "ns", "5") "\"1\",\"7\",\"app\",\"12");
    assert_int_equal(x.launches.n, 1);
    assert_int_equal(x.notes.n, 1);
    assert_string_equal(x.notes.p[0], "t.csv:3: the file ends inside this row, which is left out");
    ncu_table_free(&x);
}

/* What spreadsheets and shells make of a table: other separators and encodings, no quotes, rows
 * and columns in another order. */
static void tables_that_others_kept(void **state)
{
    struct test *t = *state;
    static const char plain[] =
        "ID,Kernel Name,Metric Name,Metric Unit,Metric Value\r\n"
        "0,\"f<1, 2>(int)\",gpu__time_duration.sum,ns,3136\r\n"
        "1,g,gpu__time_duration.sum,us,1.5\r\n"
        "0,\"f<1, 2>(int)\",dram__bytes_read.sum,Kbyte,2\r\n"; /* after g: sorted by metric */
    char wide[2 * sizeof plain + 2] = "\xff\xfe";
    for (size_t i = 0; i < sizeof plain - 1; i++)
        wide[2 + 2 * i] = plain[i];
    const struct sv texts[] = {
        {plain, sizeof plain - 1},
        {wide, 2 * sizeof plain},
        SV("junk\n;ID;Metric Value;Metric Name;Kernel Name;Metric Unit\n"
           "0;0;3.136;gpu__time_duration.sum;f<1, 2>(int);ns\n1;1;1,5;gpu__time_duration.sum;g;us\n"
           "2;0;2;dram__bytes_read.sum;f<1, 2>(int);Kbyte\n"),
        SV("ID\tKernel Name\tgpu__time_duration.sum\tdram__bytes_read.sum\n\t\tns\tKbyte\n"
           "0\tf<1, 2>(int)\t3136\t2\n1\tg\t1,500\t\n"),
        SV("\"ID\",\"Function Name\",\"Duration [us]\",\"dram__bytes_read.sum [Kbyte]\"\n"
           "\"0\",\"f<1, 2>(int)\",\"3.136\",\"2\"\n\"1\",\"g\",\"1.50\",\"\"\n"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ncu_table x;
        ncu_table_init(&x, t->a);
        assert_ok(ncu_csv_parse(&x, "t.csv", texts[i], &t->e), t);
        assert_int_equal(x.launches.n, 2);
        assert_string_equal(x.launches.p[0].kernel, "f<1, 2>(int)");
        assert_near_rel(value(&x, 0, "gpu__time_duration.sum"), 3136, 1e-12);
        assert_near_rel(value(&x, 0, "dram__bytes_read.sum"), 2000, 1e-12);
        assert_near_rel(value(&x, 1, "gpu__time_duration.sum"), 1500, 1e-12);
        assert_true(isnan(value(&x, 1, "dram__bytes_read.sum")));
        ncu_table_free(&x);
    }
}

/* --print-summary: a row is a mean of many launches. */
static void a_summary_counts_its_launches(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(t, &x,
          "\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\","
          "\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Invocations\",\"Section Name\","
          "\"Metric Name\",\"Metric Unit\",\"Minimum\",\"Maximum\",\"Average\"\n"
          "\"7\",\"app\",\"h\",\"f\",\"1\",\"7\",\"(128, 1, 1)\",\"(8, 1, 1)\",\"0\",\"8.0\","
          "\"1,200\",\"S\",\"Duration\",\"usecond\",\"1.5\",\"9\",\"2.25\"\n");
    assert_int_equal(x.launches.n, 1);
    assert_int_equal(x.launches.p[0].count, 1200);
    assert_true(value(&x, 0, "gpu__time_duration.sum") == 2250);
    ncu_table_free(&x);
}

/* A whole number has no fraction: the separator in it is one of thousands. */
static void counts_tell_the_separator(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(t, &x,
          LONG_HEAD LONG("0", "f", "dram__bytes_read.sum", "byte", "6.400")
              LONG("0", "f", "gpu__time_duration.sum", "ns", "3.136"));
    assert_true(value(&x, 0, "dram__bytes_read.sum") == 6400);
    assert_true(value(&x, 0, "gpu__time_duration.sum") == 3136);
    ncu_table_free(&x);
    parse(t, &x, LONG_HEAD LONG("0", "f", "dram__bytes_read.sum", "Kbyte", "6.400"));
    assert_true(value(&x, 0, "dram__bytes_read.sum") == 6400);
    ncu_table_free(&x);
}

/* Quotes of the program's lines swallow no row; quotes inside a name are part of it; instances of a
 * metric stand behind its value. */
static void quotes_that_do_not_pair(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(
        t, &x,
        LONG_HEAD "\"the program says\n" LONG(
            "0", "op<\"a\">", "m", "",
            "5 (1; 2; 2)") "\"and it's 5\" tall\n\"9\",\"killed he\n" LONG("1", "g", "m", "", "6"));
    assert_int_equal(x.launches.n, 2);
    assert_string_equal(x.launches.p[0].kernel, "op<\"a\">");
    assert_true(value(&x, 0, "m") == 5);
    assert_true(value(&x, 1, "m") == 6);
    assert_int_equal(x.notes.n, 1);
    assert_string_equal(x.notes.p[0],
                        "t.csv:2: a quote does not end in this row, which is left out");
    ncu_table_free(&x);
}

/* Two processes write side by side, with launches of the same numbers. */
static void processes_and_devices_are_kept_apart(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
#define ROW(pid, device, metric, v) \
    "\"0\",\"" pid "\",\"f\",\"" device "\",\"" metric "\",\"\",\"" v "\"\n"
    parse(t, &x,
          "\"ID\",\"Process ID\",\"Kernel Name\",\"Device\",\"Metric Name\",\"Metric Unit\","
          "\"Metric Value\"\n" ROW("7", "0", "m", "1") ROW("8", "1", "m", "2")
              ROW("7", "0", "n", "3") ROW("8", "1", "n", "4"));
#undef ROW
    assert_int_equal(x.launches.n, 2);
    assert_true(value(&x, 0, "n") == 3 && value(&x, 1, "m") == 2 && value(&x, 1, "n") == 4);
    assert_int_equal(x.launches.p[1].device, 1);
    ncu_table_free(&x);
}

#define HINT                                                                                    \
    "\nhint: ncu --csv --page raw --log-file FILE makes one; ncu --import REPORT --csv --page " \
    "raw "                                                                                      \
    "too"

static void a_file_without_a_table_is_refused(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    ncu_table_init(&x, t->a);
    assert_err(ncu_csv_parse(&x, "t.csv", SV("hello\n"), &t->e), ST_INPUT, t,
               "t.csv: there is no table of Nsight Compute in it" HINT);
    err_clear(&t->e);
    assert_err(ncu_csv_parse(&x, "t.csv",
                             SV("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no\n"), &t->e),
               ST_INPUT, t,
               "t.csv: there is no table of Nsight Compute in it; it says: ==ERROR== "
               "ERR_NVGPUCTRPERM - no\nhint: run as root or with CAP_SYS_ADMIN, or load the nvidia "
               "module with NVreg_RestrictProfilingToAdminUsers=0 and reboot");
    err_clear(&t->e);
    assert_err(ncu_csv_parse(&x, "t.csv", SV("==ERROR== nobody knows this one\n"), &t->e), ST_INPUT,
               t,
               "t.csv: there is no table of Nsight Compute in it; it says: ==ERROR== nobody knows "
               "this one" HINT);
    ncu_table_free(&x);
}

/* Several tables in a file, several files: launches add up. */
static void tables_follow_each_other(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    parse(t, &x,
          LONG_HEAD LONG("0", "f", "gpu__time_duration.sum", "ns", "5")
              LONG_HEAD LONG("0", "g", "gpu__time_duration.sum", "ns", "6"));
    assert_ok(ncu_csv_parse(&x, "u.csv", SV(LONG_HEAD LONG("0", "g", "m", "", "1")), &t->e), t);
    assert_int_equal(x.launches.n, 3);
    assert_int_equal(x.launches.p[2].file, 1);
    assert_true(value(&x, 1, "gpu__time_duration.sum") == 6);
    ncu_table_free(&x);
}

/* Made on an H200 by ncu 2025.3: the same program under --page raw, --page details and --metrics.
 */
static void tables_of_an_h200(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *name;
        double duration_ns; /* of the first launch */
        const char *metric; /* and another value of it */
        double value;
    } rows[] = {
        {"ncu/ncu_raw.csv", 3008, "launch__sm_count", 132},
        {"ncu/ncu_details.csv", 2848, "dram__throughput.avg.pct_of_peak_sustained_elapsed", 0.05},
        {"ncu/ncu_metrics.csv", 3136, "dram__bytes_read.sum", 6400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ncu_table x;
        ncu_table_init(&x, t->a);
        assert_ok(ncu_csv_read(&x, test_data(t, rows[i].name), &t->e), t);
        assert_int_equal(x.launches.n, 24);
        assert_int_equal(x.notes.n, 0);
        assert_true(value(&x, 0, "gpu__time_duration.sum") == rows[i].duration_ns);
        assert_true(value(&x, 0, rows[i].metric) == rows[i].value);
        assert_true(ncu_inside(&x.launches.p[23], "decode"));
        assert_true(x.launches.p[0].cc == 9.0 && x.launches.p[0].grid[0] == 8);
        if (i == 0)
            assert_string_equal(x.launches.p[0].device_name, "NVIDIA H200");
        ncu_table_free(&x);
    }
}

/* Cells that a spreadsheet merged: the values of a launch that only the row above names. */
static void rows_of_no_launch_are_told(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    ncu_table_init(&x, t->a);
    assert_ok(ncu_csv_parse(&x, "t.csv",
                            SV("\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric "
                               "Value\"\n"
                               "1,\"gemm\",\"gpu__time_duration.sum\",\"us\",20.5\n"
                               ",,\"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\"%\",90\n"
                               "epoch 1, done\n" /* the program's own output is no row */
                               ",\"copy\",\"gpu__time_duration.sum\",\"us\",5\n"),
                            &t->e),
              t);
    assert_int_equal(x.launches.n, 1);
    assert_int_equal(x.notes.n, 1);
    assert_string_equal(x.notes.p[0],
                        "t.csv:3: 2 rows without an ID or a kernel, this first, were left out: "
                        "whose values they are is not said");
    ncu_table_free(&x);
    ncu_table_init(&x, t->a);
    assert_ok(ncu_csv_parse(&x, "t.csv",
                            SV("ID,Kernel Name,gpu__time_duration.sum\n,,ns\n0,f,12.5\n,,14.5\n"),
                            &t->e),
              t);
    assert_int_equal(x.launches.n, 1);
    assert_string_equal(x.notes.p[0],
                        "t.csv:4: 1 row without an ID or a kernel, this first, was left out: whose "
                        "values they are is not said");
    ncu_table_free(&x);
}

static void a_number_that_could_be_two_is_told(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    ncu_table_init(&x, t->a);
    assert_ok(ncu_csv_parse(&x, "t.csv",
                            SV("ID,Kernel Name,gpu__time_duration.sum [us]\n0,f,\"1,234\"\n"),
                            &t->e),
              t);
    assert_int_equal(x.notes.n, 1);
    assert_string_equal(x.notes.p[0],
                        "t.csv: no number tells which sign is the decimal one (as '1,234'); the "
                        "point was taken for it: LC_ALL=C ncu writes it so");
    ncu_table_free(&x);
    ncu_table_init(&x, t->a);
    assert_ok(ncu_csv_parse(&x, "t.csv",
                            SV("ID,Kernel Name,gpu__time_duration.sum [us]\n0,f,\"1,234\"\n"
                               "1,f,\"17,5\"\n"),
                            &t->e),
              t);
    assert_int_equal(x.notes.n, 0);
    ncu_table_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_of_no_launch_are_told),
        TEST(a_number_that_could_be_two_is_told),
        TEST(the_long_form),
        TEST(the_wide_form_has_a_row_of_units),
        TEST(titles_of_the_details_page),
        TEST(numbers_of_any_locale),
        TEST(a_comma_alone_separates_thousands),
        TEST(units_are_brought_to_a_base),
        TEST(a_cut_file_keeps_its_whole_rows),
        TEST(tables_that_others_kept),
        TEST(a_summary_counts_its_launches),
        TEST(counts_tell_the_separator),
        TEST(quotes_that_do_not_pair),
        TEST(processes_and_devices_are_kept_apart),
        TEST(a_file_without_a_table_is_refused),
        TEST(tables_follow_each_other),
        TEST(tables_of_an_h200),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
