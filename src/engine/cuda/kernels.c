#include "engine/cuda/kernels.h"

#include <math.h>
#include <string.h>

#include "engine/cuda/twins.h"

static int div_up(int64_t n, int64_t by)
{
    return (int)((n + by - 1) / by);
}

static int at_least_1(int n)
{
    return n > 1 ? n : 1;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int bytes;
} dtypes[CUDA_DTYPES] = {
    [CUDA_F32] = {"f32", 4}, [CUDA_F16] = {"f16", 2}, [CUDA_BF16] = {"bf16", 2}};

const char *cuda_dtype_name(enum cuda_dtype t)
{
    return dtypes[t].name;
}

int cuda_dtype_bytes(enum cuda_dtype t)
{
    return dtypes[t].bytes;
}

/* ---- launch rules ---------------------------------------------------------------------------- */

static void set(struct cuda_launch *l, int x, int y, int z, int block, int shared_bytes)
{
    *l = (struct cuda_launch){
        {(unsigned)at_least_1(x), (unsigned)at_least_1(y), (unsigned)at_least_1(z)},
        (unsigned)block,
        (unsigned)shared_bytes};
}

/* Threads for rows of that width, 16 bytes each; whole warps, at most 256. */
static int row_threads(int width, enum cuda_dtype t)
{
    const int per_thread = 16 / cuda_dtype_bytes(t);
    return min_int(div_up(width, per_thread * 32) * 32, 256);
}

static void embed_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                         struct cuda_launch *l)
{
    const struct cuda_embed_args *a = args;
    set(l, m->tokens, 1, 1, row_threads(a->hidden, t), 0);
}

/* Rows are tokens or emitting rows; the larger grid serves both. */
static void norm_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                        struct cuda_launch *l)
{
    const struct cuda_norm_args *a = args;
    set(l, a->gather ? m->rows : m->tokens, 1, 1, row_threads(a->width, t), 0);
}

static void rope_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                        struct cuda_launch *l)
{
    (void)t;
    const struct cuda_rope_args *a = args;
    set(l, m->tokens, div_up(a->heads + 2 * a->kv_heads, 4 * 4), 1, 128, 0);
}

static void act_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                       struct cuda_launch *l)
{
    const struct cuda_act_args *a = args;
    const int block = row_threads(a->width, t);
    set(l, div_up(a->width, 16 / cuda_dtype_bytes(t) * block), m->tokens, 1, block, 0);
}

static void bias_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                        struct cuda_launch *l)
{
    const struct cuda_bias_args *a = args;
    const int block = row_threads(a->width, t);
    set(l, div_up(a->width, 16 / cuda_dtype_bytes(t) * block), m->tokens, 1, block, 0);
}

enum { PREFILL_TOKENS = 64 }; /* as in kernels/attention_prefill.cu */

int cuda_attention_head_tiles(int heads, int kv_heads)
{
    return kv_heads * div_up(heads / kv_heads, CUDA_TILE_HEADS);
}

static void decode_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                          struct cuda_launch *l)
{
    (void)t;
    const struct cuda_attention_args *a = args;
    set(l, cuda_attention_head_tiles(a->heads, a->kv_heads), m->runs, 1, 128, 0);
}

static void prefill_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                           struct cuda_launch *l)
{
    (void)t;
    const struct cuda_attention_args *a = args;
    const int tile_bytes = PREFILL_TOKENS * a->head_dim * 2;
    set(l, div_up(m->tokens, PREFILL_TOKENS) + m->chunks, a->heads, 1, 128, 5 * tile_bytes);
}

static void any_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                       struct cuda_launch *l)
{
    (void)t;
    const struct cuda_attention_args *a = args;
    set(l, m->tokens, a->heads, 1, 128, 0);
}

static void matmul_launch(const struct cuda_matmul_args *a, const struct cuda_sizes *m,
                          int per_tile, struct cuda_launch *l)
{
    const int tiles = div_up(a->outs, per_tile);
    set(l, min_int(tiles, m->sms * CUDA_MATMUL_PER_SM), 1, 1, CUDA_MATMUL_WARPS * 32, 0);
}

