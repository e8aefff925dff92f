#include "inject/writer.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/buffers.h"
#include "inject/capture.h"
#include "inject/cupti.h"
#include "inject/decode.h"
#include "inject/facts.h"
#include "inject/gate.h"
#include "inject/handlers.h"
#include "inject/names.h"
#include "inject/notes.h"
#include "inject/ranges.h"

enum {
    REST_AFTER_MS = 200, /* CUPTI is switched off this long after the gate closed */
    END_WAIT_S = 5,      /* longest wait of exit for the last flush without progress */
    END_LONGEST_S = 30,  /* longest wait in all */
    QUIET_PART = 50,     /* of flush_ns, 10 ms of its 500: the first flush when nothing comes */
    THREADS = 4096,      /* without a ring */
    KNOWN = 1 << 15,
};

static _Atomic uint32_t kicks, sleeping, done, flushes_asked, flushes_done;
static _Atomic uint32_t progress; /* counts buffers turned into records */
static _Atomic bool ending;
static uint32_t strings_written;
static uint64_t lost_told, dropped_by_cupti;
static int64_t flushed_ns;

/* Ids in the spool by system id: hashed, since every API record looks one up. */
static struct known_thread {
    uint32_t tid;
    uint16_t id; /* 0 = free */
} known[KNOWN];
static uint32_t n_known, n_others; /* others: threads without a ring */

