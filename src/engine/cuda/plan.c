#include "engine/cuda/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/cuda/forward.h"
#include "engine/cuda/graphs.h"
#include "engine/cuda/parts.h"
#include "gpu/library.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static struct cuda_forward_params forward_params(const struct cuda_engine_params *p, int sms)
{
    return (struct cuda_forward_params){.model = p->model,
                                        .most = cuda_memory_sizes(p, sms),
                                        .block_size = p->block_size,
                                        .num_blocks = p->num_blocks,
                                        .slots = p->max_rows,
                                        .fused = p->fused,
                                        .stamps = p->fused && p->stamps};
}

struct cuda_sizes cuda_memory_sizes(const struct cuda_engine_params *p, int sms)
{
    const int64_t tokens = p->max_batch_tokens > p->max_rows ? p->max_batch_tokens : p->max_rows;
    const int heads = (int)p->model->heads, kv_heads = (int)p->model->kv_heads,
              rows = (int)p->max_rows, runs = cuda_parts_bound(rows, heads, kv_heads, sms);
    struct cuda_sizes s = {.tokens = (int)tokens,
                           .rows = rows,
                           .chunks = rows,
                           .decodes = rows,
                           .runs = runs,
                           .parts = cuda_parts_room(runs, rows),
                           .parts_at_once = cuda_parts_at_once(heads, kv_heads, sms),
                           .sms = sms};
    cuda_forward_spans(p->model, &s);
    return s;
}

int64_t cuda_memory_blocks(const struct cuda_engine_params *p)
{
    const struct cuda_forward_params f = forward_params(p, 1);
    const int64_t longest = cuda_forward_max_position(&f);
    return p->max_rows * ((longest + p->block_size - 1) / p->block_size);
}

struct cuda_memory cuda_memory_of(const struct cuda_engine_params *p, int sms)
{
    const struct cuda_forward_params f = forward_params(p, sms);
    struct cuda_step_layout step;
    cuda_step_lay_out(&f.most, cuda_memory_blocks(p), &step);
    return (struct cuda_memory){
        .weights = cuda_weights_bytes(p->model, cuda_plain_dtype(p->dtype)),
        .cache = cuda_kv_block_bytes(p->model, cuda_plain_dtype(p->dtype), p->block_size) *
                 (size_t)p->num_blocks,
        .buffers = cuda_forward_buffer_bytes(&f, p->dtype),
        .rest = gpu_matmul_workspace_bytes + step.bytes,
    };
}

size_t cuda_memory_sum(const struct cuda_memory *m)
{
    return m->weights + m->cache + m->buffers + m->rest;
}

enum st cuda_memory_add(const struct cuda_memory *m, const struct cuda_engine_params *p,
                        struct err *e)
{
    char weights[STR_BYTES_MAX], cache[STR_BYTES_MAX], buffers[STR_BYTES_MAX], rest[STR_BYTES_MAX],
        sum[STR_BYTES_MAX];
    str_from_bytes(weights, (int64_t)m->weights);
    str_from_bytes(cache, (int64_t)m->cache);
    str_from_bytes(buffers, (int64_t)m->buffers);
    str_from_bytes(rest, (int64_t)m->rest);
    str_from_bytes(sum, (int64_t)cuda_memory_sum(m));
    err_add(e,
            "planned: weights %s, a KV cache of %lld blocks of %lld tokens %s, activations of %d "
            "tokens and %lld rows %s, workspace %s: %s together",
            weights, (long long)p->num_blocks, (long long)p->block_size, cache,
            cuda_memory_sizes(p, 1).tokens, (long long)p->max_rows, buffers, rest, sum);
    return err_hint(e, "lower scheduler.num_blocks or the batch limits, or take a smaller model");
}

enum st cuda_memory_fits(const struct cuda_memory *m, const struct gpu *g,
                         const struct cuda_engine_params *p, struct err *e)
{
    char sum[STR_BYTES_MAX], have[STR_BYTES_MAX], total[STR_BYTES_MAX];
    if (cuda_memory_sum(m) < g->free_bytes)
        return ST_OK;
    str_from_bytes(sum, (int64_t)cuda_memory_sum(m));
    str_from_bytes(have, (int64_t)g->free_bytes);
    str_from_bytes(total, (int64_t)g->total_bytes);
    err_set(e, ST_USAGE, "%s are needed, and %s of %s are free on GPU %d, %s", sum, have, total,
            g->ordinal, g->facts.name);
    return cuda_memory_add(m, p, e);
}

/* ---- the row's plan -------------------------------------------------------------------------- */

