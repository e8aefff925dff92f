/* calibration.json of a bundle: the parameters of the iteration model (iteration.h), fitted to runs
 * of a service, with the peaks they are fractions of and the settings they hold for.
 *
 *     {"schema_version": 1,
 *      "peaks": {"dram_gb_per_s": 3350, "link_gb_per_s": 450, "peak_tflops": {"bf16": 989.4}},
 *      "parallel": {"tp": 1, "pp": 1, "ep": 0},
 *      "formats": {"dtype": "bf16", "weights": "bf16", "multiply": "bf16", "kv": "bf16"},
 *      "settings": {"scheduler.policy": "vllm_0_33", "scheduler.batch_cap": 128},
 *      "parameters": {"weights_efficiency": {"value": 0.81, "sd": 0.02, "fitted": true}, ...},
 *      "covariance": [[...], ...]}
 *
 * parallel and formats must be those of the run, or the file is refused; settings that differ are
 * reported. A writer uses calibrated_node, whose members are these. */
#ifndef PROFILE_READ_CALIBRATED_H
#define PROFILE_READ_CALIBRATED_H

#include "profile/read/iteration.h"
#include "text/fields.h"

#define BUNDLE_CALIBRATION_FILE "calibration.json"

struct calibrated_param {
    double value;
    double sd;        /* of ln(value); 0 = not estimated */
    double low, high; /* 95 % interval of the value; NAN = unknown */
    bool fitted;      /* else it is the prior's */
};

struct calibrated {
    struct iteration_hardware hardware;
    int64_t tp, pp, ep;
    enum precision dtype, weights, multiply, kv;
    const struct node *settings; /* map: key of the configuration -> value; NULL = none stated */
    struct calibrated_param param[ITERATION_PARAMS];
    /* Of ln(value), in the order of enum iteration_param; 0 for those not fitted. NULL = absent,
     * else ITERATION_PARAMS rows of as many. */
    const struct doubles *covariance;
    size_t n_covariance;
    /* What the first batch of each shape takes more (sim/first_use.h), and its standard deviation;
     * NAN = nothing is known. */
    double first_use_s, first_use_sd_s;
    const struct node *residual; /* what was left over, as the writer says; NULL = not stated */
    const char *source;          /* what it was fitted to; NULL = not stated */
};

/* It says how uncertain its parameters are. */
bool calibrated_is_uncertain(const struct calibrated *c);
/* Parameters as another fit might have found them: by the covariance, or where there is none by the
 * sd of each. A value moves as an iteration's time does in it: seconds by 1 + x, efficiencies by
 * 1 / (1 - x), where x is what is drawn of its logarithm; all within their ranges. Host times that
 * were not fitted stay: the data said nothing of them because they did not show. */
struct calibrated *calibrated_drawn(struct arena *a, const struct calibrated *c, uint64_t seed);

struct iteration_params calibrated_params(const struct calibrated *c);

/* *out: NULL when there is no such file. ST_INPUT with file, line and column for members that are
 * missing or out of range, ST_INPUT naming both values where parallel degrees or formats are not
 * those given here (ep 0 and 1 are equal). */
enum st calibrated_load(struct arena *a, const char *path, const struct model *m, int64_t tp,
                        int64_t pp, int64_t ep, struct calibrated **out, struct err *e);
struct node *calibrated_node(struct arena *a, const struct calibrated *c);

#endif
