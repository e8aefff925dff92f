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
    const struct faulty_args args = {.out = b->out, .in = b->in, .word = &b->word};
    for (unsigned i = 0; i < 4 * THREADS + 4; i++)
        b->in[i] = 100 + i;
    memset(b->out, 0, sizeof b->out);
    b->word = 0;
    return emulator_run(&(struct emulator_launch){.kernel = kernel,
                                                  .args = &args,
                                                  .grid = {1, 1, 1},
                                                  .block = THREADS,
                                                  .shared_bytes = 16 * THREADS},
                        (struct emulator_order){.falling = falling, .late = late});
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

/* ---- races ----------------------------------------------------------------------------------- */

enum { GRID = 3 };

struct race_buffers {
    _Alignas(16) unsigned in[4 * THREADS + 4];
    unsigned out[GRID * THREADS], sums[THREADS];
    int counter;
};

static const char *race_of(struct race_buffers *b, void (*kernel)(const void *), int order)
{
    const struct faulty_args args = {
        .out = b->out, .in = b->in, .sums = b->sums, .counter = &b->counter};
    memset(b, 0, sizeof *b);
    for (unsigned i = 0; i < 4 * THREADS + 4; i++)
        b->in[i] = 100 + i * i;
    return emulator_run(
        &(struct emulator_launch){.kernel = kernel,
                                  .args = &args,
                                  .grid = {GRID, 1, 1},
                                  .block = THREADS,
                                  .shared_bytes = 16 * THREADS + 16},
        (struct emulator_order){.falling = order & 1, .late = order & 2, .races = true});
}

static void skip_without_hooks(void)
{
    if (emulator_finds_races())
        return;
    print_message("skipped: races, in a build with a sanitizer\n");
    skip();
}

static unsigned at(const struct race_buffers *b, unsigned thread)
{
    return b->in[4 * ((thread + 1) % THREADS)];
}

static void what_is_ordered_is_no_race(void **state)
{
    struct race_buffers b;
    (void)state;
    skip_without_hooks();
    for (int order = 0; order < 4; order++) {
        assert_null(race_of(&b, faulty_none, order));
        assert_null(race_of(&b, faulty_same, order));
        assert_null(race_of(&b, faulty_orders, order));
        for (unsigned i = 0; i < THREADS; i++) {
            const unsigned next = (i + 1) % THREADS;
            assert_int_equal(b.out[i], 2 * at(&b, i) + at(&b, i ^ 1));
            assert_int_equal(b.sums[i], GRID * (2 * at(&b, next) + at(&b, next ^ 1)));
        }
    }
}

/* Each of them but one is there: a race in some order of the threads. */
static void all_that_orders_is_needed(void **state)
{
    struct race_buffers b;
    const char *place;
    int n = 0;
    (void)state;
    skip_without_hooks();
    emulator_forget_order_places();
    assert_null(race_of(&b, faulty_orders, 0));
    for (; (place = emulator_order_place(n)); n++) {
        const long before = emulator_races();
        emulator_without(place);
        for (int order = 0; order < 4; order++)
            race_of(&b, faulty_orders, order);
        emulator_without(NULL);
        if (emulator_races() == before)
            fail_msg("nothing is told without %s", place);
    }
    assert_int_equal(n, 12);
}

static void races_are_told(void **state)
{
    static const struct {
        void (*kernel)(const void *);
        const char *text;
    } races[] = {
        {faulty_race, "byte 16 of dynamic shared memory: read by thread 0 of block 0, then being "
                      "copied to by thread 1 of block 0, and nothing orders them"},
        {faulty_wait, "being copied to by thread 0 of block 0, then read by thread 63 of block 0"},
        {faulty_shuffle, "byte 120 of dynamic shared memory: written by thread 30 of block 0, then "
                         "read by thread 31 of block 0"},
        {faulty_blocks, "written by thread 0 of block 0, then written by thread 0 of block 1"},
        {faulty_plain,
         "touched by an atomic by thread 0 of block 0, then read by thread 32 of block 0"},
    };
    struct race_buffers b;
    (void)state;
    skip_without_hooks();
    for (size_t i = 0; i < sizeof races / sizeof *races; i++) {
        const char *text = race_of(&b, races[i].kernel, 0);
        assert_non_null(text);
        assert_ptr_equal(strstr(text, "a race at "), text);
        if (!strstr(text, races[i].text))
            fail_msg("%s\nis not\n%s", text, races[i].text);
        assert_null(race_of(&b, faulty_none, 0)); /* nothing of it is left */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_without_fault_is_the_same_in_all_orders),
        TEST(faults_are_told),
        TEST(races_show_in_some_order),
        TEST(what_is_ordered_is_no_race),
        TEST(all_that_orders_is_needed),
        TEST(races_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
