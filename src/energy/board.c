#include "energy/board.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/library.h"
#include "gpu/stream.h"

enum { COPIES = 8, NVML_INSUFFICIENT_SIZE = 7 };

static enum st find_device(struct board *b, struct err *e)
{
    struct gpu_cuda cuda;
    struct gpu_device facts;
    int n = 0;
    TRY(gpu_cuda_open(&cuda, e));
    if (cuda.cuDeviceGetCount(&n) != 0 || b->gpu < 0 || b->gpu >= n) {
        err_set(e, ST_DEVICE, "there is no GPU %d: the driver shows %d", b->gpu, n);
        return err_hint(e, "nvidia-smi -L lists the GPUs; they count from 0");
    }
    if (!gpu_device_facts(&cuda, b->gpu, &facts))
        return err_set(e, ST_DEVICE, "the driver gives no facts of GPU %d", b->gpu);
    snprintf(b->name, sizeof b->name, "%s", facts.name);
    gpu_uuid_text(facts.uuid, b->uuid);
    TRY(gpu_nvml_open(&b->nvml, e));
    if (!b->nvml.nvmlDeviceGetHandleByUUID ||
        b->nvml.nvmlDeviceGetHandleByUUID(b->uuid, &b->device) != 0)
        return err_set(e, ST_DEVICE, "NVML does not know GPU %d, %s", b->gpu, b->uuid);
    return ST_OK;
}

enum st board_open(int gpu, struct board *out, struct err *e)
{
    *out = (struct board){.gpu = gpu};
    return find_device(out, e) == ST_OK ? ST_OK
                                        : err_add(e, "cannot find the sensors of GPU %d", gpu);
}

static enum st describe_board(struct board *b, struct err *e)
{
    char name[sizeof b->name], uuid[sizeof b->uuid];
    if (b->nvml.nvmlDeviceGetHandleByIndex_v2((unsigned)b->gpu, &b->device) != 0 ||
        b->nvml.nvmlDeviceGetUUID(b->device, uuid, sizeof uuid) != 0 ||
        b->nvml.nvmlDeviceGetName(b->device, name, sizeof name) != 0)
        return err_set(e, ST_DEVICE, "NVML does not describe GPU %d", b->gpu);
    snprintf(b->name, sizeof b->name, "%s", name);
    snprintf(b->uuid, sizeof b->uuid, "%s", uuid);
    return ST_OK;
}

enum st board_list(struct arena *a, struct board **out, size_t *n, struct err *e)
{
    struct gpu_nvml nvml;
    unsigned count = 0;
    *n = 0;
    TRY(gpu_nvml_open(&nvml, e));
    const int result = nvml.nvmlDeviceGetCount_v2(&count);
    if (result != 0)
        return err_set(e, ST_DEVICE, "nvmlDeviceGetCount_v2: error %d", result);
    *out = arena_array(a, struct board, count);
    for (; *n < count; (*n)++) {
        (*out)[*n] = (struct board){.gpu = (int)*n, .nvml = nvml};
        TRY(describe_board(&(*out)[*n], e));
    }
    return ST_OK;
}

/* ---- who computes there ---------------------------------------------------------------------- */

int board_processes(const struct board *b, int64_t pids[BOARD_PROCESSES])
{
    struct gpu_nvml_process of[BOARD_PROCESSES];
    unsigned n = BOARD_PROCESSES;
    if (!b->nvml.nvmlDeviceGetComputeRunningProcesses_v3)
        return -1;
    const int result = b->nvml.nvmlDeviceGetComputeRunningProcesses_v3(b->device, &n, of);
    if (result == NVML_INSUFFICIENT_SIZE) /* more than there is room for: none is told */
        return n > BOARD_PROCESSES ? (int)n : BOARD_PROCESSES + 1;
    if (result != 0)
        return -1;
    n = n < BOARD_PROCESSES ? n : BOARD_PROCESSES;
    for (unsigned i = 0; i < n; i++)
        pids[i] = of[i].pid;
    return (int)n;
}

int board_others(const struct board *b, bool own)
{
    int64_t pids[BOARD_PROCESSES];
    int others = board_processes(b, pids);
    if (others < 0)
        return -1;
    if (others > BOARD_PROCESSES)
        return others - 1;
    bool seen = false;
    for (int i = 0; i < others; i++)
        seen = seen || pids[i] == getpid();
    if (others > 0 && (seen || own))
        others--;
    return others;
}

int board_others_settled(const struct board *b, bool own)
{
    enum { LOOKS = 6 };
    int n = board_others(b, own);
    for (int i = 1; n > 0 && i < LOOKS; i++) {
        clock_sleep_until_ns(clock_mono_ns() + 100 * NS_PER_MS);
        n = board_others(b, own);
    }
    return n;
}

enum st board_alone(const struct board *b, bool own, struct err *e)
{
    const int n = board_others_settled(b, own);
    if (n <= 0)
        return ST_OK;
    err_set(e, ST_REJECTED, "%d other process%s on GPU %d: what they draw cannot be told apart", n,
            n == 1 ? " is" : "es are", b->gpu);
    return err_hint(e, "nvidia-smi lists them; measure when they have ended");
}

/* ---- load ------------------------------------------------------------------------------------ */

struct board_load {
    const struct gpu *g;
    CUstream stream;
    CUevent done[2];
    CUdeviceptr from, to;
    size_t bytes;
};

static enum st open_load(struct board_load *l, struct err *e)
{
    size_t free_bytes;
    TRY(gpu_free_bytes(l->g, &free_bytes, e));
    const size_t most = (size_t)1 << 30;
    l->bytes = free_bytes / 8 < most ? free_bytes / 8 / 4096 * 4096 : most;
    TRY(gpu_stream_open(l->g, &l->stream, e));
    for (int i = 0; i < 2; i++)
        TRY(gpu_event_open(l->g, false, &l->done[i], e));
    TRY(gpu_alloc(l->g, l->bytes, "the load", &l->from, e));
    return gpu_alloc(l->g, l->bytes, "the load", &l->to, e);
}

/* Two rounds are in the queue at any time: while one is waited for the other runs. */
static enum st run_load(struct board_load *l, int64_t until_ns, const volatile sig_atomic_t *stop,
                        struct err *e)
{
    for (int64_t round = 0; round < 2 || (clock_mono_ns() < until_ns && !(stop && *stop));
         round++) {
        CUevent done = l->done[round % 2];
        if (round >= 2)
            TRY(gpu_event_wait(l->g, done, e));
        for (int i = 0; i < COPIES; i++)
            TRY(gpu_copy(l->g, l->to, l->from, l->bytes, l->stream, e));
        TRY(gpu_event_record(l->g, done, l->stream, e));
    }
    return gpu_stream_wait(l->g, l->stream, e);
}

enum st board_load(const struct gpu *g, int64_t until_ns, const volatile sig_atomic_t *stop,
                   struct err *e)
{
    struct board_load l = {.g = g};
    enum st st = open_load(&l, e);
    if (st == ST_OK)
        st = run_load(&l, until_ns, stop, e);
    gpu_free(g, &l.from);
    gpu_free(g, &l.to);
    for (int i = 0; i < 2; i++)
        gpu_event_close(g, &l.done[i]);
    gpu_stream_close(g, &l.stream);
    return st;
}
