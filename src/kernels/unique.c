/* Groups alike kernels and classifies their work. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "kernels/products.h"
#include "text/json.h"

/* ---- tiers ---- */

static bool has(const char *name, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

#define LEN(x) (sizeof(x) / sizeof *(x))

/* "gemm" that is no part of "fbgemm", a library of embeddings and quantization. */
static bool says_gemm(const char *name)
{
    for (const char *p = name; (p = strstr(p, "gemm")); p++)
        if (p < name + 2 || strncmp(p - 2, "fb", 2) != 0)
            return true;
    return false;
}

int kernels_tier(uint8_t kind, const char *name)
{
    /* Cijk_: the contractions of Tensile, which rocBLAS and hipBLASLt use */
    static const char *const gemm[] = {"GEMM", "Gemm", "nvjet",  "cutlass", "cublas",     "cuBLAS",
                                       "gemv", "GEMV", "splitK", "xmma_",   "dot_kernel", "Cijk_"};
    /* built from CUTLASS, or with a name containing one of the above, but no library's product */
    static const char *const others[] = {"fmha",      "flash",   "Flash", "attention",
                                         "Attention", "softmax", "conv",  "implicit_gemm"};
    if (kind == TRACE_COPY || kind == TRACE_SET)
        return 1;
    return (has(name, gemm, LEN(gemm)) || says_gemm(name)) && !has(name, others, LEN(others)) ? 2
                                                                                              : 3;
}

bool kernels_communicates(uint8_t kind, const char *full_name, const char *short_name)
{
    /* NCCL, and RCCL, which keeps its names; MSCCL; NVSHMEM */
    static const char *const begins[] = {"nccl", "rccl", "msccl", "nvshmem"};
    /* oneCCL; the all-reduce of vLLM and SGLang for GPUs of one host; those of PyTorch's symmetric
     * memory (one_shot_all_reduce_kernel), TensorRT-LLM and FlashInfer (allreduce_fusion_kernel,
     * oneShotAllReduceKernel); DeepEP's dispatch and combine */
    static const char *const parts[] = {
        "oneccl",    "oneapi::ccl", "cross_device_reduce", "all_reduce",     "allreduce",
        "AllReduce", "all_gather",  "allgather",           "reduce_scatter", "deep_ep::"};
    /* Inductor names fused products after the operators beside them, collectives among these */
    const bool made = strncmp(short_name, "triton_", strlen("triton_")) == 0;
    bool begins_so = false;
    for (size_t i = 0; i < LEN(begins); i++)
        begins_so = begins_so || strncmp(short_name, begins[i], strlen(begins[i])) == 0;
    return kind == TRACE_KERNEL && !made && (begins_so || has(full_name, parts, LEN(parts)));
}

/* ---- unique kernels ---- */

struct unique {
    const struct trace_sig *sig; /* the first of its kind */
    const char *name;
    uint32_t number; /* of the device */
    uint64_t count;
    int64_t total_ns;
    int tier;
    uint32_t first_pair; /* list of its products: index + 1 */
    uint32_t last_pair;  /* index + 1 */
    uint32_t n_pairs;    /* their number */
};

struct unique_list {
    struct unique *p;
    size_t n;
    struct map types;          /* what product.dtype counts */
    struct map products;       /* by struct product */
    struct kernels_keys pairs; /* (kernel before sorting, product) */
    VEC(uint64_t) pair_counts;
    VEC(uint32_t) next_pair; /* of the same kernel, + 1; 0 = none */
};

/* Key of equal launches: without context, registers and process. */
struct unique_key {
    int64_t bytes;
    uint32_t kind, name, device, stream, grid[3], block[3], shared;
};

static uint32_t shared_of(const struct trace_sig *s)
{
    return s->static_shared + s->dynamic_shared;
}

static const char *unique_name(const struct kernels *k, uint32_t sig)
{
    const struct trace_sig *s = &k->t->dict.sigs[sig];
    bool memory = s->kind == TRACE_COPY || s->kind == TRACE_SET;
    return memory ? trace_text(&k->t->dict, s->name) : k->names[k->name[sig]];
}

static int by_count(const void *x, const void *y)
{
    const struct unique *a = x, *b = y;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    int c = strcmp(a->name, b->name);
    if (c)
        return c;
    return a->sig < b->sig ? -1 : a->sig > b->sig;
}

/* The product whose operator launched operation i. */
static struct product product_around(const struct kernels *k, const struct product *products,
                                     size_t i)
{
    uint32_t chain[KERNELS_MAX_DEPTH];
    int n = kernels_chain(k, i, STYLES_OPERATORS, chain);
    for (int j = 0; j < n; j++)
        if (products[chain[j]].batch)
            return products[chain[j]];
    return (struct product){0};
}

static void add_pair(struct unique_list *u, struct unique *x, uint32_t pair)
{
    vec_push(&u->pair_counts, 0);
    vec_push(&u->next_pair, 0);
    if (x->n_pairs++)
        u->next_pair.p[x->last_pair - 1] = pair + 1;
    else
        x->first_pair = pair + 1;
    x->last_pair = pair + 1;
}

static void add_products(const struct kernels *k, struct unique_list *u, const uint32_t *of_sig)
{
    map_init(&u->types, k->a);
    map_init(&u->products, k->a);
    struct product *products = kernels_products(k, &u->types);
    for (size_t i = 0; i < k->t->ops.n && k->t->n_ranges; i++) {
        uint32_t id = of_sig[k->t->ops.sig[i]];
        if (u->p[id].tier != 2)
            continue;
        struct product p = product_around(k, products, i);
        if (!p.batch)
            continue;
        bool new;
        struct map_entry *e = map_put(&u->products, (const char *)&p, sizeof p, &new);
        if (new)
            e->i = (int64_t)u->products.n - 1;
        uint32_t pair = kernels_key(&u->pairs, kernels_pair(id, (uint32_t)e->i));
        if (pair == u->pair_counts.n)
            add_pair(u, &u->p[id], pair);
        u->pair_counts.p[pair]++;
    }
    mem_free(products);
}

static void free_unique(struct unique_list *u)
{
    mem_free(u->p);
    kernels_keys_free(&u->pairs);
    vec_free(&u->pair_counts);
    vec_free(&u->next_pair);
}

static struct unique_list find_unique(const struct kernels *k)
{
    const struct trace *t = k->t;
    struct map known;
    map_init(&known, k->a);
    struct unique_list u = {.p = mem_alloc(t->dict.n_sigs * sizeof *u.p)};
    uint32_t *of_sig = mem_alloc(t->dict.n_sigs * sizeof *of_sig);
    for (uint32_t i = 0; i < t->dict.n_sigs; i++) {
        const struct trace_sig *s = &t->dict.sigs[i];
        bool memory = s->kind == TRACE_COPY || s->kind == TRACE_SET;
        struct unique_key key = {
            .bytes = s->bytes,
            .kind = s->kind,
            .name = memory ? s->name : k->name[i],
            .device = s->device,
            .stream = s->stream,
            .grid = {s->grid[0], s->grid[1], s->grid[2]},
            .block = {s->block[0], s->block[1], s->block[2]},
            .shared = shared_of(s),
        };
        bool new;
        struct map_entry *e = map_put(&known, (const char *)&key, sizeof key, &new);
        if (new) {
            e->i = (int64_t)u.n;
            u.p[u.n++] = (struct unique){.sig = s, .name = unique_name(k, i), .number = s->device};
        }
        of_sig[i] = (uint32_t)e->i;
    }
    for (size_t i = 0; i < u.n; i++)
        u.p[i].tier = kernels_tier((uint8_t)u.p[i].sig->kind, u.p[i].name);
    for (size_t i = 0; i < t->ops.n; i++) {
        struct unique *x = &u.p[of_sig[t->ops.sig[i]]];
        x->count++;
        x->total_ns += kernels_duration(k, i);
    }
    add_products(k, &u, of_sig);
    size_t n = 0; /* patterns and windows may leave signatures without an operation */
    for (size_t i = 0; i < u.n; i++)
        if (u.p[i].count)
            u.p[n++] = u.p[i];
    u.n = n;
    if (n)
        qsort(u.p, n, sizeof *u.p, by_count);
    mem_free(of_sig);
    return u;
}

static void put_key(struct buf *out, const char *key)
{
    json_quote(out, sv_of(key));
    buf_puts(out, ": ");
}

/* null for unknown: no kernel has a grid without blocks. */
static void put_triple(struct buf *out, const char *key, const uint32_t v[3])
{
    put_key(out, key);
    if (v[0])
        buf_printf(out, "[%u, %u, %u], ", v[0], v[1], v[2]);
    else
        buf_puts(out, "null, ");
}

/* null for 0, which no kernel has. */
static void put_nonzero(struct buf *out, const char *key, uint32_t v)
{
    put_key(out, key);
    if (v)
        buf_printf(out, "%u, ", v);
    else
        buf_puts(out, "null, ");
}

static void put_text(struct buf *out, const char *key, const char *text)
{
    put_key(out, key);
    json_quote(out, sv_of(text));
}

static bool is_kernel(const struct unique *u)
{
    return u->sig->kind == TRACE_KERNEL;
}

/* {"device", "stream", "grid", "block", "shared memory", "name"}, "bytes" for copies and sets. */
static void put_signature(struct buf *out, const struct unique *u)
{
    buf_printf(out, "{\"device\": %u, \"stream\": %u, ", u->number, u->sig->stream);
    if (is_kernel(u)) {
        put_triple(out, "grid", u->sig->grid);
        put_triple(out, "block", u->sig->block);
        buf_printf(out, "\"shared memory\": %u, ", shared_of(u->sig));
    } else {
        buf_printf(out, "\"bytes\": %lld, ", (long long)u->sig->bytes);
    }
    put_text(out, "name", u->name);
    buf_putc(out, '}');
}

/* M, N, K of a matrix product; for several products, their list with counts. */
static void put_products(struct buf *out, const struct unique *u, const struct unique_list *all)
{
    bool many = u->n_pairs > 1;
    for (uint32_t at = u->first_pair; at; at = all->next_pair.p[at - 1]) {
        uint32_t i = at - 1;
        struct product p;
        memcpy(&p, all->products.entries[(uint32_t)all->pairs.keys[i]].key, sizeof p);
        if (many)
            buf_puts(out, at != u->first_pair ? ", {" : ", \"products\": [{");
        else
            buf_puts(out, ", ");
        buf_printf(out, "\"batch\": %lld, \"M\": %lld, \"N\": %lld, \"K\": %lld, \"dtype\": ",
                   (long long)p.batch, (long long)p.m, (long long)p.n, (long long)p.k);
        if (p.dtype)
            json_quote(out, sv_of(all->types.entries[p.dtype - 1].key));
        else
            buf_puts(out, "null");
        if (many)
            buf_printf(out, ", \"count\": %llu}", (unsigned long long)all->pair_counts.p[i]);
    }
    if (many)
        buf_putc(out, ']');
}

static void put_args(struct buf *out, const struct unique *u, const struct unique_list *all)
{
    const struct trace_sig *s = u->sig;
    buf_printf(out, "{\"device\": %u, \"context\": %u, \"stream\": %u, ", u->number, s->context,
               s->stream);
    if (is_kernel(u)) {
        put_triple(out, "grid", s->grid);
        put_triple(out, "block", s->block);
        put_nonzero(out, "registers per thread", s->registers);
        buf_printf(out, "\"shared memory\": %u, \"static shared\": %u, \"dynamic shared\": %u",
                   shared_of(s), s->static_shared, s->dynamic_shared);
    } else {
        buf_printf(out, "\"bytes\": %lld", (long long)s->bytes);
    }
    put_products(out, u, all);
    buf_putc(out, '}');
}

void kernels_unique_jsonl(struct buf *out, const struct kernels *k)
{
    struct unique_list u = find_unique(k);
    for (size_t i = 0; i < u.n; i++) {
        buf_putc(out, '{');
        put_text(out, "name", u.p[i].name);
        buf_printf(out, ", \"device\": %u, \"signature\": ", u.p[i].number);
        put_signature(out, &u.p[i]);
        buf_puts(out, ", \"args\": ");
        put_args(out, &u.p[i], &u);
        buf_printf(out, ", \"count\": %llu}\n", (unsigned long long)u.p[i].count);
    }
    free_unique(&u);
}

static void put_summary(struct buf *out, const struct unique_list *u)
{
    uint64_t kinds[4] = {0}, counts[4] = {0};
    int64_t times[4] = {0};
    for (size_t i = 0; i < u->n; i++) {
        int tier = u->p[i].tier;
        kinds[tier]++;
        counts[tier] += u->p[i].count;
        times[tier] += u->p[i].total_ns;
    }
    buf_printf(out, "  \"summary\": {\n    \"unique\": %zu,\n    \"invocations\": %llu", u->n,
               (unsigned long long)(counts[1] + counts[2] + counts[3]));
    for (int tier = 1; tier <= 3; tier++)
        buf_printf(out,
                   ",\n    \"tier%d\": {\"unique\": %llu, \"invocations\": %llu, "
                   "\"total_time_ns\": %lld}",
                   tier, (unsigned long long)kinds[tier], (unsigned long long)counts[tier],
                   (long long)times[tier]);
    buf_puts(out, "\n  }");
}

void kernels_signatures_json(struct buf *out, const struct kernels *k)
{
    struct unique_list u = find_unique(k);
    buf_puts(out, "{\n");
    put_summary(out, &u);
    buf_puts(out, ",\n  \"kernels\": [");
    for (size_t i = 0; i < u.n; i++) {
        buf_puts(out, i ? ",\n    {" : "\n    {");
        put_text(out, "name", u.p[i].name);
        buf_printf(out, ", \"tier\": %d, \"count\": %llu, \"total_time_ns\": %lld, \"signature\": ",
                   u.p[i].tier, (unsigned long long)u.p[i].count, (long long)u.p[i].total_ns);
        put_signature(out, &u.p[i]);
        buf_puts(out, ", \"params\": ");
        put_args(out, &u.p[i], &u);
        buf_putc(out, '}');
    }
    buf_puts(out, u.n ? "\n  ]\n}\n" : "]\n}\n");
    free_unique(&u);
}
