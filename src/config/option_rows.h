/* What a table of settings is written with. A stage that reads settings has the fields in a struct
 * of its header and the rows in its options.c:
 *
 *     struct deep_params {                           deep/deep.h
 *         const char *session;
 *         ...
 *     extern const struct option_section deep_options;
 *
 *     #define SETTINGS struct deep_params            deep/options.c
 *     static const struct option rows[] = {
 *         {IN(deep, session), .commands = CMD_DEEP, .help = "folder of an earlier session"},
 *         ...
 *     OPTION_SECTION(deep, rows);
 *
 * struct plan (job/plan.h) holds the struct, and job/plan.c says so in a line of its table. Nothing
 * is copied on the way: the stage is given the struct that the configuration was bound to. What is
 * no setting (a model, a flag to stop) stays 0 until the command sets it in its copy. What no stage
 * reads alone has its rows in job/options/.
 *
 * Units and types are those of the key: the stage converts what it wants otherwise. No default
 * (def) is a value of its own where "not given" means something else than any number: the serving
 * core refuses a knob that was given and is not read, the workload takes what its source has. Such
 * defaults live in the groups under configs/. */
#ifndef CONFIG_OPTION_ROWS_H
#define CONFIG_OPTION_ROWS_H

#include <math.h>

#include "config/option.h"
#include "text/node.h"

/* ---- a row's first word: key, type and place follow from the field of SETTINGS ---- */

/* KEY(nsys.path): the field nsys.path; IN(deep, top): deep.top, the field top; AT: named apart. */
#define KEY(field)         AT(#field, field)
#define IN(section, field) AT(#section "." #field, field)
#define AT(key_, field) \
    .key = key_, .type = OPTION_TYPE(((SETTINGS *)NULL)->field), .offset = offsetof(SETTINGS, field)
/* clang-format off */
#define OPTION_TYPE(field)                         \
    _Generic((field),                              \
             bool: OPT_BOOL,                       \
             int64_t: OPT_INT,                     \
             double: OPT_DOUBLE,                   \
             const char *: OPT_STR,                \
             int: OPT_ENUM,                        \
             unsigned: OPT_ENUM, /* an enum */     \
             struct texts: OPT_LIST,               \
             const struct node *: OPT_MAP)
#define OPTION_SECTION(name, rows) \
    const struct option_section name##_options = {rows, sizeof(rows) / sizeof *(rows)}
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

/* ---- conditions: .when = WHEN(IS("engine.kind", "@gpu"), UNSET("url")) ----
 *
 * They ask members of registries for what they can do, never for their names: option_capability. */

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
#define OUR_BATCHES NOT("engine.kind", "@elsewhere")
/* Where either may be asked for: the simulator, or an engine. */
#define SIMULATOR   {"engine.kind", WHEN_IS, "@predicts", CMD_CAPACITY | CMD_SERVE, false}
#define ENGINE      {"engine.kind", WHEN_NOT, "@predicts", CMD_CAPACITY, false}
/* serve writes a run where out= names its folder. */
#define RECORDED    {"out", WHEN_SET, NULL, CMD_SERVE, false}
/* clang-format on */

#endif
