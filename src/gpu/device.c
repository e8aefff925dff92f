#include "gpu/device.h"

#include "base/str.h"
#include "gpu/library.h"

/* ---- errors ---------------------------------------------------------------------------------- */

static const struct {
    CUresult result;
    bool fatal;
    const char *remedy;
} results[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, false, "other processes may hold its memory: nvidia-smi lists them"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, false,
     "another process has it for itself (compute mode), or it is being reset: nvidia-smi -q"},
    {CUDA_ERROR_NO_DEVICE, false,
     "nvidia-smi tells whether the driver sees a GPU; CUDA_VISIBLE_DEVICES may hide all of them"},
    {CUDA_ERROR_INVALID_DEVICE, false, "nvidia-smi -L lists the GPUs; they count from 0"},
    {CUDA_ERROR_INVALID_IMAGE, false,
     "the kernel was compiled for another GPU or by a compiler that the driver does not know; "
     "remove ~/.cache/twinfer/kernels and try again"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, false,
     "the kernel was compiled for another GPU; an NVRTC that knows this one is needed"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, false,
     "NVRTC is newer than the driver: a newer driver, or NVRTC of the driver's CUDA version"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, true,
     "the GPU's memory is faulty: nvidia-smi -q -d ECC; it needs a reset or a replacement"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, true, "a link between GPUs is faulty: nvidia-smi nvlink -e"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, true,
     "a kernel read or wrote outside its buffers: compute-sanitizer finds the place"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, false,
     "the kernel wants more registers or shared memory than a multiprocessor has"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, true, "the GPU also drives a display, which ends long kernels"},
    {CUDA_ERROR_ASSERT, true, NULL},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, true, NULL},
    {CUDA_ERROR_MISALIGNED_ADDRESS, true, "compute-sanitizer finds the place"},
    {CUDA_ERROR_LAUNCH_FAILED, true,
     "a kernel ended by a fault: compute-sanitizer finds the place; dmesg shows the driver's Xid"},
    {CUDA_ERROR_NOT_PERMITTED, false, "the container or user lacks the right to use this GPU"},
    {CUDA_ERROR_SYSTEM_NOT_READY, false,
     "on machines with NVSwitch nvidia-fabricmanager must run: systemctl status "
     "nvidia-fabricmanager"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, false,
     "libcuda and the kernel module are of different versions: reboot, or start the container "
     "anew"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, false,
     "the compatibility libcuda works on data centre GPUs alone: take it out of LD_LIBRARY_PATH"},
    {CUDA_ERROR_UNKNOWN, true, "dmesg shows the driver's messages; a reboot may be needed"},
};

enum { RESULTS = sizeof results / sizeof *results };

bool gpu_is_fatal(CUresult result)
{
    for (int i = 0; i < RESULTS; i++)
        if (results[i].result == result)
            return results[i].fatal;
    return false;
}

