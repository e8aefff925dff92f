/* The model of an iteration: what a batch takes on a model, hardware and parallelism, from work,
 * peak rates and twenty-two parameters. One model with three sources of parameters: defaults
 * (predictor=roofline), a fit (calibration.json), the draws of that fit's covariance.
 *
 *     shape  <- model's operator list, peaks, degrees   once     iteration_shape()
 *     terms  <- shape, a batch, a pipeline stage        a batch  iteration_terms()
 *     time   <- terms, parameters                       cheap    iteration_time(), and gradient
 *
 * Terms are seconds at peak rates, and counts; they do not depend on the parameters, so a fit
 * computes them once.
 *
 *     host   = iteration_s + sequence_s (rows + chunks) + chunk_s chunks + token_s tokens
 *            + launch
 *     launch = piece_layer_s layers                          of a batch in pieces,
 *              kernel_layer_s layers + kernel_experts_s layers with experts   kernel by kernel,
 *              the mean of launches that are now and then delayed (launching_unevenness)
 *     device = L(gemm_weights / weights_efficiency, gemm_compute / compute_efficiency)
 *            + L(expert_weights / experts_weights_efficiency, expert_compute / experts_efficiency)
 *            + the same as the first of the LM head's
 *            + L(decode_kv / kv_efficiency, decode_compute / attention_efficiency)
 *            + L(prefill_kv / kv_efficiency, prefill_compute / attention_efficiency)
 *            + activations / activation_efficiency
 *            + layer_s layers + experts_layer_s layers with experts
 *            + row_layer_s decode rows in layers
 *            + collective_s collectives + link / link_efficiency
 *     answer = answer_s
 *     L(a, b) = (a^4 + b^4)^(1/4): the larger of both, 1.19 times it where they are equal
 *
 * The work is that of model/ops.c: FLOP and elements of the operators of one shard
 * (model/shard.h), elements times the bytes of their format. Of a device:
 *
 *     gemm         GEMMs of the layers and the router, over tokens; weights are read once
 *     experts      as many experts' weights as are hit (model_experts_hit)
 *     head         LM head, over rows
 *     decode, prefill   attention; its queries and outputs count as activations. Of layers that
 *                  differ also what an index reads and computes, whose scores are activations, and
 *                  states, read and written by each decode row and each chunk of a prompt
 *     activations  what the other operators read and write: norms, rope, KV save, residuals,
 *                  sampling; inputs and outputs of GEMMs are in their efficiencies
 *     collectives  at tp > 1 an all-reduce after each partial sum and the gathering of logits, at
 *                  ep > tp two all-to-alls per layer, at pp > 1 a send after all stages but the
 *                  last
 *     link         bytes that a device sends for them, by what joins the devices (links.h):
 *                  all-reduce 2 (tp - 1) / tp of the activations, gathering (tp - 1) / tp of the
 *                  logits, all-to-all (ep - 1) / ep of the pairs of token and expert, of the device
 *                  that receives or sends most of them, send the activations / tp
 *
 * The device works while the host launches, and is done no earlier; how a batch is launched is the
 * engine's (launching.h), and where nothing is known of that, launch and answer are 0. Batches that
 * are graphs compute as many tokens as were captured. Each stage launches its layers itself: a
 * later one takes at least as long.
 *
 * Layers, and what is per layer, are spread over the stages (model/shard.h); where layers differ a
 * stage has the work of the kinds that it holds. The first has the
 * embedding and the host's time, the last the LM head. At ep > tp a sequence lives on one group,
 * and a layer takes as long as on the group with most to do (iteration_batch.group); experts take
 * as long as on the busiest of the ep devices, which hold them whole (model/expert_load.h).
 *
 * Accuracy: of an iteration whose parts overlap, or whose kernels change with the size, no more
 * than these parameters can say; calibration.json states what was left over. */
#ifndef PROFILE_READ_ITERATION_H
#define PROFILE_READ_ITERATION_H

#include "model/expert_load.h"
#include "profile/read/launching.h"
#include "profile/read/links.h"

/* ---- parameters ------------------------------------------------------------------------------ */

/* Efficiencies are fractions of a peak, in (0, 1.2]; launch_spread and cold_launch are numbers;
 * others are seconds, >= 0. */
