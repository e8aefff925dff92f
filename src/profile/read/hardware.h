/* The data sheet of the hardware that is measured or simulated: hardware= and its keys, with rows
 * in profile/read/options.c. Units are those of the keys. */
#ifndef PROFILE_READ_HARDWARE_H
#define PROFILE_READ_HARDWARE_H

#include "config/option.h"

struct hardware {
    const char *id; /* folder of the bundle: h200, a100, cpu */
    double memory_gb, reserved_gb, memory_margin, kv_cache_gb;
    double dram_gb_per_s;
    struct peak_tflops {
        double fp32, tf32, bf16, fp16, fp8, fp4, int8;
    } peak_tflops;                                      /* dense; 0 = not known, or none */
    double link_gb_per_s, pcie_gb_per_s, node_gb_per_s; /* of one device, one direction */
    int64_t link_gpus, gpus_per_node;                   /* 0 = not stated */
    double host_speed;                                  /* 0 = 1 */
    int64_t sms;
    double compute_capability;  /* 0 = not stated */
    const char *profile_root;   /* of bundles that ship with it; NULL = none */
    const char *network_device; /* folder of its network tables */
};

extern const struct option_section hardware_options;

#endif
