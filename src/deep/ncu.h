/* Command lines of Nsight Compute, and which metrics it knows. Private to deep/. */
#ifndef DEEP_NCU_H
#define DEEP_NCU_H

#include "deep/argv.h"

struct ncu_settings {
    const char *path;             /* the program: a name looked up in PATH, or a path */
    const char *target_processes; /* all, application-only */
    const char *replay;           /* kernel, application, range, app-range */
    const char *clock_control;    /* none, base */
    const char *set;              /* of sections: roofline, full, ...; NULL = none */
    struct texts sections;
    struct texts metrics;                    /* with their suffixes: dram__bytes_read.sum */
    bool nvtx;                               /* notes the ranges around each launch */
    struct texts nvtx_include, nvtx_exclude; /* in ncu's syntax: "decode/" is a push/pop range */
    const char *kernel_name; /* regular expression; NULL = the top kernels of the timeline */
    const char *filter_mode; /* what launch_skip and launch_count count: global, per-gpu,
                                per-launch-config (ncu 2024.1 and newer); NULL = ncu's default */
    int64_t launch_skip, launch_count; /* of the matching ones; 0 = none, all */
    struct texts args;                 /* further arguments */
};

/* ncu around the command; its table goes to csv (--page raw), names of kernels mangled. regex: the
 * kernels to profile, by mangled name; NULL = all, or settings.kernel_name. region: a range in
 * ncu's syntax that is profiled alone; NULL = settings.nvtx_include. */
void ncu_command(struct argv *v, const struct ncu_settings *s, struct texts metrics,
                 const char *regex, const char *region, const char *csv, struct texts command);

/* The metrics of this machine's GPUs: of hardware counters, of the launch. */
void ncu_query(struct argv *v, const struct ncu_settings *s, bool of_launch);
/* Of wanted metrics those that the queries' output names. Both texts empty: all. */
struct texts ncu_known(struct arena *a, struct texts wanted, const char *counters,
                       const char *launch);

/* "^(_Z4gemm.*|...)$": exactly these names. Names that do not fit in NCU_REGEX_BYTES are left out
 * from the end; *n_used says how many are in. */
enum { NCU_REGEX_BYTES = 64 << 10 };
const char *ncu_regex(struct arena *a, const char *const *names, size_t n, size_t *n_used);
/* A push/pop range for --nvtx-include from a pattern with '*' and '?': decode becomes
 * "decode/", with patterns a regular expression. What means something in ncu's syntax is escaped.
 */
const char *ncu_range(struct arena *a, const char *pattern);

/* The table of a region, NULL = of all: "<dir>/ncu/prefill_sam.csv", "<dir>/ncu/raw.csv". */
const char *ncu_csv_path(struct arena *a, const char *dir, const char *region);

#endif
