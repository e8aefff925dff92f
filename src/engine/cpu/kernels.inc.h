/* The source of every kernel set (described in kernels.h). The including file defines its name and
 * vector width; GCC's vector extension does the rest, so one source serves SSE, AVX2, AVX-512 and
 * NEON. */
#include <math.h>
#include <string.h>

#include "engine/cpu/kernels.h"

#define LANES KERNELS_LANES

typedef float vf __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

static inline vf load(const float *p)
{
    return *(const vf *)p;
}

static inline void store(float *p, vf v)
{
    *(vf *)p = v;
}

static inline vf splat(float f)
{
    return (vf){0} + f;
}

static inline vf select(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

static inline vf vmax(vf a, vf b)
{
    return select(a > b, a, b);
}

static inline vf vmin(vf a, vf b)
{
    return select(a < b, a, b);
}

/* The first n < LANES floats of p, the others `rest`. */
static inline vf load_part(const float *p, size_t n, float rest)
{
    vf v = splat(rest);
    memcpy(&v, p, n * sizeof *p);
    return v;
}

static inline void store_part(float *p, size_t n, vf v)
{
    memcpy(p, &v, n * sizeof *p);
}

static inline float hsum(vf v)
{
    float f[LANES];
    store(f, v);
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            f[i] += f[i + w];
    return f[0];
}

/* e^x to about 1 ulp for -87.3 <= x <= 88, clamped outside: x = n ln 2 + r with |r| <= ln 2 / 2,
 * Cephes' polynomial for e^r, 2^n put into the exponent. */
static inline vf vexp(vf x)
{
    const vf magic = splat(12582912.0F); /* 1.5 * 2^23: adding it rounds to an integer */
    x = vmin(vmax(x, splat(-87.3F)), splat(88.0F));
    const vf shifted = x * 1.44269504088896341F + magic;
    const vi n = (vi)shifted - (vi)magic;
    const vf fn = shifted - magic;
    const vf r = (x - fn * 0.693359375F) + fn * 2.12194440e-4F;
    vf p = splat(1.9875691500e-4F);
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    return p * (vf)((n + 127) << 23);
}

static inline vf sigmoid(vf x)
{
    return 1.0F / (1.0F + vexp(-x));
}

/* ---- tiles ------------------------------------------------------------------------------- */

/* How many k rows ahead weights are fetched: 2 KiB per panel, measured best in bench/engine. */
enum { AHEAD = 16 };

/* `panels` panels of `vecs` vectors each; b_step 0 = no fetching ahead. All counts are constants
 * where this is inlined, so acc lives in registers. */
static inline __attribute__((always_inline)) void tile_body(int rows, int panels, int vecs,
                                                            size_t b_step, const struct tile *t)
{
    const size_t k = t->k, lda = t->lda, ldb = t->ldb;
    const float *a = t->a, *b = t->b;
    vf acc[KERNELS_ROWS][8];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < panels * vecs; v++)
            acc[r][v] = t->init ? load(t->init + (size_t)r * t->ld_init + v * LANES) : (vf){0};
    }
    for (size_t i = 0; i < k; i++) {
        vf w[8];
        if (b_step) { /* past the end the panels that come next begin */
            const float *ahead = b + (i + AHEAD) * ldb;
            ahead += i + AHEAD < k ? 0 : (size_t)panels * b_step - k * ldb;
            UNROLL
            for (int v = 0; v < panels * vecs; v++)
                __builtin_prefetch(ahead + (size_t)(v / vecs) * b_step + v % vecs * LANES);
        }
        UNROLL
        for (int p = 0; p < panels; p++) {
            UNROLL
            for (int v = 0; v < vecs; v++)
                w[p * vecs + v] = load(b + (size_t)p * b_step + i * ldb + v * LANES);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < panels * vecs; v++)
                acc[r][v] += w[v] * a[(size_t)r * lda + i];
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < panels * vecs; v++)
            store(t->c + (size_t)r * t->ldc + v * LANES, acc[r][v]);
    }
}

/* X(rows) for every height of a tile. */
#define FIRST_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#if KERNELS_ROWS == 6
#define HEIGHTS FIRST_HEIGHTS
#elif KERNELS_ROWS == 14
#define HEIGHTS(X) FIRST_HEIGHTS(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#endif