enum iteration_param {
    ITERATION_WEIGHTS_EFFICIENCY,         /* of hardware.dram_gb_per_s, reading weights */
    ITERATION_EXPERTS_WEIGHTS_EFFICIENCY, /* the same, of experts */
    ITERATION_KV_EFFICIENCY,              /* of the same, reading keys and values */
    ITERATION_ACTIVATION_EFFICIENCY,      /* of the same, activations */
    ITERATION_COMPUTE_EFFICIENCY,         /* of the peak of the format that GEMMs multiply in */
    ITERATION_EXPERTS_EFFICIENCY,         /* the same, in the grouped products of experts */
    ITERATION_ATTENTION_EFFICIENCY,       /* of the peak of the activations' format, in attention */
    ITERATION_LINK_EFFICIENCY,            /* of hardware.link_gb_per_s */
    ITERATION_COLLECTIVE_S,               /* latency of one collective */
    ITERATION_LAYER_S,                    /* gaps between the kernels of a layer */
    ITERATION_EXPERTS_LAYER_S,            /* the same of experts: sorting, more kernels */
    ITERATION_ROW_LAYER_S,      /* of a decode row in a layer's attention, however short it is */
    ITERATION_ITERATION_S,      /* host, per iteration */
    ITERATION_SEQUENCE_S,       /* host, per decode row and per chunk */
    ITERATION_CHUNK_S,          /* host, per prefill chunk, besides */
    ITERATION_TOKEN_S,          /* host, per token computed */
    ITERATION_PIECE_LAYER_S,    /* host, to launch a layer in pieces */
    ITERATION_KERNEL_LAYER_S,   /* host, to launch a layer kernel by kernel */
    ITERATION_KERNEL_EXPERTS_S, /* host, to launch a layer's experts so, besides */
    ITERATION_LAUNCH_SPREAD,    /* mean delay of these three over their least */
    ITERATION_COLD_LAUNCH, /* more of launching kernel by kernel behind another kind of batch */
    ITERATION_ANSWER_S,    /* host, from the device's end to the tokens */
    ITERATION_PARAMS,
};

struct iteration_params {
    double v[ITERATION_PARAMS];
};

/* What a parameter belongs to. */
enum {
    ITERATION_OF_HOST = 1,      /* a time of the host: it follows the host's speed */
    ITERATION_OF_STEP = 2,      /* of the host's work beside the device, before it launches */
    ITERATION_OF_LAUNCHING = 4, /* counts where it is known how the engine launches */
    ITERATION_OF_EXPERTS = 8,   /* counts for models with experts */
    ITERATION_OF_LINKS = 16,    /* counts for more than one device */
    ITERATION_EFFICIENCY = 32,  /* a fraction of a peak */
    ITERATION_OPTIONAL = 64,    /* files of before it was known have no such parameter */
};

/* A row per parameter: what files and tables call it, its range, and how far the defaults may be
 * off. */
struct iteration_param_info {
    const char *name; /* "weights_efficiency" */
    const char *unit; /* "1" or "s" */
    double min, max;
    double default_sd; /* of ln(true / default): a prior for fits */
    unsigned of;       /* flags of above */
    const char *help;  /* with the source of the default */
};
bool iteration_param_is(int i, unsigned of); /* has one of these flags */
extern const struct iteration_param_info iteration_param_table[ITERATION_PARAMS];
bool iteration_param_find(struct sv name, enum iteration_param *out);

/* Defaults, by the format that GEMMs multiply in; docs/methodology.md has their sources. Nothing in
 * them was fitted to a run of a serving engine that they are judged by. */
struct iteration_params iteration_defaults(enum precision multiply);
/* The same with the times of a host that is so many times as fast as those that the defaults are of
 * (hardware.host_speed). */
struct iteration_params iteration_defaults_on(enum precision multiply, double host_speed);

/* ---- hardware -------------------------------------------------------------------------------- */

/* Peaks of one device; 0 = unknown. */
struct iteration_hardware {
    double dram_bytes_per_s;
    double flop_per_s[PRECISIONS]; /* dense */
    double host_speed;             /* hardware.host_speed; 0 = 1 */
    struct links_hardware links;
};

/* ---- shape ----------------------------------------------------------------------------------- */

/* Keys of queries that see fewer than all: seconds per unit of one span_load (model.h). */
struct iteration_span {
    double decode_kv_s, decode_pair_s;
    double prefill_kv_s, prefill_pair_s;
    double score_s; /* activations: of a pair of a query and an index's key */
};

/* Work of one device, as seconds at peak rates per unit of load: of the whole model, or, where
 * layers differ, of the layers of one stage. */
