/* inject/gate.c alone: which launches and times its windows hold. */
#include "inject/gate.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/capture.h"
#include "inject/cupti.h"
#include "inject/guest.h"
#include "support/support.h"

/* ---- what gate.c asks of the rest of the library ---- */

struct guest guest = {.control = PTHREAD_MUTEX_INITIALIZER, .windows = PTHREAD_MUTEX_INITIALIZER};
__thread struct guest_thread guest_thread;
static bool callbacks;
static uint64_t written;
static int64_t last_end_ns;

bool inject_cupti_wanted(void)
{
    return false;
}
bool inject_cupti_running(void)
{
    return false;
}
bool inject_cupti_start(void)
{
    return false;
}
bool inject_cupti_has_callbacks(void)
{
    return callbacks;
}
/* Regions to capture. Where threads cross the gate at once, another may have opened it again. */
static bool one_thread;
static _Atomic int begun, started, ended;
void inject_capture_begin(void)
{
    assert_false(one_thread && atomic_load(&inject_gate_is_open));
    begun++;
}
void inject_capture_started(void)
{
    assert_true(!one_thread || atomic_load(&inject_gate_is_open));
    started++;
}
void inject_capture_end(void)
{
    assert_false(one_thread && atomic_load(&inject_gate_is_open));
    ended++;
}
static const char *cut;
void inject_capture_cut(const char *what)
{
    cut = what;
}
bool trace_spool_add(struct spool_writer *w, enum spool_kind kind, const void *record)
{
    (void)w;
    const struct spool_window *window = record;
    assert_int_equal(kind, SPOOL_WINDOWS);
    assert_true(window->start_ns >= last_end_ns && window->end_ns >= window->start_ns);
    last_end_ns = window->end_ns;
    written++;
    return true;
}

static void fresh(bool with_callbacks)
{
    callbacks = with_callbacks;
    written = 0;
    last_end_ns = 0;
    guest.settings.patterns.n = 1;
    inject_gate_open();
    inject_gate_take_lost();
}

/* One window with launches first .. last. */
static void window(uint32_t first, uint32_t last)
{
    inject_gate_range(true);
    for (uint32_t i = first; first && i != last + 1; i++)
        inject_gate_launch(i);
    inject_gate_range(false);
}

/* ---- tests ---- */

static void launches_of_windows_are_kept(void **state)
{
    (void)state;
    fresh(true);
    assert_false(inject_gate_keeps(1, 0));
    for (uint32_t i = 0; i < 1000; i++)
        window(10 * i + 3, 10 * i + 6);
    for (uint32_t id = 1; id < 10000; id++)
        assert_int_equal(inject_gate_keeps(id, 0), id % 10 >= 3 && id % 10 <= 6);
    assert_false(inject_gate_keeps(10003, 0));
    inject_gate_range(true);
    assert_false(inject_gate_keeps(10003, 0)); /* nothing was launched in it yet */
    inject_gate_launch(10005);
    assert_false(inject_gate_keeps(10003, 0));
    assert_true(inject_gate_keeps(10005, 0) && inject_gate_keeps(10009, 0));
    assert_int_equal(inject_gate_take_lost(), 0);
    inject_gate_write(false);
    assert_int_equal(written, 1000);
    inject_gate_write(true);
    assert_int_equal(written, 1001);
    assert_false(inject_gate_keeps(10006, 0));
}

static void windows_without_launches_hide_none(void **state)
{
    (void)state;
    fresh(true);
    for (int i = 0; i < 100; i++)
        window(0, 0);
    window(7, 9);
    for (int i = 0; i < 100; i++)
        window(0, 0);
    window(20, 21);
    for (uint32_t id = 1; id < 30; id++)
        assert_int_equal(inject_gate_keeps(id, 0), (id >= 7 && id <= 9) || id == 20 || id == 21);
}

/* Two threads launch at the start of a window, the later id comes first; another thread saw the
 * gate open and tells its launch when the next window is there. */
