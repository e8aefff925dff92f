/* Kernels of a trace, or of a part of it, with what Nsight Compute measured of them. Private to
 * deep/.
 *
 * A launch that ncu profiled belongs to the kernel of its name; names are compared demangled, and
 * where that fails by the function alone if only one kernel of the trace has it. ncu profiles a few
 * launches of each configuration (grid and block): the mean of a kernel weights its configurations
 * by how often the trace has them; one that was not profiled inside a stage or range is taken from
 * outside it. Without a trace, kernels are those that ncu profiled, and calls
 * the launches that it did. */
#ifndef DEEP_TABLE_H
#define DEEP_TABLE_H

#include "deep/argv.h"
#include "deep/figures.h"
#include "deep/stages.h"

struct deep_kernel {
    const char *name, *short_name; /* demangled; the function alone. Copies: "[CUDA memcpy ...]" */
    const char *label;             /* for tables: no two alike, trace/trace.h */
    const char *mangled;           /* as recorded; NULL = only ncu has it */
    uint8_t kind;                  /* enum trace_kind */
    int64_t calls, total_ns;
    int64_t running_ns; /* while at least one call ran, added up over processes; without a trace as
                           total_ns */
    int64_t timed;      /* of calls: those whose time is known, which total_ns is of */
    double share;       /* of all operations in the scope */
    int64_t profiled;   /* launches that ncu measured; 0 = none: no figures */
    double app_ns;      /* mean time in the trace of the configurations that ncu measured; NAN */
    struct deep_figures figures;
    struct deep_place place;
};

/* Joins ncu's launches to a trace once, for many tables. */
struct deep_join {
    const struct kernels *k;   /* NULL = no trace */
    const struct ncu_table *t; /* NULL = no ncu */
    const char **names;        /* [launches] demangled */
    const char **labels;       /* [launches] without a trace; NULL with one */
    uint32_t *name_of;         /* [launches] kernel of the trace, TRACE_NONE */
    size_t unmatched;          /* launches of kernels that the trace does not have */
};
struct deep_join deep_join_make(struct arena *a, const struct kernels *k,
                                const struct ncu_table *t);

struct deep_scope {
    const struct deep_stages *stages; /* NULL = all of the trace */
    int stage;                        /* of these, with its sub-stages; -1 = none: see pattern */
    bool any_stage;                   /* whatever is in any stage */
    const char *pattern;              /* ranges of this name; NULL = none */
    int64_t process, device;          /* index (without a trace: pid), number; -1 = all */
    struct texts include, exclude;    /* patterns of names, full or short */
};

/* By total time, longest first. *gpu_ns (may be NULL): of all operations in the scope. */
struct deep_kernel *deep_kernels_of(struct arena *a, const struct deep_join *j,
                                    const struct deep_scope *scope, const struct deep_roofs *roofs,
                                    size_t *n, int64_t *gpu_ns);

#endif
