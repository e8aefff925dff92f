/* Predictors: durations of a batch on each pipeline stage.
 *
 *     bundle        from a profiling bundle (profile/read/bundle.h), no training
 *     vidur_tables  Vidur's own prediction tables and formula, for exact reproduction of its runs
 *     roofline      from the hardware's peaks and default efficiencies: uncalibrated, no bundle
 *
 * To add one: a file in this folder, a line in predictor.c. */
#ifndef SIM_PREDICTOR_H
#define SIM_PREDICTOR_H

#include "config/option.h"
#include "profile/read/bundle.h"
#include "serve/executor.h"

enum { PREDICTOR_VERSION = 1 };

struct stage_time {
    double host_s, device_s;
    double energy_j; /* of all its shards, without host_s; 0 = unknown */
    double wait_w;   /* power of its devices during host_s; 0 = unknown */
    /* With batches in flight beside each other: launch_s, the last part of host_s, in which the
     * device already works at the batch; answer_s, besides, from the device's end to the tokens. */
    double launch_s, answer_s;
    double cold_s;   /* more of launch_s and host_s where the batch before had none of it */
    bool one_thread; /* the thread that launches takes arrivals and tokens too */
    /* Part of device_s that goes with the clock of the device, 0 = not told; of it, the share of
     * decode attention in batches with chunks. */
    double operators_s, decode_share;
};

struct predictor_params {
    const struct model *model;
    int64_t tp; /* tensor-parallel degree */
    int64_t pp; /* pipeline stages */
    int64_t ep; /* devices that share the experts: 0 or 1 = the shards, else a multiple of tp that
                   divides the experts */
    double expert_skew; /* how unevenly tokens choose experts: model/expert_load.h; 0 = evenly */
    struct launching launching; /* roofline, calibrated: of the engine; */
    int64_t first_launch;       /* of its unevenness, in which the run begins */
    const double *host_pace;    /* by iteration, what its host takes of its times; NULL = these */

    const struct bundle *bundle;               /* bundle: loaded for that model, tp and pp */
    bool host_overhead;                        /* bundle: add its host time per iteration */
    const char *tables;                        /* vidur_tables: folder */
    const struct iteration_hardware *hardware; /* roofline: peaks; NULL = all unknown */
    /* roofline, calibrated: instead of the defaults, or the calibration's; NULL = these */
    const struct iteration_params *parameters;
};

struct predictor_ops {
    const char *name, *help;
    int version;            /* PREDICTOR_VERSION */
    bool needs_bundle;      /* of predictor_params */
    bool experts;           /* supports ep > 1 */
    bool experts_of_shards; /* its times hold experts that the shards of a group share out, ep = tp
                             */
    bool uncalibrated;      /* no measurement stands behind its times */
    bool verifies;          /* supports batches whose decode rows verify drafts */
    enum st (*open)(struct arena *a, const struct predictor_params *p, void **self, struct err *e);
    /* stages: [pp]. An error ends the run. */
    enum st (*predict)(void *self, const struct batch *b, struct stage_time *stages, struct err *e);
    /* optional: idle ramp-up, the extra time of batch k (from 0) after a pause of the first stage,
     * on that stage; wake_batches: number of such batches. */
    struct stage_time (*wake)(void *self, double pause_s, int k);
    int (*wake_batches)(void *self);
};

struct predictor {
    const struct predictor_ops *ops;
    void *self;
    int32_t stages;
    double idle_w; /* power of a stage's devices while it has no batch; 0 = unknown */
    /* What the power limit does to operators_s, by what ran before; NULL = nothing. Who runs the
     * batches keeps the state: predictions are without it. */
    const struct power_cap *power_cap;
};

extern const struct predictor_ops *const predictor_registry[];  /* NULL-terminated */
extern const struct option_capability predictor_capabilities[]; /* what rows of options ask */
/* ST_USAGE lists the known ones. */
enum st predictor_find(const char *name, const struct predictor_ops **out, struct err *e);

/* The params are copied; their pointers are borrowed. Lives in the arena. `bundle` opens
 * as what the bundle holds: out->ops is then predictor_calibrated or predictor_iterations where
 * that is whole iterations. */
