#include "support/fake_spool.h"

#include <string.h>

#include "base/err.h"
#include "trace/spool.h"

enum { US = 1000, PUSH_STEP = 1, PUSH_PREFILL, START_OVERLAP, RANGES };

static const struct {
    int64_t at_us, run_us;
    const char *name;
    uint32_t grid;
} launches[] = {
    {5, 4, "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT", 64},
    {15, 2, "_ZN2at6native15elementwise_addIfEEvPfi", 16},
    {35, 6, "_ZN5flash10fwd_kernelILi128EEEvPf", 32},
    {55, 1, NULL, 0},
    {80, 1, NULL, 0},
};

static void define(struct spool_writer *w, const char *range, const char *host)
{
    const char *const texts[] = {
        "python3 serve.py", range ? range : "step bs=4", "prefill", "overlap", "LLM", "main",
        "NVIDIA H200"};
    for (uint32_t i = 0; i < 7; i++)
        ASSERT(trace_spool_add_string(w, i + 1, texts[i], strlen(texts[i])));
    if (host)
        ASSERT(trace_spool_add_string(w, 8, host, strlen(host)));
    ASSERT(trace_spool_add(w, SPOOL_PROCESS,
                           &(struct spool_process){.command = 1,
                                                   .rank = -1,
                                                   .host = host ? 8 : 0,
                                                   .driver_version = host ? 13000 : 0,
                                                   .cupti_version = host ? 130001 : 0}));
    ASSERT(
        trace_spool_add(w, SPOOL_THREADS, &(struct spool_thread){.id = 1, .tid = 101, .name = 6}));
    ASSERT(trace_spool_add(
        w, SPOOL_DEVICES,
        &(struct spool_device){.device = 0, .name = 7, .uuid = {1, 2}, .sms = 132}));
    for (uint32_t i = 0; i < 3; i++) {
        ASSERT(trace_spool_add_string(w, 10 + i, launches[i].name, strlen(launches[i].name)));
        struct spool_shape s = {.id = i + 1,
                                .name = 10 + i,
                                .context = 1,
                                .stream = 7,
                                .green_context = SPOOL_NONE,
                                .grid = {launches[i].grid, 1, 1},
                                .block = {128, 1, 1},
                                .registers = 40,
                                .dynamic_shared_bytes = 1024 * i};
        ASSERT(trace_spool_add(w, SPOOL_SHAPES, &s));
    }
}

static void add_range(struct spool_writer *w, int64_t shift_ns, int64_t step, int64_t from_us,
                      int64_t to_us, uint32_t which)
{
    int64_t t0 = FAKE_START_NS + shift_ns + step * FAKE_STEP_NS;
    static const uint8_t kinds[] = {0, SPOOL_PUSH_POP, SPOOL_PUSH_POP, SPOOL_START_END};
    struct spool_range r = {.start_ns = t0 + from_us * US,
                            .end_ns = to_us < 0 ? SPOOL_OPEN_NS : t0 + to_us * US,
                            .id = (uint32_t)(step * RANGES + which),
                            .text = which + 1,
                            .domain = which == PUSH_STEP ? 5 : 0,
                            .thread = 1,
                            .end_thread = 1,
                            .kind = kinds[which]};
    ASSERT(trace_spool_add(w, SPOOL_RANGES, &r));
}

static void add_work(struct spool_writer *w, int64_t shift_ns, int64_t step, uint32_t i)
{
    int64_t call = FAKE_START_NS + shift_ns + step * FAKE_STEP_NS + launches[i].at_us * US;
    int64_t start = call + 5 * US, end = start + launches[i].run_us * US;
    uint32_t correlation = (uint32_t)(step * 5 + i + 1);
    ASSERT(trace_spool_add(w, SPOOL_LAUNCHES,
                           &(struct spool_launch){.start_ns = call,
                                                  .end_ns = call + 2 * US,
                                                  .correlation = correlation,
                                                  .thread = 1,
                                                  .cbid = i < 3    ? 307
                                                          : i == 3 ? 277
                                                                   : 220}));
    if (i < 3)
        ASSERT(trace_spool_add(w, SPOOL_KERNELS,
                               &(struct spool_kernel){start, end, i + 1, correlation, 0}));
    else if (i == 3)
        ASSERT(trace_spool_add(w, SPOOL_COPIES,
                               &(struct spool_copy){.start_ns = start,
                                                    .end_ns = end,
                                                    .bytes = 4096,
                                                    .correlation = correlation,
                                                    .context = 1,
                                                    .stream = 7,
                                                    .source_device = SPOOL_NONE,
                                                    .target_device = SPOOL_NONE,
                                                    .copy_kind = 1,
                                                    .source_kind = 1,
                                                    .target_kind = 3}));
    else
        ASSERT(trace_spool_add(w, SPOOL_SETS,
                               &(struct spool_set){.start_ns = start,
                                                   .end_ns = end,
                                                   .bytes = 64,
                                                   .correlation = correlation,
                                                   .context = 1,
                                                   .stream = 7,
                                                   .memory_kind = 3}));
}

void fake_spool_write(const char *path, const struct fake_spool *f)
{
    struct spool_writer w;
    ASSERT(trace_spool_open(&w, path) == 0);
    define(&w, f->range, f->host);
    for (int64_t s = 0; s < f->steps; s++) {
        bool open = f->killed && s + 1 == f->steps;
        bool ranges = !f->only_kernels && (f->ranged == 0 || s % f->ranged == 0);
        if (ranges) {
            if (open || s % 3 == 2) /* as a recorder does with ranges that are open for long */
                add_range(&w, f->shift_ns, s, 0, -1, PUSH_STEP);
            add_range(&w, f->shift_ns, s, 1, 40, PUSH_PREFILL);
            add_range(&w, f->shift_ns, s, 30, 70, START_OVERLAP);
        }
        for (uint32_t i = 0; i < (f->only_kernels || f->no_copies ? 3 : 5); i++)
            add_work(&w, f->shift_ns, s, i);
        if (ranges && !open)
            add_range(&w, f->shift_ns, s, 0, 90, PUSH_STEP);
    }
    if (f->killed) {
        ASSERT(trace_spool_flush(&w));
        trace_spool_abandon(&w);
    } else {
        ASSERT(trace_spool_close(&w) == 0);
    }
}
