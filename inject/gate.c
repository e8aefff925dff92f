#include <string.h>

#include "base/clock.h"
#include "inject/guest.h"

/* The last windows, oldest overwritten: kernels end soon after their launch. */
enum { KEPT = 1 << 14 };

static struct window windows[KEPT];
static _Atomic uint64_t n_windows;           /* written under guest.windows */
static uint64_t n_written;                   /* the writer's */
static _Atomic int ranges, profiler, paused; /* conditions */
static uint64_t lost;                        /* under guest.windows */
static int64_t started_ns;
static _Atomic int64_t closed_at_ns;

_Atomic int gate_is_open;
bool gate_filters;

static bool time_allows(int64_t now_ns)
{
    const struct settings *s = &guest.settings;
    int64_t at = now_ns - started_ns;
    return at >= s->delay_ns && (s->duration_ns == 0 || at < s->delay_ns + s->duration_ns);
}

static bool wanted(int64_t now_ns)
{
    return (guest.settings.n_patterns == 0 || atomic_load(&ranges) > 0) &&
           (!guest.settings.profiler || atomic_load(&profiler)) && time_allows(now_ns) &&
           !atomic_load(&paused) && !atomic_load(&guest.disk_full);
}

static void open_window(int64_t now_ns, enum spool_why why)
{
    struct window *w = &windows[n_windows % KEPT];
    w->start_ns = now_ns;
    w->end_ns = SPOOL_OPEN_NS;
    atomic_store(&w->first, 0);
    atomic_store(&w->last, 0);
    w->why_start = (uint8_t)why;
    n_windows++;
    atomic_store_explicit(&gate_is_open, 1, memory_order_release);
}

static void close_window(int64_t now_ns, enum spool_why why)
{
    atomic_store_explicit(&gate_is_open, 0, memory_order_release);
    struct window *w = &windows[(n_windows - 1) % KEPT];
    w->end_ns = now_ns;
    w->why_end = (uint8_t)why;
    atomic_store(&closed_at_ns, now_ns);
}

/* Something changed: open or close. CUPTI is switched on here when it sleeps, and off by the
 * writer when the gate stays closed. */
static void update(enum spool_why why)
{
    int64_t now_ns = clock_mono_ns();
    bool start = false;
    pthread_mutex_lock(&guest.windows);
    bool want = wanted(now_ns);
    if (want && !atomic_load(&gate_is_open)) {
        open_window(now_ns, why);
        start = true;
    } else if (!want && atomic_load(&gate_is_open)) {
        close_window(now_ns, why);
    }
    pthread_mutex_unlock(&guest.windows);
    if (start && cupti_wanted() && !cupti_running()) {
        guest_thread.busy++;
        pthread_mutex_lock(&guest.control);
        cupti_start();
        pthread_mutex_unlock(&guest.control);
        guest_thread.busy--;
    }
}

void gate_open(void)
{
    const struct settings *s = &guest.settings;
    n_windows = n_written = lost = 0;
    atomic_store(&ranges, 0);
    atomic_store(&profiler, 0);
    atomic_store(&paused, 0);
    atomic_store(&gate_is_open, 0);
    started_ns = clock_mono_ns();
    atomic_store(&closed_at_ns, started_ns);
    gate_filters = s->n_patterns > 0 || s->profiler || s->delay_ns > 0 || s->duration_ns > 0;
    pthread_mutex_lock(&guest.windows);
    if (wanted(started_ns))
        open_window(started_ns, gate_filters ? SPOOL_WHY_TIME : SPOOL_WHY_ALWAYS);
    pthread_mutex_unlock(&guest.windows);
}

void gate_range(bool enter)
{
    int before = atomic_fetch_add(&ranges, enter ? 1 : -1);
    if ((enter && before == 0) || (!enter && before == 1))
        update(SPOOL_WHY_RANGE);
}

void gate_profiler(bool start)
{
    if (guest.settings.profiler && atomic_exchange(&profiler, start) != (int)start)
        update(SPOOL_WHY_PROFILER);
}

