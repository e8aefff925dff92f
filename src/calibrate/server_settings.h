/* From what a vLLM server's log states (metrics/server_log.h) to settings of a simulation.
 *
 *     server_settings_of     what is taken, and what is not
 *     server_settings_node   the same by their keys in the configuration: scheduler.batch_cap
 *
 * Taken are degrees (tensor_parallel_size, pipeline_parallel_size, experts), limits
 * (max_num_batched_tokens is scheduler.token_budget, max_num_seqs scheduler.batch_cap,
 * max_model_len), the KV cache, prefix caching, asynchronous scheduling, which batches are CUDA
 * graphs and the largest that was captured, formats that the simulator knows. Not taken, and told:
 * several engines, formats by other names, prompts without chunks. The model's name is not taken,
 * for it often is a path on the server.
 *
 * "GPU KV cache size" counts tokens: as blocks it is taken where all layers have one kind of
 * attention and it is whole blocks of a size that is known; a server of other layers counts what a
 * request of max_model_len takes. */
#ifndef CALIBRATE_SERVER_SETTINGS_H
#define CALIBRATE_SERVER_SETTINGS_H

#include "calibrate/observed.h"
#include "metrics/server_log.h"

struct server_settings {
    struct observed_settings of;
    const char *const *doubts; /* what is stated and not taken; [n_doubts] */
    size_t n_doubts;
};

/* ST_INPUT: a server that decodes speculatively, which is not simulated. */
enum st server_settings_of(struct arena *a, const struct server_log *l, struct server_settings *out,
                           struct err *e);

/* Only what is stated. */
struct node *server_settings_node(struct arena *a, const struct observed_settings *s);

/* *all becomes what both state. ST_INPUT, with both: they contradict each other. `path`: where *all
 * is from. */
enum st server_settings_merge(const char *path, const struct observed_settings *s,
                              struct observed_settings *all, struct err *e);

#endif
