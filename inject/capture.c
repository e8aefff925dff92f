#include "inject/capture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "capsule/file.h"
#include "gpu/cuda.h"
#include "inject/cupti.h"
#include "inject/facts.h"
#include "inject/gate.h"
#include "inject/notes.h"
#include "inject/room.h"

struct capture capture = {.work = PTHREAD_MUTEX_INITIALIZER,
                          .memory = PTHREAD_MUTEX_INITIALIZER,
                          .images = PTHREAD_MUTEX_INITIALIZER};
static _Atomic uint32_t seen; /* occurrences of the region */
static int64_t stopped_at_ns, stopped_ns;
static int64_t start_wall_ns;
static bool has_dir;

bool inject_capture_wanted(void)
{
    return guest.settings.capture > 0;
}

/* ---- the folder, refusals ---- */

/* The spool's path with another ending. */
static bool make_dir(void)
{
    size_t n = strlen(guest.spool.path), suffix = strlen(SPOOL_SUFFIX);
    if (has_dir)
        return true;
    if (n < suffix || n + 8 > sizeof capture.dir)
        return false;
    memcpy(capture.dir, guest.spool.path, n - suffix);
    memcpy(capture.dir + n - suffix, CAPSULE_RECORDED_SUFFIX, sizeof CAPSULE_RECORDED_SUFFIX);
    has_dir = mkdir(capture.dir, 0777) == 0 || errno == EEXIST;
    return has_dir;
}

static bool path_in(char *out, size_t room, const char *name)
{
    int n = snprintf(out, room, "%s/%s", capture.dir, name);
    return n > 0 && (size_t)n < room;
}

static void put_line(const char *text, size_t n)
{
    char path[sizeof capture.dir + 32];
    if (!make_dir() || !path_in(path, sizeof path, CAPSULE_REFUSED))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    ssize_t put = write(fd, text, n);
    (void)put; /* a full disk: the capture is over either way */
    close(fd);
}

/* On pages of its own: the text may quote what has no limit. */
__attribute__((format(printf, 1, 0))) static void put_refusal(const char *what, va_list args,
                                                              size_t n)
{
    char *text = inject_pages(n + 2);
    if (!text)
        return;
    vsnprintf(text, n + 1, what, args);
    text[n] = '\n';
    put_line(text, n + 1);
    munmap(text, n + 2);
}

void capture_refuse(const char *what, ...)
{
    va_list args, again;
    if (atomic_exchange(&capture.state, CAPTURE_OFF) == CAPTURE_OFF)
        return;
    va_start(args, what);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, what, args);
    if (n >= 0)
        put_refusal(what, again, (size_t)n);
    va_end(again);
    va_end(args);
}

void inject_capture_missed(const char *why)
{
    if (inject_capture_wanted())
        capture_refuse("allocations may have been missed: %s", why);
}

/* ---- start, fork ---- */

void inject_capture_reset(void)
{
    atomic_store(&capture.state, CAPTURE_OFF);
    has_dir = false;
    if (!inject_capture_wanted())
        return;
    atomic_store(&seen, 0);
    atomic_store(&capture.capturing, 0);
    atomic_store(&capture.context, NULL);
    for (int i = 0; i < CAPSULE_KINDS; i++)
        inject_list_free(&capture.sections[i]);
    capture_memory_reset();
    capture_module_reset();
    capture_graph_reset();
    capture_work_reset();
    atomic_store(&capture.state, CAPTURE_WAITING);
}

void inject_capture_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&capture.work, &fresh, sizeof fresh);
    memcpy(&capture.memory, &fresh, sizeof fresh);
    memcpy(&capture.images, &fresh, sizeof fresh);
    atomic_store(&capture.state, CAPTURE_OFF);
    capture.bound = false; /* the driver is unusable after a fork, or opened anew */
}

