/* A job: one execution of a command, alone or for a combination of a sweep. Turns the plan into the
 * objects of the stages, and these into a folder with the results:
 *
 *     plan -> job_model -> job_workload -> job_serve_params -> job_engine_open
 *                                                              or job_predictor (sim.h)
 *          -> job_run: serves, records (record.h), writes the run directory
 *
 * Stages have their own parameter structs, independent of the plan: settings become those structs
 * here and in the commands. Commands without a run take the same steps themselves: job_out_dir,
 * artifact_begin, job_snapshot, job_meta, artifact_commit. All end with job_result.
 *
 * Everything lives in the context's arena unless noted otherwise. */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include "artifact/artifact.h"
#include "engine/registry.h"
#include "job/context.h"
#include "job/setup.h"
#include "model/model.h"
#include "profile/reference.h"
#include "serve/serve.h"
#include "sim/predictor.h"
#include "workload/stream.h"

/* out= or runs/<kind>/<stable id of the configuration without out=>. */
const char *job_out_dir(const struct job_context *c, const char *kind, const char **id);

struct job_model {
    struct model m;
    const char *dir;           /* model.ref, the folder of the hub's cache that it names, or NULL */
    const char *hub;           /* its name on the hub; NULL = not known */
    const struct node *config; /* Hugging Face config */
    const char *tokenizer;     /* path or NULL when there is none */
    const char *weights_dir;   /* folder with safetensors, or NULL = random */
    uint64_t weights_seed;
    bool weights_random; /* they were located, and are seeded random ones */
};
/* The model of the plan, whatever its layers are: for commands that describe it. */
enum st job_model_described(const struct job_context *c, struct job_model *out, struct err *e);
/* What job_model does with it, but for weights: refuses layers that are not modelled, tells notes.
 */
enum st job_model_check(const struct job_model *m, struct err *e);
/* The same, whose layers are modelled (model_check_modelled) or, with need_weights, computed: that
 * engine checks. Weights are located only then. */
enum st job_model(const struct job_context *c, bool need_weights, struct job_model *out,
                  struct err *e);

struct job_workload {
    struct workload w;              /* no requests in it when they stream */
    struct workload_stream *stream; /* NULL = they are in w */
    struct prompt *prompts;         /* NULL when there are none */
    size_t n_prompts;
    struct tokenizer *tokenizer; /* NULL when not needed, or when the model has none */
    const char *note;            /* remark for the result, already logged; NULL = none */
};
/* workload.dir, workload.trace, or made from the workload.* settings. Close afterwards. Where the
 * model has no tokenizer, lengths of prompts are estimated (workload.h) and need_ids gives random
 * ids, with a note. */
enum st job_workload(const struct job_context *c, const struct job_model *m, bool need_ids,
                     struct job_workload *out, struct err *e);
/* The same as a stream, for commands that serve each request once and feed no ids. */
enum st job_workload_stream(const struct job_context *c, const struct job_model *m,
                            struct job_workload *out, struct err *e);
/* The plan's arrivals, for requests without any. */
struct workload_params job_arrivals(const struct plan *p);
uint64_t job_prompts_seed(const struct plan *p); /* of drawn token ids */
/* Parses workload.arrival.stages and ramp_s into w, which has the rate. */
enum st job_stages(const struct job_context *c, struct workload_params *w, struct err *e);
/* Loads the model's tokenizer, needed for `why`; no-op when *out is set. */
enum st job_tokenizer(const struct job_model *m, const char *why, struct tokenizer **out,
                      struct err *e);
void job_workload_close(struct job_workload *w);
/* Path of a tokenizer to count a server's output: client.tokenizer, or that of a model named on the
 * command line. NULL = none. */
const char *job_answer_tokenizer(const struct job_context *c, const struct job_model *m);

/* The plan's scheduler settings. Unset, max_model_len is the model's limit and num_blocks is of the
 * engine's plan (engine/registry.h), which *plan keeps unless that is NULL. engine NULL: simulated.
 */
enum st job_serve_params(const struct plan *p, const struct model *m, const struct engine *engine,
                         struct serve_params *out, struct engine_plan *plan, struct err *e);
/* How the engine launches batches, as job_serve_params has it: for predictors, which come first. */
enum st job_launching(const struct plan *p, const struct model *m, struct launching *out,
                      struct err *e);