#define DEFINE_TILES(rows)                                        \
    static void tile_##rows##_1(const struct tile *t)             \
    {                                                             \
        tile_body(rows, 1, 1, 0, t);                              \
    }                                                             \
    static void tile_##rows##_2(const struct tile *t)             \
    {                                                             \
        tile_body(rows, 1, 2, 0, t);                              \
    }                                                             \
    static void panel_##rows(size_t b_step, const struct tile *t) \
    {                                                             \
        tile_body(rows, 1, 2, b_step, t);                         \
    }
HEIGHTS(DEFINE_TILES)

#define NAME_TILES(rows) {tile_##rows##_1, tile_##rows##_2},
static void (*const tiles[KERNELS_ROWS][2])(const struct tile *) = {HEIGHTS(NAME_TILES)};

#define NAME_PANELS(rows) panel_##rows,
typedef void panel_fn(size_t b_step, const struct tile *t);
static panel_fn *const single_panels[KERNELS_ROWS] = {HEIGHTS(NAME_PANELS)};

static void tile(int rows, int vecs, const struct tile *t)
{
    tiles[rows - 1][vecs - 1](t);
}

static void panels_1_4(size_t b_step, const struct tile *t)
{
    tile_body(1, 4, 2, b_step, t);
}

static void panels_2_2(size_t b_step, const struct tile *t)
{
    tile_body(2, 2, 2, b_step, t);
}

static void panels_3_2(size_t b_step, const struct tile *t)
{
    tile_body(3, 2, 2, b_step, t);
}

static void panels(int rows, int64_t n, size_t b_step, const struct tile *first)
{
    static panel_fn *const wide[] = {panels_1_4, panels_2_2, panels_3_2};
    static const int step[] = {4, 2, 2};
    struct tile t = *first;
    while (n > 0) {
        const bool together = rows <= 3 && n >= step[rows - 1];
        const int done = together ? step[rows - 1] : 1;
        (together ? wide[rows - 1] : single_panels[rows - 1])(b_step, &t);
        t.b += (size_t)done * b_step;
        t.c += done * LANES * 2;
        if (t.init)
            t.init += done * LANES * 2;
        n -= done;
    }
}

/* ---- rows -------------------------------------------------------------------------------- */

static void add(size_t n, float *x, const float *y)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(x + i, load(x + i) + load(y + i));
    for (; i < n; i++)
        x[i] += y[i];
}

static void add_scaled(size_t n, float *x, const float *y, float by)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(x + i, load(x + i) + load(y + i) * by);
    if (i < n)
        store_part(x + i, n - i, load_part(x + i, n - i, 0) + load_part(y + i, n - i, 0) * by);
}

static void scale(size_t n, float *x, float by)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(x + i, load(x + i) * by);
    for (; i < n; i++)
        x[i] *= by;
}

static float sum(size_t n, const float *x)
{
    vf s[8] = {{0}};
    size_t i = 0;
    for (; i + LANES * 8 <= n; i += LANES * 8) {
        UNROLL
        for (int v = 0; v < 8; v++)
            s[v] += load(x + i + v * LANES);
    }
    for (; i + LANES <= n; i += LANES)
        s[0] += load(x + i);
    s[1] += load_part(x + i, n - i, 0);
    return hsum(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
}

/* Sum of (x - shift)^2. */
static inline float square_sum(size_t n, const float *x, float shift)
{
    vf s[4] = {{0}};
    size_t i = 0;
    for (; i + LANES * 4 <= n; i += LANES * 4) {
        UNROLL
        for (int v = 0; v < 4; v++) {
            const vf d = load(x + i + v * LANES) - shift;
            s[v] += d * d;
        }
    }
    for (; i + LANES <= n; i += LANES) {
        const vf d = load(x + i) - shift;
        s[0] += d * d;
    }
    const vf d = load_part(x + i, n - i, shift) - shift;
    s[1] += d * d;
    return hsum((s[0] + s[1]) + (s[2] + s[3]));
}

static void rms_norm(size_t n, const float *x, const float *w, float eps, float *out)
{
    const float inv = 1.0F / sqrtf(square_sum(n, x, 0) / (float)n + eps);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, load(x + i) * inv * load(w + i));
    for (; i < n; i++)
        out[i] = x[i] * inv * w[i];
}