static void ids_may_come_late(void **state)
{
    (void)state;
    fresh(true);
    inject_gate_range(true);
    inject_gate_launch(6);
    inject_gate_launch(5);
    inject_gate_range(false);
    assert_true(inject_gate_keeps(5, 0) && inject_gate_keeps(6, 0));
    window(12, 14);
    inject_gate_range(true);
    inject_gate_launch(30);
    inject_gate_launch(11);
    inject_gate_range(false);
    assert_true(inject_gate_keeps(11, 0) && inject_gate_keeps(12, 0) && inject_gate_keeps(30, 0));
    assert_false(inject_gate_keeps(10, 0) || inject_gate_keeps(15, 0) || inject_gate_keeps(20, 0) ||
                 inject_gate_keeps(29, 0));
}

static void ids_wrap(void **state)
{
    (void)state;
    fresh(true);
    uint32_t base = UINT32_MAX - 4999; /* a multiple of ten before the end */
    for (uint32_t i = 0; i < 1000; i++)
        window(base + 10 * i + 3, base + 10 * i + 6);
    for (uint32_t i = 0; i < 10000; i++)
        if (base + i != 0) /* 0 is no id */
            assert_int_equal(inject_gate_keeps(base + i, 0), i % 10 >= 3 && i % 10 <= 6);
}

static void times_decide_without_callbacks(void **state)
{
    (void)state;
    fresh(false);
    int64_t before_ns = clock_mono_ns() - 1, edges[2][64];
    for (int i = 0; i < 64; i++) {
        inject_gate_range(true);
        edges[0][i] = clock_mono_ns();
        inject_gate_range(false);
        edges[1][i] = clock_mono_ns() + 1;
        while (clock_mono_ns() <= edges[1][i])
            ;
    }
    assert_false(inject_gate_keeps(1, before_ns));
    assert_false(inject_gate_overlaps(before_ns - 5, before_ns));
    for (int i = 0; i < 64; i++) {
        assert_true(inject_gate_keeps(1, edges[0][i]) &&
                    inject_gate_overlaps(edges[0][i], edges[0][i]));
        assert_false(inject_gate_keeps(1, edges[1][i]));
        assert_false(inject_gate_overlaps(edges[1][i], edges[1][i]));
        assert_true(inject_gate_overlaps(before_ns, edges[1][i]));
    }
    inject_gate_range(true);
    assert_true(inject_gate_keeps(1, clock_mono_ns()) &&
                inject_gate_overlaps(edges[1][63], INT64_MAX));
}

static void forgotten_windows_are_counted(void **state)
{
    (void)state;
    fresh(true);
    enum { N = 100000, KEPT = 16384 };
    for (uint32_t i = 0; i < N; i++)
        window(2 * i + 1, 2 * i + 1);
    uint64_t kept = 0, dropped = 0;
    for (uint32_t i = 0; i < N; i++)
        kept += inject_gate_keeps(2 * i + 1, 0);
    dropped = inject_gate_take_lost();
    assert_int_equal(kept, KEPT);
    assert_int_equal(dropped, N - KEPT);
    assert_int_equal(inject_gate_take_lost(), 0);
    inject_gate_write(false);
    assert_int_equal(written, KEPT);
    assert_int_equal(inject_gate_take_lost(), N - KEPT);
}

static _Atomic bool stop;

static void *decoding(void *unused)
{
    (void)unused;
    uint64_t kept = 0;
    for (uint32_t id = 1; !atomic_load(&stop); id++) {
        kept += inject_gate_keeps(id, 0);
        inject_gate_overlaps(clock_mono_ns() - 1000, clock_mono_ns());
        if (id % 64 == 0)
            inject_gate_write(false);
    }
    return (void *)(uintptr_t)kept;
}

/* Three threads of an application against the writer; afterwards every launch is found again. */
static _Atomic uint32_t ids;
static uint32_t held[3][4000];

static void *application(void *of)
{
    uint32_t *mine = of;
    for (int i = 0; i < 4000; i++) {
        inject_gate_range(true);
        inject_gate_launch(mine[i] = atomic_fetch_add(&ids, 1) + 1);
        inject_gate_range(false);
    }
    return NULL;
}

