/* Roofs of the host: what the CPU engine's own kernels reach on all cores. */
#include <unistd.h>

#include "base/cpu_cache.h"
#include "doctor/roofs.h"
#include "engine/engine.h"

/* Several times the last cache, and at most a quarter of the free memory. */
static size_t stream_bytes(void)
{
    const size_t most = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 4;
    const int64_t cache = cpu_cache_bytes(3);
    size_t want = (size_t)256 << 20;
    if (cache > 0 && (size_t)cache * 8 > want)
        want = (size_t)cache * 8;
    return want < most ? want : most;
}

static void set_rate(struct roof *r, double *pass_s, double per_pass)
{
    for (int i = 0; i < ROOF_SAMPLES; i++)
        pass_s[i] = per_pass / pass_s[i];
    roof_set(r, pass_s, ROOF_SAMPLES);
}

enum st roofs_measure_host(const struct roofs_params *p, struct roofs *out, struct err *e)
{
    enum { ROWS = 256, SIZE = 2048 };
    double pass_s[ROOF_SAMPLES];
    const size_t bytes = stream_bytes();
    TRY(cpu_measure_read(0, bytes, ROOF_SAMPLES, pass_s, e));
    set_rate(&out->roof[ROOF_HOST_READ], pass_s, (double)bytes);
    out->roof[ROOF_HOST_READ].buffer_bytes = (double)bytes;
    TRY(roofs_stopped(p, e));
    TRY(cpu_measure_gemm(0, ROWS, SIZE, ROOF_SAMPLES, pass_s, e));
    set_rate(&out->roof[ROOF_HOST_GEMM_F32], pass_s, 2.0 * ROWS * SIZE * SIZE);
    out->roof[ROOF_HOST_GEMM_F32].size = SIZE;
    return roofs_stopped(p, e);
}
