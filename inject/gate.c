#include "inject/gate.h"

#include "base/clock.h"
#include "inject/capture.h"
#include "inject/cupti.h"
#include "inject/guest.h"

/* Look-ups search the last KEPT windows: kernels end soon after their launch. With twice as many
 * slots in the ring a look-up, which takes no lock, has KEPT new windows of time before a slot it
 * reads is reused. */
enum { KEPT = 16384 /* repeated in the text of SPOOL_FROM_WINDOWS */, SLOTS = 2 * KEPT };

/* Windows are ordered in time. Correlation ids rise between them too, but threads that launch while
 * a window ends may register late; ids wrap at 2^32. */
struct window {
    _Atomic int64_t start_ns, end_ns; /* end_ns SPOOL_OPEN_NS = now open */
    _Atomic uint32_t after;           /* the largest id of older windows, 0 = none; never falls */
    _Atomic uint32_t first, last;     /* ids of launches inside; 0 = none yet */
    _Atomic uint8_t why_start, why_end;
};

static struct window windows[SLOTS];
static _Atomic uint64_t n_windows;           /* written with guest.windows held */
static uint64_t n_written;                   /* owned by the writer */
static _Atomic int ranges, profiler, paused; /* conditions */
static _Atomic int in_graphs;                /* another */
static _Atomic int64_t graphs;               /* launches that counted */
static uint64_t lost;                        /* owned by the writer */
static int64_t started_ns;
static _Atomic int64_t closed_at_ns;

_Atomic int inject_gate_is_open;
bool inject_gate_filters;

static int64_t time_up_ns(void)
{
    const struct settings *s = &guest.settings;
    return s->duration_ns ? started_ns + s->delay_ns + s->duration_ns : INT64_MAX;
}

static bool time_allows(int64_t now_ns)
{
    return now_ns - started_ns >= guest.settings.delay_ns && now_ns < time_up_ns();
}

static bool wanted(int64_t now_ns)
{
    return (guest.settings.patterns.n == 0 || atomic_load(&ranges) > 0) &&
           (!guest.settings.profiler || atomic_load(&profiler)) &&
           (!guest.settings.graph_first || atomic_load(&in_graphs)) && time_allows(now_ns) &&
           !atomic_load(&paused) && !atomic_load(&guest.disk_full);
}

static struct window *at(uint64_t i)
{
    return &windows[i % SLOTS];
}

/* Is id a later than id b? */
static bool later(uint32_t a, uint32_t b)
{
    return b == 0 || (int32_t)(a - b) > 0;
}

/* Orders times, which were read before the lock was taken: two threads may arrive in the other
 * order. */
static int64_t not_before(int64_t now_ns, int64_t ns)
{
    return now_ns > ns ? now_ns : ns;
}

static void open_window(int64_t now_ns, enum spool_why why)
{
    uint64_t n = n_windows;
    struct window *w = at(n);
    uint32_t after = 0;
    if (n > 0) {
        const struct window *before = at(n - 1);
        uint32_t last = before->last;
        after = last && later(last, before->after) ? last : before->after;
        now_ns = not_before(now_ns, before->end_ns);
    }
    w->start_ns = now_ns;
    w->end_ns = SPOOL_OPEN_NS;
    w->after = after;
    w->first = w->last = 0;
    w->why_start = (uint8_t)why;
    n_windows = n + 1;
    atomic_store_explicit(&inject_gate_is_open, 1, memory_order_release);
}

static void close_window(int64_t now_ns, enum spool_why why)
{
    atomic_store_explicit(&inject_gate_is_open, 0, memory_order_release);
    struct window *w = at(n_windows - 1);
    if (now_ns > time_up_ns()) /* detected late */
        now_ns = time_up_ns();
    now_ns = not_before(now_ns, w->start_ns);
    w->why_end = (uint8_t)why;
    w->end_ns = now_ns;
    atomic_store(&closed_at_ns, now_ns);
}

/* Re-evaluates the conditions: opens or closes. Switches CUPTI on if it is off; the writer switches
 * it off when the gate stays closed. */