bool capture_bind(void)
{
    if (capture.bound)
        return true;
    void *lib = dlopen(GPU_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    const char *missing = NULL;
    if (!lib) {
        capture_refuse("the program does not use CUDA when the region begins");
        return false;
    }
#define X(name, arguments, needed)                      \
    *(void **)&capture.driver.name = dlsym(lib, #name); \
    if (!capture.driver.name && (needed) && !missing)   \
        missing = #name;
    GPU_CAPTURE_LIST(X)
#undef X
    capture.bound = !missing;
    if (missing)
        capture_refuse("the driver is too old: it lacks %s", missing);
    return capture.bound;
}

/* ---- regions of launches of CUDA graphs ---- */

void inject_capture_cut(const char *what)
{
    if (capture_is(CAPTURE_RUNNING))
        capture_refuse("%s after launch %lld of a CUDA graph, inside the region, which ends with "
                       "launch %lld",
                       what, (long long)inject_gate_graphs(), (long long)guest.settings.graph_last);
}

void inject_capture_told(void)
{
    char path[sizeof capture.dir + 32], text[64];
    const bool inside = capture_is(CAPTURE_RUNNING);
    if (!guest.settings.graph_first || inject_gate_graphs() == 0 || capture_is(CAPTURE_OFF) ||
        !make_dir() || !path_in(path, sizeof path, CAPSULE_LAUNCHED))
        return;
    const int n = snprintf(text, sizeof text, "%s %lld\n", inside ? "inside" : "before",
                           (long long)inject_gate_graphs());
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    const ssize_t put = write(fd, text, (size_t)n);
    (void)put; /* a full disk: then there is no capsule either way */
    close(fd);
}

/* ---- records ---- */

uint32_t capture_add_many(enum capsule_kind kind, const void *records, size_t n)
{
    struct list *l = &capture.sections[kind];
    size_t at = l->n;
    if (at + n <= CAPSULE_RECORDS_MAX &&
        inject_list_append(l, records, n, capsule_record_bytes(kind)))
        return (uint32_t)at;
    capture_refuse("no memory for the records of the region");
    return CAPSULE_NONE;
}

uint32_t capture_add(enum capsule_kind kind, const void *record)
{
    return capture_add_many(kind, record, 1);
}

/* What the region copies from the host is kept in memory: the program must not be ended for lack of
 * it. Asked when the list is about to grow. */
static bool has_memory_for(const struct list *l, size_t n)
{
    enum { SMALL = 64 << 20 };
    if (n <= SMALL && l->n + n <= l->bytes)
        return true;
    const uint64_t need = 2 * (uint64_t)(l->n + n), there = inject_room_bytes();
    if (l->n + n <= SMALL || there >= need)
        return true;
    capture_refuse("%" PRIu64 " MiB of memory are available, and %" PRIu64
                   " bytes would be needed to keep what the region copies from the host",
                   there >> 20, need);
    return false;
}

struct capsule_span capture_bytes(const void *p, size_t n)
{
    struct list *l = &capture.sections[CAPSULE_BYTES];
    struct capsule_span s = {l->n, n};
    if (!has_memory_for(l, n))
        return (struct capsule_span){0};
    if (!inject_list_append(l, p, n, 1)) {
        capture_refuse("no memory for bytes that the region copies");
        return (struct capsule_span){0};
    }
    return s;
}

static struct capsule_span text(const char *s)
{
    return capture_bytes(s, strlen(s));
}

/* ---- the region ---- */

static CUcontext context_of_thread(void)
{
    CUcontext current = NULL;
    if (capture.driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        return current;
    return atomic_load(&capture.context);
}

/* Makes the GPU idle, the region's context current. */
static bool stop_gpu(bool begin)
{
    if (!capture_bind())
        return false;
    CUcontext context = begin ? context_of_thread() : atomic_load(&capture.context);
    if (!context) {
        capture_refuse("the program has no CUDA context when the region begins");
        return false;
    }
    if (atomic_load(&capture.capturing) > 0) {
        capture_refuse("a stream is in capture when the region %s", begin ? "begins" : "ends");
        return false;
    }
    atomic_store(&capture.context, context);
    if (capture.driver.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) {
        capture_refuse("cuCtxPushCurrent fails");
        return false;
    }
    CUresult r = capture.driver.cuCtxSynchronize();
    if (r == CUDA_SUCCESS)
        return true;
    capture.driver.cuCtxPopCurrent_v2(&context);
    capture_refuse("cuCtxSynchronize fails when the region %s: error %d", begin ? "begins" : "ends",
                   (int)r);
    return false;
}

static void let_gpu_go(void)
{
    CUcontext context;
    capture.driver.cuCtxPopCurrent_v2(&context);
}

/* Their launches call back from now on, and wait for `work` until memory has been copied. The gate,
 * which is about to open, would switch the callbacks on only then. */
static void hold_other_threads(void)
{
    pthread_mutex_lock(&guest.control);
    if (inject_cupti_has_callbacks())
        inject_handlers_switch(WHILE_RECORDING, true);
    pthread_mutex_unlock(&guest.control);
}

void inject_capture_begin(void)
{
    if (!capture_is(CAPTURE_WAITING) || atomic_fetch_add(&seen, 1) + 1 != guest.settings.capture)
        return;
    guest_thread.busy++;
    hold_other_threads();
    stopped_at_ns = clock_mono_ns();
    pthread_mutex_lock(&capture.work);
    uint64_t live_bytes;
    if (make_dir() && stop_gpu(true)) {
        bool ok = capture_memory_check(&live_bytes) && capture_pages_before(live_bytes);
        if (ok)
            capture_modules_start();
        let_gpu_go();
        if (ok && capture_is(CAPTURE_WAITING)) {
            capture_memory_start();
            capture.start_ns = clock_mono_ns();
            atomic_store_explicit(&capture.state, CAPTURE_RUNNING, memory_order_release);
        }
    } else if (!has_dir) {
        capture_refuse("no folder for the capsule");
    }
    pthread_mutex_unlock(&capture.work);
    stopped_ns = clock_mono_ns() - stopped_at_ns;
    guest_thread.busy--;
}

void inject_capture_started(void)
{
    if (!capture_is(CAPTURE_RUNNING))
        return;
    pthread_mutex_lock(&capture.work);
    capture.start_ns = clock_mono_ns();
    start_wall_ns = clock_wall_ns();
    pthread_mutex_unlock(&capture.work);
}

/* "graph:3", "profiler/graph:3-6" */
static int graphs_text(char *out, size_t room)
{
    const struct settings *s = &guest.settings;
    char last[24] = "";
    if (s->graph_last > s->graph_first)
        snprintf(last, sizeof last, "-%lld", (long long)s->graph_last);
    return snprintf(out, room, "%sgraph:%lld%s", s->profiler ? "profiler/" : "",
                    (long long)s->graph_first, last);
}

static struct capsule_span region_text(char *out, size_t room)
{
    const struct settings *s = &guest.settings;
    int n = s->graph_first ? graphs_text(out, room)
            : s->profiler  ? snprintf(out, room, "profiler#%lld", (long long)s->capture)
                           : snprintf(out, room, "%s%s%s#%lld", s->patterns.list[0].range,
                                     s->patterns.list[0].domain[0] ? "@" : "",
                                      s->patterns.list[0].domain, (long long)s->capture);
    return capture_bytes(out, n > 0 ? (size_t)n : 0);
}

static void add_facts(int64_t wall_ns, uint64_t live_bytes, uint64_t unread)
{
    char words[8192];
    struct gpu_cuda cuda = {0};
    struct gpu_device d = {0};
    struct capsule_facts f = {.pid = (uint32_t)getpid(),
                              .cupti_version = inject_cupti_version(),
                              .occurrence = (uint32_t)guest.settings.capture,
                              .start_ns = capture.start_ns,
                              .start_wall_ns = start_wall_ns,
                              .wall_ns = wall_ns,
                              .snapshot_ns = stopped_ns,
                              .live_bytes = live_bytes,
                              .globals_unread = unread};
    f.region = region_text(words, sizeof words);
    size_t n = inject_facts_read("/proc/self/cmdline", words, sizeof words);
    while (n > 0 && words[n - 1] == 0)
        n--;
    for (size_t i = 0; i < n; i++)
        words[i] = words[i] ? words[i] : ' ';
    f.command = capture_bytes(words, n);
    if (gethostname(words, sizeof words) == 0) {
        words[sizeof words - 1] = 0;
        f.host = text(words);
    }
    void *lib = dlopen(GPU_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    CUdevice device = 0;
    int version = 0;
    capture.driver.cuCtxGetDevice(&device);
    f.device = (uint32_t)device;
    if (lib && gpu_cuda_bind(&cuda, lib) == NULL) {
        if (cuda.cuDriverGetVersion(&version) == 0)
            f.driver_version = (uint32_t)version;
        if (gpu_device_facts(&cuda, device, &d)) {
            f.gpu = text(d.name);
            memcpy(f.uuid, d.uuid, sizeof f.uuid);
            f.major = d.major;
            f.minor = d.minor;
            f.sms = d.sms;
            f.memory_bytes = d.memory_bytes;
            f.l2_bytes = d.l2_bytes;
        }
    }
    const struct list *ops = &capture.sections[CAPSULE_OPS];
    for (size_t i = 0; i < ops->n; i++)
        if (LIST_AT(ops, struct capsule_op, i)->graph > f.n_graphs)
            f.n_graphs = LIST_AT(ops, struct capsule_op, i)->graph;
    capture_add(CAPSULE_FACTS, &f);
}

/* launches.bin appears whole, and last. */
static void write_launches(void)
{
    char path[sizeof capture.dir + 32], part[sizeof path];
    struct capsule_part parts[CAPSULE_KINDS] = {{0}};
    for (int i = 1; i < CAPSULE_KINDS; i++)
        parts[i] = (struct capsule_part){capture.sections[i].p, capture.sections[i].n};
    if (!path_in(path, sizeof path, CAPSULE_FILE) || !path_in(part, sizeof part, "launches.part"))
        return;
    int error = capsule_file_write(part, parts);
    if (!error && rename(part, path) != 0)
        error = errno;
    if (error)
        capture_refuse("cannot write %s: errno %d", path, error);
}

static void finish(int64_t wall_ns)
{
    uint64_t unread = 0, live = 0;
    const struct list *pages = &capture.sections[CAPSULE_PAGES];
    for (size_t i = 0; i < pages->n; i++)
        live += LIST_AT(pages, struct capsule_page, i)->bytes;
    if (!capture_work_check() || !capture_pages_after() || !capture_memory_write() ||
        !capture_images_write(capture.dir, &unread))
        return;
    capture_functions_end();
    stopped_ns += clock_mono_ns() - stopped_at_ns;
    add_facts(wall_ns, live, unread);
    if (capture_is(CAPTURE_RUNNING))
        write_launches();
}

void inject_capture_end(void)
{
    if (!capture_is(CAPTURE_RUNNING))
        return;
    guest_thread.busy++;
    pthread_mutex_lock(&capture.work);
    if (capture_is(CAPTURE_RUNNING) && stop_gpu(false)) {
        stopped_at_ns = clock_mono_ns();
        finish(stopped_at_ns - capture.start_ns);
        let_gpu_go();
    }
    atomic_store(&capture.state, CAPTURE_OFF);
    for (int i = 0; i < CAPSULE_KINDS; i++)
        inject_list_free(&capture.sections[i]);
    pthread_mutex_unlock(&capture.work);
    guest_thread.busy--;
}
