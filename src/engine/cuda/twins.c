#include "engine/cuda/twins.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"

/* ---- elements -------------------------------------------------------------------------------- */

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static float half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, m = h & 0x3ff;
    if (exponent == 31)
        return float_of(sign | 0x7f800000 | m << 13);
    if (exponent == 0)
        return (sign ? -1.0F : 1.0F) * (float)m * 0x1p-24F;
    return float_of(sign | (exponent + 112) << 23 | m << 13);
}

static uint16_t float_to_half(float f)
{
    const uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7fff;           /* as the device's cvt: one NaN */
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: a multiple of 2^-24 */
        const float scaled = float_of(magnitude) * 0x1p24F;
        return (uint16_t)(sign | (uint32_t)rintf(scaled));
    }
    const uint32_t rebased = magnitude - (112U << 23);
    return (uint16_t)(sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
}

static uint16_t float_to_bfloat(float f)
{
    const uint32_t u = bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float twin_get(enum cuda_dtype t, const void *p, int64_t i)
{
    if (t == CUDA_F32)
        return ((const float *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    return t == CUDA_F16 ? half_to_float(h) : float_of((uint32_t)h << 16);
}

void twin_put(enum cuda_dtype t, void *p, int64_t i, float v)
{
    if (t == CUDA_F32)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = t == CUDA_F16 ? float_to_half(v) : float_to_bfloat(v);
}

float twin_rounded(enum cuda_dtype t, float v)
{
    uint16_t h;
    if (t == CUDA_F32)
        return v;
    twin_put(t, &h, 0, v);
    return twin_get(t, &h, 0);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

void twin_embed(const void *args, enum cuda_dtype t)
{
    const struct cuda_embed_args *a = args;
    const size_t row = (size_t)a->hidden * (size_t)cuda_dtype_bytes(t);
    for (int i = 0; i < a->batch.step->n_tokens; i++) {
        int id = a->batch.ids[i];
        if (id < 0)
            id = a->batch.last[-1 - id];
        memcpy((char *)a->x + (size_t)i * row, (const char *)a->table + (size_t)id * row, row);
        for (int64_t j = 0; a->scale != 0 && j < a->hidden; j++)
            twin_put(t, a->x, i * (int64_t)a->hidden + j,
                     twin_get(t, a->x, i * (int64_t)a->hidden + j) * a->scale);
    }
}

static void norm_row(const struct cuda_norm_args *a, enum cuda_dtype t, int r, float *v)
{
    const int64_t from = (int64_t)(a->gather ? a->gather[r] : r) * a->width;
    double mean = 0, square = 0;
    for (int i = 0; i < a->width; i++) {
        v[i] = twin_get(t, a->x, from + i);
        if (a->add)
            v[i] = twin_rounded(t, v[i] + twin_get(t, a->add, from + i));
        if (a->sum)
            twin_put(t, a->sum, from + i, v[i]);
        mean += (double)v[i] / a->width;
    }
    mean = a->bias ? mean : 0;
    for (int i = 0; i < a->width; i++)
        square += ((double)v[i] - mean) * ((double)v[i] - mean) / a->width;
    const float inv = (float)(1 / sqrt(square + (double)a->eps));
    for (int i = 0; i < a->width; i++) {
        const float w = twin_get(t, a->weight, i), b = a->bias ? twin_get(t, a->bias, i) : 0;
        const int64_t to = (int64_t)r * a->width + i;
        float n = (v[i] - (float)mean) * inv * (w + (a->bias ? 0 : a->offset)) + b;
        if (a->residual)
            n = twin_get(t, a->residual, to) + twin_rounded(t, n);
        twin_put(t, a->out, to, n);
    }
}

void twin_norm(const void *args, enum cuda_dtype t)
{
    const struct cuda_norm_args *a = args;
    float *v = mem_alloc((size_t)a->width * sizeof *v);
    for (int r = 0; r < *a->count; r++)
        norm_row(a, t, r, v);
    mem_free(v);
}

/* One head of a token: from x to `to`, which may be x. */
static void rope_head(const struct cuda_rope_args *a, enum cuda_dtype t, const void *norm,
                      bool rotate, int position, const void *x, int64_t from, void *to, int64_t at)
{
    const int d = a->head_dim, half = d / 2;
    float v[256];
    double square = 0;
    for (int i = 0; i < d; i++) {
        v[i] = twin_get(t, x, from + i);
        square += (double)v[i] * (double)v[i] / d;
    }
    const float inv = (float)(1 / sqrt(square + (double)a->eps));
    for (int i = 0; norm && i < d; i++)
        v[i] = twin_rounded(t, v[i] * inv * (twin_get(t, norm, i) + a->norm_offset));
    for (int i = 0; rotate && i < half; i++) {
        const int64_t angle = (int64_t)position * half + i;
        const float c = a->cosine[angle], s = a->sine[angle], lo = v[i], hi = v[half + i];
        v[i] = lo * c - hi * s;
        v[half + i] = hi * c + lo * s;
    }
    for (int i = 0; i < d; i++)
        twin_put(t, to, at + i, v[i]);
}

void twin_rope_token(const struct cuda_rope_args *a, enum cuda_dtype t, int token)
{
    const int64_t row = (int64_t)token * (a->heads + 2 * a->kv_heads) * a->head_dim;
    const int block = a->batch.kv_at[token] / a->block_size;
    const int offset = a->batch.kv_at[token] % a->block_size, position = a->batch.positions[token];
    for (int h = 0; h < a->heads + 2 * a->kv_heads; h++) {
        const int64_t from = row + (int64_t)h * a->head_dim;
        const int kv = h - a->heads;
        const int64_t at =
            (((int64_t)block * a->kv_heads + kv % a->kv_heads) * a->block_size + offset) *
            a->head_dim;
        if (kv < 0)
            rope_head(a, t, a->q_norm, a->cosine != NULL, position, a->qkv, from, a->qkv, from);
        else if (kv < a->kv_heads)
            rope_head(a, t, a->k_norm, a->cosine != NULL, position, a->qkv, from, a->k, at);
        else
            rope_head(a, t, NULL, false, position, a->qkv, from, a->v, at);
    }
}

void twin_rope(const void *args, enum cuda_dtype t)
{
    const struct cuda_rope_args *a = args;
    for (int i = 0; i < a->batch.step->n_tokens; i++)
        twin_rope_token(a, t, i);
}

static float sigmoid(float x)
{
    return 1.0F / (1.0F + expf(-x));
}

static float gelu(float x)
{
    return x * sigmoid(1.5957691216F * x * (1.0F + 0.044715F * x * x));
}

float twin_activated(int act, float v, float u, float alpha, float limit)
{
    switch (act) {
    case CUDA_ACT_SILU_GATED:
        return v * sigmoid(v) * u;
    case CUDA_ACT_GELU_TANH:
        return gelu(v);
    case CUDA_ACT_GELU_GATED:
        return gelu(v) * u;
    case CUDA_ACT_CLAMPED_GATED:
        v = fminf(v, limit);
        u = fminf(fmaxf(u, -limit), limit);
        return v * sigmoid(alpha * v) * (u + 1.0F);
    default:
        return v;
    }
}

void twin_act(const void *args, enum cuda_dtype t)
{
    const struct cuda_act_args *a = args;
    const bool gated = CUDA_ACT_IS_GATED(a->act);
    for (int r = 0; r < *a->count; r++)
        for (int i = 0; i < a->width; i++) {
            const int64_t from = (int64_t)r * a->width * (gated ? 2 : 1) + i;
            float v = twin_get(t, a->up, from) + (a->bias ? twin_get(t, a->bias, i) : 0);
            float up = 0;
            if (gated)
                up = twin_get(t, a->up, from + a->width) +
                     (a->bias ? twin_get(t, a->bias, a->width + i) : 0);
            v = twin_activated(a->act, v, up, 0, 0);
            twin_put(t, a->out, (int64_t)r * a->width + i, v);
        }
}

void twin_bias(const void *args, enum cuda_dtype t)
{
    const struct cuda_bias_args *a = args;
    for (int r = 0; r < *a->count; r++)
        for (int i = 0; i < a->width; i++) {
            const int64_t at = (int64_t)r * a->width + i;
            twin_put(t, a->x, at, twin_get(t, a->x, at) + twin_get(t, a->bias, i));
        }
}

/* ---- matmul ---------------------------------------------------------------------------------- */

/* The input of row r as the kernel multiplies it; returns what its sums are multiplied with. In
 * bfloat16 the norm's scale comes after the product. */
static float matmul_input(const struct cuda_matmul_args *a, enum cuda_dtype t, int r, float *x)
{
    const int64_t from = (int64_t)(a->gather ? a->gather[r] : r) * a->in;
    double square = 0;
    for (int i = 0; i < a->in; i++) {
        x[i] = twin_get(t, a->x, from + i);
        square += (double)x[i] * (double)x[i];
    }
    if (!a->norm)
        return 1;
    const float scale = (float)(1 / sqrt(square / a->in + (double)a->eps));
    for (int i = 0; i < a->in; i++)
        x[i] = twin_rounded(t, x[i] * (t == CUDA_BF16 ? 1 : scale) * twin_get(t, a->norm, i));
    return t == CUDA_BF16 ? scale : 1;
}

static float dot(const struct cuda_matmul_args *a, enum cuda_dtype t, int64_t row, const float *x)
{
    double sum = 0;
    for (int i = 0; i < a->in; i++)
        sum += (double)x[i] * (double)twin_get(t, a->weight, row * a->in + i);
    return (float)sum;
}

void twin_matmul(const void *args, enum cuda_dtype t)
{
    const struct cuda_matmul_args *a = args;
    const bool gated = CUDA_ACT_IS_GATED(a->act);
    float *x = mem_alloc((size_t)a->in * sizeof *x);
    for (int r = 0; r < *a->count; r++) {
        const float scale = matmul_input(a, t, r, x);
        for (int o = 0; o < a->outs; o++) {
            float v = dot(a, t, o, x) * scale + (a->bias ? twin_get(t, a->bias, o) : 0);
            float up = 0;
            if (gated)
                up = dot(a, t, (int64_t)a->outs + o, x) * scale +
                     (a->bias ? twin_get(t, a->bias, a->outs + o) : 0);
            v = twin_activated(a->act, v, up, 0, 0);
            const int64_t at = (int64_t)r * a->outs + o;
            if (a->residual)
                v += twin_get(t, a->residual, at);
            twin_put(a->out_float ? CUDA_F32 : t, a->out, at, v);
        }
    }
    mem_free(x);
}

/* ---- weights --------------------------------------------------------------------------------- */

static int64_t random_place(const struct cuda_random_args *a, int64_t i)
{
    if (a->width == 0)
        return i;
    const int64_t column = i % a->width,
                  row = a->pairs ? column % 2 * (a->width / 2) + column / 2 : column;
    return row * (a->n / a->width) + i / a->width;
}

void twin_random(const void *args, enum cuda_dtype t)
{
    const struct cuda_random_args *a = args;
    const int64_t from = a->first / CUDA_RANDOM_PER_BLOCK * CUDA_RANDOM_PER_BLOCK;
    for (int64_t i = from; i < a->first + a->n; i += CUDA_RANDOM_PER_BLOCK) {
        const uint64_t block = (uint64_t)i / CUDA_RANDOM_PER_BLOCK;
        const uint32_t counter[] = {(uint32_t)block, (uint32_t)(block >> 32), a->stream[0],
                                    a->stream[1]};
        uint32_t x[PHILOX_WORDS];
        philox(counter, a->key, x);
        for (int j = 0; j < CUDA_RANDOM_PER_BLOCK; j++)
            if (i + j >= a->first && i + j < a->first + a->n)
                twin_put(t, a->out, random_place(a, i + j - a->first),
                         a->quantiles[x[j / 2] >> (j % 2 * 16) & 0xffff]);
    }
}

void twin_fill(const void *args, enum cuda_dtype t)
{
    const struct cuda_fill_args *a = args;
    for (int64_t i = 0; i < a->n; i++)
        twin_put(t, a->out, i, a->value);
}
