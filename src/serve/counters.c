/* struct serve_counters as `counters` of run_meta.json. */
#include "serve/serve.h"

#define COUNT(m, ...) FIELD(struct serve_counters, m, .optional = true, __VA_ARGS__)

static const struct field prefix_rows[] = {
    COUNT(prefix_looked_tokens),
    COUNT(prefix_hit_tokens),
    COUNT(prefix_evictions),
};
static const struct field speculation_rows[] = {
    COUNT(spec_steps),
    COUNT(spec_draft_tokens),
    COUNT(spec_accepted_tokens),
};
static const struct field transfer_rows[] = {
    COUNT(kv_transfers),
    COUNT(kv_transfer_bytes),
    FIELD_AS(struct serve_counters, kv_transfer_s, "kv_transfer_seconds", .optional = true),
    FIELD_AS(struct serve_counters, kv_transfer_wait_s, "kv_transfer_wait_seconds",
             .optional = true),
};
static const struct field release_rows[] = {
    COUNT(concurrency_mean),
    COUNT(concurrency_peak),
    COUNT(sessions),
};
static const struct fields release_fields = FIELDS(struct serve_counters, release_rows);
static const struct fields prefix_fields = FIELDS(struct serve_counters, prefix_rows);
static const struct fields speculation_fields = FIELDS(struct serve_counters, speculation_rows);
static const struct fields transfer_fields = FIELDS(struct serve_counters, transfer_rows);

static const struct field rows[] = {
    COUNT(iterations),
    COUNT(events),
    COUNT(requests),
    COUNT(rejected),
    COUNT(tokens),
    COUNT(prefill_tokens),
    COUNT(preemptions),
    COUNT(kv_blocks),
    COUNT(kv_blocks_peak),
    FIELD_PART(NULL, &prefix_fields, FIELD_IF(struct serve_counters, prefix_looked_tokens)),
    FIELD_PART(NULL, &speculation_fields, FIELD_IF(struct serve_counters, spec_steps)),
    FIELD_PART(NULL, &transfer_fields, FIELD_IF(struct serve_counters, kv_transfers)),
    FIELD_PART(NULL, &release_fields, FIELD_IF(struct serve_counters, follows)),
    COUNT(loop_seconds),
    FIELD_AS(struct serve_counters, end_s, "end_seconds", .optional = true),
};
const struct fields serve_counters_fields = FIELDS(struct serve_counters, rows);
