#include "engine/registry.h"

#include <string.h>

#include "engine/cuda/engine.h"
#include "engine/engine.h"

const struct engine engine_registry[] = {
    {
        .name = "cpu",
        .help = "the built-in engine on this machine's cores",
        .commands = CMD_BENCH | CMD_SERVE | CMD_PROFILE | CMD_CAPACITY | CMD_LOGITS,
        .devices = ENGINE_ON_CPU,
        .dtypes = 1 << DTYPE_F32,
        .needs = ENGINE_WEIGHTS,
        .max_replicas = 1,
        .max_tp = 1,
        .plan = engine_plan_host,
        .open = cpu_engine_start,
        .logits = cpu_engine_read_logits,
    },
    {
        .name = "cuda",
        .help = "the built-in engine on an NVIDIA GPU",
        .commands = CMD_BENCH | CMD_SERVE | CMD_PROFILE | CMD_CAPACITY | CMD_LOGITS,
        .devices = ENGINE_ON_CUDA,
        .dtypes = 1 << DTYPE_BF16 | 1 << DTYPE_F16 | 1 << DTYPE_F32,
        .needs = ENGINE_WEIGHTS,
        .max_replicas = 1,
        .max_tp = 1,
        .overlaps = true,
        .plan = cuda_engine_plan,
        .open = cuda_engine_start,
        .logits = cuda_engine_logits,
    },
    {
        .name = "null",
        .help = "computes nothing: what the loop itself costs",
        .commands = CMD_BENCH | CMD_CAPACITY,
        .devices = ENGINE_ON_CPU,
        .dtypes = 1 << DTYPE_F32,
        .max_replicas = 1,
        .plan = engine_plan_host,
        .open = null_engine_start,
    },
    {
        .name = "openai",
        .help = "an OpenAI-style server at url",
        .commands = CMD_BENCH | CMD_CAPACITY,
        .drive = ENGINE_SERVER,
    },
    {
        .name = "sim",
        .help = "the simulator: the times that a profiling bundle predicts",
        .commands = CMD_SERVE | CMD_CAPACITY,
        .devices = ENGINE_ON_CPU,
        .dtypes = 1 << DTYPE_F32,
        .needs = ENGINE_PREDICTOR,
        .plan = engine_plan_simulated,
        .open = paced_engine_start,
    },
    {
        .name = "worker",
        .help = "a program of yours: worker.command",
        .commands = CMD_BENCH | CMD_PROFILE | CMD_CAPACITY,
        .drive = ENGINE_PROGRAM,
    },
    {0},
};

/* ---- by name --------------------------------------------------------------------------------- */

const struct engine *engine_find(const char *name)
{
    for (const struct engine *x = engine_registry; x->name; x++)
        if (strcmp(x->name, name) == 0)
            return x;
    return NULL;
}

void engine_names(struct buf *out, enum command c)
{
    const char *gap = "";
    for (const struct engine *x = engine_registry; x->name; x++)
        if (x->commands & command_bit(c)) {
            buf_printf(out, "%s%s", gap, x->name);
            gap = ", ";
        }
}

enum st engine_for(const char *name, enum command c, const struct engine **out, struct err *e)
{
    struct buf known = {0};
    *out = engine_find(name);
    if (*out && (*out)->commands & command_bit(c))
        return ST_OK;
    if (*out)
        err_set(e, ST_USAGE, "engine.kind: twinfer %s does not run engine %s", command_name(c),
                name);
    else
        err_set(e, ST_USAGE, "engine.kind: there is no engine '%s'", name);
    engine_names(&known, c);
    err_hint(e, "engines: %s", buf_str(&known));
    buf_free(&known);
    return e->st;
}

static const struct {
    uint32_t bit;
    const char *name, *words;
} devices[] = {{ENGINE_ON_CPU, "cpu", "the CPU"}, {ENGINE_ON_CUDA, "cuda", "CUDA devices"}};

enum { DEVICES = sizeof devices / sizeof *devices };

