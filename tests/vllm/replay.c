/* Serves a case's workload with the KV groups of its config.json and the batch times of record.py,
 * whatever the model would take, and prints a row for each batch and pipeline stage, with the
 * columns of batches.csv that compare.py reads.
 *
 *     replay CONFIG WORKLOAD [key=value ...]     --groups: prints the groups alone
 *
 * WORKLOAD is a workload's folder or a trace.csv; keys are those of `keys` below. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/shard.h"
#include "serve/kv_group.h"
#include "sim/sim.h"
#include "text/json.h"

enum { STAGES_MOST = 16, LAYERS = 32 };

struct settings {
    int64_t budget, seqs, blocks, long_prefill, prefix, async, pp, max_model_len, block, hybrid,
        chunked, tp;
    double watermark;
};

static const struct {
    const char *key;
    size_t at;
} keys[] = {
    {"budget", offsetof(struct settings, budget)},
    {"max_num_seqs", offsetof(struct settings, seqs)},
    {"blocks", offsetof(struct settings, blocks)},
    {"long_prefill", offsetof(struct settings, long_prefill)},
    {"prefix", offsetof(struct settings, prefix)},
    {"async", offsetof(struct settings, async)},
    {"pp", offsetof(struct settings, pp)},
    {"tp", offsetof(struct settings, tp)},
    {"max_model_len", offsetof(struct settings, max_model_len)},
    {"block", offsetof(struct settings, block)},
    {"hybrid", offsetof(struct settings, hybrid)},
    {"chunked", offsetof(struct settings, chunked)},
};

static void die(const struct err *e)
{
    for (int i = 0; i < e->n; i++)
        fprintf(stderr, "%s\n", err_cause(e, i));
    exit(1);
}

static void set(struct settings *s, const char *word)
{
    const char *value = strchr(word, '=');
    const size_t n = value ? (size_t)(value - word) : 0;
    if (n == strlen("watermark") && strncmp(word, "watermark", n) == 0) {
        s->watermark = strtod(value + 1, NULL);
        return;
    }
    for (size_t i = 0; value && i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].key) == n && strncmp(word, keys[i].key, n) == 0) {
            const int64_t v = strtoll(value + 1, NULL, 10);
            memcpy((char *)s + keys[i].at, &v, sizeof v);
            return;
        }
    fprintf(stderr, "replay: unknown setting %s\n", word);
    exit(1);
}

/* ---- times of batches, as in record.py ------------------------------------------------------- */

static enum st predict(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    const struct settings *s = self;
    const struct model timed = {.layers = LAYERS};
    double ms = 0.01 * (double)(b->prefill_tokens + b->n_decodes);
    (void)e;
    for (int32_t i = 0; i < b->n_chunks; i++) {
        const double c = (double)b->chunks[i].tokens, kv = (double)b->chunks[i].start;
        ms += LAYERS * (1e-7 * (c * kv + c * (c + 1) / 2) + 0.001);
    }
    if (b->n_decodes)
        ms += LAYERS * (1e-6 * (double)b->decode_kv_tokens + 0.001);
    for (int64_t i = 0; i < s->pp; i++)
        stages[i] = (struct stage_time){
            .host_s = i == 0 ? 5e-3 : 0,
            .device_s = ms / 1e3 * (double)shard_stage_layers(&timed, s->pp, i) / LAYERS};
    return ST_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

struct feed {
    const struct workload *w;
    size_t at;
};

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct feed *f = self;
    (void)e;
    if (f->at == f->w->n)
        return ST_END;
    *out = f->w->requests[f->at++];
    return ST_OK;
}

static void print_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    (void)self;
    (void)c;
    printf("%lld,%lld,%lld,%lld,%lld,%lld,%lld\n", (long long)b->iteration, (long long)b->start_ns,
           (long long)b->duration_ns, (long long)b->num_prefill_tokens,
           (long long)b->num_decode_tokens, (long long)b->batch_size, (long long)b->kv_blocks);
}