static void update(enum spool_why why)
{
    int64_t now_ns = clock_mono_ns();
    bool start = false;
    pthread_mutex_lock(&guest.windows);
    bool want = wanted(now_ns);
    if (want && !atomic_load(&inject_gate_is_open)) {
        open_window(now_ns, why);
        start = true;
    } else if (!want && atomic_load(&inject_gate_is_open)) {
        close_window(now_ns, why);
    }
    pthread_mutex_unlock(&guest.windows);
    if (start && inject_cupti_wanted() && !inject_cupti_running()) {
        guest_thread.busy++;
        pthread_mutex_lock(&guest.control);
        inject_cupti_start();
        pthread_mutex_unlock(&guest.control);
        guest_thread.busy--;
    }
}

void inject_gate_open(void)
{
    const struct settings *s = &guest.settings;
    n_windows = n_written = lost = 0;
    atomic_store(&ranges, 0);
    atomic_store(&profiler, 0);
    atomic_store(&in_graphs, 0);
    atomic_store(&graphs, 0);
    atomic_store(&paused, 0);
    atomic_store(&inject_gate_is_open, 0);
    started_ns = clock_mono_ns();
    atomic_store(&closed_at_ns, started_ns);
    inject_gate_filters = s->patterns.n > 0 || s->profiler || s->graph_first > 0 ||
                          s->delay_ns > 0 || s->duration_ns > 0;
    pthread_mutex_lock(&guest.windows);
    if (wanted(started_ns))
        open_window(started_ns, inject_gate_filters ? SPOOL_WHY_TIME : SPOOL_WHY_ALWAYS);
    pthread_mutex_unlock(&guest.windows);
}

/* The program enters or leaves what the settings select: a region to capture may begin or end. */
static void cross(bool enter, enum spool_why why)
{
    if (enter)
        inject_capture_begin();
    update(why);
    if (enter)
        inject_capture_started();
    else
        inject_capture_end();
}

void inject_gate_range(bool enter)
{
    int before = atomic_fetch_add(&ranges, enter ? 1 : -1);
    if ((enter && before == 0) || (!enter && before == 1))
        cross(enter, SPOOL_WHY_RANGE);
}

void inject_gate_profiler(bool start)
{
    if (!guest.settings.profiler || atomic_exchange(&profiler, start) == (int)start)
        return;
    if (!guest.settings.graph_first) {
        cross(start, SPOOL_WHY_PROFILER);
        return;
    }
    if (!start && atomic_load(&in_graphs))
        inject_capture_cut("cuProfilerStop came");
    update(SPOOL_WHY_PROFILER);
}

int64_t inject_gate_graph_begins(void)
{
    const struct settings *s = &guest.settings;
    if (!s->graph_first || (s->profiler && !atomic_load(&profiler)))
        return 0;
    const int64_t n = atomic_fetch_add(&graphs, 1) + 1;
    if (n == s->graph_first) {
        atomic_store(&in_graphs, 1);
        cross(true, SPOOL_WHY_GRAPH);
    }
    return n;
}

void inject_gate_graph_ends(int64_t number)
{
    if (!number || number != guest.settings.graph_last)
        return;
    atomic_store(&in_graphs, 0);
    cross(false, SPOOL_WHY_GRAPH);
}

int64_t inject_gate_graphs(void)
{
    return atomic_load(&graphs);
}

void inject_gate_pause(bool on)
{
    if (atomic_exchange(&paused, on) != (int)on)
        update(SPOOL_WHY_PAUSE);
}

void inject_gate_disk_full(void)
{
    update(SPOOL_WHY_DISK);
}

bool inject_gate_time_is_up(int64_t now_ns)
{
    return now_ns >= time_up_ns();
}

void inject_gate_tick(int64_t now_ns)
{
    if (guest.settings.delay_ns == 0 && guest.settings.duration_ns == 0)
        return;
    if (wanted(now_ns) != (bool)atomic_load(&inject_gate_is_open))
        update(SPOOL_WHY_TIME);
}

static uint64_t oldest_of(uint64_t n)
{
    return n > KEPT ? n - KEPT : 0;
}

/* Registers a launch. A thread that saw the gate open may arrive when a newer window is open
 * already: its id decides. */
