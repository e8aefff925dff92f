#define _GNU_SOURCE /* secure_getenv, dladdr */
#include "inject/guest.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inject/buffers.h"
#include "inject/capture.h"
#include "inject/cupti.h"
#include "inject/decode.h"
#include "inject/facts.h"
#include "inject/gate.h"
#include "inject/names.h"
#include "inject/notes.h"
#include "inject/nvtx.h"
#include "inject/ranges.h"
#include "inject/ring.h"
#include "inject/tw_trace.h"
#include "inject/writer.h"

struct guest guest = {
    .control = PTHREAD_MUTEX_INITIALIZER,
    .buffers = PTHREAD_MUTEX_INITIALIZER,
    .names = PTHREAD_MUTEX_INITIALIZER,
    .windows = PTHREAD_MUTEX_INITIALIZER,
    .spool = {.fd = -1},
};
__thread struct guest_thread guest_thread;

void *inject_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- fork ---- */

static pthread_mutex_t *const locks[] = {&guest.control, &guest.buffers, &guest.names,
                                         &guest.windows};
enum { LOCKS = sizeof locks / sizeof *locks };

static void before_fork(void)
{
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_lock(locks[i]);
}

static void after_fork(void)
{
    for (int i = LOCKS; i-- > 0;)
        pthread_mutex_unlock(locks[i]);
}

/* The child has no writer thread and no working CUPTI. If it has something to record it starts
 * anew, with its own file. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < LOCKS; i++)
        memcpy(locks[i], &fresh, sizeof fresh);
    if (atomic_load(&guest.state) == GUEST_NEW)
        return;
    atomic_fetch_add(&guest.generation, 1);
    trace_spool_abandon(&guest.spool);
    inject_cupti_forget();
    inject_notes_forget();
    inject_capture_forget();
    atomic_store(&inject_gate_is_open, 0);
    atomic_store(&guest.disk_full, 0);
    guest_thread.busy = 0;
    atomic_store(&guest.state, GUEST_NEW);
}

/* ---- start and end ---- */

/* <dir>/<host>-<pid>.spool; after an exec the name exists: -1, -2 ... */
static int open_spool(void)
{
    char host[64] = "host", path[SETTINGS_PATH + 160];
    gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = 0;
    for (char *p = host; *p; p++)
        if (*p == '/')
            *p = '_';
    int error = EEXIST;
    for (int i = 0; i < 1000 && error == EEXIST; i++) {
        char again[8] = "";
        if (i > 0)
            snprintf(again, sizeof again, "-%d", i);
        snprintf(path, sizeof path, "%s/%s-%d%s" SPOOL_SUFFIX, guest.settings.dir, host,
                 (int)getpid(), again);
        error = trace_spool_open(&guest.spool, path);
    }
    return error;
}

/* Writes one line to stderr, once; a closed stderr must not end the program. */
static void complain(const char *what, int error)
{
    char text[SETTINGS_PATH + 128];
    sigset_t pipe, old, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &old);
    int n = snprintf(text, sizeof text, "twinfer: process %d is not recorded: %s %s (errno %d)\n",
                     (int)getpid(), what, guest.settings.dir, error);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0 && errno == EPIPE &&
        !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

bool inject_claim_end(void)
{
    int on = GUEST_ON;
    if (atomic_load(&guest.pid) != getpid())
        return false; /* a raw clone: the writer and the file belong to the parent */
    return atomic_compare_exchange_strong(&guest.state, &on, GUEST_ENDED);
}

static void end_recording(void)
{
    if (!inject_claim_end())
        return;
    guest_thread.busy++;
    inject_writer_stop();
    guest_thread.busy--;
}

/* Installs fork and exit handlers, before any lock: a thread that forks while another starts needs
 * them. */
static void hook_process(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
    atexit(end_recording);
    at_quick_exit(end_recording);
}

static bool start_locked(bool with_cuda)
{
    /* A child after fork keeps its parent's settings: their file may be unreachable by now. */
    if (!guest.settings.dir[0] &&
        !inject_settings_read(&guest.settings, secure_getenv(TRACE_SETTINGS_VARIABLE)))
        return false;
    if (!inject_names_open() || !inject_ring_open() || !inject_decode_open()) {
        complain("no memory for", ENOMEM);
        return false;
    }
    int error = open_spool();
    if (error) {
        complain("cannot create a spool in", error);
        return false;
    }
    if (guest.settings.complaint[0])
        inject_notes_add(SPOOL_WARNING, "%s", guest.settings.complaint, 0);
    inject_buffers_reset();
    inject_ranges_reset();
    inject_facts_reset();
    inject_nvtx_reset();
    inject_capture_reset();
    inject_gate_open();
    if (with_cuda && !inject_cupti_open())
        inject_capture_missed("there is no CUPTI");
    if (!inject_writer_start()) {
        trace_spool_abandon(&guest.spool);
        complain("no thread for", EAGAIN);
        return false;
    }
    atomic_store(&guest.pid, getpid());
    return true;
}

