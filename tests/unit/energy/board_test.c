/* Whose power is it? On the fake GPU. */
#include "energy/board.h"

#include "base/clock.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static void a_board_is_one_gpu_under_two_names(void **state)
{
    struct test *t = *state;
    struct board b;
    fake_gpu_play("");
    assert_ok(board_open(0, &b, &t->e), t);
    assert_string_equal(b.uuid, "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0");
    assert_non_null(b.device);
    assert_err(board_open(5, &b, &t->e), ST_DEVICE, t,
               "cannot find the sensors of GPU 5\nthere is no GPU 5: the driver shows 1\n"
               "hint: nvidia-smi -L lists the GPUs; they count from 0");
}

static void other_processes_make_a_measurement_invalid(void **state)
{
    static const struct {
        const char *script;
        bool own; /* this process has a context */
        int others;
    } rows[] = {
        {"", false, 0},
        {"own=1", true, 0},
        {"own=1", false, 0},
        {"processes=1", true, 0}, /* this one, under the pid of another namespace */
        {"processes=1", false, 1},
        {"own=1;processes=2", true, 2},
        {"processes=3", true, 2},
        {"fail nvmlDeviceGetComputeRunningProcesses_v3 1+ 3", false, -1},
        {"processes=1;fail nvmlDeviceGetComputeRunningProcesses_v3 1+ 7", false, 256},
    };
    struct test *t = *state;
    struct board b;
    fake_gpu_play("");
    assert_ok(board_open(0, &b, &t->e), t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake_gpu_play(rows[i].script);
        assert_int_equal(board_others(&b, rows[i].own), rows[i].others);
    }
    fake_gpu_play("");
    assert_ok(board_alone(&b, false, &t->e), t);
    fake_gpu_play("processes=1");
    assert_err(board_alone(&b, false, &t->e), ST_REJECTED, t,
               "1 other process is on GPU 0: what they draw cannot be told apart\n"
               "hint: nvidia-smi lists them; measure when they have ended");
    fake_gpu_play("processes=2");
    err_clear(&t->e);
    assert_err(board_alone(&b, false, &t->e), ST_REJECTED, t,
               "2 other processes are on GPU 0: what they draw cannot be told apart\n"
               "hint: nvidia-smi lists them; measure when they have ended");
}

static void a_load_keeps_the_gpu_busy_and_leaves_nothing(void **state)
{
    struct test *t = *state;
    struct gpu g;
    fake_gpu_play("memory=1");
    assert_ok(gpu_open(0, &g, &t->e), t);
    const int64_t before = fake_gpu_allocations(), end = clock_mono_ns() + 20 * NS_PER_MS;
    assert_ok(board_load(&g, end, NULL, &t->e), t);
    assert_true(clock_mono_ns() >= end);
    assert_int_equal(fake_gpu_allocations(), before);
    const volatile sig_atomic_t stop = 1;
    assert_ok(board_load(&g, clock_mono_ns() + 3600 * NS_PER_S, &stop, &t->e), t);
    assert_int_equal(fake_gpu_allocations(), before);
    fake_gpu_play("memory=1;fail cuMemcpyDtoDAsync_v2 3 700");
    assert_int_equal(board_load(&g, end, NULL, &t->e), ST_DEVICE);
    fake_gpu_play("");
    gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_board_is_one_gpu_under_two_names),
        TEST(other_processes_make_a_measurement_invalid),
        TEST(a_load_keeps_the_gpu_busy_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
