#include "inject/facts.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/cuda.h"
#include "inject/cupti.h"
#include "inject/guest.h"
#include "inject/names.h"
#include "inject/writer.h"

static bool devices_told, process_told;
static uint32_t process_cupti;
static struct gpu_cuda cuda;

void inject_facts_reset(void)
{
    devices_told = process_told = false;
}

size_t inject_facts_read(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t n = 0;
    for (ssize_t got; n < room && (got = read(fd, out + n, room - n)) > 0;)
        n += (size_t)got;
    close(fd);
    return n;
}

static uint32_t command_line(void)
{
    char text[8192];
    size_t n = inject_facts_read("/proc/self/cmdline", text, sizeof text);
    while (n > 0 && text[n - 1] == 0)
        n--;
    for (size_t i = 0; i < n; i++)
        if (text[i] == 0)
            text[i] = ' ';
    return inject_names_intern(text, n);
}

static int32_t number_of(const char *variable)
{
    const char *s = getenv(variable);
    int32_t v = 0;
    if (!s || !*s)
        return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || v > 99999999)
            return -1;
        v = v * 10 + (*s - '0');
    }
    return v;
}

static bool bind_driver(void)
{
    if (cuda.cuDeviceGet)
        return true;
    void *lib = dlopen(GPU_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    return lib && gpu_cuda_bind(&cuda, lib) == NULL;
}

bool inject_facts_driver_is_up(void)
{
    enum { NOT_INITIALIZED = 3 };
    struct gpu_cuda mine = {0}; /* own table: the one above belongs to the writer */
    int n = 0;
    void *lib = dlopen(GPU_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    return lib && gpu_cuda_bind(&mine, lib) == NULL && mine.cuDeviceGetCount(&n) != NOT_INITIALIZED;
}

void inject_facts_process(void)
{
    if (process_told && process_cupti == inject_cupti_version())
        return;
    process_told = true;
    process_cupti = inject_cupti_version();
    char text[SETTINGS_PATH];
    struct spool_process p = {
        .rank = number_of("RANK"),
        .local_rank = number_of("LOCAL_RANK"),
        .world_size = number_of("WORLD_SIZE"),
        .cupti_version = process_cupti,
    };
    ssize_t n = readlink("/proc/self/exe", text, sizeof text);
    p.executable = n > 0 ? inject_names_intern(text, (size_t)n) : 0;
    p.command = command_line();
    if (gethostname(text, sizeof text) == 0) {
        text[sizeof text - 1] = 0;
        p.host = inject_names_intern(text, strlen(text));
    }
    p.directory = getcwd(text, sizeof text) ? inject_names_intern(text, strlen(text)) : 0;
    int version = 0;
    if (bind_driver() && cuda.cuDriverGetVersion(&version) == 0)
        p.driver_version = (uint32_t)version;
    inject_writer_string(inject_names_count());
    trace_spool_add(&guest.spool, SPOOL_PROCESS, &p);
}

void inject_facts_devices(void)
{
    int n = 0;
    if (devices_told || !bind_driver() || cuda.cuDeviceGetCount(&n) != 0)
        return;
    devices_told = true;
    for (int i = 0; i < n && i < 64; i++) {
        struct gpu_device d;
        if (!gpu_device_facts(&cuda, i, &d))
            continue;
        struct spool_device out = {
            .device = (uint32_t)i,
            .name = inject_writer_string(inject_names_intern(d.name, strlen(d.name))),
            .major = d.major,
            .minor = d.minor,
            .sms = d.sms,
            .max_threads_per_sm = d.max_threads_per_sm,
            .sm_clock_khz = d.sm_clock_khz,
            .memory_clock_khz = d.memory_clock_khz,
            .bus_width_bits = d.bus_width_bits,
            .l2_bytes = d.l2_bytes,
            .memory_bytes = d.memory_bytes,
            .bandwidth_bytes_per_s = d.bandwidth_bytes_per_s,
            .pci_domain = d.pci_domain,
            .pci_bus = d.pci_bus,
            .pci_device = d.pci_device,
            .max_shared_bytes_per_sm = d.max_shared_bytes_per_sm,
        };
        memcpy(out.uuid, d.uuid, sizeof out.uuid);
        trace_spool_add(&guest.spool, SPOOL_DEVICES, &out);
    }
}
