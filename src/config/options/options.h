/* The sections of the option table: one file each in this folder, with a row per field of struct
 * plan. Private to config/; others see config/option.h.
 *
 * To add an option: a field in config/plan.h and its row. To add a section: a file like its
 * neighbours and its name below, where --help is to show it. The order also is that of --cfg, and
 * the stable ids of runs are made from that: a row that moves gives every run another id.
 *
 * No default (def) is a value of its own where "not given" means something else than any number:
 * the serving core refuses a knob that was given and is not read, the workload takes what its
 * source has. Such defaults live in the groups under configs/. */
#ifndef CONFIG_OPTIONS_OPTIONS_H
#define CONFIG_OPTIONS_OPTIONS_H

#include <math.h>

#include "config/plan.h"

struct option_section {
    const struct option *rows;
    size_t n;
};

#define OPTION_SECTIONS(X) \
    X(job)                 \
    X(hardware)            \
    X(model)               \
    X(workload)            \
    X(scheduler)           \
    X(cluster)             \
    X(predictor)           \
    X(engine)              \
    X(server)              \
    X(client)              \
    X(worker)              \
    X(profile)             \
    X(sim)                 \
    X(search)              \
    X(calibrate)           \
    X(fit)                 \
    X(settings)            \
    X(compare)             \
    X(output)              \
    X(kernels)             \
    X(trace)               \
    X(replay)              \
    X(logits)              \
    X(energy)              \
    X(deep)                \
    X(nsys)                \
    X(ncu)                 \
    X(doctor)

#define OPTION_SECTION_EXTERN(name) extern const struct option_section options_##name;
OPTION_SECTIONS(OPTION_SECTION_EXTERN)

/* ---- a row's first word: key, type and place follow from the field ---- */

#define KEY(field) KEY_AT(#field, field)
#define KEY_AT(key_, field)                                         \
    .key = key_, .type = OPTION_TYPE(((struct plan *)NULL)->field), \
    .offset = offsetof(struct plan, field)
/* clang-format off */
#define OPTION_TYPE(field)                         \
    _Generic((field),                              \
             bool: OPT_BOOL,                       \
             int64_t: OPT_INT,                     \
             double: OPT_DOUBLE,                   \
             const char *: OPT_STR,                \
             int: OPT_ENUM,                        \
             struct option_list: OPT_LIST,         \
             const struct node *: OPT_MAP)
#define OPTION_SECTION(name, rows) \
    const struct option_section options_##name = {rows, sizeof(rows) / sizeof *(rows)}
/* clang-format on */

/* ---- sets of commands ---- */

enum {
    SIMULATES = CMD_SIMULATE | CMD_CAPACITY | CMD_SEARCH,
    DRIVES = CMD_BENCH | CMD_CAPACITY,        /* an engine */
    DRIVEN = DRIVES | CMD_PROFILE,            /* one of other people */
    RUNS = CMD_BENCH | SIMULATES,             /* serves a workload */
    ONE_RUN = CMD_BENCH | CMD_SIMULATE,       /* once, and writes that run */
    PLANS = RUNS | CMD_CALIBRATE | CMD_SERVE, /* makes batches with a policy */
    HOLDS = PLANS | CMD_FIT,                  /* asks what a device's memory holds */
    MAKES = CMD_WORKLOAD | RUNS,              /* may make a workload */
    RATED = CMD_WORKLOAD | ONE_RUN,           /* at a rate that is given */
    MODELS =
        MAKES | CMD_PROFILE | CMD_MODEL | CMD_LOGITS | CMD_CALIBRATE | CMD_FIT, /* needs a model */
    ARTIFACTS = MAKES | CMD_COMPARE | CMD_CALIBRATE | CMD_REPORT | CMD_MODEL | CMD_KERNELS |
                CMD_TRACE | CMD_CAPTURE | CMD_REPLAY | CMD_LOGITS | CMD_ENERGY |
                CMD_DEEP, /* writes one directory, named by out */
};

/* ---- conditions: .when = WHEN(IS("engine.kind", "cpu"), UNSET("url")) ---- */

/* clang-format off */
#define WHEN(...)          (const struct option_when[]){__VA_ARGS__, {0}}
#define IS(keys, values)   {keys, WHEN_IS, values, 0, false}
#define NOT(keys, values)  {keys, WHEN_NOT, values, 0, false}
#define SET(keys)          {keys, WHEN_SET, NULL, 0, false}
#define UNSET(keys)        {keys, WHEN_UNSET, NULL, 0, false}
/* The same of values from files. */
#define ALWAYS_IS(keys, values) {keys, WHEN_IS, values, 0, true}
#define ALWAYS_SET(keys)   {keys, WHEN_SET, NULL, 0, true}
#define ALWAYS_UNSET(keys) {keys, WHEN_UNSET, NULL, 0, true}

/* Batches are made here, not by a server or another program. */
#define OUR_BATCHES NOT("engine.kind", "openai|worker")
/* Where either may be asked for: the simulator, or an engine. */
#define SIMULATOR   {"engine.kind", WHEN_IS, "sim", CMD_CAPACITY | CMD_SERVE, false}
#define ENGINE      {"engine.kind", WHEN_NOT, "sim", CMD_CAPACITY, false}
/* serve writes a run where out= names its folder. */
#define RECORDED    {"out", WHEN_SET, NULL, CMD_SERVE, false}
/* clang-format on */

#endif