static void futex_wait(_Atomic uint32_t *at, uint32_t value, int64_t ns)
{
    struct timespec t = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, &t, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *at)
{
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void inject_writer_wake(void)
{
    atomic_fetch_add(&kicks, 1);
    if (atomic_load(&sleeping)) {
        int kept = errno;
        futex_wake(&kicks);
        errno = kept;
    }
}

uint32_t inject_writer_string(uint32_t id)
{
    for (; strings_written < id; strings_written++) {
        const struct name *n = inject_names_get(strings_written + 1);
        trace_spool_add_string(&guest.spool, strings_written + 1, n->text, n->bytes);
    }
    return id;
}

/* ---- threads ---- */

static void tell_thread(uint16_t id, uint32_t tid, uint32_t name)
{
    if (name == 0) {
        char path[64], text[64];
        snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
        size_t n = inject_facts_read(path, text, sizeof text);
        while (n > 0 && text[n - 1] == '\n')
            n--;
        name = inject_names_intern(text, n);
    }
    trace_spool_add(
        &guest.spool, SPOOL_THREADS,
        &(struct spool_thread){.id = id, .tid = tid, .name = inject_writer_string(name)});
}

/* The slot of a system thread; its id is 0 when it is new. NULL when the table is full. */
static struct known_thread *known_thread(uint32_t tid)
{
    for (uint32_t i = 0; i < KNOWN; i++) {
        struct known_thread *k = &known[(tid + i) % KNOWN];
        if (k->tid == tid || k->id == 0)
            return k;
    }
    return NULL;
}

static void know_thread(uint32_t tid, uint16_t id)
{
    struct known_thread *k = id && n_known < KNOWN / 4 * 3 ? known_thread(tid) : NULL;
    if (!k)
        return;
    n_known += k->id == 0;
    k->tid = tid;
    k->id = id;
}

/* A thread with a ring is known once it is written: its definition precedes the events read from
 * the ring. Others get an id from the top. */
uint16_t inject_writer_thread_of(uint32_t tid)
{
    const struct known_thread *k = known_thread(tid);
    if (k && k->id)
        return k->id;
    if (n_others == THREADS || n_known >= KNOWN / 4 * 3)
        return 0;
    uint16_t id = (uint16_t)(65535 - n_others++);
    know_thread(tid, id);
    tell_thread(id, tid, 0);
    return id;
}

/* ---- emptying ---- */

static void take(struct ring *r, const struct event *e)
{
    if (e->type == EVENT_CALL) {
        inject_handlers_of(e->call_domain, e->cbid)->write(r, e);
    } else if (e->type == EVENT_THREAD_NAME) {
        tell_thread(inject_writer_thread_of(e->text), e->text, e->domain);
    } else {
        inject_ranges_event(r, e);
    }
}

/* Whether there was something in it. */
static bool drain_ring(struct ring *r)
{
    int state = atomic_load_explicit(&r->state, memory_order_acquire);
    uint64_t mask = (uint64_t)guest.settings.ring_events - 1;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    const bool any = tail != head;
    if (any && !r->told) {
        tell_thread(r->thread, r->tid, 0);
        know_thread(r->tid, r->thread);
        r->told = true;
    }
    while (tail != head) {
        take(r, &r->events[tail & mask]);
        tail++;
        if ((tail & 255) == 0)
            atomic_store_explicit(&r->tail, tail, memory_order_release);
    }
    atomic_store_explicit(&r->tail, tail, memory_order_release);
    if (state == RING_LEFT) { /* its thread has ended, and all events were read */
        inject_ranges_thread_gone(r);
        r->told = false;
        atomic_store_explicit(&r->state, RING_FREE, memory_order_release);
    }
    return any;
}

static bool drain_rings(void)
{
    bool any = false;
    for (struct ring *r = inject_ring_first(); r; r = r->next)
        any |= drain_ring(r);
    return any;
}

/* Empties rings after each buffer too: they fill during a burst of buffers. Whether there was
 * anything. */
static bool drain(void)
{
    bool any = drain_rings();
    size_t valid;
    for (uint8_t *b; (b = inject_buffers_take(&valid));) {
        inject_facts_devices();
        inject_gate_tick(clock_mono_ns());
        inject_decode_buffer(b, valid);
        inject_buffers_return(b);
        atomic_fetch_add(&progress, 1);
        drain_rings();
        any = true;
    }
    inject_gate_write(false);
    inject_buffers_refill();
    return any;
}

/* ---- the flush ---- */

static void tell_drops(enum spool_source source, uint64_t count)
{
    if (count > 0)
        trace_spool_add(&guest.spool, SPOOL_DROPS,
                        &(struct spool_drop){
                            .at_ns = clock_mono_ns(), .count = count, .source = (uint32_t)source});
}

static void write_drops(void)
{
    uint64_t from_rings = 0;
    for (struct ring *r = inject_ring_first(); r; r = r->next) {
        uint64_t n = atomic_load(&r->dropped);
        from_rings += n - r->dropped_told;
        r->dropped_told = n;
    }
    tell_drops(SPOOL_FROM_THREAD, from_rings);
    tell_drops(SPOOL_FROM_CUPTI, dropped_by_cupti);
    dropped_by_cupti = 0;
    tell_drops(SPOOL_FROM_UNKNOWN, inject_decode_take_unknown());
    tell_drops(SPOOL_FROM_NO_TIMES, inject_decode_take_no_times());
    tell_drops(SPOOL_FROM_WINDOWS, inject_gate_take_lost());
    tell_drops(SPOOL_FROM_STRINGS, inject_names_take_lost());
    tell_drops(SPOOL_FROM_DISK, guest.spool.lost - lost_told);
    lost_told = guest.spool.lost;
}

static void write_clock(void)
{
    int64_t before_ns = clock_mono_ns();
    struct spool_clock c = {.cupti_ns = inject_cupti_now_ns(), .wall_ns = clock_wall_ns()};
    int64_t after_ns = clock_mono_ns();
    c.at_ns = before_ns + (after_ns - before_ns) / 2;
    c.within_ns = after_ns - before_ns;
    inject_decode_host_clocks(c.at_ns, c.wall_ns);
    bool ours = c.cupti_ns > before_ns - NS_PER_S && c.cupti_ns < after_ns + NS_PER_S;
    if (inject_cupti_own_clock() && !ours)
        c.cupti_ns = 0; /* CUPTI does not use the registered clock yet */
    trace_spool_add(&guest.spool, SPOOL_CLOCKS, &c);
    if (c.cupti_ns)
        inject_decode_clock(c.at_ns, c.cupti_ns);
}

static void write_cost(void)
{
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    struct spool_cost c = {
        .at_ns = clock_mono_ns(),
        .writer_cpu_ns = (int64_t)cpu.tv_sec * NS_PER_S + cpu.tv_nsec,
        .bytes = guest.spool.bytes,
        .buffers_peak = inject_buffers_peak(),
        .memory_bytes = inject_buffers_bytes() + guest.spool.memory_bytes,
    };
    for (struct ring *r = inject_ring_first(); r; r = r->next) {
        uint64_t calls = atomic_load(&r->all_callbacks);
        c.callbacks += calls;
        c.callback_ns += atomic_load(&r->sampled_ns) * 64;
        c.memory_bytes += sizeof *r + sizeof(struct event) * (uint64_t)guest.settings.ring_events;
    }
    for (int i = 0; i < SPOOL_KINDS; i++)
        c.records += guest.spool.counts[i];
    trace_spool_add(&guest.spool, SPOOL_COSTS, &c);
}

/* A full disk ends recording, not the application. */
static void check_disk(void)
{
    if (guest.spool.error == 0 || atomic_exchange(&guest.disk_full, 1))
        return;
    char text[256];
    int n = snprintf(
        text, sizeof text,
        "twinfer: recording of process %d stopped: cannot write the spool: errno %d%s\n",
        (int)getpid(), guest.spool.error,
        guest.spool.error == ENOSPC  ? " (no space left)"
        : guest.spool.error == EBADF ? " (the program closed it, and it cannot be opened again)"
                                     : "");
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        return;
    inject_gate_disk_full();
}

/* Tries the lock, which may be held while CUPTI is switched on or off: skips a turn then; the last
 * turn waits a second. */
static bool take_control(bool last)
{
    int64_t until_ns = clock_mono_ns() + NS_PER_S;
    while (pthread_mutex_trylock(&guest.control) != 0) {
        if (!last || clock_mono_ns() > until_ns)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    }
    return true;
}

static void flush_cupti(bool last)
{
    if (!take_control(last))
        return;
    if (inject_cupti_running() || last)
        inject_cupti_flush(last);
    dropped_by_cupti += inject_cupti_take_dropped(); /* lock `control` held: while paused the drops
                                                        are another client's */
    if (inject_cupti_running() &&
        inject_gate_closed_ns(clock_mono_ns()) > REST_AFTER_MS * NS_PER_MS)
        inject_cupti_rest();
    pthread_mutex_unlock(&guest.control);
}

static void flush(bool last)
{
    int64_t now_ns = clock_mono_ns();
    inject_gate_tick(now_ns);
    inject_facts_process();
    write_clock();
    flush_cupti(last);
    drain();
    inject_ranges_write_open(now_ns, last);
    if (last)
        inject_capture_told();
    inject_notes_write();
    inject_gate_write(last);
    inject_writer_string(inject_names_count());
    write_drops();
    write_cost();
    trace_spool_flush(&guest.spool);
    flushed_ns = now_ns;
    trace_spool_alive(&guest.spool, flushed_ns, clock_mono_ns());
    check_disk();
}

/* Whether the writer is the last thread: a program may end by pthread_exit of its last thread, and
 * the writer would keep it alive for ever. The main thread is a zombie then. */
static bool is_alone(void)
{
    enum { THREADS_AFTER = 17 }; /* fields of stat from the state to the number of threads */
    char text[1024];
    size_t n = inject_facts_read("/proc/self/stat", text, sizeof text - 1);
    text[n] = 0;
    const char *p = strrchr(text, ')');
    if (!p || p[1] != ' ' || p[2] != 'Z')
        return false;
    for (int i = 0; p && i <= THREADS_AFTER; i++)
        p = strchr(p + 1, ' ');
    return p && p[1] == '2' && p[2] == ' ';
}

/* A fiftieth of flush_ns: how soon it is seen that nothing comes any more. */
static int64_t look_ns(void)
{
    const int64_t part_ns = guest.settings.flush_ns / QUIET_PART;
    return part_ns > NS_PER_MS ? part_ns : NS_PER_MS;
}

/* When nothing comes any more: the next flush, quiet_ns after the last event; 0 = it rests. */
struct quiet {
    int64_t last_ns, quiet_ns;
};

static void quiet_after(struct quiet *q, bool came, int64_t now_ns)
{
    if (came)
        *q = (struct quiet){now_ns, look_ns()};
}

static bool quiet_is_due(struct quiet *q, int64_t now_ns)
{
    if (q->quiet_ns == 0 || now_ns - q->last_ns < q->quiet_ns)
        return false;
    q->quiet_ns *= 2;
    if (q->quiet_ns > guest.settings.flush_ns) /* what comes later is that flush's */
        q->quiet_ns = 0;
    return true;
}

static bool have_events(void)
{
    bool any = false;
    for (struct ring *r = inject_ring_first(); r; r = r->next)
        any |= atomic_load(&r->head) != atomic_load(&r->tail);
    return any;
}

/* Until it is woken, or left_ns. */
static void sleep_until_woken(const struct quiet *q, uint32_t seen, int64_t left_ns)
{
    const bool rests = q->quiet_ns == 0;
    if (!rests && left_ns > look_ns())
        left_ns = look_ns();
    if (inject_gate_filters && left_ns > 10 * NS_PER_MS)
        left_ns = 10 * NS_PER_MS, inject_gate_tick(clock_mono_ns());
    atomic_store(&sleeping, 1);
    atomic_store(&inject_ring_wakes, rests);
    if (left_ns > 0 && !(rests && have_events()))
        futex_wait(&kicks, seen, left_ns);
    atomic_store(&sleeping, 0);
    atomic_store(&inject_ring_wakes, false);
}

static void *run(void *unused)
{
    (void)unused;
    guest_thread.busy = 1;
    prctl(PR_SET_NAME, "twinfer");
    inject_facts_process();
    write_clock();
    int64_t next_ns = clock_mono_ns(); /* writes the process's facts at once */
    struct quiet quiet = {0};
    for (;;) {
        uint32_t seen = atomic_load(&kicks);
        uint32_t asked = atomic_load(&flushes_asked);
        bool last = atomic_load(&ending);
        const bool came = drain();
        int64_t now_ns = clock_mono_ns();
        quiet_after(&quiet, came, now_ns);
        if (last || asked != atomic_load(&flushes_done) || now_ns >= next_ns ||
            quiet_is_due(&quiet, now_ns)) {
            if (!last && is_alone())
                last = inject_claim_end();
            flush(last);
            next_ns = now_ns + guest.settings.flush_ns;
            atomic_store(&flushes_done, asked);
            futex_wake(&flushes_done);
        } else {
            trace_spool_alive(&guest.spool, flushed_ns, now_ns);
        }
        if (last)
            break;
        sleep_until_woken(&quiet, seen, next_ns - clock_mono_ns());
    }
    trace_spool_close(&guest.spool);
    atomic_store(&done, 1);
    futex_wake(&done);
    return NULL;
}

bool inject_writer_start(void)
{
    atomic_store(&kicks, 0);
    atomic_store(&sleeping, 0);
    atomic_store(&done, 0);
    atomic_store(&flushes_asked, 0);
    atomic_store(&flushes_done, 0);
    atomic_store(&ending, false);
    strings_written = n_known = n_others = 0;
    memset(known, 0, sizeof known);
    lost_told = dropped_by_cupti = 0;
    flushed_ns = 0;
    atomic_store(&inject_ring_wakes, false);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attr, run, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error == 0;
}

static void wait_for(_Atomic uint32_t *at, uint32_t value, bool until_equal, int64_t ns)
{
    int64_t end_ns = clock_mono_ns() + ns;
    for (;;) {
        uint32_t now = atomic_load(at);
        if (until_equal ? now == value : (int32_t)(now - value) >= 0)
            return;
        int64_t left_ns = end_ns - clock_mono_ns();
        if (left_ns <= 0)
            return;
        futex_wait(at, now, left_ns);
    }
}

void inject_writer_stop(void)
{
    atomic_store(&ending, true);
    inject_writer_wake();
    int64_t end_ns = clock_mono_ns() + END_LONGEST_S * NS_PER_S;
    uint32_t seen;
    do {
        seen = atomic_load(&progress);
        wait_for(&done, 1, true, END_WAIT_S * NS_PER_S);
    } while (!atomic_load(&done) && atomic_load(&progress) != seen && clock_mono_ns() < end_ns);
}

void inject_writer_flush(void)
{
    uint32_t mine = atomic_fetch_add(&flushes_asked, 1) + 1;
    inject_writer_wake();
    wait_for(&flushes_done, mine, false, END_WAIT_S * NS_PER_S);
}