/* Out features of a block: two a warp, or one with gate and up. */
static int one_outs(int act)
{
    return (CUDA_ACT_IS_GATED(act) ? 1 : 2) * CUDA_MATMUL_WARPS;
}

static void one_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                       struct cuda_launch *l)
{
    const struct cuda_matmul_args *a = args;
    matmul_launch(a, m, one_outs(a->act), l);
    l->shared_bytes = (unsigned)(a->in * cuda_dtype_bytes(t));
}

static void narrow_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                          struct cuda_launch *l)
{
    (void)t;
    matmul_launch(args, m, 8, l);
}

static void wide_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                        struct cuda_launch *l)
{
    (void)t;
    matmul_launch(args, m, 16, l);
}

/* One row has a kernel of its own where its blocks fill the device: matmul_few has more of them,
 * whose warps divide the input. Wide tiles read the input half as often; they are taken where the
 * busiest multiprocessor has no more weights to read with them. */
enum cuda_kernel_id cuda_matmul_pick(const struct cuda_matmul_args *a, int rows, enum cuda_dtype t,
                                     int sms)
{
    const bool few = rows <= 8, gated = CUDA_ACT_IS_GATED(a->act);
    const bool wide = 16 * div_up(div_up(a->outs, 16), sms) <= 8 * div_up(div_up(a->outs, 8), sms);
    if (rows == 1 && a->in * cuda_dtype_bytes(t) <= CUDA_MATMUL_ONE_BYTES &&
        a->outs >= one_outs(a->act) * sms)
        return gated ? CUDA_MATMUL_ONE_GATED : CUDA_MATMUL_ONE;
    if (gated)
        return few ? CUDA_MATMUL_FEW_GATED : CUDA_MATMUL_SOME_GATED;
    if (wide)
        return few ? CUDA_MATMUL_FEW_WIDE : CUDA_MATMUL_SOME_WIDE;
    return few ? CUDA_MATMUL_FEW : CUDA_MATMUL_SOME;
}

int cuda_decode_step_parts(int rows, int heads, int kv_heads, int sms)
{
    const int items = at_least_1(rows) * cuda_attention_head_tiles(heads, kv_heads);
    return at_least_1(min_int(sms / items, CUDA_DECODE_STEP_PARTS));
}

/* A block attends to one head tile of one row at most, and holds the widest input of all rows. */
int cuda_decode_step_rows(const struct cuda_decode_step_args *a, enum cuda_dtype t, int sms)
{
    const struct cuda_attention_args *x = &a->attention;
    const int q = x->heads * x->head_dim;
    int widest = a->hidden > a->intermediate ? a->hidden : a->intermediate;
    widest = widest > q ? widest : q;
    const int row_bytes = (div_up(widest, 1024) * 1024 + 8) * cuda_dtype_bytes(t);
    const bool fits = cuda_attention_fits(t, x->head_dim, x->block_size) && a->hidden % 8 == 0 &&
                      a->intermediate % 8 == 0;
    int rows = CUDA_DECODE_STEP_INPUT_BYTES / row_bytes;
    rows = min_int(rows, sms / cuda_attention_head_tiles(x->heads, x->kv_heads));
    return fits ? min_int(rows, CUDA_DECODE_STEP_ROWS) : 0;
}

/* As find_words of kernels/decode_step.cu lays them out. */
long long cuda_decode_step_words(const struct cuda_decode_step_args *a, int rows, int sms)
{
    const struct cuda_attention_args *x = &a->attention;
    long long most = 0;
    for (int n = 1; n <= rows; n++) {
        const long long parts = cuda_decode_step_parts(n, x->heads, x->kv_heads, sms),
                        once = (x->heads + 2LL * x->kv_heads + x->heads * parts) * x->head_dim / 2,
                        copied = a->hidden + a->intermediate / 2 + x->heads * parts,
                        words = n * (once + CUDA_DECODE_STEP_COPIES * copied);
        most = words > most ? words : most;
    }
    return most;
}