enum st predictor_open(struct arena *a, const struct predictor_ops *ops,
                       const struct predictor_params *p, struct predictor *out, struct err *e);

/* Energy of the devices while no batch runs, in J: busy_s and end_s as in serve_counters. 0 when
 * the bundle has no operator energy. */
double predictor_idle_j(const struct predictor *p, int64_t replicas, double busy_s, double end_s);

/* bundle. Device: every operator of the forward pass, prefill attention summed over the chunks,
 * decode attention at the sum and the maximum of its rows' cache lengths (predict_decode_mixed_s),
 * and two all-reduces per layer at tp > 1. Layers are spread over the stages (model/shard.h), equal
 * parts of the sum where they are alike, sums of their own where they differ (bundle_stage); the
 * first has the embedding too, the last what depends on rows (LM head), all others pass their
 * activations on (send_recv). Host: per iteration, by number of sequences, for iterations with and
 * without prefill chunks, on the first stage; 0 without host_overhead. Rows that verify drafts:
 * attention is that of predict_verify_s; the other operators have 1 + draft_tokens tokens per row.
 *
 * Experts at ep > tp: of ep / tp groups of tp shards each has sequences of its own and an equal
 * part of the experts, whole. What depends on tokens, rows and attention is that of the group which
 * takes longest (sim/groups.h); experts take what the busiest device takes for its pairs and
 * experts (model/expert_load.h); tokens go to their experts and back by two all-to-alls per layer,
 * each as long as the device that receives or sends most. On other devices experts take what they
 * were measured to, and with expert_skew what fewer of them take.
 *
 * Energy, where the bundle has any: that of the operators, with the scale of their times, on every
 * shard, and idle power during all-reduce, send and the host time that the device waits for. After
 * a pause, with host_overhead: the bundle's idle ramp-up. */
extern const struct predictor_ops predictor_bundle;

/* The iteration model (profile/read/iteration.h), host time on the first stage; 0 without
 * host_overhead. roofline: with its default parameters for the model's format, or
 * params.parameters. calibrated: with the bundle's parameters and peaks. */
extern const struct predictor_ops predictor_roofline;
extern const struct predictor_ops predictor_calibrated; /* opened by name bundle */

/* The bundle's measured iterations (profile/read/iterations.h): one stage, no drafts. */
extern const struct predictor_ops predictor_iterations; /* opened by name bundle */

/* vidur_tables. The folder holds <op>.csv or <op>.csv.gz in ms, columns as Vidur caches them:
 * num_tokens,prediction of attn_pre_proj, attn_post_proj, attn_rope, attn_kv_cache_save,
 * input_layernorm, post_attention_layernorm, mlp_up_proj, mlp_act, mlp_down_proj, add, at tp > 1
 * all_reduce, at pp > 1 send_recv; batch_size,kv_cache_size,prediction of attn_decode;
 * kv_cache_size,prefill_chunk_size_squared,prediction of attn_prefill. Of equal keys the last row
 * counts.
 *
 * With T tokens in the batch, Tr = T rounded up to 8, all other lengths to 64; per stage, in ms:
 *     comm  = all_reduce[Tr] + 0.02 at tp > 1, else 0
 *     attn  = pre_proj + post_proj + rope + kv_cache_save[T] + decode + prefill + comm + input_norm
 *     mlp   = up_proj + down_proj + act + comm + post_attention_norm
 *     stage = (attn + mlp + add) layers / pp, plus send_recv[Tr] where it is not the last; pp
 * divides the layers decode = attn_decode[rows, mean of (cached tokens + 1), rounded down, then
 * up]; prefill = attn_prefill[sum of cached tokens, each rounded up; round(sqrt(sum of
 * chunk^2))^2]; each times 1.1 for more than one request if the model has fewer KV than query
 * heads. Sums are made in Vidur's order, so they are equal to its own to the last bit. No
 * embedding, LM head or host time. A batch outside the tables is an error, as in Vidur. */
extern const struct predictor_ops predictor_vidur_tables;

#endif