bool inject_start(bool with_cuda)
{
    int state = atomic_load_explicit(&guest.state, memory_order_acquire);
    if (state != GUEST_NEW)
        return state == GUEST_ON;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int busy = guest_thread.busy++;
    pthread_once(&once, hook_process);
    pthread_mutex_lock(&guest.control);
    if (atomic_load(&guest.state) == GUEST_NEW) {
        bool ok = start_locked(with_cuda);
        atomic_store_explicit(&guest.state, ok ? GUEST_ON : GUEST_DEAD, memory_order_release);
    }
    pthread_mutex_unlock(&guest.control);
    guest_thread.busy = busy;
    return atomic_load(&guest.state) == GUEST_ON;
}

/* ---- what the driver and the program call ---- */

/* Not stat(): glibc before 2.33 has no function of that name to link to. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return syscall(SYS_newfstatat, AT_FDCWD, a, &x, 0) == 0 &&
           syscall(SYS_newfstatat, AT_FDCWD, b, &y, 0) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Whether no CUDA graph can exist yet. The driver loads CUDA_INJECTION64_PATH while it initializes,
 * and must not be called then; a program that calls by itself may do so at any time. */
static bool is_before_graphs(void)
{
    Dl_info mine;
    const char *by_driver = secure_getenv(TRACE_DRIVER_VARIABLE);
    if (by_driver && dladdr((const void *)&guest, &mine) && mine.dli_fname &&
        same_file(by_driver, mine.dli_fname))
        return true;
    return !inject_facts_driver_is_up();
}

int InitializeInjection(void)
{
    if (!inject_start(true))
        return 1; /* success, although there is nothing to do: else the driver would report an error
                   */
    guest_thread.busy++;
    pthread_mutex_lock(&guest.control);
    if (is_before_graphs())
        inject_cupti_is_early();
    else
        inject_capture_missed("the recorder was loaded when the program ran already");
    if (inject_cupti_open())
        inject_cupti_start();
    pthread_mutex_unlock(&guest.control);
    guest_thread.busy--;
    return 1;
}

int tw_trace_pause(void)
{
    if (atomic_load(&guest.state) != GUEST_ON)
        return 0;
    guest_thread.busy++;
    bool was = inject_cupti_running();
    inject_gate_pause(true);
    pthread_mutex_lock(&guest.control);
    inject_cupti_pause(true);
    inject_cupti_flush(true);
    inject_cupti_stop();
    pthread_mutex_unlock(&guest.control);
    guest_thread.busy--;
    return was;
}

int tw_trace_resume(void)
{
    if (atomic_load(&guest.state) != GUEST_ON)
        return 0;
    guest_thread.busy++;
    inject_cupti_pause(false);
    inject_gate_pause(false);
    pthread_mutex_lock(&guest.control);
    bool ok = inject_cupti_start();
    pthread_mutex_unlock(&guest.control);
    guest_thread.busy--;
    return ok ? (inject_cupti_has_callbacks() ? 1 : 2) : 0;
}

int tw_trace_flush(void)
{
    if (atomic_load(&guest.state) != GUEST_ON)
        return 0;
    if (atomic_load(&guest.pid) == getpid())
        inject_writer_flush();
    return 1;
}

int tw_trace_configure(const char *const *pairs)
{
    if (atomic_load(&guest.state) != GUEST_ON || !pairs)
        return 0;
    static const char *const allowed[] = {"kernels",  "copies", "sync", "nvtx",
                                          "launches", "graphs", "api"};
    bool ok = true;
    guest_thread.busy++;
    pthread_mutex_lock(&guest.control);
    bool running = inject_cupti_running();
    if (running) { /* switch off with the settings it was switched on with */
        inject_cupti_flush(false);
        inject_cupti_rest();
    }
    for (; pairs[0] && pairs[1]; pairs += 2) {
        bool known = false;
        for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
            known |= strcmp(pairs[0], allowed[i]) == 0;
        if (strcmp(pairs[0], "graphs") == 0)
            known = inject_cupti_graphs_can_be(strcmp(pairs[1], "graph") == 0);
        ok &= known && inject_settings_set(&guest.settings, pairs[0], pairs[1]);
    }
    if (running)
        inject_cupti_start();
    pthread_mutex_unlock(&guest.control);
    guest_thread.busy--;
    return ok;
}
