/* bundle_meta.json: what a bundle says of itself beside its tables (docs/formats.md). Members that
 * are both written (profile/, calibrate/) and read (bundle.c, pages); what only people and reports
 * read is added by its writer. */
#ifndef PROFILE_READ_META_H
#define PROFILE_READ_META_H

#include "text/fields.h"

#define BUNDLE_META "bundle_meta.json"

/* Every bundle of ours begins with these. */
struct bundle_title {
    const char *model, *hardware_id;
    const char *created_at; /* ISO 8601 */
    const char *method;     /* in_context, passes, calibrated ... */
    int64_t tensor_parallel;
};
extern const struct fields bundle_title_fields; /* and run_type, the same of all */

/* How well an operator's points predict each other. */
struct bundle_operator {
    const char *name;
    int64_t points, samples;
    int64_t loo_points;              /* those that were left out and predicted from the others */
    double loo_error, loo_error_p90; /* of |predicted / measured - 1|; NAN = unknown */
};

/* A class of the calibration run (profile/calibration.h). */
struct bundle_class {
    double x;      /* mean sequences or tokens of its batches */
    double factor; /* measured / predicted by the tables */
    double error;  /* mean |measured - factor * predicted| / measured; NAN = unknown */
    double drift;  /* standard deviation over the rounds of ln(factor); NAN = unknown */
    double stall;  /* part of the factor that stalls are; NAN = unknown */
    int64_t batches, rounds;
};

/* Kinds of batches with factors of their own. Batches without chunks by their place in the train
 * of such batches: the first finds the caches as the prompt left them, the second and third partly
 * so. */
enum calibration_kind {
    CALIBRATION_DECODE,
    CALIBRATION_FIRST,
    CALIBRATION_SECOND,
    CALIBRATION_PROMPT,
    CALIBRATION_MIXED, /* chunks and decodes: the decodes' caches are as cold as those of a first */
};
enum { CALIBRATION_KINDS = CALIBRATION_MIXED + 1 };
const char *calibration_kind_name(unsigned kind); /* "decode", "decode_first", ... */

struct bundle_classes {
    struct bundle_class *of; /* [n], x ascending */
    size_t n;
};

struct bundle_host {
    int64_t samples;
    double scale, prefill_scale; /* mean / median of an iteration's host time; 1 = unknown */
    /* Of executors with several batches in flight (`overlaps`): the part of the host time that
     * comes after the device could begin, of iterations without chunks and with; what comes after
     * the device's end. */
    bool overlaps;
    double launch_share, prefill_launch_share, answer_s;
};

/* Extra time of the first iterations after a pause (profile/wake.h); no pauses: unknown. */
struct bundle_wake {
    struct doubles pause_s;            /* [levels] ascending */
    struct doubles *device_s, *host_s; /* [levels][iterations] */
    size_t n_device, n_host;           /* levels */
    struct doubles spread_s;           /* [levels] interquartile range of the first iteration */
    int64_t samples;                   /* of the level with the fewest */
};

/* A batch of equal prompts that fills the device (profile/grid.h). */
struct bundle_prompt_batch {
    const char *operator_name; /* "attn_prefill_full"; NULL = attn_prefill */
    int64_t chunks, tokens;    /* tokens of each */
    double attn_prefill_s;     /* median, of one repeat */
    int64_t samples;
};

/* A prompt of so many tokens at the clock of a device that rested, and at that of one that has done
 * nothing else for long. */
struct bundle_power_cap_row {
    int64_t tokens;
    double rested_s, sustained_s;
    double behind_s; /* right behind long prompts that have gone on for long; NAN = not measured */
    int64_t rested_passes, sustained_passes, behind_passes; /* these are medians of */
};
/* What the power limit does to the clock (profile/power_cap.h, read/power_cap.h). */
struct bundle_power_cap {
    bool held; /* false: it was measured, and the clock does not fall; the numbers are NAN */
    double smoothing_s, control_s, decode_below, rest_below, decode_ratio;
    struct bundle_power_cap_row *rows; /* tokens ascending */
    size_t n_rows;
};

/* Decode attention beside prompts (predict_decode_beside_s). */
struct bundle_decode_beside {
    double per_key_s, per_row_s; /* all layers */
    int64_t batches;             /* from so many of the calibration run */
};

struct bundle_meta {
    struct bundle_operator *operators;
    size_t n_operators;
    struct bundle_prompt_batch *prompt_batches; /* of GPUs; else none */
    size_t n_prompt_batches;
    struct bundle_classes iteration[CALIBRATION_KINDS];
    bool has_decode_beside;
    struct bundle_decode_beside decode_beside;
    struct bundle_host host;
    bool has_wake;
    struct bundle_wake wake;
    bool has_power_cap;
    struct bundle_power_cap power_cap;
};
extern const struct fields bundle_meta_fields;
extern const struct fields bundle_loop_fields; /* of these, what a calibration run says */

/* Of measured iterations: what the first batch of a shape takes more, without chunks and with. */
struct bundle_first_use {
    double decode_s, prompt_s; /* NAN = unknown */
};
extern const struct fields bundle_first_use_fields;

#endif
