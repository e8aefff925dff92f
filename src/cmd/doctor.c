#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/partial.h"
#include "base/vec.h"
#include "cmd/commands.h"
#include "gpu/library.h"
#include "job/job.h"
#include "trace/record.h"

enum state { OK, NOTE, MISSING, NEEDED };

static const char *const state_words[] = {"ok", "note", "missing", "MISSING"};

struct finding {
    enum state state; /* NEEDED: missing, and GPU commands need it */
    const char *what, *found, *remedy;
};

struct findings {
    struct arena *a;
    VEC(struct finding) rows;
};

static void add(struct findings *f, enum state state, const char *what, const char *found,
                const char *remedy)
{
    vec_push(&f->rows, (struct finding){state, what, found, remedy});
}

/* ---- libraries ---- */

static const struct {
    enum gpu_library_id id;
    enum state absent;
    const char *what, *remedy;
} libraries[] = {
    {GPU_LIB_CUDA, NEEDED, "CUDA driver",
     "install the NVIDIA driver, or start the container with GPUs (--gpus all)"},
    {GPU_LIB_NVML, MISSING, "NVML (energy, clocks)",
     "comes with the driver; in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
    {GPU_LIB_CUPTI, MISSING, "CUPTI (trace)",
     "programs that bring their own, as PyTorch does, need none; else pip install "
     "nvidia-cuda-cupti, or trace.cupti="},
    {GPU_LIB_CUBLASLT, MISSING, "cuBLASLt (engine=cuda)",
     "pip install nvidia-cublas, and its folder in LD_LIBRARY_PATH"},
    {GPU_LIB_CUDNN, MISSING, "cuDNN (engine=cuda)",
     "pip install nvidia-cudnn-cu13; without it our own attention is used"},
    {GPU_LIB_NVRTC, MISSING, "NVRTC (engine=cuda)",
     "pip install nvidia-cuda-nvrtc, and its folder in LD_LIBRARY_PATH"},
    {GPU_LIB_NCCL, MISSING, "NCCL (tensor parallel)",
     "pip install nvidia-nccl-cu13, and its folder in LD_LIBRARY_PATH"},
};

static void look_at_libraries(struct findings *f)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        struct gpu_library lib;
        gpu_library_look(f->a, libraries[i].id, &lib);
        if (!lib.path) {
            add(f, libraries[i].absent, libraries[i].what,
                arena_printf(f->a, "%s not found", lib.name), libraries[i].remedy);
            continue;
        }
        const char *found = arena_printf(f->a, "%s%s%s", lib.path, lib.version ? ", " : "",
                                         lib.version ? lib.version : "");
        if (lib.missing)
            add(f, libraries[i].absent, libraries[i].what,
                arena_printf(f->a, "%s lacks %s", found, lib.missing), "a newer version");
        else if (lib.absent)
            add(f, NOTE, libraries[i].what, found,
                arena_printf(f->a, "too old for %s", lib.absent));
        else
            add(f, OK, libraries[i].what, found, NULL);
    }
}

/* ---- GPUs ---- */

static const char *power_of(struct arena *a, const struct gpu_nvml *nvml, const char *uuid)
{
    void *device;
    unsigned mw = 0, mhz = 0;
    if (!nvml->nvmlDeviceGetHandleByUUID || nvml->nvmlDeviceGetHandleByUUID(uuid, &device) != 0)
        return "";
    const char *text = "";
    if (nvml->nvmlDeviceGetEnforcedPowerLimit &&
        nvml->nvmlDeviceGetEnforcedPowerLimit(device, &mw) == 0)
        text = arena_printf(a, ", limit %u W", mw / 1000);
    if (nvml->nvmlDeviceGetMaxClockInfo &&
        nvml->nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_SM, &mhz) == 0)
        text = arena_printf(a, "%s, up to %u MHz", text, mhz);
    return text;
}

/* What the driver does not say is left out. */
static const char *device_words(struct arena *a, const struct gpu_device *d)
{
    const char *text = arena_str(a, d->name);
    if (d->major)
        text = arena_printf(a, "%s, %u.%u", text, d->major, d->minor);
    if (d->sms)
        text = arena_printf(a, "%s, %u SMs", text, d->sms);
    if (d->memory_bytes)
        text = arena_printf(a, "%s, %.0f GiB", text, (double)d->memory_bytes / (1 << 30));
    if (d->bandwidth_bytes_per_s)
        text = arena_printf(a, "%s, %.2f TB/s", text, (double)d->bandwidth_bytes_per_s / 1e12);
    return text;
}