enum { STEP_PHASES = 5 }; /* of a layer */

int cuda_decode_step_stamps(int layers)
{
    return STEP_PHASES * layers + 2;
}

const char *cuda_decode_step_phase(int layers, int interval)
{
    static const char *const names[STEP_PHASES] = {"qkv", "attend", "out", "up", "down"};
    return interval < STEP_PHASES * layers ? names[interval % STEP_PHASES] : "head";
}

static void decode_step_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                               struct cuda_launch *l)
{
    (void)t;
    (void)args;
    set(l, m->sms, 1, 1, (CUDA_DECODE_STEP_WARPS + 3) * 32, CUDA_DECODE_STEP_SHARED_BYTES);
}

static void argmax_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                          struct cuda_launch *l)
{
    (void)t;
    const struct cuda_argmax_args *a = args;
    const int parts = div_up(a->sample_vocab, 2048);
    const int fill = div_up(2 * (int64_t)m->sms, at_least_1(m->rows));
    set(l, min_int(parts, fill), m->rows, 1, 256, 0);
}

static void sample_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                          struct cuda_launch *l)
{
    (void)t;
    (void)args;
    set(l, m->rows, 1, 1, 1024, 0);
}

static void random_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                          struct cuda_launch *l)
{
    (void)t;
    const struct cuda_random_args *a = args;
    set(l, min_int(div_up(a->n, 256 * CUDA_RANDOM_PER_BLOCK), 16 * at_least_1(m->sms)), 1, 1, 256,
        0);
}

static void fill_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                        struct cuda_launch *l)
{
    (void)t;
    const struct cuda_fill_args *a = args;
    set(l, min_int(div_up(a->n, 1024), 4 * at_least_1(m->sms)), 1, 1, 256, 0);
}

static void route_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                         struct cuda_launch *l)
{
    (void)t;
    (void)args;
    set(l, div_up(m->tokens, 4), 1, 1, 128, 0);
}

static void group_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                         struct cuda_launch *l)
{
    (void)t;
    (void)m;
    set(l, ((const struct cuda_group_args *)args)->experts, 1, 1, 256, 0);
}

static void combine_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                           struct cuda_launch *l)
{
    const struct cuda_combine_args *a = args;
    const int block = row_threads(a->width, t);
    set(l, div_up(a->width, 16 / cuda_dtype_bytes(t) * block), m->tokens, 1, block, 0);
}

/* As in kernels/experts.cu. */
enum { EXPERTS_STAGES = 4, EXPERTS_DEPTH = 64, EXPERTS_WEIGHT_ROWS = 64 };

static void experts_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                           int rows, struct cuda_launch *l)
{
    const struct cuda_experts_args *a = args;
    const int outs = CUDA_ACT_IS_GATED(a->act) ? EXPERTS_WEIGHT_ROWS / 2 : EXPERTS_WEIGHT_ROWS;
    const int shared = EXPERTS_STAGES * (rows + EXPERTS_WEIGHT_ROWS) * EXPERTS_DEPTH * 2;
    set(l, div_up(a->outs, outs), cuda_experts_tiles((int64_t)m->tokens * a->k, a->experts, rows),
        1, 128, t == CUDA_F32 ? 0 : shared);
}

static void experts_few_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                               struct cuda_launch *l)
{
    experts_launch(args, t, m, CUDA_TILE_FEW, l);
}

static void experts_many_launch(const void *args, enum cuda_dtype t, const struct cuda_sizes *m,
                                struct cuda_launch *l)
{
    experts_launch(args, t, m, CUDA_TILE_MANY, l);
}

int cuda_experts_rows(enum cuda_kernel_id id)
{
    return id == CUDA_EXPERTS_FEW ? CUDA_TILE_FEW : CUDA_TILE_MANY;
}