void gate_pause(bool on)
{
    if (atomic_exchange(&paused, on) != (int)on)
        update(SPOOL_WHY_PAUSE);
}

void gate_disk_full(void)
{
    update(SPOOL_WHY_DISK);
}

void gate_tick(int64_t now_ns)
{
    if (guest.settings.delay_ns == 0 && guest.settings.duration_ns == 0)
        return;
    if (wanted(now_ns) != (bool)atomic_load(&gate_is_open))
        update(SPOOL_WHY_TIME);
}

void gate_launch(uint32_t correlation)
{
    struct window *w = &windows[(n_windows - 1) % KEPT];
    uint32_t none = 0;
    atomic_compare_exchange_strong(&w->first, &none, correlation);
    for (uint32_t last = atomic_load(&w->last); last < correlation;)
        if (atomic_compare_exchange_weak(&w->last, &last, correlation))
            break;
}

static bool in_window(const struct window *w, uint32_t correlation, int64_t start_ns)
{
    bool open = w->end_ns == SPOOL_OPEN_NS;
    if (correlation && cupti_has_callbacks())
        return atomic_load(&w->first) && correlation >= atomic_load(&w->first) &&
               (open || correlation <= atomic_load(&w->last));
    return start_ns >= w->start_ns && (open || start_ns <= w->end_ns);
}

bool gate_keeps(uint32_t correlation, int64_t start_ns, int64_t end_ns)
{
    (void)end_ns;
    if (!gate_filters)
        return true;
    bool keep = false;
    pthread_mutex_lock(&guest.windows);
    uint64_t oldest = n_windows > KEPT ? n_windows - KEPT : 0;
    for (uint64_t i = n_windows; i > oldest && !keep; i--) {
        const struct window *w = &windows[(i - 1) % KEPT];
        keep = in_window(w, correlation, start_ns);
        if (w->end_ns != SPOOL_OPEN_NS && atomic_load(&w->last) &&
            correlation > atomic_load(&w->last))
            break; /* older windows have smaller ids still */
        lost += !keep && i - 1 == oldest && oldest > 0;
    }
    pthread_mutex_unlock(&guest.windows);
    return keep;
}

bool gate_overlaps(int64_t start_ns, int64_t end_ns)
{
    bool found = false;
    pthread_mutex_lock(&guest.windows);
    uint64_t oldest = n_windows > KEPT ? n_windows - KEPT : 0;
    for (uint64_t i = n_windows; i > oldest && !found; i--) {
        const struct window *w = &windows[(i - 1) % KEPT];
        found = w->start_ns <= end_ns && (w->end_ns == SPOOL_OPEN_NS || w->end_ns >= start_ns);
        if (w->end_ns != SPOOL_OPEN_NS && w->end_ns < start_ns)
            break;
        lost += !found && i - 1 == oldest && oldest > 0;
    }
    pthread_mutex_unlock(&guest.windows);
    return found;
}

void gate_write(bool end)
{
    pthread_mutex_lock(&guest.windows);
    if (end && atomic_load(&gate_is_open))
        close_window(clock_mono_ns(), SPOOL_WHY_END);
    if (n_windows > KEPT && n_written < n_windows - KEPT)
        n_written = n_windows - KEPT;
    for (; n_written < n_windows; n_written++) {
        const struct window *w = &windows[n_written % KEPT];
        if (w->end_ns == SPOOL_OPEN_NS)
            break;
        spool_add(&guest.spool, SPOOL_WINDOWS,
                  &(struct spool_window){.start_ns = w->start_ns,
                                         .end_ns = w->end_ns,
                                         .why_start = w->why_start,
                                         .why_end = w->why_end});
    }
    pthread_mutex_unlock(&guest.windows);
}

uint64_t gate_take_lost(void)
{
    pthread_mutex_lock(&guest.windows);
    uint64_t n = lost;
    lost = 0;
    pthread_mutex_unlock(&guest.windows);
    return n;
}

int64_t gate_closed_ns(int64_t now_ns)
{
    return atomic_load(&gate_is_open) ? 0 : now_ns - atomic_load(&closed_at_ns);
}
