/* What the copy of a batch's arrays costs: block tables among them are sent whole. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/bench.h"
#include "gpu/device.h"
#include "gpu/stream.h"

enum { RUNS = 201 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *s)
{
    qsort(s, RUNS, sizeof *s, compare);
    return s[RUNS / 2];
}

struct rig {
    struct gpu g;
    CUstream stream;
    CUevent begin, end;
    void *host;
    CUdeviceptr at;
};

static enum st time_size(struct rig *r, size_t bytes, struct err *e)
{
    double device_s[RUNS], host_s[RUNS];
    for (int i = 0; i < RUNS; i++) {
        TRY(gpu_event_record(&r->g, r->begin, r->stream, e));
        const int64_t from_ns = clock_mono_ns();
        TRY(gpu_upload(&r->g, r->at, r->host, bytes, r->stream, e));
        host_s[i] = ns_to_s(clock_mono_ns() - from_ns);
        TRY(gpu_event_record(&r->g, r->end, r->stream, e));
        TRY(gpu_event_wait(&r->g, r->end, e));
        TRY(gpu_event_s(&r->g, r->begin, r->end, &device_s[i], e));
    }
    printf("%9zu bytes: %7.2f us on the GPU, %6.2f us of the host\n", bytes, median(device_s) * 1e6,
           median(host_s) * 1e6);
    return ST_OK;
}

static enum st run(struct rig *r, struct err *e)
{
    const size_t most = (size_t)4 << 20;
    TRY(gpu_open(0, &r->g, e));
    TRY(gpu_stream_open(&r->g, &r->stream, e));
    TRY(gpu_event_open(&r->g, true, &r->begin, e));
    TRY(gpu_event_open(&r->g, true, &r->end, e));
    TRY(gpu_host_alloc(&r->g, most, "the arrays", &r->host, e));
    TRY(gpu_alloc(&r->g, most, "the arrays", &r->at, e));
    for (size_t bytes = 256; bytes <= most; bytes *= 4)
        TRY(time_size(r, bytes, e));
    return ST_OK;
}

int time_uploads(void)
{
    struct rig r = {.host = NULL};
    struct err e = {0};
    const enum st st = run(&r, &e);
    if (st != ST_OK)
        err_print(&e, "gpu_bench", stderr);
    if (r.g.context) {
        gpu_free(&r.g, &r.at);
        gpu_host_free(&r.g, &r.host);
        gpu_event_close(&r.g, &r.begin);
        gpu_event_close(&r.g, &r.end);
        gpu_stream_close(&r.g, &r.stream);
        gpu_close(&r.g);
    }
    return st != ST_OK;
}