/* Every expert that is hit has a tile that is not full. */
int cuda_experts_tiles(int64_t pairs, int experts, int rows)
{
    return (int)(pairs / rows) + (pairs < experts ? (int)pairs : experts);
}

/* While the pairs of an expert are a small tile in the mean, reading its weights is what counts. */
enum cuda_kernel_id cuda_experts_pick(int64_t pairs, int experts)
{
    return pairs <= (int64_t)CUDA_TILE_FEW * experts ? CUDA_EXPERTS_FEW : CUDA_EXPERTS_MANY;
}

/* ---- floors ---------------------------------------------------------------------------------- */

static struct cuda_floor embed_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_embed_args *a = args;
    return (struct cuda_floor){2.0 * a->batch.step->n_tokens * a->hidden * cuda_dtype_bytes(t), 0};
}

static struct cuda_floor norm_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_norm_args *a = args;
    const double row = (double)a->width * cuda_dtype_bytes(t);
    const int passes = 2 + (a->add != NULL) + (a->sum != NULL) + (a->residual != NULL);
    return (struct cuda_floor){row * (*a->count * passes + 1 + (a->bias != NULL)),
                               4.0 * a->width * *a->count};
}

static struct cuda_floor rope_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_rope_args *a = args;
    const double row = (double)(a->heads + 2 * a->kv_heads) * a->head_dim;
    const double angles = a->cosine ? 4.0 * a->head_dim : 0;
    const int n = a->batch.step->n_tokens;
    return (struct cuda_floor){n * (2 * row * cuda_dtype_bytes(t) + angles), 6 * row * n};
}

static struct cuda_floor act_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_act_args *a = args;
    const int parts = CUDA_ACT_IS_GATED(a->act) ? 3 : 2;
    const double n = (double)*a->count * a->width;
    return (struct cuda_floor){n * parts * cuda_dtype_bytes(t), 6 * n};
}

static struct cuda_floor bias_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_bias_args *a = args;
    const double n = (double)*a->count * a->width;
    return (struct cuda_floor){(2 * n + a->width) * cuda_dtype_bytes(t), n};
}

static double min_double(double a, double b)
{
    return a < b ? a : b;
}

/* Chunks, decode rows, or both. Keys and values are read once per segment. */
static struct cuda_floor attention_floor(const struct cuda_attention_args *a, enum cuda_dtype t,
                                         bool chunks, bool decodes)
{
    const struct cuda_step *s = a->batch.step;
    const double d = a->head_dim;
    double keys = 0, pairs = 0, tokens = 0;
    for (int i = chunks ? 0 : s->n_chunks; i < (decodes ? s->n_chunks + s->n_decodes : s->n_chunks);
         i++) {
        const struct cuda_segment *g = &a->batch.segments[i];
        const double all = g->kv_before + g->tokens, window = a->window > 0 ? a->window : all;
        /* tokens that see fewer keys than the window has */
        const double short_of = min_double(fmax(window - 1 - g->kv_before, 0), g->tokens);
        keys += min_double(all, window + g->tokens - 1);
        tokens += g->tokens;
        pairs += short_of * g->kv_before + short_of * (short_of + 1) / 2 +
                 (g->tokens - short_of) * window;
    }
    return (struct cuda_floor){(2 * keys * a->kv_heads + 2 * tokens * a->heads) * d *
                                   cuda_dtype_bytes(t),
                               4 * pairs * a->heads * d};
}

static struct cuda_floor decode_floor(const void *args, enum cuda_dtype t)
{
    return attention_floor(args, t, false, true);
}

static struct cuda_floor prefill_floor(const void *args, enum cuda_dtype t)
{
    return attention_floor(args, t, true, false);
}

static struct cuda_floor any_floor(const void *args, enum cuda_dtype t)
{
    return attention_floor(args, t, true, true);
}