struct iteration_work {
    double gemm_weights_s, gemm_token_s;
    double expert_weights_s; /* one expert's, all layers; of a shard of it */
    double expert_token_s;   /* compute of one token, through all its experts */
    double head_weights_s, head_row_s;
    double decode_kv_token_s, decode_pair_s;   /* per key read; per query and key */
    double prefill_kv_token_s, prefill_pair_s; /* the same */
    double prefill_key_s; /* per key read that was cached before: latent vectors made keys again */
    double layer_fixed_s; /* activations of the layers: norm weights, biases */
    double layer_token_s, layer_expert_token_s;
    double first_token_s, last_row_s;             /* activations before and after the layers */
    double expert_layers;                         /* layers with experts */
    double decode_row_s, prefill_token_s;         /* queries and outputs of attention */
    double layer_collectives, layer_link_token_s; /* all layers */
    double all_to_alls, all_to_all_pair_s;        /* all layers; per token and expert */
    double head_collectives, head_link_row_s;

    /* Of models whose layers differ. */
    int32_t n_spans;
    double score_s; /* as in iteration_span, of those that see all */
    struct iteration_span spans[SPANS_MOST];
    double state_s;              /* a sequence's states, read or written */
    double state_decode_token_s; /* compute; */
    /* of prompts as kernels reach it (model/state_ops.h), times attention's default efficiency */
    double state_prompt_token_s;
    double state_piece_token_s; /* of a token of the longest chunk, the least; likewise */
};

struct iteration_shape {
    int64_t stages, groups, tp;
    double host_speed;
    struct launching launching;
    struct expert_load load;   /* of the busiest device, where groups share experts, or skewed */
    bool skewed;               /* experts_hit is load's on one device, too */
    const struct model *model; /* borrowed */
    double experts, experts_per_token; /* of the model; 0 = none */
    struct iteration_work work;        /* of all layers */
    struct iteration_work *by_stage;   /* [stages] of models whose layers differ; NULL = in parts */
    struct links links;
    double send_token_bytes; /* to the next stage */
};

/* skew: how unevenly tokens choose experts (model/expert_load.h); 0 = evenly. ST_USAGE for degrees
 * that do not divide the model (shard_check) and for peaks that are needed and unknown, by name:
 * "hardware.dram_gb_per_s". What out points to lives in a. */
struct iteration_degrees {
    int64_t tp, pp; /* >= 1 */
    int64_t ep;     /* 0 or 1 = the shards */
    double expert_skew;
    struct launching launching; /* of the engine */
};
enum st iteration_shape(struct arena *a, const struct model *m, const struct iteration_hardware *hw,
                        const struct iteration_degrees *degrees, struct iteration_shape *out,
                        struct err *e);

/* ---- a batch --------------------------------------------------------------------------------- */

struct iteration_batch {
    struct op_load load; /* of the whole batch */
    int64_t chunks;      /* prefill chunks */
    int64_t queries;     /* tokens of a decode row: 1 + drafts; 0 = 1 */
    /* Of the group with most to do, at ep > tp. NULL = not known: sequences are dealt evenly, all
     * chunks alike; chunks 0 beside prompts: their number is not known, and groups have equal parts
     * of them. */
    const struct op_load *group;
};

struct iteration_terms {
    /* s at peak rates */
    double gemm_weights, gemm_compute;
    double expert_weights, expert_compute;
    double head_weights, head_compute;
    double decode_kv, decode_compute;
    double prefill_kv, prefill_compute;
    double activations, link;
    /* counts; those of the host are 0 on all stages but the first */
    double layers, expert_layers, row_layers, collectives;
    double piece_layers, kernel_layers, kernel_experts; /* launched so */
    double iterations, sequences, chunks, tokens, answers;
};

/* Of one stage, 0 .. stages - 1. */
void iteration_terms(const struct iteration_shape *s, const struct iteration_batch *b,
                     int64_t stage, struct iteration_terms *out);

struct iteration_time {
    double host_s, device_s;
    double launch_s; /* the last part of host_s, beside the device */
    double answer_s; /* besides */
    double cold_s;   /* more of launch_s behind a batch that was not launched kernel by kernel */
};
/* gradient: d(host + device) / d(parameter), [ITERATION_PARAMS]; NULL = not needed. */
struct iteration_time iteration_time(const struct iteration_params *p,
                                     const struct iteration_terms *t, double *gradient);

#endif
