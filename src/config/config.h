/* Configuration in Hydra's grammar: YAML files composed by a defaults list, overridden on the
 * command line, interpolated, and bound to one typed struct.
 *
 * Sources, first match wins for a file: --config-dir DIR, ./configs, those installed with the
 * program (<prefix>/share/twinfer/configs), the same compiled into it (base/embed.h). A command's
 * primary file is <command>.yaml. A file may begin with
 *
 *     # @package _global_           (default package: its folder path with '/' read as '.')
 *     defaults:
 *       - model: tiny_qwen3         (a file of a group, below this file's folder; /model = from the
 *       - hardware@peer: cpu         top; @name puts its keys elsewhere; [a, b] several; null none;
 *       - optional workload: mine    ??? must be chosen on the command line)
 *       - base                      (a file of this folder)
 *       - override scheduler: sarathi (another choice for a group that stands in the list already)
 *       - _self_                    (position of this file's own keys; last when missing)
 *
 * Overrides: `group=option` picks a group's file, `+group=option` appends one, `~group` drops it;
 * `a.b=4` sets a key; `+a.b=4` adds one (only under free-form maps); `++a.b=4` sets or adds; `~a.b`
 * removes (the default comes back). `model.ref=`, `workload.dir=` and `workload.trace=` stand for a
 * group's file: its default is then left out, one that was picked stays; so is the model to try the
 * program with where other hardware or another model is asked for (config/stand_in.h). Later ones
 * win. A key without an option row is an error with a did-you-mean; on the command line so is one
 * that the command does not use, or not beside the others (config_check_read). null = not set.
 *
 * With -m, `k=1,2`, `k=range(1,5)`, `k=choice(a,b)`, `group=a,b` and `group=all`, which is every
 * file of it, make one job per combination, rightmost fastest. Commas in a value of a list key
 * (OPT_LIST) separate its items; sweep it with choice().
 *
 * Interpolation after composition: config/interpolate.h. A text that begins with ~/ is below the
 * home folder then. model=ORG/NAME, where no file of the group has that name or hub name, is
 * model.ref=ORG/NAME (config/stand_in.h).
 *
 * Wrong values, keys and overrides are ST_USAGE, malformed files ST_INPUT; both name
 * file:line:column or "command line". Files inside the program are named "(built in)/...". */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/embed.h"
#include "config/option.h"
#include "text/node.h"

struct config_args {
    enum command command;    /* its settings, and its primary file */
    const char *config_name; /* --config-name: another primary file than <command>.yaml; NULL */
    const char *config_dir;  /* --config-dir, NULL = none */
    const char *const *overrides; /* as typed, without -m, --cfg, ... */
    size_t n_overrides;
    const struct embed_file *embedded; /* embed_cmd; NULL = none */
};

struct config {
    enum command command;
    struct node *tree; /* composed and interpolated, defaults of the command's keys included */
    const struct plan *plan; /* bound */
    const char *config_path; /* folder of the primary file, "(built in)" when embedded */
    const char *config_name;
    const char *const *overrides;
    size_t n_overrides;
    const struct layer_set *sets; /* for config_origin */
    const char *unasked; /* files that count though nobody named them: compose.h; NULL = none */
    bool stand_in;       /* nobody named the model: it is that of config/stand_in.h */
};

/* Compose, interpolate, bind and validate one job. args' strings must outlive the arena's use. A
 * setting that starts a program (option.starts) is refused where it comes from ./configs and nobody
 * named that folder: it may be somebody else's. */
enum st config_load(struct arena *a, const struct config_args *args, struct config *out,
                    struct err *e);

/* Refuses what would be believed to count: a setting of the command line that the command reads,
 * but not with the values that others have. Files are shared between jobs: what one of them does
 * not read is ignored there, unless its row's condition says `files` (option.when). ST_USAGE. */
enum st config_check_read(const struct config *c, struct err *e);

/* Origin of a key's value: distinguishes "not set" from a default. */
enum config_origin { ORIGIN_UNSET, ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_COMMAND_LINE };
enum config_origin config_origin(const struct config *c, const char *key);

/* The jobs of a sweep: (*jobs)[i] is a list of n_overrides overrides without commas. Without sweep
 * syntax there is one job equal to the input. More than 10,000 jobs is an error. */
enum st config_sweep(struct arena *a, const struct config_args *args, const char *const ***jobs,
                     size_t *n_jobs, struct err *e);

/* --cfg: the tree as YAML, which read as a file gives the same plan. */
void config_print(struct buf *out, const struct config *c);

/* --explain: for the key, or each key of a section, one line "key = value" and the layers that set
 * it from the last to the first:
 *
 *     workload.arrival.rate = 4
 *       4  <- command line: workload.arrival.rate=4
 *       2  <- configs/workload/demo.yaml:5:9
 *       1  <- default
 *
 * ST_USAGE for an unknown key. Works on values that do not bind. */
enum st config_explain(struct arena *a, const struct config_args *args, const char *key,
                       struct buf *out, struct err *e);

#endif
