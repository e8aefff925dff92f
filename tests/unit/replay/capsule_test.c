/* A capsule on the fake device: loaded, verified, timed, cut (support/replay_case.h). */
#include <math.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "replay/extract.h"
#include "replay/measure.h"
#include "replay/node_times.h"
#include "replay/verify.h"
#include "support/fake_gpu/script.h"
#include "support/replay_case.h"
#include "support/support.h"

struct fixture {
    struct capsule c;
    struct place place;
    struct load l;
    struct program p;
    struct replay_classes classes;
};

static enum st open_case(struct test *t, struct fixture *f, const char *script, const char *dir)
{
    *f = (struct fixture){0};
    fake_gpu_play(script);
    TRY(capsule_open(t->a, dir, &f->c, &t->e));
    TRY(place_plan(t->a, &f->c, &f->place, &t->e));
    TRY(place_check(&f->place, &t->e));
    TRY(load_open(t->a, &f->c, &f->place, 0, &f->l, &t->e));
    program_build(t->a, &f->c, 0, f->c.n_ops, &f->p);
    replay_classes_find(&f->l, &f->classes);
    return ST_OK;
}

static enum st open_new(struct test *t, struct fixture *f, const char *script, int faults)
{
    const char *dir = test_path(t, "capsule");
    assert_ok(replay_case_write(dir, faults, (struct sv){0}, &t->e), t);
    return open_case(t, f, script, dir);
}

static void close_case(struct fixture *f)
{
    load_close(&f->l);
    capsule_close(&f->c);
}

static struct verified verify(struct test *t, struct fixture *f, struct verify_params p)
{
    struct verified v;
    assert_ok(verify_region(&f->l, &f->p, &p, &v, &t->e), t);
    return v;
}

static void the_region_produces_what_the_program_did(void **state)
{
    struct test *t = *state;
    const int64_t before = fake_gpu_allocations();
    struct fixture f;
    assert_ok(open_new(t, &f, "", 0), t);
    for (int streams = 0; streams < 2; streams++) {
        const struct verified v = verify(t, &f, (struct verify_params){.streams = streams});
        assert_int_equal(v.wrong, 0);
        assert_int_equal(v.nondeterministic, 0);
        assert_int_equal(v.undefined, 4096 - 400); /* born, and written in part */
        assert_int_equal(v.compared, (1 << 20) + (64 << 10) + 3 * 4096);
        assert_int_equal(v.n_writers, 0);
        assert_int_equal(v.verdict, VERIFY_SAME);
    }
    assert_int_equal(fake_gpu_attributes(6), 6); /* operation 3 of three replays each */
    close_case(&f);
    assert_int_equal(fake_gpu_allocations(), before);
}

static void wrong_bytes_are_found_with_their_writer(void **state)
{
    struct test *t = *state;
    struct fixture f;
    assert_ok(open_new(t, &f, "", REPLAY_CASE_WRONG), t);
    const struct verified v = verify(t, &f, (struct verify_params){0});
    assert_int_equal(v.wrong, 3);
    assert_int_equal(v.nondeterministic, 0);
    assert_int_equal(v.first_wrong, REPLAY_CASE_BASE + 100);
    assert_int_equal(v.verdict, VERIFY_WRONG);
    assert_int_equal(v.replays, 3);
    assert_false(v.apart_known);
    assert_false(v.source.found);
    assert_int_equal(v.n_writers, 1);
    assert_int_equal(v.writers[0].op, 1);
    assert_int_equal(v.writers[0].bytes, 3);
    assert_int_equal(v.writers[0].wrong, 3);
    close_case(&f);
}

/* A kernel that writes another number each time, and one that is a little off. */
static float odd_value;
static float odd_step;
static size_t odd_at;
static void odd_write(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                      void **params)
{
    (void)self, (void)grid, (void)block;
    memcpy(*(char **)params[0] + odd_at, &odd_value, sizeof odd_value);
    odd_value += odd_step;
}

static bool find_odd(const char *kernel, struct fake_twin *out)
{
    static const uint16_t bytes[] = {8, 0};
    *out = (struct fake_twin){.run = odd_write, .param_bytes = bytes};
    return strcmp(kernel, "odd_write") == 0;
}

static void nondeterministic_bytes_are_told_from_wrong_ones(void **state)
{
    struct test *t = *state;
    struct fixture f;
    fake_gpu_twins(find_odd);
    assert_ok(open_new(t, &f, "", REPLAY_CASE_ODD), t);
    odd_value = 1000.5f;
    odd_step = 1.25f;
    struct verified v = verify(t, &f, (struct verify_params){0});
    assert_true(v.nondeterministic > 0);
    assert_int_equal(v.wrong, 0);
    assert_int_equal(v.n_writers, 1);
    assert_int_equal(v.writers[0].op, 11);
    assert_true(v.source.found);
    assert_int_equal(v.source.first, 11);
    assert_int_equal(v.source.last, 11);
    odd_step = 0; /* the same each time, and not what the program produced: 0 */
    odd_value = 1e-30f;
    v = verify(t, &f, (struct verify_params){0});
    assert_int_equal(v.nondeterministic, 0);
    assert_int_equal(v.wrong, 4);
    v = verify(t, &f, (struct verify_params){.tolerance = 0.01, .dtype = VERIFY_F32});
    assert_int_equal(v.wrong, 4); /* relative */
    close_case(&f);
}

/* A kernel of 64 numbers of one byte, each call of which is scripted. */
enum { DRAWN = 64 };
static unsigned char (*draw)(int call, int i);
static int draws;
static void draw_write(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                       void **params)
{
    (void)self, (void)grid, (void)block;
    for (int i = 0; i < DRAWN; i++)
        (*(unsigned char **)params[0])[i] = draw(draws, i);
    draws++;
}

