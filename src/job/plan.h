/* The plan: every setting of one job, bound from the configuration, const after config_load.
 *
 * Settings of a stage stand in its own struct, with its rows beside it (config/option_rows.h), and
 * the plan holds that. What no stage reads alone stands here, with rows in job/options/ by the same
 * names. Strings are NULL when unset.
 *
 * To add a stage: its struct here, its section in the table of job/plan.c, where --help is to show
 * it. */
#ifndef JOB_PLAN_H
#define JOB_PLAN_H

#include "capture/capture.h"
#include "client/bench.h"
#include "config/option.h"
#include "deep/deep.h"
#include "engine/registry.h"
#include "engine/worker/worker.h"
#include "profile/read/hardware.h"
#include "replay/replay.h"
#include "serve/serve.h"
#include "server/server.h"
#include "text/node.h"
#include "trace/record.h"
#include "workload/workload.h"

enum plan_output { OUTPUT_FULL, OUTPUT_NONE };

struct plan {
    const char *out;
    int64_t seed, repeat;
    bool json;

    struct {
        int level; /* enum log_level of base/log.h */
    } log;
    const struct node *vars; /* the user's own values, for ${vars.x} */

    struct hardware hardware;
    struct {
        const char *name;          /* folder name in bundles and artifacts */
        const char *hub;           /* name on the Hugging Face hub, used in Vidur's folder names */
        const char *ref;           /* directory with config.json, weights, tokenizer.json */
        const char *family;        /* model_type to read the configuration as; NULL = its own */
        const struct node *config; /* Hugging Face keys; used when ref has none */
        const char *weights;       /* "random:<seed>" or NULL = ref's safetensors */
        const char *tokenizer;     /* path of tokenizer.json; NULL = ref's */
        const char *dtype, *kv_dtype; /* formats; NULL = what config.json says */
        /* Sizes of an opaque model (model/opaque.h); 0 = not set. */
        double weights_gb, workspace_gb;
        int64_t kv_bytes_per_token, window_kv_bytes_per_token, window, state_bytes_per_sequence;
        int64_t kv_heads, layers;
    } model;
    struct workload_settings workload;
    struct worker_params worker;
    struct serve_params serve;
    struct {
        int64_t tp, pp, ep;
        double expert_skew;
    } parallel;
    struct {
        const char *kind, *tables;
        int64_t block_size;            /* 0 = scheduler.block_size */
        const struct node *parameters; /* name -> value; NULL = none given */
        int request_overheads;         /* enum request_overheads_from of profile/read/overheads.h */
    } predictor;

    struct engine_settings engine;

    struct {
        struct texts folders;
        bool remove_partial, measure;
        const char *roofs;
        int64_t gpu;
    } doctor;

    const char *url;   /* of an OpenAI-style server */
    int chat_template; /* enum chat_template of model/chat_template.h */
    struct server_params server;
    struct texts goodput; /* "ttft:200", ... */
    struct client_bench_params client;

    struct {
        const char *root;
        int64_t max_tokens, max_batch, max_kv, samples, warmup;
        double time_budget_s, energy_budget_s;
        bool extend, energy;
        int measure;   /* all, calibration */
        int64_t folds; /* of `profile check` */
    } profile;

    struct {
        bool host_overhead;
        int64_t replicas_mc;
    } sim;

    struct texts slo; /* "ttft:500": limits on a request's latencies, ms */
    double slo_fraction;
    int64_t cores; /* 0 = all that the process may use */
    const char *launcher;
    struct {
        int64_t seeds;
        double tolerance, start_rate, load, max_rate, probe_s, probe_timeout_s;
        const char *resume;
        int64_t long_run; /* times as many requests; 0 = not looked for */
    } capacity;
    struct {
        struct texts from, iteration_log, server_log, stages, check, prior; /* of calibrate */
        const char *forward;
    } calibrate;
    struct {
        struct texts length; /* tokens */
    } fit;
    struct {
        const struct node *space; /* key -> list of values */
        struct texts loads;
    } search;

    struct {
        const char *real_run_dir, *sim_run_dir, *iteration_log;
        struct texts runs, spread;
        int gate;   /* 0 none, 1 slower */
        int token0; /* 0 exclude, 1 include */
        int cells;  /* 0 core, 1 all */
        double pass_percent, warn_percent;
    } compare;

    struct {
        int tokens, batches; /* enum plan_output */
        bool write_hydra_snapshot, vidur_metrics, time_series, perfetto;
    } output;

    struct {
        const char *log; /* of a server */
    } settings;

    struct {
        struct texts inputs; /* artifact directories */
    } report;

    struct {
        const char *trace, *against, *step, *composition, *step_table, *iteration_log;
        bool iterations;
        struct texts include, exclude, regions, exports, runs;
        double from_ms, to_ms;
        int64_t step_batch_size;
    } kernels;

    struct trace_record trace;
    struct capture_settings capture;
    struct replay_capsule_params replay;
    struct {
        int64_t prompts, prompt_tokens, tokens;
    } logits;

    struct {
        const char *power, *full, *isolated, *application, *application_power;
        const char *sampler;
        int64_t gpu;
        double idle_power, interval_s, duration_s, window_s, percent;
        bool context, record;
    } energy;

    struct deep_params deep;
};

#endif
