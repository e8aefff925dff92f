#include "support/gpu_emulator/gpu_emulator.h"

#include "support/gpu_emulator/faulty.h"
#include "support/support.h"

enum { THREADS = 64 };

struct buffers {
    _Alignas(16) unsigned in[4 * THREADS + 4];
    unsigned out[THREADS];
    unsigned long long word;
};

static const char *run(struct buffers *b, void (*kernel)(const void *), bool falling, bool late)
{
    const struct faulty_args args = {b->out, b->in, &b->word};
    for (unsigned i = 0; i < 4 * THREADS + 4; i++)
        b->in[i] = 100 + i;
    memset(b->out, 0, sizeof b->out);
    b->word = 0;
    return emulator_run(&(struct emulator_launch){.kernel = kernel,
                                                  .args = &args,
                                                  .grid = {1, 1, 1},
                                                  .block = THREADS,
                                                  .shared_bytes = 16 * THREADS},
                        (struct emulator_order){falling, late});
}

static bool handed_round(const struct buffers *b)
{
    for (unsigned i = 0; i < THREADS; i++)
        if (b->out[i] != 100 + 4 * ((i + 1) % THREADS))
            return false;
    return true;
}

static void a_kernel_without_fault_is_the_same_in_all_orders(void **state)
{
    struct buffers b;
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_null(run(&b, faulty_none, i & 1, i & 2));
        assert_true(handed_round(&b));
    }
}

static void faults_are_told(void **state)
{
    static const struct {
        void (*kernel)(const void *);
        const char *text;
    } faults[] = {
        {faulty_barrier, "threads wait for what does not come: 32 ended, 32 at barrier 0"},
        {faulty_barrier_counts,
         "barrier 3 for 32 threads, where others came for 64 (block 0,0,0 thread 32)"},
        {faulty_lane_left,
         "a lane ends that others wait for in a shuffle of mask ffffffff (block 0,0,0 thread 5)"},
        {faulty_lanes_differ,
         "lanes of a warp differ: 00000001 at a shuffle of mask ffffffff, this one at a ballot of "
         "ffffffff (block 0,0,0 thread 1)"},
        {faulty_word, "threads wait for what does not come: 0 ended, 64 in a loop"},
        {faulty_mbarrier, "an mbarrier at 0 of shared memory that was not initialized (block 0,0,0 "
                          "thread 0)"},
        {faulty_shared, "16 bytes at 1024 of shared memory, which has 1024 (block 0,0,0 thread 0)"},
    };
    struct buffers b;
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        assert_string_equal(run(&b, faults[i].kernel, false, false), faults[i].text);
        assert_null(run(&b, faulty_none, false, false)); /* nothing of it is left */
    }
    assert_non_null(strstr(run(&b, faulty_alignment, false, false), "which is not aligned"));
}

/* Not faults by themselves: results that depend on the order. */
static void races_show_in_some_order(void **state)
{
    struct buffers b;
    int right = 0;
    (void)state;
    for (int falling = 0; falling < 2; falling++) {
        assert_null(run(&b, faulty_race, falling, false));
        right += handed_round(&b);
    }
    assert_int_equal(right, 0); /* the last of each order comes before its neighbour */
    assert_null(run(&b, faulty_wait, false, false));
    assert_true(handed_round(&b));
    assert_null(run(&b, faulty_wait, false, true));
    assert_false(handed_round(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_without_fault_is_the_same_in_all_orders),
        TEST(faults_are_told),
        TEST(races_show_in_some_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
