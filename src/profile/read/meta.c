#include "profile/read/meta.h"

#define T struct bundle_title
static struct node *run_type_node(struct arena *a, const void *title)
{
    (void)title;
    return node_str(a, "vidur_profile");
}

static const struct field title_rows[] = {
    FIELD_MADE("run_type", run_type_node),
    FIELD(T, model),
    FIELD(T, hardware_id),
    FIELD(T, created_at),
    FIELD(T, method),
    FIELD(T, tensor_parallel),
};
const struct fields bundle_title_fields = FIELDS(T, title_rows);
#undef T

/* Bundles of earlier versions have less: what a simulation can do without may be missing. */
#define NUMBER(T, m, ...) FIELD(T, m, .optional = true, __VA_ARGS__)

#define T struct bundle_operator
static const struct field operator_rows[] = {
    NUMBER(T, points),
    NUMBER(T, samples),
    NUMBER(T, loo_points),
    NUMBER(T, loo_error, .max = 1e6),
    NUMBER(T, loo_error_p90, .max = 1e6),
};
static const struct fields operator_fields = FIELDS(T, operator_rows);
#undef T

#define T struct bundle_class
static const struct field class_rows[] = {
    FIELD(T, x, .min = 1, .max = 1e9),
    FIELD(T, factor, .min = 0.1, .max = 10),
    NUMBER(T, error, .max = 1e6),
    NUMBER(T, drift, .max = 1e6),
    NUMBER(T, stall),
    NUMBER(T, batches),
    NUMBER(T, rounds, .min = 1, .max = 1e9, .otherwise = 1),
};
static const struct fields class_fields = FIELDS(T, class_rows);
#undef T

#define T struct bundle_prompt_batch
static const struct field prompt_batch_rows[] = {
    FIELD_AS(T, operator_name, "operator", .optional = true, .omit = true),
    FIELD(T, chunks, .min = 1, .max = 1e9),
    FIELD(T, tokens, .min = 1, .max = 1e9),
    FIELD(T, attn_prefill_s, .max = 1e6),
    NUMBER(T, samples),
};
static const struct fields prompt_batch_fields = FIELDS(T, prompt_batch_rows);
#undef T

#define T struct bundle_decode_beside
static const struct field beside_rows[] = {
    FIELD(T, per_key_s, .max = 1),
    FIELD(T, per_row_s, .max = 1),
    NUMBER(T, batches),
};
static const struct fields beside_fields = FIELDS(T, beside_rows);
#undef T

static const struct field beside_part_rows[] = {
    FIELD_MAP(struct bundle_meta, decode_beside, "decode_beside", &beside_fields, .optional = true),
};
static const struct fields beside_part_fields = FIELDS(struct bundle_meta, beside_part_rows);

#define KIND(kind, key)                                                                       \
    FIELD_MAPS(struct bundle_meta, iteration[kind].of, iteration[kind].n, key, &class_fields, \
               .optional = true)
static const struct field iteration_rows[] = {
    KIND(CALIBRATION_DECODE, "decode"),
    KIND(CALIBRATION_FIRST, "decode_first"),
    KIND(CALIBRATION_SECOND, "decode_second"),
    KIND(CALIBRATION_PROMPT, "prompt"),
    KIND(CALIBRATION_MIXED, "prompt_mixed"),
    FIELD_PART(NULL, &beside_part_fields, FIELD_IF(struct bundle_meta, has_decode_beside)),
};
static const struct fields iteration_fields = FIELDS(struct bundle_meta, iteration_rows);

const char *calibration_kind_name(unsigned kind)
{
    return iteration_rows[kind].key;
}

#define T struct bundle_host
static const struct field overlap_rows[] = {
    FIELD(T, launch_share, .max = 1),
    FIELD(T, prefill_launch_share, .max = 1),
    FIELD(T, answer_s, .max = 1),
};
static const struct fields overlap_fields = FIELDS(T, overlap_rows);

