/* From samples to the files of a bundle. Columns: docs/formats.md. */
#ifndef PROFILE_WRITE_H
#define PROFILE_WRITE_H

#include "profile/calibration.h"
#include "profile/grid.h"
#include "profile/journal.h"
#include "profile/profile.h"
#include "profile/wake.h"

struct profile_result {
    const struct profile_params *p;
    const struct grid_limits *limits;
    const struct point_list *points;
    const struct journal *journal;
    const struct wake *wake;
    struct calibration_scale scale[CALIBRATION_KINDS][CALIBRATION_CLASSES];
    struct calibration_rests rests;
    struct bundle_decode_beside decode_beside; /* batches 0: not known */
    int level[POINT_GROUPS];                   /* finest level that was measured */
    bool split;    /* executors with EXEC_OP_SPLIT: gaps are measured, and tables of their own for
                      decode batches (cells.h) */
    bool overlaps; /* the executor has several batches in flight */
    int64_t rejected;         /* samples: the device was disturbed */
    const struct node *facts; /* of the executor; NULL = none */
    int64_t left_out;         /* points of the coarsest grid that the budget could not hold */
    double measured_s;        /* operator time of all samples */
    struct contention contention;
    const struct node *sessions;
    const struct bundle_power_cap *power_cap; /* NULL = was not measured (power_cap.h) */
    const struct power_table *power;          /* NULL = energy was not measured (power.h) */
    const struct node *reference;             /* of all sessions; NULL = none (reference.h) */
};

/* The model's operators on one shard, and the gap where it is measured. */
void profile_ops(const struct profile_result *r, struct op_list *out);

/* Whether the point belongs to the bundle. */
bool profile_measured(const struct profile_result *r, int64_t point);

/* bundle_meta.json (write_meta.c); ops: those of profile_ops. */
struct node *profile_meta(struct arena *a, const struct profile_result *r,
                          const struct op_list *ops);

/* The journal in the compute folder. */
#define PROFILE_SAMPLES "samples.txt"

/* The compute folder, finished; it must not exist. */
enum st write_compute(struct arena *a, const struct profile_result *r, const char *dir,
                      struct err *e);
/* cpu_overheads.csv; nothing is written when there are no host samples. */
enum st write_host(struct arena *a, const struct profile_result *r, const char *path,
                   struct err *e);

/* Mean over median of repeated measurements: factor on a predicted sum. */
struct host_scale {
    double decode, prefill; /* 1 when unknown */
};
struct host_scale host_scale_of(struct arena *a, const struct journal *j);

#endif
