#include "profile/read/iteration.h"

/* Ranges are wide: they keep fits away from nonsense, and refuse it in files. */
#define EFFICIENCY 1e-3, 1.2
#define SECONDS    0, 10

enum {
    HOST = ITERATION_OF_HOST,
    STEP = ITERATION_OF_STEP,
    LAUNCHING = ITERATION_OF_LAUNCHING,
    EXPERTS = ITERATION_OF_EXPERTS,
    LINKS = ITERATION_OF_LINKS,
    EFF = ITERATION_EFFICIENCY,
    OPTIONAL = ITERATION_OPTIONAL,
};

const struct iteration_param_info iteration_param_table[ITERATION_PARAMS] = {
    [ITERATION_WEIGHTS_EFFICIENCY] = {"weights_efficiency", "1", EFFICIENCY, 0.15, EFF,
                                      "part of the memory bandwidth at which weights are read"},
    [ITERATION_EXPERTS_WEIGHTS_EFFICIENCY] = {"experts_weights_efficiency", "1", EFFICIENCY, 0.15,
                                              EFF | EXPERTS | OPTIONAL,
                                              "part of the memory bandwidth at which experts' "
                                              "weights are read"},
    [ITERATION_KV_EFFICIENCY] = {"kv_efficiency", "1", EFFICIENCY, 0.3, EFF,
                                 "part of the memory bandwidth at which keys and values are read"},
    [ITERATION_ACTIVATION_EFFICIENCY] = {"activation_efficiency", "1", EFFICIENCY, 0.5, EFF,
                                         "part of the memory bandwidth at which activations move"},
    [ITERATION_COMPUTE_EFFICIENCY] = {"compute_efficiency", "1", EFFICIENCY, 0.2, EFF,
                                      "part of the arithmetic peak that GEMMs reach"},
    [ITERATION_EXPERTS_EFFICIENCY] = {"experts_efficiency", "1", EFFICIENCY, 0.4,
                                      EFF | EXPERTS | OPTIONAL,
                                      "part of the arithmetic peak that grouped products of "
                                      "experts reach"},
    [ITERATION_ATTENTION_EFFICIENCY] = {"attention_efficiency", "1", EFFICIENCY, 0.4, EFF,
                                        "part of the arithmetic peak that attention reaches"},
    [ITERATION_LINK_EFFICIENCY] = {"link_efficiency", "1", EFFICIENCY, 0.4, EFF | LINKS,
                                   "part of the link bandwidth that collectives reach"},
    [ITERATION_COLLECTIVE_S] = {"collective_s", "s", SECONDS, 0.5, LINKS,
                                "latency of a collective"},
    [ITERATION_LAYER_S] = {"layer_s", "s", SECONDS, 0.7, 0, "gaps between the kernels of a layer"},
    [ITERATION_EXPERTS_LAYER_S] = {"experts_layer_s", "s", SECONDS, 0.7, EXPERTS | OPTIONAL,
                                   "sorting and gaps between the kernels of a layer's experts"},
    [ITERATION_ROW_LAYER_S] = {"row_layer_s", "s", SECONDS, 0.7, OPTIONAL,
                               "time of a decode row in a layer's attention, without its keys"},
    [ITERATION_ITERATION_S] = {"iteration_s", "s", SECONDS, 0.7, HOST | STEP,
                               "host time of an iteration"},
    [ITERATION_SEQUENCE_S] = {"sequence_s", "s", SECONDS, 1, HOST | STEP,
                              "host time per decode row and per prefill chunk"},
    [ITERATION_CHUNK_S] = {"chunk_s", "s", SECONDS, 1, HOST | STEP,
                           "further host time per prefill chunk"},
    [ITERATION_TOKEN_S] = {"token_s", "s", SECONDS, 1, HOST | STEP, "host time per token computed"},
    [ITERATION_PIECE_LAYER_S] = {"piece_layer_s", "s", SECONDS, 0.4, HOST | LAUNCHING | OPTIONAL,
                                 "host time to launch a layer in pieces"},
    [ITERATION_KERNEL_LAYER_S] = {"kernel_layer_s", "s", SECONDS, 0.4, HOST | LAUNCHING | OPTIONAL,
                                  "host time to launch a layer kernel by kernel"},
    [ITERATION_KERNEL_EXPERTS_S] = {"kernel_experts_s", "s", SECONDS, 0.4,
                                    HOST | LAUNCHING | EXPERTS | OPTIONAL,
                                    "host time to launch a layer's experts so, besides"},
    [ITERATION_LAUNCH_SPREAD] = {"launch_spread", "1", 0, 1, 0.5, LAUNCHING | OPTIONAL,
                                 "mean delay of launching over its least"},
    [ITERATION_COLD_LAUNCH] = {"cold_launch", "1", 0, 10, 0.7, LAUNCHING | OPTIONAL,
                               "part by which launching kernel by kernel takes longer behind a "
                               "batch that was not launched so"},
    [ITERATION_ANSWER_S] = {"answer_s", "s", SECONDS, 0.5, HOST | LAUNCHING | OPTIONAL,
                            "host time from the device's end to the tokens"},
};