static bool find_draw(const char *kernel, struct fake_twin *out)
{
    static const uint16_t bytes[] = {8, 0};
    *out = (struct fake_twin){.run = draw_write, .param_bytes = bytes};
    return strcmp(kernel, "odd_write") == 0;
}

static struct verified verify_drawn(struct test *t, int faults,
                                    unsigned char (*of)(int call, int i))
{
    struct fixture f;
    fake_gpu_twins(find_draw);
    const char *dir = test_path(t, arena_printf(t->a, "drawn%d", faults));
    draw = of;
    draws = 0;
    assert_ok(replay_case_write(dir, faults | REPLAY_CASE_ODD, (struct sv){0}, &t->e), t);
    assert_ok(open_case(t, &f, "", dir), t);
    const struct verified v = verify(t, &f, (struct verify_params){0});
    close_case(&f);
    return v;
}

/* What the program has in byte i: words of i * 5. */
static unsigned char program_byte(int i)
{
    return (unsigned char)(i % 4 ? 0 : i / 4 * 5);
}

/* Half of the numbers vary; of the others, one is the same in all replays and another than the
 * program's, which has none of the values that replays draw either. */
static unsigned char seldom(int call, int i)
{
    return (unsigned char)(i == 1          ? 77
                           : i < DRAWN / 2 ? 128 + (i * 31 + call * 7) % 97
                                           : program_byte(i));
}

/* Bytes that a nondeterministic operation wrote alike in all replays are not wrong: the program may
 * have drawn others. Those of an operation that gives the same each time are. */
static void bytes_beside_nondeterministic_ones_are_unsettled(void **state)
{
    struct test *t = *state;
    struct verified v = verify_drawn(t, 0, seldom);
    assert_int_equal(v.wrong, 0);
    assert_int_equal(v.unsettled, 1);
    assert_int_equal(v.nondeterministic, DRAWN / 2 - 1);
    assert_int_equal(v.writers[0].op, 11);
    assert_int_equal(v.writers[0].unsettled, 1);
    assert_int_equal(v.writers[0].bytes, DRAWN / 2);
    v = verify_drawn(t, REPLAY_CASE_WRONG, seldom);
    assert_int_equal(v.verdict, VERIFY_WRONG);
    assert_int_equal(v.wrong, 3);
    assert_int_equal(v.unsettled, 1);
    assert_int_equal(v.first_wrong, REPLAY_CASE_BASE + 100);
    assert_int_equal(v.n_writers, 2);
    assert_int_equal(v.writers[1].op, 1);
    assert_int_equal(v.writers[1].wrong, 3);
}

/* Operation 11 writes one byte of A anew each time; 3 bytes that operation 1 wrote before are said
 * to be others. In one store of 16 bytes with them, it may have written these too, what was there.
 */
static size_t beside_at;
static void beside_write(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                         void **params)
{
    (void)self, (void)grid, (void)block, (void)params;
    ((unsigned char *)(uintptr_t)REPLAY_CASE_BASE)[beside_at] = (unsigned char)(200 + draws++);
}

static bool find_beside(const char *kernel, struct fake_twin *out)
{
    static const uint16_t bytes[] = {8, 0};
    *out = (struct fake_twin){.run = beside_write, .param_bytes = bytes};
    return strcmp(kernel, "odd_write") == 0;
}

static void bytes_of_one_store_are_unsettled(void **state)
{
    struct test *t = *state;
    static const size_t places[] = {104, 112}; /* in the 16 bytes from 96 on, and behind them */
    fake_gpu_twins(find_beside);
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        const char *dir = test_path(t, arena_printf(t->a, "beside%d", i));
        beside_at = places[i];
        draws = 0;
        assert_ok(
            replay_case_write(dir, REPLAY_CASE_ODD | REPLAY_CASE_WRONG, (struct sv){0}, &t->e), t);
        assert_ok(open_case(t, &f, "", dir), t);
        const struct verified v = verify(t, &f, (struct verify_params){0});
        close_case(&f);
        assert_int_equal(v.nondeterministic, 1);
        assert_int_equal(v.unsettled, i == 0 ? 3 : 0);
        assert_int_equal(v.wrong, i == 0 ? 0 : 3);
    }
}

/* Byte i is drawn anew by call i alone. */
static unsigned char one_more_each(int call, int i)
{
    return (unsigned char)(i < 16 ? i == call ? 201 : 200 : program_byte(i));
}

static void replays_go_on_while_more_bytes_vary(void **state)
{
    struct test *t = *state;
    struct verified v = verify_drawn(t, 0, one_more_each);
    assert_int_equal(v.replays, VERIFY_REPLAYS);
    assert_int_equal(v.nondeterministic, VERIFY_REPLAYS);
    assert_int_equal(v.unsettled, 16 - VERIFY_REPLAYS);
    assert_true(v.apart_known);
    assert_int_equal(v.replays_apart.low, 2);
    assert_int_equal(v.replays_apart.high, 2);
    assert_int_equal(v.program_apart.low, 16); /* it is not one of them: */
    assert_int_equal(v.program_apart.high, 16);
    assert_int_equal(v.wrong, 0);
    assert_int_equal(v.verdict, VERIFY_UNLIKE);
}

/* All numbers are the program's or one more, by a coin: the program is a draw like the replays. */
static unsigned char coin(int call, int i)
{
    const unsigned x = (unsigned)(call * DRAWN + i + 1) * 2654435761u;
    return (unsigned char)(program_byte(i) + ((x ^ x >> 15) >> 9 & 1));
}

