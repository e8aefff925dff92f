/* Any bytes as a trace file: read it, and every report over it, without harm. */
#ifndef FUZZ_TRACE_FILE_H
#define FUZZ_TRACE_FILE_H

#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "kernels/summary.h"

static void fuzz_reports(struct trace *t)
{
    struct kernels k;
    struct buf text = {0};
    struct arena *a = arena_new();
    for (size_t i = 0; i < t->ops.n; i++) {
        REQUIRE(t->ops.sig[i] < t->dict.n_sigs);
        REQUIRE(t->ops.call[i] == TRACE_NONE || t->ops.call[i] < t->calls.n);
        REQUIRE(t->ops.start_ns[i] <= t->ops.end_ns[i]);
        REQUIRE(i == 0 || t->ops.start_ns[i - 1] <= t->ops.start_ns[i]);
    }
    kernels_open(&k, t, NULL);
    for (const struct kernels_report *r = kernels_reports; r->name; r++)
        kernels_report_table(a, &k, r);
    kernels_markdown(&text, &k);
    kernels_operators_markdown(&text, &k);
    kernels_regions_markdown(&text, &k, NULL, 0);
    kernels_signatures_json(&text, &k);
    struct kernels_summary summary;
    kernels_summary_of(a, &k, "trace", &summary);
    kernels_timeline_json(&text, &summary.timeline);
    REQUIRE(kernels_gantt_ok(&summary.gantt));
    kernels_gantt_draw(&text, &summary.gantt, true);
    kernels_summary_json(&text, &summary);
    kernels_step_table(a, &k, &(struct kernels_step_params){.pattern = "*", .model = "m"});
    kernels_diff_table(a, &k, &k);
    REQUIRE(str_utf8_valid(buf_str(&text), text.n) == text.n);
    kernels_close(&k);
    buf_free(&text);
    arena_free(&a);
}

/* The file lives as long as the process: one name, written again for each input. */
static int fuzz_trace_file(const uint8_t *data, size_t size)
{
    static char path[64];
    struct trace t;
    struct err e = {0};
    if (!path[0])
        snprintf(path, sizeof path, "/tmp/twinfer_fuzz_%d", (int)getpid());
    FILE *f = fopen(path, "wb");
    REQUIRE(f && fwrite(data, 1, size, f) == size);
    fclose(f);
    if (trace_load(&t, path, NULL, &e) == ST_OK) {
        fuzz_reports(&t);
        trace_free(&t);
    } else {
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    }
    unlink(path);
    return 0;
}

#endif