static void threads_open_and_close_while_the_writer_looks(void **state)
{
    (void)state;
    fresh(true);
    atomic_store(&stop, false);
    pthread_t writer, threads[3];
    assert_int_equal(pthread_create(&writer, NULL, decoding, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, application, held[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    pthread_join(writer, NULL);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4000; k++)
            assert_true(inject_gate_keeps(held[i][k], 0));
    assert_int_equal(inject_gate_take_lost(), 0);
}

/* With an argument: what a record costs while 16,384 windows are remembered. */
static void measure(void)
{
    enum { ROUNDS = 20 };
    fresh(true);
    for (uint32_t i = 0; i < 16384; i++)
        window(10 * i + 3, 10 * i + 6);
    int64_t from_ns = clock_mono_ns(), n = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t id = 3; id < 163840; id += 97, n++)
            inject_gate_keeps(id, 0);
    print_message("%.0f ns per record\n", (double)(clock_mono_ns() - from_ns) / (double)n);
}

/* Ranges in each other are one region; it begins before the gate opens, ends after it closed. */
static void a_region_is_the_outermost_range(void **state)
{
    (void)state;
    fresh(true);
    guest.settings = (struct settings){.patterns = {.n = 1}};
    inject_gate_open();
    begun = started = ended = 0;
    one_thread = true;
    for (int i = 0; i < 2; i++) {
        inject_gate_range(true);
        inject_gate_range(true);
        inject_gate_range(false);
        assert_int_equal(ended, i);
        inject_gate_range(false);
        assert_true(begun == i + 1 && started == i + 1 && ended == i + 1);
    }
    guest.settings = (struct settings){.profiler = true};
    inject_gate_open();
    inject_gate_profiler(true);
    inject_gate_profiler(true);
    inject_gate_profiler(false);
    assert_true(begun == 3 && started == 3 && ended == 3);
    one_thread = false;
    guest.settings = (struct settings){.profiler = false};
}

/* Launches of CUDA graphs, in the order of their begins and ends: +n begins, -n ends the one with
 * that number; P and Q are profiler calls. What is open behind each. */
static void launches_of_graphs_open_and_close(void **state)
{
    (void)state;
    static const struct {
        bool profiler;
        int64_t first, last;
        const char *calls, *open;
        int begun, ended;
        int64_t counted;
    } rows[] = {
        {false, 2, 2, "bebebe", "001000", 1, 1, 3},
        {false, 2, 3, "bebebebe", "00111000", 1, 1, 4},
        {false, 1, 1, "be", "10", 1, 1, 1},
        {false, 3, 4, "bebe", "0000", 0, 0, 2},
        {true, 1, 2, "beSbebebT", "000111000", 1, 1, 3},
        {true, 2, 2, "SbebeTbe", "00010000", 1, 1, 2},
        {true, 2, 3, "SbTSbebeT", "000011100", 1, 1, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t n = 0;
        fresh(true);
        guest.settings = (struct settings){
            .profiler = rows[i].profiler, .graph_first = rows[i].first, .graph_last = rows[i].last};
        inject_gate_open();
        begun = started = ended = 0;
        cut = NULL;
        for (size_t k = 0; rows[i].calls[k]; k++) {
            switch (rows[i].calls[k]) {
            case 'b':
                n = inject_gate_graph_begins();
                break;
            case 'e':
                inject_gate_graph_ends(n);
                break;
            default:
                inject_gate_profiler(rows[i].calls[k] == 'S');
            }
            assert_int_equal(atomic_load(&inject_gate_is_open), rows[i].open[k] - '0');
        }
        assert_int_equal(begun, rows[i].begun);
        assert_int_equal(started, rows[i].begun);
        assert_int_equal(ended, rows[i].ended);
        assert_int_equal(inject_gate_graphs(), rows[i].counted);
        assert_null(cut);
    }
    /* The stop comes inside. */
    guest.settings = (struct settings){.profiler = true, .graph_first = 1, .graph_last = 2};
    inject_gate_open();
    inject_gate_profiler(true);
    inject_gate_graph_ends(inject_gate_graph_begins());
    inject_gate_profiler(false);
    assert_string_equal(cut, "cuProfilerStop came");
    assert_false(atomic_load(&inject_gate_is_open));
    guest.settings = (struct settings){.profiler = false};
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        measure();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_of_windows_are_kept),
        cmocka_unit_test(windows_without_launches_hide_none),
        cmocka_unit_test(ids_may_come_late),
        cmocka_unit_test(ids_wrap),
        cmocka_unit_test(times_decide_without_callbacks),
        cmocka_unit_test(forgotten_windows_are_counted),
        cmocka_unit_test(threads_open_and_close_while_the_writer_looks),
        cmocka_unit_test(a_region_is_the_outermost_range),
        cmocka_unit_test(launches_of_graphs_open_and_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