static enum st refuse(const struct gpu *g, CUresult result, const char *call, const char *more,
                      struct err *e)
{
    const char *name = NULL;
    if (g->driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "an error";
    err_set(e, ST_DEVICE, "%s: %s (%d)%s", call, name, (int)result, more);
    for (int i = 0; i < RESULTS; i++)
        if (results[i].result == result && results[i].remedy)
            err_hint(e, "%s", results[i].remedy);
    return ST_DEVICE;
}

enum st gpu_check(const struct gpu *g, CUresult result, const char *call, struct err *e)
{
    return result == CUDA_SUCCESS ? ST_OK : refuse(g, result, call, "", e);
}

#define CHECK(g, call, ...) gpu_check(g, (g)->driver.call(__VA_ARGS__), #call, e)

/* ---- the device ------------------------------------------------------------------------------ */

static enum st open_device(int ordinal, struct gpu *g, struct err *e)
{
    int n = 0;
    TRY(gpu_cuda_open(&g->cuda, e));
    TRY(gpu_driver_open(&g->driver, e));
    TRY(gpu_check(g, (CUresult)g->cuda.cuDriverGetVersion(&g->driver_version), "cuDriverGetVersion",
                  e));
    if (g->driver_version < 12000) {
        err_set(e, ST_DEVICE, "the driver speaks CUDA %d.%d", g->driver_version / 1000,
                g->driver_version % 1000 / 10);
        return err_hint(e, "CUDA 12.0 (driver 525) or newer is needed");
    }
    TRY(gpu_check(g, (CUresult)g->cuda.cuDeviceGetCount(&n), "cuDeviceGetCount", e));
    if (ordinal < 0 || ordinal >= n) {
        err_set(e, ST_DEVICE, "there is no GPU %d: the driver shows %d", ordinal, n);
        return err_hint(e, "nvidia-smi -L lists the GPUs; they count from 0");
    }
    TRY(gpu_check(g, (CUresult)g->cuda.cuDeviceGet(&g->device, ordinal), "cuDeviceGet", e));
    if (!gpu_device_facts(&g->cuda, ordinal, &g->facts))
        return err_set(e, ST_DEVICE, "the driver gives no facts of GPU %d", ordinal);
    g->ordinal = ordinal;
    TRY(CHECK(g, cuDevicePrimaryCtxRetain, &g->context, g->device));
    TRY(CHECK(g, cuCtxSetCurrent, g->context));
    return CHECK(g, cuMemGetInfo_v2, &g->free_bytes, &g->total_bytes);
}

enum st gpu_open(int ordinal, struct gpu *out, struct err *e)
{
    *out = (struct gpu){0};
    if (open_device(ordinal, out, e) == ST_OK)
        return ST_OK;
    gpu_close(out);
    return err_add(e, "cannot open GPU %d", ordinal);
}

void gpu_close(struct gpu *g)
{
    if (g->context) {
        g->driver.cuCtxSetCurrent(g->context);
        g->driver.cuCtxSynchronize();
        g->driver.cuDevicePrimaryCtxRelease_v2(g->device);
    }
    *g = (struct gpu){0};
}

enum st gpu_use(const struct gpu *g, struct err *e)
{
    return CHECK(g, cuCtxSetCurrent, g->context);
}

enum st gpu_wait(const struct gpu *g, struct err *e)
{
    return CHECK(g, cuCtxSynchronize);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static enum st no_memory(const struct gpu *g, CUresult result, const char *call, size_t bytes,
                         const char *what, struct err *e)
{
    char wanted[STR_BYTES_MAX], free_text[STR_BYTES_MAX], total_text[STR_BYTES_MAX], more[128] = "";
    size_t free_bytes = 0, total = 0;
    str_from_bytes(wanted, (int64_t)bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY &&
        g->driver.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS) {
        str_from_bytes(free_text, (int64_t)free_bytes);
        str_from_bytes(total_text, (int64_t)total);
        snprintf(more, sizeof more, ": %s of %s are free on GPU %d", free_text, total_text,
                 g->ordinal);
    }
    refuse(g, result, call, more, e);
    return err_add(e, "cannot allocate %s, %s", what, wanted);
}

enum st gpu_alloc(const struct gpu *g, size_t bytes, const char *what, CUdeviceptr *out,
                  struct err *e)
{
    *out = 0;
    if (bytes == 0)
        return ST_OK;
    CUresult result = g->driver.cuMemAlloc_v2(out, bytes);
    return result == CUDA_SUCCESS ? ST_OK : no_memory(g, result, "cuMemAlloc", bytes, what, e);
}

void gpu_free(const struct gpu *g, CUdeviceptr *at)
{
    if (*at)
        g->driver.cuMemFree_v2(*at);
    *at = 0;
}

enum st gpu_free_bytes(const struct gpu *g, size_t *free_bytes, struct err *e)
{
    size_t total;
    return CHECK(g, cuMemGetInfo_v2, free_bytes, &total);
}

enum st gpu_host_alloc(const struct gpu *g, size_t bytes, const char *what, void **out,
                       struct err *e)
{
    *out = NULL;
    CUresult result = g->driver.cuMemHostAlloc(out, bytes ? bytes : 1, 0);
    if (result == CUDA_SUCCESS)
        return ST_OK;
    char wanted[STR_BYTES_MAX];
    str_from_bytes(wanted, (int64_t)bytes);
    refuse(g, result, "cuMemHostAlloc", "", e);
    return err_add(e, "cannot allocate %s, %s of page-locked host memory", what, wanted);
}

void gpu_host_free(const struct gpu *g, void **at)
{
    if (*at)
        g->driver.cuMemFreeHost(*at);
    *at = NULL;
}

enum st gpu_upload(const struct gpu *g, CUdeviceptr to, const void *from, size_t bytes,
                   CUstream stream, struct err *e)
{
    return bytes ? CHECK(g, cuMemcpyHtoDAsync_v2, to, from, bytes, stream) : ST_OK;
}

enum st gpu_download(const struct gpu *g, void *to, CUdeviceptr from, size_t bytes, CUstream stream,
                     struct err *e)
{
    return bytes ? CHECK(g, cuMemcpyDtoHAsync_v2, to, from, bytes, stream) : ST_OK;
}

enum st gpu_copy(const struct gpu *g, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                 CUstream stream, struct err *e)
{
    return bytes ? CHECK(g, cuMemcpyDtoDAsync_v2, to, from, bytes, stream) : ST_OK;
}

enum st gpu_fill(const struct gpu *g, CUdeviceptr to, unsigned char byte, size_t bytes,
                 CUstream stream, struct err *e)
{
    return bytes ? CHECK(g, cuMemsetD8Async, to, byte, bytes, stream) : ST_OK;
}