static struct cuda_floor matmul_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_matmul_args *a = args;
    const double weights = (double)a->in * a->outs * (CUDA_ACT_IS_GATED(a->act) ? 2 : 1),
                 n = *a->count;
    const double out = n * a->outs * (a->out_float ? 4 : cuda_dtype_bytes(t));
    return (struct cuda_floor){(weights + n * a->in) * cuda_dtype_bytes(t) + out, 2 * n * weights};
}

static struct cuda_floor route_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_route_args *a = args;
    (void)t;
    return (struct cuda_floor){*a->count * (4.0 * a->experts + 8.0 * a->k), 0};
}

static struct cuda_floor group_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_group_args *a = args;
    (void)t;
    return (struct cuda_floor){8.0 * *a->count * a->k + 12.0 * a->experts, 0};
}

/* The weights of the experts that are hit, once; where the list is missing, without them. */
static struct cuda_floor experts_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_experts_args *a = args;
    const double weights = (double)a->in * a->outs * (CUDA_ACT_IS_GATED(a->act) ? 2 : 1);
    double pairs = 0, hit = 0;
    for (int i = 0; a->tiles && i < *a->n_tiles; i++) {
        hit += i == 0 || a->tiles[i].expert != a->tiles[i - 1].expert;
        pairs += a->tiles[i].n;
    }
    return (struct cuda_floor){(hit * weights + pairs / a->share * a->in + pairs * a->outs) *
                                   cuda_dtype_bytes(t),
                               2 * pairs * weights};
}

static struct cuda_floor combine_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_combine_args *a = args;
    const double n = (double)*a->count * a->width;
    return (struct cuda_floor){n * (a->k + 2) * cuda_dtype_bytes(t), 2 * n * a->k};
}

/* Weights, keys and values once. */
static struct cuda_floor decode_step_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_decode_step_args *a = args;
    const struct cuda_floor attention = attention_floor(&a->attention, t, false, true);
    const double q = (double)a->attention.heads * a->attention.head_dim, h = a->hidden,
                 kv = (double)a->attention.kv_heads * a->attention.head_dim,
                 layer = (2 * q + 2 * kv) * h + 3.0 * a->intermediate * h,
                 weights = a->layers * layer + a->vocab * h,
                 rows = a->attention.batch.step->n_decodes;
    return (struct cuda_floor){weights * cuda_dtype_bytes(t) + a->layers * attention.bytes +
                                   4 * rows * a->vocab,
                               2 * rows * weights + a->layers * attention.flop};
}

static struct cuda_floor argmax_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_argmax_args *a = args;
    (void)t;
    return (struct cuda_floor){4.0 * a->batch.step->n_rows * a->sample_vocab, 0};
}

static struct cuda_floor sample_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_sample_args *a = args;
    (void)t;
    double rows = 0;
    for (int r = 0; r < a->batch.step->n_rows; r++)
        rows += a->sampling[r].temperature > 0;
    return (struct cuda_floor){4.0 * rows * a->sample_vocab, 0};
}

static struct cuda_floor random_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_random_args *a = args;
    return (struct cuda_floor){(double)a->n * cuda_dtype_bytes(t), 0};
}

static struct cuda_floor fill_floor(const void *args, enum cuda_dtype t)
{
    const struct cuda_fill_args *a = args;
    return (struct cuda_floor){(double)a->n * cuda_dtype_bytes(t), 0};
}

/* ---- the table ------------------------------------------------------------------------------- */

enum {
    F32 = 1 << CUDA_F32,
    HALF = 1 << CUDA_F16 | 1 << CUDA_BF16,
    ALL = F32 | HALF,
};

/* float32: sums in another order, of which a single output may cancel to a small remainder. 16 bit:
 * roundings of the result (2^-12 and 2^-9 of it on average) that fall to the other side, and in
 * attention those of the weights before they are multiplied. Seen on an H200: 3.3e-5, 4.1e-4,
 * 3.7e-3 (bench/gpu). */