bool iteration_param_is(int i, unsigned of)
{
    return i < ITERATION_PARAMS && (iteration_param_table[i].of & of);
}

bool iteration_param_find(struct sv name, enum iteration_param *out)
{
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        if (sv_eq(name, iteration_param_table[i].name)) {
            *out = (enum iteration_param)i;
            return true;
        }
    }
    return false;
}

/* Parts of the peaks that GEMMs reach: reading weights for 1 to 16 tokens, and computing for 4,096
 * and more; and experts' for 8,192 and more. */
struct gemm {
    double weights, compute, experts_weights, experts;
};

static struct gemm gemm_of(enum precision multiply)
{
    switch (multiply) {
    case PRECISION_FP8:
    case PRECISION_INT8:
        return (struct gemm){0.75, 0.57, 0.88, 0.28};
    case PRECISION_FP4:
        return (struct gemm){0.63, 0.50, 0.87, 0.27};
    case PRECISION_FP32:
    case PRECISION_TF32:
    case PRECISION_BF16:
    case PRECISION_FP16:
    case PRECISION_INT4:
    case PRECISIONS:
        break;
    }
    return (struct gemm){0.85, 0.77, 0.92, 0.46};
}

struct iteration_params iteration_defaults(enum precision multiply)
{
    const struct gemm gemm = gemm_of(multiply);
    return (struct iteration_params){{
        [ITERATION_WEIGHTS_EFFICIENCY] = gemm.weights,
        [ITERATION_EXPERTS_WEIGHTS_EFFICIENCY] = gemm.experts_weights,
        [ITERATION_KV_EFFICIENCY] = 0.88,
        [ITERATION_ACTIVATION_EFFICIENCY] = 0.70,
        [ITERATION_COMPUTE_EFFICIENCY] = gemm.compute,
        [ITERATION_EXPERTS_EFFICIENCY] = gemm.experts,
        [ITERATION_ATTENTION_EFFICIENCY] = 0.50,
        [ITERATION_LINK_EFFICIENCY] = 0.60,
        [ITERATION_COLLECTIVE_S] = 6e-6,
        [ITERATION_LAYER_S] = 36e-6,
        [ITERATION_EXPERTS_LAYER_S] = 20e-6,
        [ITERATION_ROW_LAYER_S] = 0.1e-6,
        [ITERATION_ITERATION_S] = 1.5e-3,
        [ITERATION_SEQUENCE_S] = 15e-6,
        [ITERATION_CHUNK_S] = 100e-6,
        [ITERATION_TOKEN_S] = 0,
        [ITERATION_PIECE_LAYER_S] = 0.22e-3,
        [ITERATION_KERNEL_LAYER_S] = 0.73e-3,
        [ITERATION_KERNEL_EXPERTS_S] = 0.47e-3,
        [ITERATION_LAUNCH_SPREAD] = 0.40,
        [ITERATION_COLD_LAUNCH] = 0.19,
        [ITERATION_ANSWER_S] = 2.0e-3,
    }};
}

struct iteration_params iteration_defaults_on(enum precision multiply, double host_speed)
{
    struct iteration_params p = iteration_defaults(multiply);
    for (int i = 0; i < ITERATION_PARAMS; i++)
        if (host_speed > 0 && iteration_param_is(i, ITERATION_OF_HOST))
            p.v[i] /= host_speed;
    return p;
}