static void the_program_may_be_one_draw_more(void **state)
{
    struct test *t = *state;
    const struct verified v = verify_drawn(t, 0, coin);
    assert_true(v.nondeterministic > DRAWN / 2);
    assert_int_equal(v.wrong, 0);
    assert_true(v.program_apart.low <= v.replays_apart.high);
    assert_int_equal(v.verdict, VERIFY_SAME);
}

/* All 16 numbers vary, in each replay in a third of them, and the program has others; so the
 * fourth. */
static unsigned char fourth_is_the_program_s(int call, int i)
{
    return (unsigned char)(i >= 16 || call > 2 ? program_byte(i) : i % 3 == call ? 201 : 200);
}

static void few_replays_do_not_make_the_program_unlike(void **state)
{
    struct test *t = *state;
    const struct verified v = verify_drawn(t, 0, fourth_is_the_program_s);
    assert_int_equal(v.replays, 4);
    assert_int_equal(v.nondeterministic, 16);
    assert_int_equal(v.program_apart.low, 0);
    assert_int_equal(v.verdict, VERIFY_SAME);
}

/* Varies while operations are in a graph, and not one by one. */
static unsigned char early_calls(int call, int i)
{
    return (unsigned char)(i ? program_byte(i) : call < 3 ? 10 * call : 0);
}

static void where_results_begin_to_vary(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct source found;
    const struct place_span all[] = {{REPLAY_CASE_BASE, 1 << 20},
                                     {REPLAY_CASE_BASE + (2 << 20), 64 << 10},
                                     {REPLAY_CASE_BASE + (4 << 20), 4096}};
    struct source_params p = {.pages = all, .n_pages = 3};
    fake_gpu_twins(find_draw);
    assert_ok(open_new(t, &f, "", REPLAY_CASE_ODD), t);
    draw = coin;
    for (p.points = 2; p.points < 17; p.points++) {
        draws = 0;
        assert_ok(source_find(&f.l, &f.p, &p, &found, &t->e), t);
        assert_true(found.found);
        assert_int_equal(found.first, 11);
        assert_int_equal(found.last, 11);
    }
    p.n_pages = 1; /* not where it shows */
    assert_ok(source_find(&f.l, &f.p, &p, &found, &t->e), t);
    assert_false(found.found);
    const volatile sig_atomic_t stop = 1;
    p.stop = &stop;
    assert_int_equal(source_find(&f.l, &f.p, &p, &found, &t->e), ST_INTERRUPTED);
    err_clear(&t->e);
    close_case(&f);
    const struct verified v = verify_drawn(t, 0, early_calls);
    assert_int_equal(v.nondeterministic, 1);
    assert_false(v.source.found);
}

/* What a region that is done again finds is what it leaves: only on the way can it be seen to
 * write. */
static void a_region_that_changes_nothing(void **state)
{
    struct test *t = *state;
    struct fixture f;
    const uint32_t word = REPLAY_CASE_WORD;
    assert_ok(open_new(t, &f, "", REPLAY_CASE_STILL), t);
    struct verified v = verify(t, &f, (struct verify_params){0});
    assert_int_equal(v.changed, 0);
    assert_int_equal(v.wrong, 0);
    assert_int_equal(v.rewritten, 0);
    assert_int_equal(v.verdict, VERIFY_UNCHANGED);
    close_case(&f);
    fake_gpu_twins(find_odd); /* writes over what operation 8 wrote */
    assert_ok(replay_case_write(test_path(t, "odd"), REPLAY_CASE_STILL | REPLAY_CASE_ODD,
                                (struct sv){0}, &t->e),
              t);
    assert_ok(open_case(t, &f, "", test_path(t, "odd")), t);
    odd_step = 0;
    odd_at = 4;
    memcpy(&odd_value, &word, 4);
    v = verify(t, &f, (struct verify_params){0});
    assert_int_equal(v.rewritten, 4);
    assert_int_equal(v.verdict, VERIFY_SAME);
    odd_value = 1; /* another than the program's */
    v = verify(t, &f, (struct verify_params){0});
    assert_int_equal(v.wrong, 4);
    assert_int_equal(v.verdict, VERIFY_WRONG);
    odd_at = 0;
    close_case(&f);
}

static void a_tolerance_is_of_numbers(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct verify_params p = {.tolerance = 0.2, .dtype = VERIFY_F32};
    const uint32_t six = 6; /* where 5 should be, both tiny as float32 */
    fake_gpu_twins(find_odd);
    assert_ok(open_new(t, &f, "", REPLAY_CASE_ODD), t);
    odd_step = 0;
    odd_at = 4;
    memcpy(&odd_value, &six, 4);
    assert_int_equal(verify(t, &f, (struct verify_params){0}).wrong, 1);
    struct verified v = verify(t, &f, p);
    assert_int_equal(v.wrong, 0);
    assert_int_equal(v.tolerated % 4, 0);
    assert_true(v.tolerated > 0);
    assert_near_rel(v.worst, 1.0 / 6, 1e-6);
    p.tolerance = 0.1;
    assert_int_equal(verify(t, &f, p).wrong, 1);
    odd_at = 0;
    close_case(&f);
}

