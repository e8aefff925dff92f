/* What advancing a state by a token costs, of the types of state that layers keep (structure.h).
 *
 * h heads with a matrix of [k, v] each, o = h v outputs, c channels of the short convolution with t
 * taps, C tokens that kernels take at once. FLOP of a token:
 *
 *     type          decode, token by token     prompts, C tokens at once
 *     delta         h (7 k v + 2 v)            h (6 k v + C (3 k + 2 v) + C^2 / 3)
 *     mamba         h (7 k + 3)                the same
 *     mamba2        h (5 k v + 2 v)            h (4 k v + C v + 2 v) + g C k, g heads of keys
 *     lightning     5 h k v                    h (4 k v + C (k + v))
 *     rg_lru        17 h                       the same
 *     convolution   2 c, its two gates         the same
 *     besides       c (2 t + 4): taps, SiLU; 9 o: norm and gate of the output
 *
 * Token by token: S decays (k v), the update (2 k v, of a delta rule first what the state holds of
 * the key, 2 k v), the output S q (2 k v). That is the floor of any way to compute it. C at once,
 * with triangles counted half: products with the state that came in and of the state that goes out,
 * 2 k v each, and inside of C tokens the products of queries, keys and values; a delta rule also
 * solves a triangular system of C tokens for the values that it writes.
 *
 *     delta        Yang, Kautz, Hatamizadeh: Gated Delta Networks (arXiv 2412.06464), 3.3; for Kimi
 *                  delta attention, whose decay is of each element of a key, the Kimi Linear report
 *                  (arXiv 2510.26692) counts 6 d^2 + 3 C d + C^2: for d = 128 and C = 64 within 11
 *                  percent of the above
 *     mamba        Gu, Dao: Mamba (arXiv 2312.00752), 3.2: exp(step A), 2; step x B, 1; the
 *                  recurrence, 2; times C and the sum, 2
 *     mamba2       Dao, Gu: Transformers are SSMs (arXiv 2405.21060), 6
 *     lightning    Qin et al.: Lightning Attention-2 (arXiv 2401.04658)
 *     rg_lru       De et al.: Griffin (arXiv 2402.19427), 2.4: two sigmoids, 8; exp(a r), 2;
 *                  sqrt(1 - a^2), 3; input and recurrence, 4
 *
 * Elements that a token moves: the convolution reads and writes its channels, the recurrence reads
 * its queries, keys, values and rates and writes its outputs, the gate reads outputs and gates and
 * writes outputs. The state itself is read and written once for each sequence of a decode batch,
 * and once for each chunk of a prompt: the floor of both. */
#ifndef MODEL_STATE_OPS_H
#define MODEL_STATE_OPS_H

#include "model/structure.h"

struct state_work {
    double decode_flop, prompt_flop; /* of a token */
    double token_elements;
};

/* s: of one shard or all. */
struct state_work state_work_of(const struct sequence_state *s);

/* How kernels for prompts fall short of a GPU's peak in a way that the work does not say. They take
 * the pieces of a sequence one after the other, so a prompt alone takes a time for each, however
 * small the work. Measured for delta rules (NVIDIA's AIConfigurator 0.12.0, vLLM on H100 and H200,
 * 512 to 32,768 tokens):
 *
 *     gated delta net   0.34 of the bf16 peak, 4 sequences of 32 heads and more (0.33 to 0.36)
 *     (0.24.0)          3.05 us for 64 tokens of one sequence, 4 to 64 heads (2.95 to 3.4);
 *                       B200 0.20, and 2.5 us
 *     Kimi delta        0.155, 4 sequences of 96 heads (0.13 to 0.16); 4.5 us, 12 heads of one
 *     attention         sequence; B200 0.087, 4.0 us
 *
 * Triton kernels, as SGLang and GPUs before Hopper have them, reach 0.02 to 0.06. Of other types no
 * such table is known: 0, as attention. */
struct state_kernel {
    double efficiency; /* fraction of the peak where sequences and heads fill the GPU */
    double piece_s;    /* a piece of s->chunk tokens of one sequence, at least */
};
struct state_kernel state_kernel_of(const struct sequence_state *s);

#endif
