/* Writes all files of an analysed trace: reports, Markdown tables, unique kernels, timeline, Gantt
 * chart, kernels.json of it all, and on request iterations, the difference to another trace, other
 * formats. */
#ifndef KERNELS_ANALYSIS_FILES_H
#define KERNELS_ANALYSIS_FILES_H

#include "artifact/artifact.h"
#include "kernels/serving.h"

struct kernels_files {
    const char *const *regions; /* [n_regions] patterns, of regions.md */
    size_t n_regions;
    struct kernels_step_params step;      /* pattern NULL = no cpu_overheads.csv */
    const struct serving_result *serving; /* NULL = no iterations.csv */
    const char *against; /* another trace, before this one; NULL = no kernels_diff.* */
    const struct kernels_params *patterns; /* applied to that one too */
    const struct trace_window *window;     /* likewise */
    const char *trace;                     /* path of this one, for exports */
    const char *const *exports;            /* [n_exports] names of formats */
    size_t n_exports;
};

/* ST_USAGE: one of these formats cannot be written. */
enum st kernels_check_exports(const char *const *names, size_t n, struct err *e);

/* Writes into the folder being built. ST_INPUT: no iteration matches; the other trace cannot be
 * read. */
enum st kernels_write(const struct artifact *art, const struct kernels *k,
                      const struct kernels_files *p, struct err *e);

/* Number of names with operations: patterns and windows leave some without. */
int64_t kernels_names_in_use(const struct kernels *k);
int64_t kernels_gpu_time_ns(const struct kernels *k);
/* `reports` and `timeline` as a tree. NULL with e. */
struct node *kernels_figures_node(struct arena *a, const struct kernels *k, struct err *e);

#endif