static void refusals(void **state)
{
    static const struct {
        const char *script;
        int faults;
        enum st st;
        const char *cause;
    } rows[] = {
        {"sm=80", 0, ST_DEVICE,
         "the capsule's kernels are machine code for compute capability 9.0 (Fake GPU 0); GPU 0, "
         "Fake GPU 0, has 8.0"},
        {"sm=100", 0, ST_DEVICE, "has 10.0"},
        {"memory=4", 0, ST_DEVICE,
         "the capsule's memory takes 8.0 MiB of GPU 0, and 4.0 MiB are free"},
        {"", REPLAY_CASE_UNKNOWN, ST_INPUT, "cannot take kernel roof_read"},
        {"fail cuMemMap 2 2", 0, ST_DEVICE, "cuMemMap: CUDA_ERROR_OUT_OF_MEMORY (2)"},
        {"fail cuMemHostRegister_v2 1 1", 0, ST_DEVICE, "cuMemHostRegister_v2"},
        {"fail cuModuleLoadDataEx 1 200", 0, ST_DEVICE, "cannot load the kernels of module 0"},
        {"fail cuModuleGetGlobal_v2 1 500", 0, ST_INPUT, "cannot find variable table"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        const char *dir = test_path(t, arena_printf(t->a, "capsule%zu", i));
        const int64_t before = fake_gpu_allocations();
        assert_ok(replay_case_write(dir, rows[i].faults, (struct sv){0}, &t->e), t);
        assert_int_equal(open_case(t, &f, rows[i].script, dir), rows[i].st);
        bool said = false;
        for (int k = 0; err_cause(&t->e, k); k++)
            said = said || strstr(err_cause(&t->e, k), rows[i].cause);
        if (!said)
            fail_msg("%s: %s", rows[i].cause, err_cause(&t->e, 1));
        err_clear(&t->e);
        close_case(&f);
        assert_int_equal(fake_gpu_allocations(), before);
    }
}

static void addresses_that_are_taken_are_named(void **state)
{
    struct test *t = *state;
    struct fixture f = {0};
    const char *dir = test_path(t, "capsule");
    const int64_t before = fake_gpu_allocations();
    assert_ok(replay_case_write(dir, 0, (struct sv){0}, &t->e), t);
    void *there = mmap((void *)(uintptr_t)(REPLAY_CASE_BASE + (3 << 20)), 4096, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ok(capsule_open(t->a, dir, &f.c, &t->e), t);
    assert_ok(place_plan(t->a, &f.c, &f.place, &t->e), t);
    assert_int_equal(place_check(&f.place, &t->e), ST_DEVICE);
    assert_int_equal(f.place.taken, REPLAY_CASE_BASE);
    f.place.taken = 0;
    err_clear(&t->e);
    fake_gpu_play(""); /* something came to lie there later */
    assert_int_equal(load_open(t->a, &f.c, &f.place, 0, &f.l, &t->e), ST_DEVICE);
    assert_int_equal(f.place.taken, REPLAY_CASE_BASE);
    err_clear(&t->e);
    munmap(there, 4096);
    assert_ok(place_check(&f.place, &t->e), t);
    capsule_close(&f.c);
    assert_int_equal(fake_gpu_allocations(), before);
}

/* A capsule that names addresses of this process: nothing is written there. */
static void memory_of_the_process_is_left_alone(void **state)
{
    struct test *t = *state;
    struct fixture f = {0};
    const char *dir = test_path(t, "capsule");
    unsigned char *mine =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mine, 0x77, 4096);
    assert_ok(replay_case_write(dir, 0, (struct sv){0}, &t->e), t);
    assert_ok(capsule_open(t->a, dir, &f.c, &t->e), t);
    struct capsule_allocation *moved =
        arena_copy(t->a, f.c.allocations, f.c.n_allocations * sizeof *moved);
    for (size_t i = 0; i < f.c.n_allocations; i++)
        if (moved[i].memory == CAPSULE_PINNED) {
            moved[i].address = (uintptr_t)mine;
            struct capsule_allocation last = moved[f.c.n_allocations - 1]; /* sorted by address */
            moved[f.c.n_allocations - 1] = moved[i];
            moved[i] = last;
            break;
        }
    f.c.allocations = moved;
    assert_ok(place_plan(t->a, &f.c, &f.place, &t->e), t);
    assert_int_equal(place_check(&f.place, &t->e), ST_DEVICE);
    assert_int_equal(f.place.taken, (uintptr_t)mine);
    err_clear(&t->e);
    fake_gpu_play("");
    assert_int_equal(load_open(t->a, &f.c, &f.place, 0, &f.l, &t->e), ST_DEVICE);
    err_clear(&t->e);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(mine[i], 0x77);
    munmap(mine, 4096);
    capsule_close(&f.c);
}

static void host_memory_may_lie_between(void **state)
{
    struct test *t = *state;
    struct fixture f;
    const int64_t before = fake_gpu_allocations();
    assert_ok(open_new(t, &f, "", REPLAY_CASE_NEAR), t);
    assert_int_equal(f.place.host.n, 0);
    assert_int_equal(f.place.host_inside.n, 1);
    assert_int_equal(f.place.reserved.n, 2);
    const struct verified v = verify(t, &f, (struct verify_params){0});
    assert_int_equal(v.wrong, 0);
    assert_int_equal(v.nondeterministic, 0);
    close_case(&f);
    assert_int_equal(fake_gpu_allocations(), before);
}

static void a_region_that_fails_says_where(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct verified v;
    assert_ok(open_new(t, &f, "fail kernel:roof_read 3 700", 0), t);
    assert_ok(load_restore(&f.l, 0, &t->e), t);
    assert_int_equal(issue_serial(&f.l, &f.p, NULL, NULL, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "operation 9, roof_read, fails");
    err_clear(&t->e);
    close_case(&f);
    assert_ok(open_case(t, &f, "fail kernel:roof_read 3 700", test_path(t, "capsule")), t);
    assert_int_equal(verify_region(&f.l, &f.p, &(struct verify_params){0}, &v, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "the region fails");
    err_clear(&t->e);
    close_case(&f);
    fake_gpu_play("");
}

static void times_are_those_of_the_device(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct issue issue;
    struct measure m = {0};
    struct timing region, repeated;
    struct measured_class alone;
    double sum_s = 0;
    assert_ok(open_new(t, &f, "", 0), t);
    assert_ok(issue_open(&f.l, &f.p, &issue, &t->e), t);
    m = (struct measure){.l = &f.l, .classes = &f.classes, .issue = &issue};
    const struct timer_params tp = {.samples = 3, .sample_s = 1e-6, .warm_up_s = 1e-6};
    assert_ok(timer_open(&f.l.g, &tp, &m.timer, &t->e), t);
    assert_ok(load_restore(&f.l, 0, &t->e), t);
    assert_ok(load_keep(&f.l, &t->e), t);
    assert_ok(measure_region(&m, false, &region, &t->e), t);
    assert_int_equal(f.classes.n, 9);
    for (size_t i = 0; i < f.classes.n; i++) {
        const double n = (double)f.classes.p[i].n;
        assert_ok(measure_class(&m, i, true, &alone, &t->e), t);
        assert_ok(measure_repeated(&m, i, region.median_s, &alone, &repeated, &t->e), t);
        assert_near_rel(alone.cold.median_s + 1e-6, alone.warm.median_s + 1e-6, 1e-3);
        assert_near_rel(repeated.median_s + 1e-6, alone.warm.median_s + 1e-6, 1e-3);
        assert_true(alone.sets_s == 0);
        sum_s += n * alone.warm.median_s;
        assert_near_rel(f.classes.p[i].app_s, 10e-6, 1e-9);
    }
    assert_near_rel(sum_s, region.median_s, 1e-3); /* one after the other on this device */
    assert_ok(measure_region(&m, true, &region, &t->e), t);
    assert_near_rel(sum_s, region.median_s, 1e-3);
    timer_close(&m.timer);
    issue_close(&issue);
    assert_int_equal(verify(t, &f, (struct verify_params){0}).wrong, 0);
    close_case(&f);
}

/* A kernel whose blocks draw tiles by a counter that a set clears: used up, 10 us are left of 30.
 */
static void a_kernel_is_repeated_with_its_sets(void **state)
{
    static const int faults[] = {REPLAY_CASE_TILES, REPLAY_CASE_APART};
    const double set_s = 10e-9, tiles_s = 30e-6;
    struct test *t = *state;
    struct fixture f;
    struct issue issue;
    struct timing region, repeated, held;
    struct measured_class alone;
    for (int apart = 0; apart < 2; apart++) { /* of the second the set is not found */
        const char *dir = test_path(t, apart ? "apart" : "tiles");
        assert_ok(replay_case_write(dir, faults[apart], (struct sv){0}, &t->e), t);
        assert_ok(open_case(t, &f, "", dir), t);
        assert_int_equal(verify(t, &f, (struct verify_params){0}).wrong, 0);
        assert_ok(issue_open(&f.l, &f.p, &issue, &t->e), t);
        struct measure m = {.l = &f.l, .classes = &f.classes, .issue = &issue};
        const struct timer_params tp = {.samples = 3, .sample_s = 1e-6, .warm_up_s = 1e-6};
        assert_ok(timer_open(&f.l.g, &tp, &m.timer, &t->e), t);
        assert_ok(load_restore(&f.l, 0, &t->e), t);
        assert_ok(load_keep(&f.l, &t->e), t);
        const size_t last = f.classes.n - 1;
        const struct replay_class *k = &f.classes.p[last];
        assert_string_equal(k->name, "draw_tiles");
        assert_int_equal(k->sets, apart ? 0 : 1);
        assert_ok(measure_region(&m, false, &region, &t->e), t);
        assert_ok(measure_class(&m, last, true, &alone, &t->e), t);
        assert_near_rel(alone.warm.median_s, apart ? 10e-6 : tiles_s, 1e-6);
        assert_near_rel(alone.cold.median_s, apart ? 10e-6 : tiles_s, 1e-6);
        assert_near_rel(alone.sets_s, apart ? 0 : set_s, 1e-6);
        assert_ok(measure_repeated(&m, last, region.median_s, &alone, &repeated, &t->e), t);
        assert_near_rel(repeated.median_s, apart ? 10e-6 : tiles_s, 1e-6);
        assert_ok(measure_hold(&m, k->ops, k->n, false, 0, &held, &t->e), t);
        assert_near_rel(held.median_s, apart ? 10e-6 : tiles_s + set_s, 1e-6);
        if (!apart) { /* a set that is held beside its kernel is not done twice */
            assert_ok(measure_hold(&m, (const uint32_t[]){13, 14}, 2, false, 0, &held, &t->e), t);
            assert_near_rel(held.median_s, (tiles_s + set_s) / 2, 1e-6);
        }
        timer_close(&m.timer);
        issue_close(&issue);
        close_case(&f);
    }
}

/* A kernel that takes what operation 8 wrote: word 2 of B. */
static int64_t took_right, took_wrong;
static void take_index(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                       void **params)
{
    uint32_t word;
    (void)self, (void)grid, (void)block;
    memcpy(&word, *(char **)params[0] + 8, sizeof word);
    *(word == 10 ? &took_right : &took_wrong) += 1;
}

static bool find_take(const char *kernel, struct fake_twin *out)
{
    static const uint16_t bytes[] = {8, 0};
    *out = (struct fake_twin){.run = take_index, .param_bytes = bytes};
    return strcmp(kernel, "odd_write") == 0;
}

static enum st put_all_back(void *self, CUstream stream, struct err *e)
{
    return load_again(self, stream, e);
}

static void a_kernel_is_repeated_behind_what_it_reads(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct issue issue;
    struct measured_class alone;
    struct timing held;
    CUgraphExec graph;
    int64_t ops;
    fake_gpu_twins(find_take);
    assert_ok(open_new(t, &f, "", REPLAY_CASE_ODD), t);
    assert_ok(issue_open(&f.l, &f.p, &issue, &t->e), t);
    const uint32_t odd = f.classes.of[11];
    bool *in_front = arena_array(t->a, bool, f.classes.n);
    struct measure m = {.l = &f.l, .classes = &f.classes, .issue = &issue, .in_front = in_front};
    const struct timer_params tp = {.samples = 3, .sample_s = 1e-6, .warm_up_s = 1e-6};
    assert_ok(timer_open(&f.l.g, &tp, &m.timer, &t->e), t);
    m.timer.before = put_all_back;
    m.timer.before_self = &f.l;
    assert_ok(load_restore(&f.l, 0, &t->e), t);
    assert_ok(load_keep(&f.l, &t->e), t);
    took_right = took_wrong = 0;
    assert_ok(measure_class(&m, odd, true, &alone, &t->e), t);
    assert_true(took_right == 0 && took_wrong > 6); /* as the region finds it */
    took_wrong = 0;
    in_front[odd] = true;
    assert_ok(measure_class(&m, odd, true, &alone, &t->e), t);
    assert_true(took_wrong == 0 && took_right > 6 && alone.warm.n == 3 && alone.cold.n == 3);
    assert_ok(measure_hold(&m, &(uint32_t){11}, 1, true, 0, &held, &t->e), t);
    assert_true(took_wrong == 0 && held.n >= 3);
    assert_ok(measure_class_graph(&m, odd, &graph, &ops, &t->e), t);
    assert_int_equal(ops, 1);
    assert_true(took_wrong == 0 && m.timer.before == put_all_back);
    gpu_graph_close(&f.l.g, &graph);
    timer_close(&m.timer);
    issue_close(&issue);
    close_case(&f);
}

/* Runs are counted, and each sample is the device's time of one step: of the region, of a class, of
 * several classes in the proportions in which the region has them. */
static void what_is_held_repeats_without_gaps(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct issue issue;
    struct timing held;
    assert_ok(open_new(t, &f, "", 0), t);
    assert_ok(issue_open(&f.l, &f.p, &issue, &t->e), t);
    struct measure m = {.l = &f.l, .classes = &f.classes, .issue = &issue};
    const struct timer_params tp = {.samples = 3, .sample_s = 1e-6, .warm_up_s = 1e-6};
    assert_ok(timer_open(&f.l.g, &tp, &m.timer, &t->e), t);
    assert_ok(load_restore(&f.l, 0, &t->e), t);
    fake_gpu_reset();
    assert_ok(measure_hold_region(&m, 10, 0, &held, &t->e), t);
    assert_true(held.runs >= 10 && held.n >= 3);
    assert_true(fake_gpu_launches("roof_nothing") > held.runs); /* at both ends it was at work */
    assert_near_rel(held.median_s, 13.813e-6, 1e-3);
    assert_true(held.start_wall_ns > 0 && held.end_wall_ns >= held.start_wall_ns);
    const struct replay_class *read = &f.classes.p[4], *nothing = &f.classes.p[7];
    assert_ok(measure_hold(&m, read->ops, read->n, false, 0, &held, &t->e), t);
    assert_near_rel(held.median_s, 0.16384e-6, 1e-3);
    assert_int_equal(held.runs % (int64_t)read->n, 0);
    const uint32_t both[] = {read->ops[0], read->ops[1], read->ops[2], nothing->ops[0]};
    fake_gpu_reset();
    assert_ok(measure_hold(&m, both, 4, false, 0, &held, &t->e), t);
    assert_near_rel(held.median_s, (3 * 0.16384e-6 + 12e-6) / 4, 1e-3);
    assert_int_equal(fake_gpu_launches("roof_read"), 3 * fake_gpu_launches("roof_nothing"));
    timer_close(&m.timer);
    issue_close(&issue);
    close_case(&f);
}

static void classes_are_chosen_by_name_or_number(void **state)
{
    static const struct {
        const char *words[2];
        const char *chosen; /* a letter each */
        const char *error;
    } rows[] = {
        {{NULL}, "yyyyyyyyy", NULL},
        {{"2"}, "..y......", NULL},
        {{"roof_r", "8"}, "..y.y...y", NULL},
        {{"^Mem(set|cpy D)"}, "...y.y..y", NULL},
        {{"9"}, NULL, "replay.classes: there is no kind of operation with number 9"},
        {{"0", "gemm"}, NULL, "replay.classes: no kind of operation has a name like 'gemm'"},
        {{"a{2"}, NULL, "replay.classes: 'a{2' is no regular expression: "},
        {{"99999999999999999999"},
         NULL,
         "replay.classes: there is no kind of operation with number 99999999999999999999"},
    };
    struct test *t = *state;
    struct fixture f;
    assert_ok(open_new(t, &f, "", 0), t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t n = !rows[i].words[0] ? 0 : rows[i].words[1] ? 2 : 1;
        bool chosen[9];
        assert_int_equal(f.classes.n, sizeof chosen);
        err_clear(&t->e);
        const enum st st =
            replay_classes_choose(f.classes.p, f.classes.n, rows[i].words, n, chosen, &t->e);
        if (rows[i].error) {
            assert_int_equal(st, ST_USAGE);
            assert_non_null(strstr(err_cause(&t->e, 0), rows[i].error));
            continue;
        }
        for (size_t k = 0; k < f.classes.n; k++)
            assert_int_equal(chosen[k], rows[i].chosen[k] == 'y');
    }
    err_clear(&t->e);
    close_case(&f);
}

static void classes_are_what_is_alike(void **state)
{
    static const struct {
        const char *name;
        size_t n, first;
        uint64_t bytes;
    } rows[] = {
        {"Memcpy HtoD", 1, 0, 16}, {"roof_write", 1, 1, 0},    {"roof_read", 1, 3, 0},
        {"Memset", 1, 4, 400},     {"roof_read", 3, 6, 0},     {"Memcpy DtoH", 1, 7, 64},
        {"roof_write", 1, 8, 0},   {"roof_nothing", 1, 11, 0}, {"Memcpy DtoD", 1, 12, 64},
    };
    struct test *t = *state;
    struct fixture f;
    assert_ok(open_new(t, &f, "", 0), t);
    assert_int_equal(f.classes.n, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < f.classes.n; i++) {
        assert_string_equal(f.classes.p[i].name, rows[i].name);
        assert_int_equal(f.classes.p[i].n, rows[i].n);
        assert_int_equal(f.classes.p[i].ops[0], rows[i].first);
        assert_int_equal(f.classes.p[i].bytes, rows[i].bytes);
        assert_int_equal(f.classes.p[i].tier, rows[i].bytes ? 1 : 3);
    }
    close_case(&f);
}

static void one_operation_becomes_a_capsule(void **state)
{
    static const uint32_t ops[] = {0, 1, 4, 6, 7, 9, 12};
    struct test *t = *state;
    struct fixture f;
    assert_ok(open_new(t, &f, "", 0), t);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        assert_ok(extract_op(&f.l, ops[i], test_path(t, arena_printf(t->a, "small%zu", i)),
                             &(struct extracted){0}, &t->e),
                  t);
    close_case(&f);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        assert_ok(open_case(t, &f, "", test_path(t, arena_printf(t->a, "small%zu", i))), t);
        assert_int_equal(f.c.n_ops, 1);
        assert_true(f.c.n_after > 0);
        const struct verified v = verify(t, &f, (struct verify_params){0});
        assert_int_equal(v.wrong, 0);
        assert_int_equal(v.nondeterministic, 0);
        assert_true(v.compared <= (1 << 20) + (64 << 10) + 4096);
        close_case(&f);
    }
}

/* So that it does the same work as often as it is replayed. */
static void an_operation_takes_its_sets_along(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct extracted x;
    struct issue issue;
    struct timing region;
    assert_ok(open_new(t, &f, "", REPLAY_CASE_TILES), t);
    assert_ok(extract_op(&f.l, 14, test_path(t, "small"), &x, &t->e), t);
    assert_int_equal(x.sets, 1);
    close_case(&f);
    assert_ok(open_case(t, &f, "", test_path(t, "small")), t);
    assert_int_equal(f.c.n_ops, 2);
    assert_int_equal(f.c.ops[0].kind, CAPSULE_SET);
    assert_int_equal(f.classes.p[1].sets, 1);
    assert_int_equal(verify(t, &f, (struct verify_params){0}).wrong, 0);
    assert_ok(issue_open(&f.l, &f.p, &issue, &t->e), t);
    struct measure m = {.l = &f.l, .classes = &f.classes, .issue = &issue};
    const struct timer_params tp = {.samples = 3, .sample_s = 1e-6, .warm_up_s = 1e-6};
    assert_ok(timer_open(&f.l.g, &tp, &m.timer, &t->e), t);
    assert_ok(measure_region(&m, false, &region, &t->e), t);
    assert_near_rel(region.median_s, 30.01e-6, 1e-6);
    timer_close(&m.timer);
    issue_close(&issue);
    close_case(&f);
}

static enum st count(void *self, CUstream stream, struct err *e)
{
    (void)stream, (void)e;
    (*(int *)self)++;
    return ST_OK;
}

/* What the region changes is put back by the stream alone, before each sample. */
static void memory_can_be_put_back_between_samples(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct issue issue;
    struct timing held;
    int times = 0;
    assert_ok(open_new(t, &f, "", 0), t);
    assert_ok(load_restore(&f.l, 0, &t->e), t);
    assert_ok(load_keep(&f.l, &t->e), t);
    uint64_t bytes = 0;
    for (size_t i = 0; i < f.c.n_after; i++)
        bytes += f.c.after[i].bytes;
    unsigned char *before = arena_alloc(t->a, bytes), *after = arena_alloc(t->a, bytes);
    bool changed = false;
    for (int round = 0; round < 3; round++) {
        uint64_t at = 0;
        if (round == 1)
            assert_ok(issue_serial(&f.l, &f.p, NULL, NULL, &t->e), t);
        if (round == 2) {
            assert_ok(load_again(&f.l, f.l.stream, &t->e), t);
            assert_ok(gpu_stream_wait(&f.l.g, f.l.stream, &t->e), t);
        }
        for (size_t i = 0; i < f.c.n_after; at += f.c.after[i++].bytes) {
            const struct capsule_page *p = &f.c.after[i];
            if (place_contains(&f.l.place.host, p->address, 1) ||
                place_contains(&f.l.place.host_inside, p->address, 1))
                continue; /* memory of the host stays */
            unsigned char *to = (round ? after : before) + at;
            assert_ok(load_read(&f.l, p->address, to, p->bytes, &t->e), t);
            if (round == 1)
                changed = changed || memcmp(to, before + at, p->bytes) != 0;
            if (round == 2)
                assert_memory_equal(to, before + at, p->bytes);
        }
    }
    assert_true(changed);
    assert_ok(issue_open(&f.l, &f.p, &issue, &t->e), t);
    struct measure m = {.l = &f.l, .classes = &f.classes, .issue = &issue};
    const struct timer_params tp = {.samples = 3, .sample_s = 1e-6, .warm_up_s = 1e-6};
    assert_ok(timer_open(&f.l.g, &tp, &m.timer, &t->e), t);
    m.timer.before = count;
    m.timer.before_self = &times;
    assert_ok(measure_hold_region(&m, 10, 1e-6, &held, &t->e), t);
    assert_true(times > held.n);
    timer_close(&m.timer);
    issue_close(&issue);
    close_case(&f);
}

/* Each operation as long after the first as in the program, or later. */
static void operations_keep_the_program_s_pace(void **state)
{
    struct test *t = *state;
    struct fixture f;
    struct issue issue;
    assert_ok(open_new(t, &f, "", REPLAY_CASE_PLAIN), t);
    const struct capsule_op *ops = f.c.ops;
    assert_ok(issue_open(&f.l, &f.p, &issue, &t->e), t);
    assert_ok(load_restore(&f.l, 0, &t->e), t);
    issue.paced = true;
    for (int run = 0; run < 2; run++) { /* each begins anew */
        const int64_t before_ns = clock_mono_ns();
        assert_ok(issue_streams(&issue, NULL, &t->e), t);
        assert_true(issue.zero_ns + ops[0].call_ns >= before_ns);
        assert_true(clock_mono_ns() >= issue.zero_ns + ops[f.c.n_ops - 1].call_ns);
    }
    assert_true(ops[f.c.n_ops - 1].call_ns == 240000);
    struct capsule_op *late = arena_copy(t->a, ops, f.c.n_ops * sizeof *ops);
    late[f.c.n_ops - 1].call_ns = 5000000; /* slept for */
    f.c.ops = late;
    assert_ok(issue_streams(&issue, NULL, &t->e), t);
    assert_true(clock_mono_ns() >= issue.zero_ns + 5000000);
    issue_close(&issue);
    close_case(&f);
}

static void records_are_matched_with_operations(void **state)
{
    /* of the program's ten operations, in its order of steps; copies and sets are of any kind */
    struct test *t = *state;
    struct fixture f;
    struct node_record r[3 * REPLAY_CASE_OPS];
    double op_s[REPLAY_CASE_OPS];
    size_t n = 0;
    assert_ok(open_new(t, &f, "", 0), t);
    for (uint32_t launch = 0; launch < 3; launch++)
        for (size_t s = 0; s < f.p.n; s++) {
            if (f.p.steps[s].kind != PROGRAM_OP)
                continue;
            const uint32_t op = f.p.steps[s].item;
            const struct capsule_op *o = &f.c.ops[op];
            const int64_t start = 1000 * launch + 5; /* all at once: nodes say which is which */
            r[n] = (struct node_record){
                NODE_COPY, 7 + launch, 100 + s, start, start + 10 * op + (launch ? launch : 50),
                NULL};
            if (o->kind == CAPSULE_LAUNCH) {
                r[n].kind = NODE_KERNEL;
                r[n].name = load_name(&f.l, op);
            }
            n++;
        }
    struct node_record *swapped = arena_copy(t->a, r, sizeof *r * n);
    for (size_t i = 0; i < n; i++)
        swapped[i] = r[n - 1 - i];
    assert_true(node_times_match(&f.l, &f.p, swapped, n, op_s));
    for (uint32_t op = 0; op < REPLAY_CASE_OPS; op++)
        if (program_is_work(&f.c.ops[op]))
            assert_near_rel(op_s[op], (10.0 * op + 1.5) * 1e-9, 1e-9);
        else
            assert_true(isnan(op_s[op]));
    assert_false(node_times_match(&f.l, &f.p, swapped, n - 1, op_s));
    assert_false(node_times_match(&f.l, &f.p, swapped, 0, op_s));
    for (size_t i = 0; i < n; i++) /* one launch alone: it only warms up */
        swapped[i].launch = 7;
    assert_false(node_times_match(&f.l, &f.p, swapped, f.p.n_ops, op_s));
    r[1].name = "another";
    r[f.p.n_ops + 1].name = "another";
    assert_false(node_times_match(&f.l, &f.p, r, n, op_s));
    close_case(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_region_produces_what_the_program_did),
        TEST(wrong_bytes_are_found_with_their_writer),
        TEST(nondeterministic_bytes_are_told_from_wrong_ones),
        TEST(bytes_beside_nondeterministic_ones_are_unsettled),
        TEST(bytes_of_one_store_are_unsettled),
        TEST(replays_go_on_while_more_bytes_vary),
        TEST(the_program_may_be_one_draw_more),
        TEST(few_replays_do_not_make_the_program_unlike),
        TEST(where_results_begin_to_vary),
        TEST(a_region_that_changes_nothing),
        TEST(a_tolerance_is_of_numbers),
        TEST(refusals),
        TEST(addresses_that_are_taken_are_named),
        TEST(memory_of_the_process_is_left_alone),
        TEST(host_memory_may_lie_between),
        TEST(a_region_that_fails_says_where),
        TEST(times_are_those_of_the_device),
        TEST(a_kernel_is_repeated_with_its_sets),
        TEST(a_kernel_is_repeated_behind_what_it_reads),
        TEST(what_is_held_repeats_without_gaps),
        TEST(classes_are_chosen_by_name_or_number),
        TEST(classes_are_what_is_alike),
        TEST(one_operation_becomes_a_capsule),
        TEST(an_operation_takes_its_sets_along),
        TEST(memory_can_be_put_back_between_samples),
        TEST(operations_keep_the_program_s_pace),
        TEST(records_are_matched_with_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