static const struct field host_rows[] = {
    NUMBER(T, samples),
    NUMBER(T, scale, .min = 0.1, .max = 10, .otherwise = 1),
    NUMBER(T, prefill_scale, .min = 0.1, .max = 10, .otherwise = 1),
    FIELD_PART(NULL, &overlap_fields, FIELD_IF(T, overlaps)),
};
static const struct fields host_fields = FIELDS(T, host_rows);
#undef T

#define T struct bundle_wake
static const struct field wake_rows[] = {
    FIELD(T, pause_s, .max = 1e6),
    FIELD_LIST(T, device_s, n_device, "device_s", .max = 1e6),
    FIELD_LIST(T, host_s, n_host, "host_s", .max = 1e6),
    FIELD(T, spread_s, .optional = true),
    NUMBER(T, samples),
};
static const struct fields wake_fields = FIELDS(T, wake_rows);
#undef T

#define T struct bundle_power_cap_row
static const struct field power_cap_row_rows[] = {
    FIELD(T, tokens, .min = 1, .max = 1e9),
    FIELD(T, rested_s, .min = 1e-9, .max = 1e6),
    FIELD(T, sustained_s, .min = 1e-9, .max = 1e6),
    NUMBER(T, rested_passes),
    NUMBER(T, sustained_passes),
    NUMBER(T, behind_s, .min = 1e-9, .max = 1e6),
    NUMBER(T, behind_passes),
};
static const struct fields power_cap_row_fields = FIELDS(T, power_cap_row_rows);
#undef T

#define T struct bundle_power_cap
static const struct field power_cap_rows[] = {
    FIELD(T, held),
    NUMBER(T, smoothing_s, .min = 1e-4, .max = 100),
    NUMBER(T, control_s, .min = 1e-4, .max = 100),
    NUMBER(T, decode_below, .min = 0, .max = 100),
    NUMBER(T, rest_below, .min = 0, .max = 100),
    NUMBER(T, decode_ratio, .min = 1, .max = 10),
    FIELD_MAPS(T, rows, n_rows, "rows", &power_cap_row_fields),
};
static const struct fields power_cap_fields = FIELDS(T, power_cap_rows);
#undef T

#define T struct bundle_meta
static const struct field power_cap_part_rows[] = {
    FIELD_MAP(T, power_cap, "power_cap", &power_cap_fields, .optional = true),
};
static const struct fields power_cap_part_fields = FIELDS(T, power_cap_part_rows);

static const struct field wake_part_rows[] = {
    FIELD_MAP(T, wake, "wake", &wake_fields, .optional = true),
};
static const struct fields wake_part_fields = FIELDS(T, wake_part_rows);

static const struct field meta_rows[] = {
    FIELD_KEYED(T, operators, n_operators, "operators", &operator_fields, .optional = true),
    FIELD_MAPS(T, prompt_batches, n_prompt_batches, "prompt_batches", &prompt_batch_fields,
               .optional = true),
    FIELD_PART("iteration", &iteration_fields, .optional = true),
    FIELD_MAP(T, host, "host", &host_fields, .optional = true),
    FIELD_PART(NULL, &wake_part_fields, FIELD_IF(T, has_wake)),
    FIELD_PART(NULL, &power_cap_part_fields, FIELD_IF(T, has_power_cap)),
};
const struct fields bundle_meta_fields = FIELDS(T, meta_rows);

static const struct field loop_rows[] = {
    FIELD_PART("iteration", &iteration_fields, .optional = true),
    FIELD_PART(NULL, &wake_part_fields, FIELD_IF(T, has_wake)),
};
const struct fields bundle_loop_fields = FIELDS(T, loop_rows);
#undef T

#define T struct bundle_first_use
static const struct field first_use_rows[] = {
    NUMBER(T, decode_s, .max = 1e3),
    NUMBER(T, prompt_s, .max = 1e3),
};
const struct fields bundle_first_use_fields = FIELDS(T, first_use_rows);
#undef T
