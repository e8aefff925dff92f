/* The engines: what engine= accepts.
 *
 * A row says what an engine is called, which commands run it, where it runs and what it needs, how
 * its memory is planned and how it is opened. Error texts and --help list the rows. Nobody knows an
 * engine by its name: conditions of option rows ask for what it can do (engine/capabilities.c);
 * tests/conform/engine_test.c holds these to the table.
 *
 * A command that runs one: engine_for, engine_check_place, plan (how many KV blocks there are and
 * of what type: the scheduler is told before anything is opened), open.
 *
 * To add one: its files in src/engine/<name>/, a row in registry.c, configs/engine/<name>.yaml.
 * tests/conform drives it on each of its devices. */
#ifndef ENGINE_REGISTRY_H
#define ENGINE_REGISTRY_H

#include "model/weights.h"
#include "profile/read/hardware.h"
#include "serve/clock.h"
#include "serve/executor.h"
#include "serve/memory.h"
#include "serve/serve.h"

/* Who makes the batches. */
enum engine_drive {
    ENGINE_EXECUTES, /* the serving loop, on the executor that open gives */
    ENGINE_SERVER,   /* a server at url=, which gets requests over HTTP (src/client) */
    ENGINE_PROGRAM,  /* worker.command, which gets requests over a pipe (engine/worker) */
};

/* Bits of engine.devices and engine.needs. */
enum { ENGINE_ON_CPU = 1 << 0, ENGINE_ON_CUDA = 1 << 1 };
enum { ENGINE_WEIGHTS = 1 << 0, ENGINE_PREDICTOR = 1 << 1 };

/* Its settings: device= and engine.*, with rows in engine/options.c. */
struct engine_settings {
    const char *device; /* "cpu", "cuda", "cuda:1" */
    const char *kind;   /* its name in the table */
    int64_t threads;
    bool ignore_eos;
    int idle;  /* 0 spin, 1 sleep */
    int dtype; /* of engine=cuda: 0 bfloat16, 1 float16, 2 float32 */
    bool check, fused;
};
extern const struct option_section device_options, engine_options;

/* What an engine will hold. */
struct engine_plan {
    enum dtype dtype; /* of weights, keys and values */
    struct memory_plan memory;
};

/* All that an engine is opened for. Borrowed until the executor is closed. */
struct engine_job {
    const struct engine_settings *settings;
    const struct model *model;
    const char *weights_dir; /* folder with safetensors; NULL = random from weights_seed */
    uint64_t weights_seed;
    enum dtype dtype;               /* of its plan */
    int64_t block_size, num_blocks; /* KV cache */
    int64_t max_batch_tokens;       /* most tokens a batch may hold */
    int64_t max_rows;               /* most sequences at once */
    int64_t sample_vocab;           /* ids from here on are never sampled; 0 = the vocabulary */
    int64_t ready_blocks;           /* from block 0 on, ready for use at once; 0 = all */
    bool ready_later;               /* the others while the engine idles, else at first use */
    bool ignore_eos;
    bool op_times; /* batches will ask for operator times */
    const struct serve_clock *clock;
    const struct predictor *predictor; /* ENGINE_PREDICTOR */
    double *late_s;         /* likewise: longest time behind the prediction, kept up to date */
    enum serve_async async; /* likewise */
    struct arena *a;
};

struct engine {
    const char *name, *help;
    uint32_t commands; /* CMD_BENCH | ...: that run it */
    enum engine_drive drive;
    /* The rest is of ENGINE_EXECUTES. */
    uint32_t devices;     /* ENGINE_ON_CPU | ... */
    uint32_t dtypes;      /* 1 << DTYPE_F32 | ...: what plan may choose */
    uint32_t needs;       /* ENGINE_WEIGHTS | ENGINE_PREDICTOR */
    int64_t max_replicas; /* 0 = any number */
    int64_t max_tp;       /* likewise */
    bool overlaps;        /* launches a batch while the one before runs, whatever is asked for */
    /* From the model, a device's memory and the settings. ST_USAGE: no room for one request. */
    enum st (*plan)(const struct engine_settings *settings, const struct memory_facts *f,
                    struct engine_plan *out, struct err *e);
    enum st (*open)(const struct engine_job *job, struct executor *out, struct err *e);
    /* Of engines that compute: logits of the first n rows of the batch that was completed last, [n,
     * vocab]; nothing may be in flight. Rows: chunks with last == true in the order of the batch,
     * then decode rows by slot. */
    enum st (*logits)(const struct executor *ex, int64_t n, float *out, struct err *e);
};

extern const struct engine engine_registry[];                /* by name; ends with name == NULL */
extern const struct option_capability engine_capabilities[]; /* what rows of options ask */

const struct engine *engine_find(const char *name); /* NULL = there is none */
/* The engine of that name, for that command. ST_USAGE lists those that it runs. */
enum st engine_for(const char *name, enum command c, const struct engine **out, struct err *e);
void engine_names(struct buf *out, enum command c); /* "cpu, null, openai, worker" */
/* A line for each engine of the command: name, help, devices and types. Nothing for a command that
 * runs none. */
void engine_help(struct buf *out, enum command c);

/* ENGINE_ON_... of a device setting; 0 = it is none. */
uint32_t engine_device(const char *device);
/* ST_DEVICE: it does not run on the settings' device. ST_USAGE: nor in so many replicas, or it
 * computes on the CPU and the hardware that is named is a GPU: its run would bear that name. */
enum st engine_check_place(const struct engine *x, const struct engine_settings *settings,
                           const struct hardware *hw, int64_t replicas, struct err *e);

/* The plan of engines that hold float32 in the host's memory: the blocks that were asked for, else
 * those of the device's memory where that is known (memory_plan), else the same on every machine
 * (memory_plan_host). */
enum st engine_plan_host(const struct engine_settings *settings, const struct memory_facts *f,
                         struct engine_plan *out, struct err *e);
/* The plan of simulations: the same, so that a real run and its simulation agree, but nothing is
 * taken for granted of a device: ST_USAGE where none of the settings says what it holds. */
enum st engine_plan_simulated(const struct engine_settings *settings, const struct memory_facts *f,
                              struct engine_plan *out, struct err *e);
/* Sets that error: ST_USAGE. */
enum st engine_memory_unknown(const char *hardware_id, struct err *e);

#endif
