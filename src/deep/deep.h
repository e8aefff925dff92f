/* A deep session: one command from a workload to a folder that explains where its time goes.
 *
 *     env.json, inputs.yaml        provenance, before anything runs
 *     logs/<step>.log              what each run printed
 *     timeline/                    spools of our recorder, or nsys/run.* where nsys was chosen
 *     ncu/raw.csv, ncu/<region>.csv
 *     kernels.md operators.md regions.md regions.json roofline.svg gantt.svg
 *     deep.json stakeholder_summary.md
 *
 * The command is run several times: unprofiled, once to warm up (the first run of a program on a
 * machine reads its files from the disk) and once as the baseline, which overheads count against;
 * under the recorder, and under Nsight Compute on the kernels that took most. It should do the same
 * each time. A tool that is missing, refuses or hangs costs its own part only: the step says why
 * and what to do. What a run started ends with it, in sessions of its own too. */
#ifndef DEEP_DEEP_H
#define DEEP_DEEP_H

#include <signal.h>

#include "artifact/artifact.h"
#include "deep/ncu.h"
#include "deep/nsys.h"
#include "deep/result.h"
#include "deep/roofs.h"
#include "model/model.h"

enum deep_timeline { DEEP_TIMELINE_TWINFER, DEEP_TIMELINE_NSYS, DEEP_TIMELINE_NONE };
enum deep_mode { DEEP_FULL, DEEP_LIGHT };

/* Rows: deep/options.c. */
struct deep_params {
    bool dry_run;
    const char *work;            /* a command of this program, in place of its path */
    bool baseline;               /* run it unprofiled first */
    bool warmup;                 /* and once more before that, to no account */
    int timeline;                /* enum deep_timeline */
    int mode;                    /* enum deep_mode: what the recorder records */
    const char *trace;           /* a timeline made before, of any format; NULL = none */
    const char *session;         /* folder of an earlier session, taken again; NULL = none */
    const char *against;         /* folder of one to compare kernel totals with; NULL = none */
    struct texts csv;            /* Nsight Compute's tables made before */
    int64_t top;                 /* kernels that ncu profiles and tables list */
    double max_overhead_percent; /* of the timeline, before it is repeated in light mode */
    double limit_s;              /* of each run; 0 = none */
    const struct node *stages;   /* deep/stages.h */
    struct texts regions, include, exclude, groups, inputs;
    struct nsys_settings nsys;
    struct ncu_settings ncu;
    bool ncu_enabled, ncu_by_region, ncu_query;
    const char *guest_library, *cupti; /* of the recorder; NULL = found */
    const char *roofs;                 /* a roofs.json; NULL = of hardware */
    /* no settings: */
    struct texts command; /* program and arguments; n = 0: only what trace and csv have */
    bool ours;            /* it is this program: each run gets an out= of its own */
    const struct hardware *hardware;
    const struct model *model; /* NULL = none: stages have no MFU */
    const volatile sig_atomic_t *stop;
};

extern const struct option_section deep_options;

/* ST_USAGE: nothing to do, a malformed tree of stages, an unknown metric group. */
enum st deep_check(const struct deep_params *p, struct err *e);

/* The commands that a session would run, one argument a line, a comment before each. dir: its
 * folder. What a run finds out (top kernels, known metrics) is written as a placeholder. */
void deep_dry_run(struct arena *a, const struct deep_params *p, const char *dir, struct buf *out);

/* Runs it and writes into the folder being built. ST_INPUT: a given trace or table cannot be read.
 * ST_REJECTED: the command or every tool failed; the files that explain it are written all the
 * same. ST_INTERRUPTED: stopped; the children are dead. */
enum st deep_run(struct arena *a, const struct deep_params *p, const struct artifact *art,
                 struct deep_result *out, struct err *e);

/* The figures as a document. stakeholder_summary.md is its Markdown, the page draws its figures
 * "timeline" and "roofline". It borrows the result's texts. */
struct document;
struct document *deep_document(struct arena *a, const struct deep_result *r, const char *title);
/* What shares are of: "elapsed", or "under Nsight Compute" where nothing says how long the program
 * ran. */
const char *deep_whole(const struct deep_result *r);
bool deep_timed(const struct deep_result *r); /* something does */
/* What it says of a bottleneck. */
const char *deep_paragraph(struct arena *a, const struct deep_result *r, size_t bottleneck);
/* "GPU time 14.456 to 14.511 ms (+0.4 %). ...": how far a session repeats an earlier one. */
const char *deep_repeat_words(struct arena *a, const struct deep_repeat *r);

#endif