bool cuda_ordinal(const char *device, int *ordinal)
{
    static const char name[] = "cuda";
    const size_t n = sizeof name - 1;
    char *end;
    *ordinal = 0;
    if (strncmp(device, name, n) != 0)
        return false;
    if (device[n] == 0)
        return true;
    if (device[n] != ':' || device[n + 1] < '0' || device[n + 1] > '9')
        return false;
    *ordinal = (int)strtol(device + n + 1, &end, 10);
    return *end == 0;
}

/* In the order of engine.dtype. */
static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};

/* Memory and multiprocessors of a GPU; false: it cannot be asked. Makes no context. */
static bool look(int ordinal, struct gpu_device *out)
{
    struct gpu_cuda cuda;
    struct err ignored = {0};
    return gpu_cuda_open(&cuda, &ignored) == ST_OK && gpu_device_facts(&cuda, ordinal, out) &&
           out->memory_bytes > 0;
}

/* What is left for keys and values of the share of the GPU's memory that may be used. */
static enum st plan_cache(const struct memory_facts *f, const struct gpu_device *d,
                          enum cuda_dtype t, bool fused, struct memory_plan *out, struct err *e)
{
    const struct cuda_engine_params p = {
        .model = f->model,
        .dtype = t,
        .block_size = f->block_size,
        .num_blocks = (f->request_tokens + f->block_size - 1) / f->block_size,
        .max_batch_tokens = f->batch_tokens ? f->batch_tokens : f->request_tokens,
        .max_rows = f->batch_cap,
        .fused = fused};
    const struct cuda_memory m = cuda_memory_of(&p, (int)d->sms);
    const double share = f->utilization > 0 ? f->utilization : 1 - f->margin;
    const double have = (double)d->memory_bytes * share;
    const double fixed = (double)(m.weights + m.buffers + m.rest);
    const double block = (double)cuda_kv_block_bytes(f->model, cuda_plain_dtype(t), f->block_size);
    const int64_t request_blocks = p.num_blocks, most = INT32_MAX / f->block_size;
    int64_t blocks = have > fixed ? (int64_t)((have - fixed) / block) : 0;
    blocks = blocks < most ? blocks : most; /* places in the cache are 32-bit numbers */
    out->weight_bytes = (double)m.weights;
    out->request_bytes = block * (double)request_blocks;
    out->num_blocks = blocks;
    out->max_batch = blocks / request_blocks;
    if (out->max_batch >= 1)
        return ST_OK;
    char total[STR_BYTES_MAX];
    str_from_bytes(total, (int64_t)d->memory_bytes);
    err_set(e, ST_USAGE, "%s has %s, of which %.0f %% are planned with", d->name, total,
            100 * share);
    cuda_memory_add(&m, &p, e);
    err_add(e, "there is no room for one request of %lld tokens", (long long)f->request_tokens);
    return ST_USAGE;
}

/* Blocks that are asked for stay; a memory that is named (hardware.memory_gb) is planned as
 * simulations plan it; else the GPU's own counts. */
enum st cuda_engine_plan(const struct engine_settings *settings, const struct memory_facts *f,
                         struct engine_plan *out, struct err *e)
{
    const enum dtype t = dtypes[settings->dtype];
    struct gpu_device d;
    int ordinal;
    *out = (struct engine_plan){.dtype = t, .memory.max_batch = INT64_MAX};
    out->memory.num_blocks = f->num_blocks;
    TRY(cuda_forward_check(f->model, cuda_dtype_of(t), e));
    if (f->num_blocks)
        return ST_OK;
    if (f->memory_gb > 0 && t != DTYPE_F32) /* planners count 16 bits */
        return memory_plan(f, &out->memory, e);
    if (cuda_ordinal(settings->device, &ordinal) && look(ordinal, &d))
        return plan_cache(f, &d, cuda_dtype_of(t), settings->fused, &out->memory, e);
    memory_plan_host(f, (int)dtype_bytes(t), &out->memory);
    return ST_OK;
}

enum st cuda_engine_start(const struct engine_job *job, struct executor *out, struct err *e)
{
    struct cuda_engine_params p = {
        .model = job->model,
        .weights_dir = job->weights_dir,
        .weights_seed = job->weights_seed,
        .dtype = cuda_dtype_of(job->dtype),
        .block_size = job->block_size,
        .num_blocks = job->num_blocks,
        .max_batch_tokens = job->max_batch_tokens,
        .max_rows = job->max_rows,
        .sample_vocab = job->sample_vocab,
        .ignore_eos = job->ignore_eos,
        .check = job->settings->check,
        .op_times = job->op_times,
        .fused = job->settings->fused,
        .stamps = log_shows(LOG_DEBUG),
        .clock = job->clock,
        .rerun = "/proc/self/exe",
    };
    if (!cuda_ordinal(job->settings->device, &p.ordinal))
        return err_set(e, ST_USAGE, "device=%s: cuda, or cuda:1 for the second GPU",
                       job->settings->device);
    return cuda_engine_open(&p, out, e);
}
