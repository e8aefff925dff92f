/* Runs the CUDA sources of src/engine/cuda/kernels on the host, so that tests hold the kernels
 * themselves, not only their twins in C, to what they must compute.
 *
 * programs.cpp compiles the sources as C++ with device.hpp in place of what NVRTC declares and of
 * kernels/ptx.cu. A thread is a stack of its own; all threads of all blocks take turns in one host
 * thread, and a turn ends only where a thread waits. So a launch is deterministic.
 *
 * What is modelled:
 *   - blocks, warps, dynamic shared memory (NaN at first), static shared memory (what the block
 *     before left in it);
 *   - shuffles, votes, __syncwarp, mma, ldmatrix, movmatrix: done when the last lane of the mask
 * has come. A lane that has left, or is at another of them, is a fault;
 *   - __syncthreads, bar.sync by number; mbarriers with their phases;
 *   - cp.async: done when issued, or as late as its waits allow (emulator_order.late);
 *   - 16-byte accesses of PTX and of cp.async that are not aligned, cp.async, ldmatrix and
 * mbarriers outside of shared memory, traps: faults;
 *   - threads that wait for each other or for words that nobody writes: a fault that says where
 * they stand, not a hang. Beneath AddressSanitizer, accesses past a static array of shared memory,
 * past dynamic shared memory and past a buffer are found as well.
 *
 * Orders: threads, warps and blocks come in rising or falling order, each as far as it gets before
 * the next begins. Two threads that touch the same bytes without a barrier between them, one of
 * them writing, mostly give other results in the other order: a race is seen as a difference.
 *
 * Races are also found as such, whatever the results (emulator_order.races): an access that no
 * barrier, fence or wait orders with an earlier one of another thread is a fault that names both.
 * races.h has the rules, which are stricter than what a GPU does: neither a shuffle nor mma orders
 * memory.
 *
 * What is not: time, bank conflicts, caches, stale values (every write is seen at once, in order),
 * other interleavings than the two, registers and their limits, programmatic dependent launch
 * (kernels run one by one), rounding inside mma (sums are float32, in order), approximate functions
 * (exp, ex2, rsqrt, division are the host's). Blocks that wait for each other must all be launched
 * `together`, and then have no static shared memory.
 *
 * One host thread at a time. */
#ifndef SUPPORT_GPU_EMULATOR_H
#define SUPPORT_GPU_EMULATOR_H

#ifdef __cplusplus
extern "C" {
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- for tests ---- */

struct emulator_launch {
    void (*kernel)(const void *args);
    const void *args;
    unsigned grid[3], block; /* block: a multiple of 32 */
    size_t shared_bytes;
    bool together; /* all blocks at once, not one after the other */
};

struct emulator_order {
    bool falling; /* last thread, warp and block first */
    bool late;    /* asynchronous copies arrive when they are waited for */
    bool races;   /* are faults, where emulator_finds_races() */
};

/* NULL, or what went wrong; lives until the next launch. */
const char *emulator_run(const struct emulator_launch *l, struct emulator_order order);

/* False: the kernels were compiled with a sanitizer that leaves no room for it. */
bool emulator_finds_races(void);
/* Places of the sources that order accesses (barriers, fences, waits, arrivals), "norm.cu:12", of
 * launches so far that looked for races; NULL: there are fewer. */
const char *emulator_order_place(int i);
void emulator_forget_order_places(void);
/* From now on that place orders nothing, as if it were missing, though threads wait there. NULL:
 * all of them order. */
void emulator_without(const char *place);
long emulator_races(void); /* found so far */

/* A kernel of programs.cpp. head_dim 0: of any program. NULL: there is none. */
struct emulator_entry {
    const char *name; /* of struct cuda_kernel */
    void (*kernel)(const void *args);
};
const struct emulator_entry *emulator_entry(const char *name, int dtype, int head_dim);

/* ---- for device.hpp ---- */

struct emulator_dim {
    unsigned x, y, z;
};
/* What threadIdx and the others are: of the thread whose turn it is. */
struct emulator_place {
    struct emulator_dim thread, block, block_dim, grid_dim;
};
#ifdef __cplusplus /* a thread's never changes */
extern const struct emulator_place *const emulator_place;
#else
extern const struct emulator_place *emulator_place;
#endif

struct emulator_source {
    const char *file;
    int line;
};

enum emulator_op {
    EMULATOR_SYNCWARP,
    EMULATOR_SHUFFLE,
    EMULATOR_BALLOT,
    EMULATOR_MMA_F16,
    EMULATOR_MMA_BF16,
    EMULATOR_LDMATRIX,
    EMULATOR_LDMATRIX_TRANS,
    EMULATOR_MOVMATRIX,
    EMULATOR_OPS
};
/* A lane's part in an operation of its warp. */
struct emulator_lane {
    uint64_t value, result; /* shuffle; ballot; movmatrix */
    int source;             /* lane that a shuffle reads */
    float *d;               /* mma */
    uint32_t a[4], b[2];
    const void *row; /* ldmatrix: 16 bytes */
    uint32_t *out;
    struct emulator_source at; /* syncwarp */
};
/* Returns when all lanes of the mask have come, and it is done. */
void emulator_warp(enum emulator_op op, unsigned mask, struct emulator_lane *mine);
/* instructions.c: what `op` does, for the lanes of the mask. */
void emulator_warp_run(enum emulator_op op, unsigned mask, struct emulator_lane *const lanes[32]);

int emulator_lane_id(void);
unsigned emulator_block_threads(void);
void emulator_read(int lane, const void *p, size_t bytes); /* by that lane of the warp */
void emulator_barrier(int id, unsigned threads, struct emulator_source at);
void emulator_fence(struct emulator_source at);

enum emulator_atomic {
    EMULATOR_LOAD,
    EMULATOR_STORE,
    EMULATOR_ADD,
    EMULATOR_MAX,
    EMULATOR_EXCHANGE
};
/* Of 4 or 8 bytes; returns what was there. */
uint64_t emulator_atomic(enum emulator_atomic op, void *p, size_t bytes, uint64_t v);
void *emulator_shared(void); /* the block's dynamic shared memory */
uint32_t emulator_shared_address(const void *p);
void *emulator_shared_at(uint32_t address, size_t bytes, size_t align);
const void *emulator_aligned(const void *p, size_t align);
void emulator_copy(uint32_t to, const void *from, int bytes); /* cp.async of 16 bytes */
void emulator_copy_arrive(uint32_t mbarrier, struct emulator_source at);
void emulator_copy_wait(struct emulator_source at);
void emulator_copy_commit(void);
void emulator_copy_wait_groups(unsigned keep,
                               struct emulator_source at); /* all but the last so many */
void emulator_mbarrier_init(uint32_t mbarrier, int arrivals);
void emulator_mbarrier_arrive(uint32_t mbarrier, struct emulator_source at);
bool emulator_mbarrier_test(uint32_t mbarrier, uint32_t parity, struct emulator_source at);
void emulator_turn(void);      /* the others' turn: in a loop that waits for what they write */
uint64_t emulator_clock(void); /* 1, 2, 3, ... */
void emulator_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- instructions.c ---- */

float emulator_f32_of_f16(uint16_t v);
uint16_t emulator_f16_of_f32(float v);
uint16_t emulator_bf16_of_f32(float v);

#ifdef __cplusplus
}
#endif
#endif