static void print_groups(const struct kv_groups *g)
{
    for (int32_t i = 0; i < g->n; i++)
        printf("%s block %lld span %lld layers %lld page %lld\n", kv_kind_name(g->g[i].kind),
               (long long)g->g[i].block_size, (long long)g->g[i].span, (long long)g->g[i].layers,
               (long long)g->g[i].page_bytes);
    printf("block_bytes %lld\n", (long long)g->block_bytes);
}

static void make_groups(struct arena *a, const char *config, const struct settings *s,
                        struct kv_groups *out)
{
    struct node *tree;
    struct model m;
    struct structure shard;
    struct err e = {0};
    const struct json_limits limits = {.python = true};
    if (json_load(a, config, &limits, &tree, &e) != ST_OK ||
        model_from_config(a, "case", tree, &m, &e) != ST_OK)
        die(&e);
    structure_shard(m.structure, s->tp, &shard);
    const struct kv_settings set = {.block_size = s->block,
                                    .element_bytes = 2,
                                    .state_bytes = 2,
                                    .max_model_len = s->max_model_len,
                                    .prefix_caching = s->prefix,
                                    .hybrid = s->hybrid,
                                    .chunked = s->chunked};
    if (kv_groups_make(a, "case", &shard, &set, out, &e) != ST_OK)
        die(&e);
}

static void serve(struct arena *a, const struct settings *s, const struct kv_groups *groups,
                  const char *path)
{
    static const struct predictor_ops ops = {
        .name = "recorded", .version = PREDICTOR_VERSION, .predict = predict};
    struct err e = {0};
    struct workload w;
    const size_t n = strlen(path);
    const bool trace = n > 4 && strcmp(path + n - 4, ".csv") == 0;
    if ((trace ? workload_load_trace(a, path, &w, &e) : workload_load(a, path, &w, &e)) != ST_OK)
        die(&e);
    struct feed feed = {&w, 0};
    struct serve_counters counters;
    struct serve_params p = {.policy = "vllm_0_33",
                             .replicas = 1,
                             .batch_cap = s->seqs,
                             .token_budget = s->budget,
                             .block_size = s->block,
                             .num_blocks = s->blocks,
                             .watermark = s->watermark,
                             .prefix_caching = s->prefix,
                             .max_model_len = s->max_model_len,
                             .reserve_full_prompt = true,
                             .long_prefill_token_threshold = s->long_prefill,
                             .async = s->async ? ASYNC_SERIAL : ASYNC_OFF};
    if (!kv_groups_plain(groups))
        p.kv_groups = *groups;
    const struct predictor predictor = {
        .ops = &ops, .self = (void *)(uintptr_t)s, .stages = (int32_t)s->pp};
    struct executor x = sim_executor(a, &predictor, p.async);
    struct serve_clock clock = clock_virtual();
    const struct request_source source = {&feed, next_request, NULL, NULL};
    const struct serve_sink sink = {.batch = print_batch};
    if (serve_check_params(&p, &e) != ST_OK ||
        serve_run(&p, &clock, &x, &source, &sink, NULL, &counters, &e) != ST_OK)
        die(&e);
}

int main(int argc, char **argv)
{
    struct settings s = {.budget = 2048,
                         .seqs = 128,
                         .pp = 1,
                         .tp = 1,
                         .max_model_len = 65536,
                         .block = 16,
                         .hybrid = 1,
                         .blocks = 1};
    struct arena *a = arena_new();
    struct kv_groups groups;
    const bool only_groups = argc > 2 && strcmp(argv[2], "--groups") == 0;
    if (argc < 3)
        return 2;
    for (int i = 3; i < argc; i++)
        set(&s, argv[i]);
    make_groups(a, argv[1], &s, &groups);
    if (only_groups) {
        print_groups(&groups);
    } else {
        printf("iteration,start_ns,duration_ns,num_prefill_tokens,num_decode_tokens,batch_size,"
               "kv_blocks\n");
        serve(a, &s, &groups, argv[2]);
    }
    arena_free(&a);
    return 0;
}