void engine_help(struct buf *out, enum command c)
{
    size_t width = 0;
    for (const struct engine *x = engine_registry; x->name; x++)
        if (x->commands & command_bit(c) && strlen(x->name) > width)
            width = strlen(x->name);
    for (const struct engine *x = engine_registry; x->name; x++) {
        if (!(x->commands & command_bit(c)))
            continue;
        const char *gap = " [";
        buf_printf(out, "  %-*s  %s", (int)width, x->name, x->help);
        for (int i = 0; i < DEVICES; i++)
            if (x->devices & devices[i].bit) {
                buf_printf(out, "%s%s", gap, devices[i].name);
                gap = ", ";
            }
        for (int t = 0; t < DTYPES; t++)
            if (x->needs & ENGINE_WEIGHTS && x->dtypes & 1U << t)
                buf_printf(out, ", %s", dtype_name((enum dtype)t));
        buf_puts(out, *gap == ',' ? "]\n" : "\n");
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

uint32_t engine_device(const char *device)
{
    for (int i = 0; i < DEVICES; i++) {
        const size_t n = strlen(devices[i].name);
        if (strncmp(device, devices[i].name, n) != 0)
            continue;
        if (device[n] == 0 || (device[n] == ':' && devices[i].bit != ENGINE_ON_CPU))
            return devices[i].bit;
    }
    return 0;
}

enum st engine_check_place(const struct engine *x, const struct engine_settings *settings,
                           const struct hardware *hw, int64_t replicas, struct err *e)
{
    if (!(x->devices & engine_device(settings->device))) {
        int i = 0;
        while (!(x->devices & devices[i].bit))
            i++;
        err_set(e, ST_DEVICE, "device=%s: engine %s runs on %s", settings->device, x->name,
                devices[i].words);
        return err_hint(e, "device=%s", devices[i].name);
    }
    if (x->needs & ENGINE_WEIGHTS && hw->sms > 0 &&
        engine_device(settings->device) == ENGINE_ON_CPU) {
        const char *id = hw->id ? hw->id : "";
        err_set(e, ST_USAGE, "hardware=%s: that is a GPU, and engine %s runs on device=%s", id,
                x->name, settings->device);
        return err_hint(e, "leave hardware out, or engine=cuda");
    }
    if (x->max_replicas && replicas > x->max_replicas)
        return err_set(e, ST_USAGE, "cluster.replicas: engine %s runs one replica, not %lld",
                       x->name, (long long)replicas);
    return ST_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum st engine_plan_host(const struct engine_settings *settings, const struct memory_facts *f,
                         struct engine_plan *out, struct err *e)
{
    (void)settings;
    *out = (struct engine_plan){.dtype = DTYPE_F32, .memory.max_batch = INT64_MAX};
    out->memory.num_blocks = f->num_blocks;
    if (f->num_blocks)
        return ST_OK;
    if (f->memory_gb > 0)
        return memory_plan(f, &out->memory, e);
    memory_plan_host(f, (int)dtype_bytes(out->dtype), &out->memory);
    return ST_OK;
}

enum st engine_memory_unknown(const char *hardware_id, struct err *e)
{
    err_set(e, ST_USAGE,
            "scheduler.num_blocks: how many KV blocks hardware.id %s holds is not known, nor its "
            "memory",
            hardware_id ? hardware_id : "(unset)");
    return err_hint(e, "hardware=NAME takes that group of configs/hardware, with its memory; else "
                       "give hardware.memory_gb or scheduler.num_blocks, or hardware.kv_cache_gb "
                       "of an engine that keeps them in the host's memory");
}

enum st engine_plan_simulated(const struct engine_settings *settings, const struct memory_facts *f,
                              struct engine_plan *out, struct err *e)
{
    if (f->num_blocks || f->memory_gb > 0 || f->cache_bytes)
        return engine_plan_host(settings, f, out, e);
    return engine_memory_unknown(f->hardware_id, e);
}