/* What job_serve_params left out, for that engine: asynchronous scheduling is the simulator's. NULL
 * = nothing. */
const char *job_left_out(const struct plan *p, const struct engine *engine);

/* Every prompt of a workload that holds its requests as ids, (*ids)[i][num_prefill_tokens], before
 * the clock starts: tokenizing is not measured. */
enum st job_prompt_ids(const struct job_context *c, const struct job_model *m,
                       const struct job_workload *w, int32_t ***ids, struct err *e);

/* How a command opens an engine of the registry. The first ready_blocks of its KV cache are touched
 * at open; ready_later: the others while it idles, instead of at first use. Ids unknown to the
 * model's tokenizer, if any, are never sampled: vocabularies are padded. */
struct job_engine {
    const struct engine *engine;
    const struct engine_plan *plan; /* of job_serve_params, as serve is */
    const struct job_model *m;
    const struct serve_params *serve;
    const struct serve_clock *clock;
    int64_t longest; /* tokens of the longest request, prompt and output together */
    int64_t ready_blocks;
    bool ready_later, ignore_eos;
    const struct tokenizer *tokenizer; /* the model's, if loaded already */
    const struct predictor *predictor; /* of engines that need one, */
    double *late_s;                    /* and the longest time behind it */
};
enum st job_engine_open(const struct job_context *c, const struct job_engine *how,
                        struct executor *out, struct err *e);

/* Serve the workload and write the run directory. type: "real" or "vidur". */
struct job_run {
    const char *type;
    const char *kind; /* folder below runs/, "real" or "sim" */
    const char *backend;
    struct serve_clock *clock; /* real: the run is a measurement */
    /* The serving core on these executors, with params; or, where they are NULL, */
    const struct executor *executors;
    const struct serve_params *params; /* checked */
    /* an external scheduler: delivers rows to the sink, fills the counters it can and adds members
     * of run_meta.json to extra. Measurements before a failure are kept as an incomplete run. */
    enum st (*serve)(void *self, const struct serve_sink *sink, struct serve_counters *n,
                     struct node *extra, struct err *e);
    void *self;
    const struct bundle *bundle;       /* its look-ups are counted; NULL = none */
    const struct predictor *predictor; /* NULL = a real run */
    const struct job_setup *setup;     /* NULL = of a system that batches by itself */
    const struct node *extra;          /* more members of run_meta.json, or NULL */
    const char *uncalibrated;          /* remark that is printed with the figures; NULL = none */
    struct reference *reference;       /* measured before and after the run; NULL = not */
    /* Writes further files of a successful run; NULL = none. Members of `shown` are printed, those
     * of `extra` go to run_meta.json. */
    enum st (*more)(void *more_self, const struct artifact *art, struct node *extra,
                    struct node *shown, struct err *e);
    void *more_self;
};
enum st job_run(struct job_context *c, const struct job_model *m, const struct job_workload *w,
                const struct job_run *r, struct err *e);

/* The same by worker.command: its program batches by itself. */
enum st job_worker(struct job_context *c, struct err *e);

/* A profiling bundle of the iterations that worker.command carries out on request. */
enum st job_passes(struct job_context *c, struct err *e);

/* The rows of profiling bundles that a plan needs; borrows of both. */
struct bundle_key job_bundle_key(const struct job_context *c, const struct job_model *m);

/* Common meta of a run: hardware and device of the plan, the configuration, times from the start of
 * the artifact (NULL: now) until now. */
struct run_meta job_meta(const struct job_context *c, const struct artifact *art, const char *id,
                         const char *type);

/* The meta file of what was not made on the plan's hardware and device: on those of a traced
 * program, say. extra: members besides. */
struct node *job_meta_elsewhere(const struct job_context *c, const struct artifact *art,
                                const char *id, const char *type, const struct node *extra);

/* Writes config.yaml and overrides.yaml into the artifact, unless the plan disables it. */
enum st job_snapshot(const struct job_context *c, const struct artifact *art, struct err *e);

/* Prints the result of a command, a map. Its member `out` is the folder written, if any. With
 * --json it is printed as JSON, else as `text`, or where that is NULL as "key value" lines; a sweep
 * keeps it for its table (and prints no JSON of its jobs). */
void job_result(const struct job_context *c, const struct node *map, const char *text);
/* Formats those lines. */
void job_lines(struct buf *out, const struct node *map);

#endif
