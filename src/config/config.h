/* Configuration in Hydra's grammar: YAML files composed by a defaults list, overridden on the
 * command line, interpolated, and bound to one typed struct.
 *
 * Sources, first match wins for a file: --config-dir DIR, ./configs, the files compiled into the
 * program (base/embed.h). A command's primary file is <command>.yaml. A file may begin with
 *
 *     # @package _global_           (default package: its folder path with '/' read as '.')
 *     defaults: [ {model: tiny_qwen3}, {hardware: cpu}, {override x: y}, optional ..., _self_ ]
 *
 * Overrides: `group=option` picks a group's file; `a.b=4` sets an existing key; `+a.b=4` adds one
 * (only under free-form maps); `++a.b=4` sets or adds; `~a.b` removes (the default comes back). A
 * key that no option row knows is an error with a did-you-mean. With -m, `k=1,2`, `k=range(1,5)`,
 * `k=choice(a,b)` and `group=a,b` make one job per combination, rightmost fastest.
 *
 * Interpolation after composition: `${a.b}` (absolute), `${.b}`, `${..b}` (relative),
 * `${oc.env:NAME}`, `${oc.env:NAME,default}`, `${stable_id:prefix,part,...}`, `\${` is literal.
 * Nested and cyclic uses are resolved and refused respectively.
 *
 * A value keeps where it came from: `--explain key` prints every layer that set it. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "config/plan.h"
#include "text/node.h"

struct config_args {
    const char *command;          /* "simulate": primary file and option filter */
    const char *config_dir;       /* --config-dir, NULL = none */
    const char *const *overrides; /* as typed, without -m, --cfg, ... */
    size_t n_overrides;
};

struct config {
    struct node *tree;       /* composed and interpolated */
    struct plan plan;        /* bound; strings live in the arena */
    const char *config_path; /* folder of the primary file, "(built in)" when embedded */
    const char *config_name;
    const char *const *overrides;
    size_t n_overrides;
};

/* Compose, interpolate, bind and validate one job. */
enum st config_load(struct arena *a, const struct config_args *args, struct config *out,
                    struct err *e);

/* The jobs of a sweep: (*jobs)[i] is a list of n_overrides overrides without commas. Without sweep
 * syntax there is one job equal to the input. More than 10,000 jobs is an error. */
enum st config_sweep(struct arena *a, const struct config_args *args, const char *const ***jobs,
                     size_t *n_jobs, struct err *e);

/* --explain: text lines "value  <- layer (file:line)" from the last to the first. ST_USAGE for an
 * unknown key. */
enum st config_explain(struct arena *a, const struct config_args *args, const char *key,
                       struct buf *out, struct err *e);

#endif