static void look_at_gpus(struct findings *f)
{
    struct err e = {0};
    struct gpu_cuda cuda;
    struct gpu_nvml nvml;
    struct gpu_device d;
    int n = 0;
    struct gpu_library driver;
    gpu_library_look(f->a, GPU_LIB_CUDA, &driver);
    if (!driver.path)
        return; /* told among the libraries */
    if (gpu_cuda_open(&cuda, &e) != ST_OK) {
        add(f, NEEDED, "GPUs", arena_str(f->a, err_cause(&e, 0)),
            arena_str(f->a, err_hint_text(&e) ? err_hint_text(&e) : ""));
        return;
    }
    bool have_nvml = gpu_nvml_open(&nvml, &e) == ST_OK;
    cuda.cuDeviceGetCount(&n);
    for (int i = 0; i < n && gpu_device_facts(&cuda, i, &d); i++) {
        char uuid[GPU_UUID_TEXT];
        gpu_uuid_text(d.uuid, uuid);
        add(f, OK, arena_printf(f->a, "GPU %d", i),
            arena_printf(f->a, "%s%s, %s", device_words(f->a, &d),
                         have_nvml ? power_of(f->a, &nvml, uuid) : "", uuid),
            NULL);
    }
}

/* ---- the rest of the machine ---- */

static void look_at_guest(struct findings *f)
{
    struct err e = {0};
    const char *path;
    if (trace_guest_library(f->a, NULL, &path, &e) == ST_OK)
        add(f, OK, "guest library (trace)", path, NULL);
    else
        add(f, MISSING, "guest library (trace)", arena_str(f->a, err_cause(&e, 0)),
            arena_str(f->a, err_hint_text(&e)));
}

static const char *in_path(struct arena *a, const char *program)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        const char *full = arena_printf(a, "%.*s/%s", (int)n, path, program);
        if (access(full, X_OK) == 0)
            return full;
        path += n + (path[n] == ':');
    }
    return NULL;
}

static void look_at_tools(struct findings *f)
{
    static const struct {
        const char *program, *what, *remedy;
    } tools[] = {
        {"nsys", "Nsight Systems (deep)",
         "twinfer trace needs none; to use it, install nsight-systems"},
        {"ncu", "Nsight Compute (deep)", "install nsight-compute"},
    };
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        const char *path = in_path(f->a, tools[i].program);
        add(f, path ? OK : MISSING, tools[i].what, path ? path : "not in PATH",
            path ? NULL : tools[i].remedy);
    }
}

/* The value behind `key` in a file of "key: value" lines. */
static const char *value_in(struct arena *a, const char *file, const char *key)
{
    struct err e = {0};
    struct sv text;
    if (fs_read(a, file, 1 << 16, &text, &e) != ST_OK)
        return NULL;
    const char *at = key[0] ? strstr(text.p, key) : text.p;
    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, ": \t");
    return arena_strn(a, at, strcspn(at, "\n"));
}

static void look_at_permissions(struct findings *f)
{
    const char *only_admin = value_in(f->a, "/proc/driver/nvidia/params", "RmProfilingAdminOnly");
    if (only_admin && strcmp(only_admin, "1") == 0 && geteuid() != 0)
        add(f, NOTE, "GPU counters (ncu)", "for administrators only",
            "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reload "
            "the driver; trace needs no counters");
    else if (only_admin)
        add(f, OK, "GPU counters (ncu)", "allowed", NULL);
    int now = personality(0xffffffff);
    bool allowed = now >= 0 && personality((unsigned long)now | ADDR_NO_RANDOMIZE) >= 0;
    if (now >= 0)
        personality((unsigned long)now);
    add(f, allowed ? OK : NOTE, "fixed addresses (replay)",
        allowed ? "address randomization can be switched off" : "personality is forbidden",
        allowed ? NULL : "replay then retries; --security-opt seccomp=unconfined avoids that");
}

static void look_at_host(struct findings *f)
{
    const char *governor =
        value_in(f->a, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "");
    if (governor && strcmp(governor, "performance") != 0)
        add(f, NOTE, "CPU clock", governor, "cpupower frequency-set -g performance steadies runs");
    else if (governor)
        add(f, OK, "CPU clock", governor, NULL);
    add(f, OK, "CPU cores", arena_printf(f->a, "%ld", sysconf(_SC_NPROCESSORS_ONLN)), NULL);
    struct statvfs s;
    if (statvfs(".", &s) == 0) {
        double gib = (double)s.f_bavail * (double)s.f_frsize / (1 << 30);
        add(f, gib < 5 ? NOTE : OK, "disk space here", arena_printf(f->a, "%.0f GiB", gib),
            gib < 5 ? "traces and models take gigabytes" : NULL);
    }
}

/* ---- what killed processes left ---- */

/* "2 h": the largest unit in which it is 1 or more. */
static const char *age_text(struct arena *a, int64_t since_wall_ns)
{
    static const struct {
        double s;
        const char *unit;
    } units[] = {{86400, "days"}, {3600, "h"}, {60, "min"}};
    double s = ns_to_s(clock_wall_ns() - since_wall_ns);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (s >= units[i].s)
            return arena_printf(a, "%.0f %s", floor(s / units[i].s), units[i].unit);
    return arena_printf(a, "%.0f s", s > 0 ? floor(s) : 0);
}

/* `twinfer trace` keeps a recording that could not be finished. */
static bool holds_recording(struct arena *a, const char *dir)
{
    struct err quiet = {0};
    const char **names;
    size_t n = 0;
    if (fs_list(a, dir, &names, &n, &quiet) != ST_OK)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        if (len > 6 && strcmp(names[i] + len - 6, ".spool") == 0)
            return true;
    }
    return false;
}

