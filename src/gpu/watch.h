/* What a GPU's clocks, power and temperature are while something is measured, from NVML, sampled by
 * a thread of its own: a call of NVML takes milliseconds in a virtual machine.
 *
 * What NVML does not say is unknown: NAN, and 0 of `samples`. */
#ifndef GPU_WATCH_H
#define GPU_WATCH_H

#include "base/arena.h"
#include "gpu/nvml.h"
#include "text/node.h"

struct gpu_watch;

/* The GPU of that UUID ("GPU-1b2c..."), every interval_ms. Without NVML, or where it does not know
 * the GPU, a watch that sees nothing. */
void gpu_watch_open(const char *uuid, int interval_ms, struct gpu_watch **out);
void gpu_watch_close(struct gpu_watch **w);
/* What changes seldom; NAN or 0 where unknown. */
struct gpu_limits {
    char driver[80]; /* version */
    double power_limit_w, max_sm_mhz, max_memory_mhz;
    unsigned pcie_generation, pcie_lanes; /* in use now; links slow down while idle */
    bool mig;
};
struct gpu_limits gpu_watch_limits(struct gpu_watch *w); /* as they are now */

/* Of the samples since the last call, or since open. At least one where NVML answers. */
struct gpu_conditions {
    int64_t samples;
    double sm_mhz, sm_mhz_low;    /* median, lowest */
    double memory_mhz;            /* median */
    double power_w, power_w_high; /* median, highest of the newest reading at each sample */
    double celsius_high;
    unsigned long long reasons; /* NVML_REASON_... of all samples together */
};
struct gpu_conditions gpu_watch_take(struct gpu_watch *w);

/* {samples, sm_mhz, sm_mhz_low, memory_mhz, power_w, power_w_high, celsius_high, clock_limits}, as
 * files have it; clock_limits are the words of the reasons. */
struct node *gpu_conditions_node(struct arena *a, const struct gpu_conditions *c);

/* Words of reasons, "power cap, hardware slowdown"; "" = none. */
const char *gpu_reason_words(struct arena *a, unsigned long long reasons);
/* A thermal or hardware limit held the clocks down: a measurement under it is not the machine's. */
bool gpu_reasons_reject(unsigned long long reasons);

#endif