void inject_gate_launch(uint32_t correlation)
{
    uint64_t i = n_windows - 1;
    for (uint64_t oldest = oldest_of(i); i > oldest && !later(correlation, at(i)->after);)
        i--;
    struct window *w = at(i);
    for (uint32_t first = w->first; first == 0 || later(first, correlation);)
        if (atomic_compare_exchange_weak(&w->first, &first, correlation))
            break;
    for (uint32_t last = w->last; later(correlation, last);)
        if (atomic_compare_exchange_weak(&w->last, &last, correlation))
            break;
}

/* Argument of a look-up: the work of a launch, or a span of time when id is 0. */
struct gate_question {
    uint32_t id;
    int64_t start_ns, end_ns;
};

static bool follows(const struct gate_question *q, const struct window *w)
{
    return q->id ? later(q->id, w->after) : w->start_ns <= q->end_ns;
}

static bool inside(const struct gate_question *q, const struct window *w)
{
    int64_t end_ns = w->end_ns;
    if (!q->id)
        return w->start_ns <= q->end_ns && (end_ns == SPOOL_OPEN_NS || end_ns >= q->start_ns);
    uint32_t first = w->first;
    return first && !later(first, q->id) && (end_ns == SPOOL_OPEN_NS || !later(q->id, w->last));
}

enum gate_answer { OUTSIDE, INSIDE, FORGOTTEN };

/* Searches the last window that begins before the question; a late id may be in a slightly older
 * one. */
static enum gate_answer search(const struct gate_question *q, uint64_t n)
{
    enum { LATE = 4 };
    uint64_t oldest = oldest_of(n), low = oldest, high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (follows(q, at(middle)))
            low = middle + 1;
        else
            high = middle;
    }
    for (uint64_t i = low; i > oldest && i + LATE > low; i--)
        if (inside(q, at(i - 1)))
            return INSIDE;
    return low == oldest && oldest > 0 ? FORGOTTEN : OUTSIDE;
}

static bool look_up(struct gate_question q)
{
    for (;;) {
        uint64_t n = n_windows;
        enum gate_answer answer = search(&q, n);
        if (n_windows - n > SLOTS - KEPT)
            continue; /* slots were reused meanwhile */
        lost += answer == FORGOTTEN;
        return answer == INSIDE;
    }
}

bool inject_gate_keeps(uint32_t correlation, int64_t start_ns)
{
    if (!inject_gate_filters)
        return true;
    return look_up((struct gate_question){.id = inject_cupti_has_callbacks() ? correlation : 0,
                                          .start_ns = start_ns,
                                          .end_ns = start_ns});
}

bool inject_gate_overlaps(int64_t start_ns, int64_t end_ns)
{
    return look_up((struct gate_question){.start_ns = start_ns, .end_ns = end_ns});
}

void inject_gate_write(bool end)
{
    if (end) {
        pthread_mutex_lock(&guest.windows);
        if (atomic_load(&inject_gate_is_open))
            close_window(clock_mono_ns(), SPOOL_WHY_END);
        pthread_mutex_unlock(&guest.windows);
    }
    for (uint64_t n = n_windows; n_written < n; n_written++) {
        const struct window *w = at(n_written);
        struct spool_window out = {.start_ns = w->start_ns,
                                   .end_ns = w->end_ns,
                                   .why_start = w->why_start,
                                   .why_end = w->why_end};
        n = n_windows;
        if (n - n_written >= SLOTS) { /* its slot is reused */
            uint64_t next = oldest_of(n);
            lost += next - n_written;
            n_written = next - 1;
        } else if (out.end_ns == SPOOL_OPEN_NS) {
            break;
        } else {
            trace_spool_add(&guest.spool, SPOOL_WINDOWS, &out);
        }
    }
}

uint64_t inject_gate_take_lost(void)
{
    uint64_t n = lost;
    lost = 0;
    return n;
}

int64_t inject_gate_closed_ns(int64_t now_ns)
{
    return atomic_load(&inject_gate_is_open) ? 0 : now_ns - atomic_load(&closed_at_ns);
}
