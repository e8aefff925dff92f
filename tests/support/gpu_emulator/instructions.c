/* What the instructions of a warp do. Fragments of 16-bit elements as in the PTX manual: lane 4 g +
 * t of an 8 x 8 matrix holds elements 2 t and 2 t + 1 of row g. */
#include <string.h>

#include "engine/cuda/twins.h"
#include "support/gpu_emulator/gpu_emulator.h"

float emulator_f32_of_f16(uint16_t v)
{
    static float all[1 << 16];
    if (all[0x3c00] != 1) /* of one */
        for (unsigned i = 0; i < 1 << 16; i++)
            all[i] = twin_get(CUDA_F16, &(uint16_t){(uint16_t)i}, 0);
    return all[v];
}

uint16_t emulator_f16_of_f32(float v)
{
    uint16_t r;
    twin_put(CUDA_F16, &r, 0, v);
    return r;
}

uint16_t emulator_bf16_of_f32(float v)
{
    uint16_t r;
    twin_put(CUDA_BF16, &r, 0, v);
    return r;
}

static float f32_of_bf16(uint32_t v)
{
    const uint32_t bits = v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The two elements of a register. */
static void unpack(bool bf16, uint32_t v, float *lo, float *hi)
{
    *lo = bf16 ? f32_of_bf16(v & 0xffff) : emulator_f32_of_f16((uint16_t)v);
    *hi = bf16 ? f32_of_bf16(v >> 16) : emulator_f32_of_f16((uint16_t)(v >> 16));
}

/* d [16, 8] += a [16, 16] b [16, 8]; b by columns. */
static void mma(bool bf16, struct emulator_lane *const lanes[32])
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const struct emulator_lane *l = lanes[lane];
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            float *to = &a[g + 8 * (i & 1)][2 * t + 8 * (i >> 1)];
            unpack(bf16, l->a[i], to, to + 1);
        }
        for (int i = 0; i < 2; i++)
            unpack(bf16, l->b[i], &b[2 * t + 8 * i][g], &b[2 * t + 8 * i + 1][g]);
    }
    for (int row = 0; row < 16; row++) {
        float sum[8] = {0};
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 8; n++)
                sum[n] += a[row][k] * b[k][n];
        for (int n = 0; n < 8; n++)
            lanes[row % 8 * 4 + n / 2]->d[row / 8 * 2 + n % 2] += sum[n];
    }
}

/* Four matrices: lanes 8 m .. 8 m + 7 name the rows of matrix m. */
static void ldmatrix(bool transposed, struct emulator_lane *const lanes[32])
{
    for (int lane = 0; lane < 32; lane++)
        for (int m = 0; m < 4; m++) {
            const int g = lane / 4, t = lane % 4;
            uint16_t e[2];
            for (int i = 0; i < 2; i++) {
                const int row = transposed ? 2 * t + i : g, column = transposed ? g : 2 * t + i;
                const char *from = (const char *)lanes[8 * m + row]->row + 2 * column;
                emulator_read(lane, from, sizeof e[i]);
                memcpy(&e[i], from, sizeof e[i]);
            }
            lanes[lane]->out[m] = e[0] | (uint32_t)e[1] << 16;
        }
}

static void movmatrix(struct emulator_lane *const lanes[32])
{
    for (int lane = 0; lane < 32; lane++) {
        const int g = lane / 4, t = lane % 4;
        uint64_t result = 0;
        for (int i = 0; i < 2; i++) /* element [2 t + i, g] */
            result |= (lanes[(2 * t + i) * 4 + g / 2]->value >> (g % 2 * 16) & 0xffff) << (16 * i);
        lanes[lane]->result = result;
    }
}

void emulator_warp_run(enum emulator_op op, unsigned mask, struct emulator_lane *const lanes[32])
{
    if (op >= EMULATOR_MMA_F16 && mask != 0xffffffffU)
        emulator_fault("a matrix instruction wants all lanes, not %08x", mask);
    if (op == EMULATOR_MMA_F16 || op == EMULATOR_MMA_BF16)
        mma(op == EMULATOR_MMA_BF16, lanes);
    else if (op == EMULATOR_LDMATRIX || op == EMULATOR_LDMATRIX_TRANS)
        ldmatrix(op == EMULATOR_LDMATRIX_TRANS, lanes);
    else if (op == EMULATOR_MOVMATRIX)
        movmatrix(lanes);
    uint64_t ballot = 0;
    for (int i = 0; op == EMULATOR_BALLOT && i < 32; i++)
        if (mask >> i & 1 && lanes[i]->value)
            ballot |= 1U << i;
    for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        if (op == EMULATOR_BALLOT)
            lanes[i]->result = ballot;
        if (op == EMULATOR_SHUFFLE && !(mask >> lanes[i]->source & 1))
            emulator_fault("a shuffle reads lane %d, which is not in the mask %08x",
                           lanes[i]->source, mask);
        if (op == EMULATOR_SHUFFLE)
            lanes[i]->result = lanes[lanes[i]->source]->value;
    }
}
