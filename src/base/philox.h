/* Philox4x32-10: 128 random bits of a counter and a key, without a state, so that any part of a
 * sequence may be made anywhere: by any thread, on a GPU. From J. Salmon, M. Moraes, R. Dror and D.
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the known answers that its authors
 * publish with Random123 are the test's.
 *
 * Thread rule: pure functions. */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stddef.h>
#include <stdint.h>

enum { PHILOX_WORDS = 4 };

void philox(const uint32_t counter[PHILOX_WORDS], const uint32_t key[2],
            uint32_t out[PHILOX_WORDS]);

/* Blocks first, first + 1, ... of a stream: their counters are {block, block >> 32, stream[0],
 * stream[1]}. out: [n][PHILOX_WORDS]. */
void philox_blocks(const uint32_t key[2], const uint32_t stream[2], uint64_t first, size_t n,
                   uint32_t *out);

#endif
