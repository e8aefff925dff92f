/* Steps of a session: each runs a program or reads a file, and leaves a row that says how it went.
 * Private to deep/. A step returns an error only when the session cannot go on. */
#ifndef DEEP_STEPS_H
#define DEEP_STEPS_H

#include "deep/deep.h"
#include "deep/env.h"
#include "deep/stages.h"
#include "deep/table.h"

struct deep_session {
    struct arena *a;
    const struct deep_params *p;
    const struct artifact *art;
    const char *dir; /* the folder being built, absolute */
    struct deep_result *result;
    struct deep_result before; /* of deep.against */
    struct node *env;
    struct env_silence silence; /* of the tools that env was made with */
    double baseline_s;          /* NAN = not measured */
    bool has_trace, has_ncu;
    struct trace trace;
    struct kernels kernels; /* of trace, open once has_trace */
    struct deep_stages stages;
    struct ncu_table ncu;
};

/* *go_on is cleared when the command fails by itself. */
/* The command unprofiled; false in *go_on: it failed. counts: overheads are against this run. */
enum st step_unprofiled(struct deep_session *s, const char *name, bool counts, bool *go_on,
                        struct err *e);
enum st step_timeline(struct deep_session *s, struct err *e);
enum st step_ncu(struct deep_session *s, struct err *e);
/* deep.trace and ncu.csv: unreadable ones are errors. */
enum st step_given_trace(struct deep_session *s, struct err *e);
enum st step_given_csv(struct deep_session *s, struct err *e);
/* deep.session: all that an earlier session measured. */
enum st step_given_session(struct deep_session *s, struct err *e);

/* ---- for the steps ---- */

/* Adds a row; its texts are the caller's. */
struct deep_step *step_add(struct deep_session *s, const char *name, const char *tool);
/* "failed" or "skipped", with a reason; explained where the output holds a known message. */
void step_explain(struct deep_step *step, const char *state, const char *why, const char *output);
/* The command for a run of that name: with an out= of its own where it is this program. */
struct texts step_command(struct arena *a, const struct deep_params *p, const char *dir,
                          const char *run);
/* Of a command that cannot be started. */
extern const char NO_PROGRAM[];
/* "logs/ncu.log" */
const char *step_log(struct deep_session *s, const struct deep_step *step);
/* A cause without the folder that is being built in front, which will have another name. */
const char *step_own_path(struct deep_session *s, const char *cause);
/* The remedy of a step that has none: its output. */
void step_look_at_log(struct deep_session *s, struct deep_step *step);
/* Runs argv with its log; fills wall time and overhead of the row, and what is to be done where it
 * failed or was cut off. ST_INTERRUPTED when stopped. */
enum st step_run(struct deep_session *s, struct deep_step *step, struct argv *argv,
                 const char *const *env, struct tool_result *out, struct err *e);

#endif