#define ROUNDED                                                  \
    {                                                            \
        [CUDA_F32] = 1e-4, [CUDA_F16] = 5e-4, [CUDA_BF16] = 4e-3 \
    }
/* Of a step's logits: roundings of every layer add up. */
#define ROUNDED_OFTEN                         \
    {                                         \
        [CUDA_F16] = 4e-3, [CUDA_BF16] = 3e-2 \
    }
#define EXACT \
    {         \
        0     \
    }

#define ROW(id, entry, file, types, head, type, bound, rule, body, least, text, ...) \
    [id] = {.name = entry,                                                           \
            .source = file,                                                          \
            .help = text,                                                            \
            .dtypes = types,                                                         \
            .min_arch = 80,                                                          \
            .head_dim = head,                                                        \
            .args_bytes = sizeof(struct type),                                       \
            .tolerance = bound,                                                      \
            .launch = rule,                                                          \
            .twin = body,                                                            \
            .floor = least,                                                          \
            __VA_ARGS__}

/* clang-format off */
#define MATMUL(id, entry, file, rule, text)                                                \
    ROW(id, entry, file, ALL, false, cuda_matmul_args, ROUNDED, rule, twin_matmul,         \
        matmul_floor, text, .shares = {"matmul_finish.cu"})
#define ATTENTION(id, entry, types, head, rule, body, least, text)                       \
    ROW(id, entry, entry ".cu", types, head, cuda_attention_args, ROUNDED, rule, body, least, text)

