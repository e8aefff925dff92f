/* Exports of Nsight Systems, as its versions write them. */
#include <sqlite3.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/support.h"

static const char tables[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES(1, 'k');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, contextId, streamId, "
    "correlationId, globalPid, demangledName, shortName);"
    "CREATE TABLE TARGET_INFO_GPU(id, name TEXT, uuid TEXT, cuDevice, smCount);"
    "INSERT INTO TARGET_INFO_GPU VALUES(0, 'A', '11', 0, 10), (1, 'B', '22', 1, 20), "
    "(2, 'C', '33', 2, 30);";

static const char *make(struct test *t, const char *sql)
{
    sqlite3 *db;
    const char *path = test_path(t, "n.sqlite");
    remove(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, tables, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    return path;
}

/* pids 100 and 200; each row: start, GPU of the process, process */
#define KERNEL(start, device, pid)                                                          \
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(" #start ", " #start " + 1000, " #device \
    ", 1, 7, " #start ", " #pid " << 24, 1, 1);"
#define CALLED(gpu, cuda, pid, uuid) \
    "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES(" #gpu ", " #cuda ", " #pid ", '" uuid "');"
#define CUDA_DEVICES "CREATE TABLE TARGET_INFO_CUDA_DEVICE(gpuId, cudaId, pid, uuid TEXT);"

static void check_gpus(struct test *t, const char *sql, const uint32_t *numbers, size_t n)
{
    struct trace x;
    assert_ok(trace_load(&x, make(t, sql), NULL, &t->e), t);
    assert_int_equal(x.ops.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(x.dict.sigs[x.ops.sig[i]].device, numbers[i]);
    trace_free(&x);
}

/* A GPU is that of the process's own number; without the table numbers are all there is. */
static void gpus_are_what_their_processes_call_so(void **state)
{
    struct test *t = *state;
    check_gpus(t, KERNEL(0, 0, 100) KERNEL(1, 0, 200), (uint32_t[]){0, 0}, 2);
    check_gpus(t,
               CUDA_DEVICES CALLED(0, 0, 100, "a") CALLED(1, 0, 200, "b") KERNEL(0, 0, 100)
                   KERNEL(1, 0, 200),
               (uint32_t[]){0, 1}, 2);
    /* 100 sees GPUs 1 and 0 in this order, 200 GPU 1 alone: one GPU has one number */
    check_gpus(t,
               CUDA_DEVICES CALLED(1, 0, 100, "b") CALLED(0, 1, 100, "a") CALLED(1, 0, 200, "b")
                   KERNEL(0, 0, 100) KERNEL(1, 1, 100) KERNEL(2, 0, 200),
               (uint32_t[]){0, 1, 0}, 3);
    /* two parts of one GPU */
    check_gpus(t,
               CUDA_DEVICES CALLED(0, 0, 100, "MIG-a") CALLED(0, 0, 200, "MIG-b") KERNEL(0, 0, 100)
                   KERNEL(1, 0, 200),
               (uint32_t[]){0, 1}, 2);
}

/* A process that the table does not have may call any GPU so. */
static void a_process_without_a_row_is_told(void **state)
{
    struct test *t = *state;
    for (int listed = 0; listed < 2; listed++) {
        struct trace x;
        const char *sql =
            arena_printf(t->a, "%s%s%s", CUDA_DEVICES CALLED(0, 0, 100, "a"),
                         listed ? CALLED(1, 0, 200, "b") : "", KERNEL(0, 0, 100) KERNEL(1, 0, 200));
        assert_ok(trace_load(&x, make(t, sql), NULL, &t->e), t);
        bool told = false;
        for (uint32_t i = 0; i < x.dict.n_notes; i++)
            told |=
                strstr(x.dict.notes[i].text, "which GPU process 200 calls 0 is not said") != NULL;
        assert_true(told == !listed);
        trace_free(&x);
    }
}

/* Facts follow the GPU, not the number; GPUs without work stay known. */
static void facts_are_of_the_gpu_that_worked(void **state)
{
    struct test *t = *state;
    struct trace x;
    const char *path =
        make(t, CUDA_DEVICES CALLED(2, 0, 100, "c") CALLED(0, 1, 100, "a") KERNEL(0, 0, 100));
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    assert_int_equal(x.dict.n_devices, 3);
    for (uint32_t i = 0; i < 3; i++)
        if (x.dict.devices[i].number == 0)
            assert_int_equal(x.dict.devices[i].sms, 30);
    trace_free(&x);
}

static void copies_of_unified_memory_have_a_direction(void **state)
{
    static const char *const names[] = {"[CUDA memcpy Unified Host-to-Device]",
                                        "[CUDA memcpy Unified Device-to-Host]",
                                        "[CUDA memcpy Unified Device-to-Device]"};
    struct test *t = *state;
    struct trace x;
    struct kernels k;
    const char *path = make(
        t, "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, contextId, streamId, "
           "correlationId, globalPid, bytes, copyKind);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(1, 2, 0, 1, 7, 0, 0, 99, 11), "
           "(3, 4, 0, 1, 7, 0, 0, 99, 12), (5, 6, 0, 1, 7, 0, 0, 99, 13);");
    const char *again = test_path(t, "again.json");
    for (int i = 0; i < 2; i++) { /* and as a PyTorch trace */
        assert_ok(trace_load(&x, i ? again : path, NULL, &t->e), t);
        kernels_open(&k, &x, NULL);
        for (size_t op = 0; op < 3; op++)
            assert_string_equal(k.names[k.name[x.ops.sig[op]]], names[op]);
        kernels_close(&k);
        trace_free(&x);
        if (!i)
            assert_ok(trace_convert(path, trace_format_named("kineto"), again, NULL, &t->e), t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gpus_are_what_their_processes_call_so),
        TEST(a_process_without_a_row_is_told),
        TEST(facts_are_of_the_gpu_that_worked),
        TEST(copies_of_unified_memory_have_a_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