static void layer_norm(size_t n, const float *x, const float *w, const float *b, float eps,
                       float *out)
{
    const float mean = sum(n, x) / (float)n;
    const float inv = 1.0F / sqrtf(square_sum(n, x, mean) / (float)n + eps);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, (load(x + i) - mean) * inv * load(w + i) + load(b + i));
    for (; i < n; i++)
        out[i] = (x[i] - mean) * inv * w[i] + b[i];
}

static void silu_mul(size_t n, const float *gate, const float *up, float *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vf g = load(gate + i);
        store(out + i, g * sigmoid(g) * load(up + i));
    }
    const vf g = load_part(gate + i, n - i, 0);
    store_part(out + i, n - i, g * sigmoid(g) * load_part(up + i, n - i, 0));
}

/* 0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
static inline vf gelu(vf x)
{
    return x * sigmoid(1.5957691216F * x * (1.0F + 0.044715F * x * x));
}

static void gelu_tanh(size_t n, const float *x, float *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, gelu(load(x + i)));
    store_part(out + i, n - i, gelu(load_part(x + i, n - i, 0)));
}

static void gelu_tanh_mul(size_t n, const float *gate, const float *up, float *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, gelu(load(gate + i)) * load(up + i));
    store_part(out + i, n - i, gelu(load_part(gate + i, n - i, 0)) * load_part(up + i, n - i, 0));
}

static inline vf clamped(vf g, vf u, float alpha, float limit)
{
    g = vmin(g, splat(limit));
    u = vmin(vmax(u, splat(-limit)), splat(limit));
    return g * sigmoid(g * alpha) * (u + 1.0F);
}

static void clamped_mul(size_t n, const float *gate, const float *up, float alpha, float limit,
                        float *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, clamped(load(gate + i), load(up + i), alpha, limit));
    store_part(out + i, n - i,
               clamped(load_part(gate + i, n - i, 0), load_part(up + i, n - i, 0), alpha, limit));
}

static void rope(size_t half, const float *cosine, const float *sine, float *x)
{
    size_t i = 0;
    for (; i + LANES <= half; i += LANES) {
        const vf c = load(cosine + i), s = load(sine + i);
        const vf lo = load(x + i), hi = load(x + half + i);
        store(x + i, lo * c - hi * s);
        store(x + half + i, hi * c + lo * s);
    }
    for (; i < half; i++) {
        const float c = cosine[i], s = sine[i], lo = x[i], hi = x[half + i];
        x[i] = lo * c - hi * s;
        x[half + i] = hi * c + lo * s;
    }
}

/* ---- softmax and argmax ------------------------------------------------------------------ */

static void ramp(size_t n, float *x, float slope, float first)
{
    for (size_t i = 0; i < n; i++)
        x[i] += slope * (first + (float)i);
}

static float max(size_t n, const float *x)
{
    vf m = splat(-INFINITY);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        m = vmax(load(x + i), m);
    m = vmax(load_part(x + i, n - i, -INFINITY), m);
    float best = m[0];
    for (int l = 1; l < LANES; l++)
        best = m[l] > best ? m[l] : best;
    return best;
}

static float exp_sum(size_t n, float *x, float shift)
{
    vf s = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vf p = vexp(load(x + i) - shift);
        s += p;
        store(x + i, p);
    }
    if (i < n) {
        const vf p = vexp(load_part(x + i, n - i, shift) - shift);
        store_part(x + i, n - i, p);
        s += load_part(x + i, n - i, 0);
    }
    return hsum(s);
}

static size_t argmax(size_t n, const float *x)
{
    const float best = max(n, x);
    for (size_t i = 0; i < n; i++)
        if (x[i] == best)
            return i;
    return 0;
}

const struct cpu_kernels KERNELS_SET = {
    .name = KERNELS_NAME,
    .lanes = LANES,
    .panel = 2 * LANES,
    .max_rows = KERNELS_ROWS,
    .tile = tile,
    .panels = panels,
    .add = add,
    .add_scaled = add_scaled,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .silu_mul = silu_mul,
    .gelu_tanh = gelu_tanh,
    .gelu_tanh_mul = gelu_tanh_mul,
    .clamped_mul = clamped_mul,
    .rope = rope,
    .scale = scale,
    .ramp = ramp,
    .max = max,
    .exp_sum = exp_sum,
    .argmax = argmax,
    .sum = sum,
};
