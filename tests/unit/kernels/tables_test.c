/* Tables for people: operators of emit_nvtx, regions without work. */
#include "kernels/kernels.h"

#include "support/support.h"

#define RANGE(name, ts, dur)                                          \
    "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"" name \
    "\", \"pid\": 9, \"tid\": 9, \"ts\": " #ts ", \"dur\": " #dur "}"
#define LAUNCH(id, at, dur)                                                                \
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"l\", \"pid\": 9, \"tid\": 9, " \
    "\"ts\": " #at ", \"dur\": 1, \"args\": {\"correlation\": " #id                        \
    "}}, {\"ph\": \"X\", \"cat\": \"kernel\", "                                            \
    "\"name\": \"k\", \"pid\": 0, \"tid\": 7, \"ts\": " #at ", \"dur\": " #dur             \
    ", \"args\": {\"device\": 0, \"correlation\": " #id "}}"

/* torch.autograd.profiler.emit_nvtx numbers its operators: rows are by name all the same. Regions
 * that launched nothing come behind those beside them. */
static void operators_of_emit_nvtx_are_one_row(void **state)
{
    static const char text[] =
        "[" RANGE("setup", 0, 5) ", " RANGE("aten::mm, op_id = 12", 10, 10) ", " LAUNCH(1, 11, 4) ", " RANGE(
            "aten::mm, seq = 3, op_id = 14, sizes = [[2, 3], [3, 4]]", 30,
            10) ", " LAUNCH(2, 31,
                            5) ", " RANGE("aten::mm, sizes = []", 50,
                                          10) ", " LAUNCH(3, 51,
                                                          6) ", " RANGE("hello, seq = x", 70,
                                                                        10) ", " LAUNCH(4, 71,
                                                                                        7) "]";
    struct test *t = *state;
    struct trace x;
    struct kernels k;
    assert_ok(trace_load(&x, test_write(t, "t.json", text), NULL, &t->e), t);
    kernels_open(&k, &x, NULL);
    const struct table *operators = kernels_operator_table(t->a, &k);
    assert_int_equal(table_rows(operators), 3);
    assert_string_equal(table_at(operators, 1, 0), ":aten::mm");
    assert_string_equal(table_at(operators, 1, 1), "0.015000");
    assert_string_equal(table_at(operators, 1, 2), "3");
    assert_string_equal(table_at(operators, 2, 0), ":hello, seq = x");
    const struct table *regions = kernels_region_table(t->a, &k);
    assert_int_equal(table_rows(regions), 4);
    assert_string_equal(table_at(regions, 1, 0), ":aten::mm");
    assert_string_equal(table_at(regions, 1, 1), "3");
    assert_string_equal(table_at(regions, 1, 5), "3");
    assert_string_equal(table_at(regions, 2, 0), ":hello, seq = x");
    assert_string_equal(table_at(regions, 3, 0), ":setup");
    kernels_close(&k);
    trace_free(&x);
}

/* A file of ROCm without calls: the tables know operators by their ids, and regions around them. */
static void operators_by_id_are_in_the_tables(void **state)
{
    static const char text[] =
        "[" RANGE("step", 0,
                  100) ", {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 9, "
                       "\"tid\": 9, \"ts\": 10, \"dur\": 10, \"args\": {\"External id\": 4}}, "
                       "{\"ph\": \"X\", \"cat\": "
                       "\"kernel\", \"name\": \"Cijk_A\", \"pid\": 2, \"tid\": 0, \"ts\": 50, "
                       "\"dur\": 30, \"args\": "
                       "{\"External id\": 4}}]";
    struct test *t = *state;
    struct trace x;
    struct kernels k;
    struct buf text_of = {0};
    assert_ok(trace_load(&x, test_write(t, "t.json", text), NULL, &t->e), t);
    kernels_open(&k, &x, NULL);
    assert_string_equal(table_at(kernels_operator_table(t->a, &k), 1, 0), "aten::mm");
    const struct table *regions = kernels_region_table(t->a, &k);
    assert_string_equal(table_at(regions, 1, 0), ":step");
    assert_string_equal(table_at(regions, 1, 3), "0.030000");
    kernels_regions_markdown(&text_of, &k, NULL, 0);
    assert_non_null(strstr(buf_str(&text_of), "| Cijk_A | "));
    buf_free(&text_of);
    for (const struct kernels_report *r = kernels_reports; r->name; r++)
        (void)kernels_report_table(t->a, &k, r); /* none trips over the missing call */
    const struct kernels_timeline line = kernels_timeline_of(t->a, &k);
    assert_int_equal(line.devices[0].number, 2);
    kernels_close(&k);
    trace_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operators_of_emit_nvtx_are_one_row),
        TEST(operators_by_id_are_in_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
