/* The simulator: the serving core with a predicting executor and the virtual clock. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "profile/read/bundle.h"
#include "serve/serve.h"

struct sim_params {
    const struct model *model;
    const struct bundle *bundle;
    bool host_overhead; /* add the bundle's host time per iteration */
};

/* An executor whose batches end after the predicted time. Lives in the arena; close() frees
 * nothing. */
struct executor sim_executor(struct arena *a, const struct sim_params *p);

/* Seconds the bundle predicts for a batch: device part, host part. */
void sim_predict(const struct sim_params *p, const struct op_list *ops, const struct batch *b,
                 double *device_s, double *host_s);

#endif
