/* The machine: libraries, GPUs, tools, permissions, host. */
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "doctor/doctor.h"
#include "gpu/library.h"
#include "trace/record.h"

void doctor_add(struct doctor_findings *f, enum doctor_state state, const char *what,
                const char *found, const char *remedy)
{
    vec_push(&f->rows, (struct doctor_finding){state, what, found, remedy});
}

/* ---- libraries ---- */

static const struct {
    enum gpu_library_id id;
    enum doctor_state absent;
    const char *what, *remedy;
} libraries[] = {
    {GPU_LIB_CUDA, DOCTOR_NEEDED, "CUDA driver",
     "install the NVIDIA driver, or start the container with GPUs (--gpus all)"},
    {GPU_LIB_NVML, DOCTOR_MISSING, "NVML (energy, clocks)",
     "comes with the driver; in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
    {GPU_LIB_CUPTI, DOCTOR_MISSING, "CUPTI (trace)",
     "programs that bring their own, as PyTorch does, need none; else pip install "
     "nvidia-cuda-cupti, or trace.cupti="},
    {GPU_LIB_CUBLASLT, DOCTOR_MISSING, "cuBLASLt (engine=cuda)", "pip install nvidia-cublas"},
    {GPU_LIB_CUDNN, DOCTOR_MISSING, "cuDNN (engine=cuda)",
     "pip install nvidia-cudnn-cu13; without it our own attention is used"},
    {GPU_LIB_NVRTC, DOCTOR_MISSING, "NVRTC (engine=cuda)", "pip install nvidia-cuda-nvrtc"},
    {GPU_LIB_NCCL, DOCTOR_MISSING, "NCCL (tensor parallel)", "pip install nvidia-nccl-cu13"},
};

static void look_at_libraries(struct doctor_findings *f)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        struct gpu_library lib;
        gpu_library_look(f->a, libraries[i].id, &lib);
        if (!lib.path) {
            doctor_add(f, libraries[i].absent, libraries[i].what,
                       arena_printf(f->a, "%s not found", lib.name), libraries[i].remedy);
            continue;
        }
        const char *found = arena_printf(f->a, "%s%s%s", lib.path, lib.version ? ", " : "",
                                         lib.version ? lib.version : "");
        if (lib.missing)
            doctor_add(f, libraries[i].absent, libraries[i].what,
                       arena_printf(f->a, "%s lacks %s", found, lib.missing), "a newer version");
        else if (lib.absent)
            doctor_add(f, DOCTOR_NOTE, libraries[i].what, found,
                       arena_printf(f->a, "too old for %s", lib.absent));
        else
            doctor_add(f, DOCTOR_OK, libraries[i].what, found, NULL);
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

/* Leaves out unknown facts. */
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

static void look_at_gpus(struct doctor_findings *f)
{
    struct err e = {0};
    struct gpu_cuda cuda;
    struct gpu_nvml nvml;
    struct gpu_device d;
    int n = 0;
    struct gpu_library driver;
    gpu_library_look(f->a, GPU_LIB_CUDA, &driver);
    if (!driver.path)
        return; /* reported among the libraries */
    if (gpu_cuda_open(&cuda, &e) != ST_OK) {
        doctor_add(f, DOCTOR_NEEDED, "GPUs", arena_str(f->a, err_cause(&e, 0)),
                   arena_str(f->a, err_hint_text(&e) ? err_hint_text(&e) : ""));
        return;
    }
    bool have_nvml = gpu_nvml_open(&nvml, &e) == ST_OK;
    cuda.cuDeviceGetCount(&n);
    for (int i = 0; i < n && gpu_device_facts(&cuda, i, &d); i++) {
        char uuid[GPU_UUID_TEXT];
        gpu_uuid_text(d.uuid, uuid);
        doctor_add(f, DOCTOR_OK, arena_printf(f->a, "GPU %d", i),
                   arena_printf(f->a, "%s%s, %s", device_words(f->a, &d),
                                have_nvml ? power_of(f->a, &nvml, uuid) : "", uuid),
                   NULL);
    }
}

/* ---- the rest of the machine ---- */

static void look_at_guest(struct doctor_findings *f)
{
    struct err e = {0};
    const char *path;
    if (trace_guest_library(f->a, NULL, &path, &e) == ST_OK)
        doctor_add(f, DOCTOR_OK, "guest library (trace)", path, NULL);
    else
        doctor_add(f, DOCTOR_MISSING, "guest library (trace)", arena_str(f->a, err_cause(&e, 0)),
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

static void look_at_tools(struct doctor_findings *f)
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
        doctor_add(f, path ? DOCTOR_OK : DOCTOR_MISSING, tools[i].what, path ? path : "not in PATH",
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

static void look_at_permissions(struct doctor_findings *f)
{
    const char *only_admin = value_in(f->a, "/proc/driver/nvidia/params", "RmProfilingAdminOnly");
    if (only_admin && strcmp(only_admin, "1") == 0 && geteuid() != 0)
        doctor_add(
            f, DOCTOR_NOTE, "GPU counters (ncu)", "for administrators only",
            "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reload "
            "the driver; trace needs no counters");
    else if (only_admin)
        doctor_add(f, DOCTOR_OK, "GPU counters (ncu)", "allowed", NULL);
    int now = personality(0xffffffff);
    bool allowed = now >= 0 && personality((unsigned long)now | ADDR_NO_RANDOMIZE) >= 0;
    if (now >= 0)
        personality((unsigned long)now);
    doctor_add(f, allowed ? DOCTOR_OK : DOCTOR_NOTE, "fixed addresses (replay)",
               allowed ? "address randomization can be switched off" : "personality is forbidden",
               allowed ? NULL
                       : "replay then retries; --security-opt seccomp=unconfined avoids that");
}

static void look_at_host(struct doctor_findings *f)
{
    const char *governor =
        value_in(f->a, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "");
    if (governor && strcmp(governor, "performance") != 0)
        doctor_add(f, DOCTOR_NOTE, "CPU clock", governor,
                   "cpupower frequency-set -g performance steadies runs");
    else if (governor)
        doctor_add(f, DOCTOR_OK, "CPU clock", governor, NULL);
    doctor_add(f, DOCTOR_OK, "CPU cores", arena_printf(f->a, "%ld", sysconf(_SC_NPROCESSORS_ONLN)),
               NULL);
    struct statvfs s;
    if (statvfs(".", &s) == 0) {
        double gib = (double)s.f_bavail * (double)s.f_frsize / (1 << 30);
        doctor_add(f, gib < 5 ? DOCTOR_NOTE : DOCTOR_OK, "disk space here",
                   arena_printf(f->a, "%.0f GiB", gib),
                   gib < 5 ? "traces and models take gigabytes" : NULL);
    }
}

void doctor_machine(struct doctor_findings *f)
{
    look_at_gpus(f);
    look_at_libraries(f);
    look_at_guest(f);
    look_at_tools(f);
    look_at_permissions(f);
    look_at_host(f);
}