const struct cuda_kernel cuda_kernels[CUDA_KERNELS] = {
    ROW(CUDA_EMBED, "embed", "token.cu", ALL, false, cuda_embed_args, EXACT, embed_launch,
        twin_embed, embed_floor, "rows of the embedding"),
    ROW(CUDA_NORM, "norm", "token.cu", ALL, false, cuda_norm_args, ROUNDED, norm_launch,
        twin_norm, norm_floor, "residual add, RMS or layer norm"),
    ROW(CUDA_ROPE, "rope", "rope.cu", ALL, false, cuda_rope_args, ROUNDED, rope_launch,
        twin_rope, rope_floor, "q/k norm, rotation, KV append"),
    ROW(CUDA_ACT, "act", "token.cu", ALL, false, cuda_act_args, ROUNDED, act_launch,
        twin_act, act_floor, "gated SiLU or GELU"),
    ROW(CUDA_BIAS, "bias", "token.cu", ALL, false, cuda_bias_args, EXACT, bias_launch,
        twin_bias, bias_floor, "bias add"),
    ROW(CUDA_ROUTE, "route", "route.cu", ALL, false, cuda_route_args, ROUNDED, route_launch,
        twin_route, route_floor, "experts of each token"),
    ROW(CUDA_GROUP, "group", "route.cu", ALL, false, cuda_group_args, EXACT, group_launch,
        twin_group, group_floor, "pairs in the order of their experts"),
    ROW(CUDA_EXPERTS_FEW, "experts_few", "experts.cu", ALL, false, cuda_experts_args, ROUNDED,
        experts_few_launch, twin_experts, experts_floor, "grouped product of few pairs an expert"),
    ROW(CUDA_EXPERTS_MANY, "experts_many", "experts.cu", ALL, false, cuda_experts_args, ROUNDED,
        experts_many_launch, twin_experts, experts_floor, "of many pairs"),
    ROW(CUDA_COMBINE, "combine", "route.cu", ALL, false, cuda_combine_args, ROUNDED,
        combine_launch, twin_combine, combine_floor, "weighted sum of experts, residual add"),
    ROW(CUDA_ATTENTION_DECODE, "attention_decode", "attention_decode.cu", HALF, true,
        cuda_attention_args, ROUNDED, decode_launch, twin_attention_decode, decode_floor,
        "attention of decode rows", .shares = {"attention_page.cu"}),
    ATTENTION(CUDA_ATTENTION_PREFILL, "attention_prefill", HALF, true, prefill_launch,
              twin_attention_prefill, prefill_floor, "attention of prefill chunks"),
    ATTENTION(CUDA_ATTENTION_ANY, "attention_any", ALL, false, any_launch,
              twin_attention_any, any_floor, "attention of any shape"),
    MATMUL(CUDA_MATMUL_ONE, "matmul_one", "matmul_one.cu", one_launch, "product of one row"),
    MATMUL(CUDA_MATMUL_ONE_GATED, "matmul_one_gated", "matmul_one.cu", one_launch, "gate and up"),
    MATMUL(CUDA_MATMUL_FEW, "matmul_few", "matmul.cu", narrow_launch, "product of up to 8 rows"),
    MATMUL(CUDA_MATMUL_FEW_WIDE, "matmul_few_wide", "matmul.cu", wide_launch, "with many out features"),
    MATMUL(CUDA_MATMUL_FEW_GATED, "matmul_few_gated", "matmul.cu", narrow_launch, "gate and up"),
    MATMUL(CUDA_MATMUL_SOME, "matmul_some", "matmul.cu", narrow_launch, "product of up to 16 rows"),
    MATMUL(CUDA_MATMUL_SOME_WIDE, "matmul_some_wide", "matmul.cu", wide_launch, "with many out features"),
    MATMUL(CUDA_MATMUL_SOME_GATED, "matmul_some_gated", "matmul.cu", narrow_launch, "gate and up"),
    [CUDA_DECODE_STEP] = {.name = "decode_step",
                          .source = "decode_step.cu",
                          .shares = {"attention_page.cu", "step_block.cu", "step_stream.cu",
                                     "step_input.cu", "step_product.cu"},
                          .help = "a whole step of few decode rows",
                          .dtypes = HALF,
                          .min_arch = 90,
                          .head_dim = true,
                          .args_bytes = sizeof(struct cuda_decode_step_args),
                          .tolerance = ROUNDED_OFTEN,
                          .launch = decode_step_launch,
                          .twin = twin_decode_step,
                          .floor = decode_step_floor},
    ROW(CUDA_ARGMAX, "argmax", "sample.cu", ALL, false, cuda_argmax_args, EXACT, argmax_launch,
        twin_argmax, argmax_floor, "greedy sampling"),
    ROW(CUDA_SAMPLE, "sample", "sample.cu", ALL, false, cuda_sample_args, EXACT, sample_launch,
        twin_sample, sample_floor, "draws by temperature, min_p, top_k, top_p"),
    ROW(CUDA_RANDOM, "random", "random.cu", ALL, false, cuda_random_args, EXACT, random_launch,
        twin_random, random_floor, "seeded random weights"),
    ROW(CUDA_FILL, "fill", "random.cu", ALL, false, cuda_fill_args, EXACT, fill_launch,
        twin_fill, fill_floor, "one value"),
};
/* clang-format on */

const struct cuda_kernel *cuda_kernel_find(const char *entry, enum cuda_dtype *t)
{
    const char *end = strrchr(entry, '_');
    for (int i = 0; end && i < CUDA_KERNELS; i++) {
        const struct cuda_kernel *k = &cuda_kernels[i];
        const size_t n = strlen(k->name);
        if (n != (size_t)(end - entry) || memcmp(k->name, entry, n) != 0)
            continue;
        for (int d = 0; d < CUDA_DTYPES; d++)
            if (strcmp(end + 1, dtypes[d].name) == 0 && (k->dtypes >> d & 1)) {
                *t = (enum cuda_dtype)d;
                return k;
            }
    }
    return NULL;
}

const char *cuda_kernel_entry(struct arena *a, const struct cuda_kernel *k, enum cuda_dtype t)
{
    return arena_printf(a, "%s_%s", k->name, dtypes[t].name);
}

bool cuda_attention_fits(enum cuda_dtype t, int head_dim, int block_size)
{
    return t != CUDA_F32 && (head_dim == 64 || head_dim == 128) && block_size % 16 == 0;
}