static void tell_partial(struct findings *f, const struct partial_found *p, bool remove,
                         struct err *e)
{
    static const char what[] = "unfinished folder";
    struct arena *a = f->a;
    char size[STR_BYTES_MAX];
    str_from_bytes(size, p->bytes);
    const char *facts = arena_printf(
        a, "%s, %s, written %s ago%s", p->path, size, age_text(a, p->wrote_wall_ns),
        holds_recording(a, p->path) ? ", with a recording that twinfer kernels reads" : "");
    const char *writer = p->pid ? arena_printf(a, "process %ld", p->pid) : "its writer";
    struct err failed = {0};
    if (p->state == PARTIAL_LIVING) {
        add(f, OK, what, arena_printf(a, "%s; being written", facts), NULL);
    } else if (p->state == PARTIAL_UNKNOWN) {
        add(f, NOTE, what, arena_printf(a, "%s; %s", facts, p->why),
            "not removed by doctor; remove it by hand once nothing writes to it");
    } else if (!remove) {
        add(f, NOTE, what, arena_printf(a, "%s; %s is dead", facts, writer),
            "twinfer doctor doctor.remove_partial=true removes it");
    } else if (partial_remove(p, &failed) == ST_OK) {
        add(f, OK, what, arena_printf(a, "%s; %s is dead: removed", facts, writer), NULL);
    } else {
        add(f, NOTE, what, arena_printf(a, "%s; %s is dead", facts, writer),
            arena_str(a, err_cause(&failed, 0)));
        if (e->st == ST_OK && failed.st != ST_REJECTED)
            *e = failed;
    }
}

/* The first one that should be removed and cannot be is e; the others are removed all the same. */
static void look_at_partials(struct findings *f, const struct plan *p, struct err *e)
{
    enum { ALL_LEVELS = 32 };
    static const char *const here[] = {".", "runs"};
    bool asked = p->doctor.folders.n > 0;
    size_t n = asked ? p->doctor.folders.n : 2;
    for (size_t i = 0; i < n; i++) {
        const char *dir = asked ? p->doctor.folders.items[i] : here[i];
        if (asked && !fs_is_dir(dir) && e->st == ST_OK) {
            err_set(e, ST_USAGE, "doctor.folders: %s is not a folder", dir);
            continue;
        }
        struct partial_list list = partial_find(f->a, dir, asked || i > 0 ? ALL_LEVELS : 0);
        for (size_t k = 0; k < list.n; k++)
            tell_partial(f, &list.p[k], p->doctor.remove_partial, e);
    }
}

static void print_text(const struct findings *f)
{
    for (size_t i = 0; i < f->rows.n; i++) {
        const struct finding *r = &f->rows.p[i];
        printf("%-8s %-25s %s\n", state_words[r->state], r->what, r->found);
        if (r->remedy && r->remedy[0])
            printf("         %-25s -> %s\n", "", r->remedy);
    }
}

static void print_json(struct cmd_context *c, const struct findings *f)
{
    struct node *out = node_new(c->a, NODE_MAP);
    struct node *list = node_set(c->a, out, SV("findings"), node_new(c->a, NODE_LIST));
    for (size_t i = 0; i < f->rows.n; i++) {
        const struct finding *r = &f->rows.p[i];
        struct node *n = node_new(c->a, NODE_MAP);
        node_set(c->a, n, SV("state"),
                 node_str(c->a, r->state == NEEDED ? "needed" : state_words[r->state]));
        node_set(c->a, n, SV("what"), node_str(c->a, r->what));
        node_set(c->a, n, SV("found"), node_str(c->a, r->found));
        if (r->remedy)
            node_set(c->a, n, SV("remedy"), node_str(c->a, r->remedy));
        node_push(c->a, list, n);
    }
    job_result(c, out, NULL);
}

static int run_doctor(struct cmd_context *c, struct err *e)
{
    struct findings f = {.a = c->a};
    look_at_gpus(&f);
    look_at_libraries(&f);
    look_at_guest(&f);
    look_at_tools(&f);
    look_at_permissions(&f);
    look_at_host(&f);
    look_at_partials(&f, c->plan, e);
    if (c->json)
        print_json(c, &f);
    else
        print_text(&f);
    int code = 0;
    for (size_t i = 0; i < f.rows.n; i++)
        if (f.rows.p[i].state == NEEDED)
            code = 4;
    vec_free(&f.rows);
    if (e->st == ST_OK)
        return code;
    err_add(e, "doctor");
    return err_exit_code(e->st);
}

const struct cmd cmd_doctor = {
    .id = COMMAND_DOCTOR,
    .summary = "what this machine has and lacks, with the remedy",
    .about = "Looks at the driver, the GPUs, the libraries that are opened at run time and "
             "the machine's settings, and for folders that killed processes left unfinished. "
             "Nothing is changed, unless doctor.remove_partial=true: then those folders are "
             "removed, never one that may still be written. Exit code 4 when something that "
             "GPU commands cannot do without is missing.",
    .example = "twinfer doctor",
    .run = run_doctor,
};
