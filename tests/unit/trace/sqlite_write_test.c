/* What scripts written for Nsight Systems' exports look up by name. */
#include <sqlite3.h>
#include <string.h>

#include "support/fake_spool.h"
#include "support/support.h"
#include "trace/trace.h"

/* All of a query's first column, "a|b|". */
static const char *column(struct test *t, sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s;
    const char *text = "";
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW)
        text = arena_printf(t->a, "%s%s|", text, (const char *)sqlite3_column_text(s, 0));
    assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
    return text;
}

static void kinds_have_nsys_names(void **state)
{
    struct test *t = *state;
    const char *from = test_path(t, "a.spool"), *to = test_path(t, "a.sqlite");
    fake_spool_write(from, &(struct fake_spool){.steps = 1});
    assert_ok(trace_convert(from, trace_format_named("sqlite"), to, NULL, &t->e), t);
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(to, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_string_equal(
        column(t, db,
               "SELECT id || ' ' || name || ' ' || label FROM ENUM_CUDA_MEMCPY_OPER "
               "WHERE id IN (0, 1, 8, 10, 11) ORDER BY id"),
        "0 CUDA_MEMCPY_KIND_UNKNOWN Unknown|"
        "1 CUDA_MEMCPY_KIND_HTOD Host-to-Device|"
        "8 CUDA_MEMCPY_KIND_DTOD Device-to-Device|"
        "10 CUDA_MEMCPY_KIND_PTOP Peer-to-Peer|"
        "11 CUDA_MEMCPY_KIND_UVM_HTOD Unified Host-to-Device|");
    assert_string_equal(column(t, db, "SELECT count(*) FROM ENUM_CUDA_MEMCPY_OPER"), "14|");
    assert_string_equal(
        column(t, db, "SELECT id || ' ' || name FROM ENUM_CUDA_MEM_KIND ORDER BY id"),
        "0 CUDA_MEMOPR_MEMORY_KIND_PAGEABLE|1 CUDA_MEMOPR_MEMORY_KIND_PINNED|"
        "2 CUDA_MEMOPR_MEMORY_KIND_DEVICE|3 CUDA_MEMOPR_MEMORY_KIND_ARRAY|"
        "4 CUDA_MEMOPR_MEMORY_KIND_MANAGED|"
        "5 CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC|"
        "6 CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC|"
        "7 CUDA_MEMOPR_MEMORY_KIND_UNKNOWN|");
    assert_string_equal(column(t, db,
                               "SELECT s.label || ' ' || d.label FROM CUPTI_ACTIVITY_KIND_MEMCPY m "
                               "JOIN ENUM_CUDA_MEM_KIND s ON s.id = m.srcKind "
                               "JOIN ENUM_CUDA_MEM_KIND d ON d.id = m.dstKind"),
                        "Pageable Device|");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void change(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* The machine goes along, and of nsys' table only what describes it: the environment of the traced
 * process stands there too. */
static void the_machine_goes_along(void **state)
{
    struct test *t = *state;
    const char *from = test_path(t, "m.spool"), *to = test_path(t, "m.sqlite");
    const char *json = test_path(t, "m.json");
    struct trace x;
    fake_spool_write(from, &(struct fake_spool){.steps = 1, .host = "node7"});
    assert_ok(trace_convert(from, trace_format_named("sqlite"), to, NULL, &t->e), t);
    change(to, "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment', 'TOKEN=secret'), "
               "('CpuCores', '96'), ('Hostname', 'node7'), ('Hostname', 'node8')");
    assert_ok(trace_load(&x, to, NULL, &t->e), t);
    const struct trace_dict *d = &x.dict;
    assert_int_equal(d->n_facts, 4);
    assert_string_equal(trace_fact_words(t->a, d, TRACE_HOST), "node7, node8");
    assert_string_equal(trace_fact_words(t->a, d, TRACE_CUDA_DRIVER), "13.0");
    assert_string_equal(trace_fact_words(t->a, d, TRACE_CORES), "96");
    assert_null(trace_fact_words(t->a, d, TRACE_DRIVER));
    trace_free(&x);
    assert_ok(trace_convert(from, trace_format_named("kineto"), json, NULL, &t->e), t);
    assert_ok(trace_load(&x, json, NULL, &t->e), t);
    assert_string_equal(trace_fact_words(t->a, d, TRACE_CUDA_DRIVER), "13.0");
    assert_string_equal(trace_fact_words(t->a, d, TRACE_CUPTI), "130001");
    trace_free(&x);
}

/* nsys writes no end for a range that was open when recording ended, and counts it to the latest
 * time of NVTX. A time that is no number is none. */
static void ranges_without_an_end_reach_the_last(void **state)
{
    struct test *t = *state;
    const char *from = test_path(t, "b.spool"), *to = test_path(t, "b.sqlite");
    struct trace x;
    fake_spool_write(from, &(struct fake_spool){.steps = 2});
    assert_ok(trace_convert(from, trace_format_named("sqlite"), to, NULL, &t->e), t);
    change(to,
           "UPDATE NVTX_EVENTS SET end = NULL WHERE start = (SELECT min(start) FROM NVTX_EVENTS "
           "WHERE eventType = 59 AND start > 5)");
    change(to, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'abc' WHERE rowid = 1");
    assert_ok(trace_load(&x, to, NULL, &t->e), t);
    assert_int_equal(x.n_ranges, 6);
    assert_int_equal(x.ranges[0].start_ns, FAKE_START_NS);
    assert_int_equal(x.ranges[0].end_ns, FAKE_START_NS + FAKE_STEP_NS + 90000);
    assert_int_equal(x.ops.n, 9);
    assert_int_equal(x.start_ns, FAKE_START_NS);
    trace_free(&x);
}

/* The fake GPU has a name, an identity and 132 processors; the kernel's launch is not known. */
static void what_is_not_known_is_null(void **state)
{
    struct test *t = *state;
    const char *from = test_path(t, "n.spool"), *to = test_path(t, "n.sqlite");
    const char *json = test_write(t, "n.json",
                                  "{\"deviceProperties\": [{\"id\": 0, \"name\": \"G\"}], "
                                  "\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", "
                                  "\"name\": \"k\", \"pid\": 0, \"tid\": 7, \"ts\": 5, "
                                  "\"dur\": 2, \"args\": {\"device\": 0, \"stream\": 7}}]}");
    static const char facts[] = "SELECT (totalMemory IS NULL) || (memoryBandwidth IS NULL) || "
                                "(clockRate IS NULL) || (computeMajor IS NULL) || "
                                "(computeMinor IS NULL) || (uuid IS NULL) || (smCount IS NULL) "
                                "FROM TARGET_INFO_GPU";
    sqlite3 *db;
    fake_spool_write(from, &(struct fake_spool){.steps = 1});
    assert_ok(trace_convert(from, trace_format_named("sqlite"), to, NULL, &t->e), t);
    assert_int_equal(sqlite3_open_v2(to, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_string_equal(column(t, db, facts), "1111100|");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    to = test_path(t, "j.sqlite");
    assert_ok(trace_convert(json, trace_format_named("sqlite"), to, NULL, &t->e), t);
    assert_int_equal(sqlite3_open_v2(to, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_string_equal(column(t, db, facts), "1111111|");
    assert_string_equal(
        column(t, db, "SELECT correlationId IS NULL FROM CUPTI_ACTIVITY_KIND_KERNEL"), "1|");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void missing_names_are_told(void **state)
{
    struct test *t = *state;
    const char *from = test_path(t, "c.spool"), *to = test_path(t, "c.sqlite");
    struct trace x;
    fake_spool_write(from, &(struct fake_spool){.steps = 1});
    assert_ok(trace_convert(from, trace_format_named("sqlite"), to, NULL, &t->e), t);
    assert_ok(trace_load(&x, to, NULL, &t->e), t);
    uint32_t notes = x.dict.n_notes;
    size_t ops = x.ops.n;
    trace_free(&x);
    change(to, "DROP TABLE StringIds");
    assert_ok(trace_load(&x, to, NULL, &t->e), t);
    assert_int_equal(x.ops.n, ops);
    assert_int_equal(x.dict.n_notes, notes + 1);
    assert_string_equal(x.dict.notes[notes].text,
                        "c.sqlite: has no table StringIds, so kernels and calls have no names");
    trace_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kinds_have_nsys_names), TEST(missing_names_are_told), TEST(the_machine_goes_along),
        TEST(what_is_not_known_is_null), TEST(ranges_without_an_end_reach_the_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
