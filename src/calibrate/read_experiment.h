/* experiment.json of a record of inference-perf: what was sent, and to which server.
 * docs/formats.md has its members, and the other names that they may have. What it does not state
 * and vLLM has a default for is assumed, and said so in doubts; members that are not known here are
 * named there too, as a prediction holds without them. */
#ifndef CALIBRATE_READ_EXPERIMENT_H
#define CALIBRATE_READ_EXPERIMENT_H

#include "calibrate/observed.h"

struct planned_stage {
    double rate, duration;
    int64_t concurrency, requests; /* of a closed loop; 0 = open loop */
};

/* groups 0: prompts share nothing, and none is sent twice. 0 tokens asked, -1 planned: unknown. */
struct prompts {
    int64_t groups, prompts_per_group, system_prompt_tokens, question_tokens, output_tokens_asked;
};

/* inference-perf's "constant" draws exponential gaps too, and scales them so that they last as long
 * as the stage (its ConstantLoadTimer, in every version seen). Its records show it: from the first
 * request to the last 599.61 to 599.96 s of 600 passed at 8/s, where even gaps are 599.875. */
enum arrival_spacing { EVEN, POISSON };

struct experiment {
    const char *path;
    struct observed_settings settings;
    enum arrival_spacing arrivals;
    bool ignore_eos;
    const char
        *load; /* a kind of load without rates or concurrency: requests alone tell; or NULL */
    struct prompts prompts;
    struct planned_stage *stages;
    size_t n_stages;
    const char *const *doubts; /* [n_doubts] */
    size_t n_doubts;
};

/* inference-perf's own config.yaml where no experiment.json stands beside it: what was sent. It
 * says nothing of the server: settings are those of the command line. Stages that it does not have
 * (a sweep's) are those of the files, as `stages` of them say what was sent. */
enum st experiment_of_config(struct arena *a, const char *dir, struct experiment *out,
                             struct err *e);

enum st experiment_no_load(const struct experiment *x, struct err *e); /* refuses x->load */

/* Of the folder dir. ST_INPUT, at its place: what is missing or wrong, and servers that no single
 * replica stands for. */
enum st experiment_read(struct arena *a, const char *dir, struct experiment *out, struct err *e);

/* Number formats of weights and of keys and values, by vLLM's and TensorRT-LLM's words for them.
 * ST_INPUT: a word that is not known. */
enum st experiment_formats(const struct node *map, const char *weights, const char *kv,
                           struct observed_settings *out, struct err *e);

void experiment_doubt(struct arena *a, struct experiment *x, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

#endif
