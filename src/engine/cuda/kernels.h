/* The kernels of the CUDA engine: one table, a row per entry of the sources in kernels/.
 *
 * Sources are CUDA C embedded as text and compiled by NVRTC on the machine they run on, which has a
 * driver and libnvrtc but no headers: they include nothing and use only what NVRTC declares itself.
 * A program is cuda_program's text: definitions (dtype, HEAD_DIM), kernels/args.h, kernels/ptx.cu,
 * kernels/prelude.cu, the files that its source shares with others, and the source. It holds every
 * entry of that source for one dtype; entries end in the dtype ("norm_bf16"). Compile for the
 * device's own architecture, sm_80 or later; sources ask __CUDA_ARCH__ for what only some have
 * (programmatic dependent launch from sm_90 on).
 *
 * An entry takes one argument, a struct of kernels/args.h by value. Everything that changes from
 * step to step is read from device memory through it, so a launch can be captured in a graph: the
 * grid comes from the largest sizes the graph is made for (struct cuda_sizes), and blocks beyond
 * the step's end. Scratch that must be 0 before a kernel is 0 after it.
 *
 * Programmatic dependent launch: every entry allows the next to start early and waits before it
 * touches what kernels write. Where the device has it, launch all kernels of a step but the first
 * with CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION; the first depends on the copies of
 * the step's metadata, which must be complete before it starts, and on the step before: what a
 * kernel reads early is weights, tables, metadata, and keys and values of a decode row's earlier
 * tokens. Kernels are equally correct without.
 *
 * Only kernels/ptx.cu has asm, an instruction a function: the tests' emulator of a GPU
 * (tests/support/gpu_emulator) has these functions for the host and runs the sources as they are.
 *
 * A twin does the same in plain C on host memory: the reference of tests, the kernel's body on the
 * fake device, and the description of what it computes. It rounds to the dtype where the kernel
 * does; sums are in another order, so results agree within the row's tolerance: the norm of the
 * difference over the norm of the twin's result. 0 = bit by bit. Twins are deterministic.
 *
 * Thread rule: the table is constant; all functions may be called from any thread. */
#ifndef ENGINE_CUDA_KERNELS_H
#define ENGINE_CUDA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "engine/cuda/kernels/args.h"

enum cuda_dtype { CUDA_F32, CUDA_F16, CUDA_BF16, CUDA_DTYPES };
const char *cuda_dtype_name(enum cuda_dtype t); /* "f32", "f16", "bf16": ends of entries */
int cuda_dtype_bytes(enum cuda_dtype t);

enum cuda_kernel_id {
    CUDA_EMBED,
    CUDA_NORM,              /* RMS or layer norm, with the residual add before it */
    CUDA_ROPE,              /* q/k norm, rotation, KV append */
    CUDA_ACT,               /* gated SiLU or GELU, with bias */
    CUDA_BIAS,              /* bias add */
    CUDA_ROUTE,             /* each token's experts and their weights */
    CUDA_GROUP,             /* the pairs of token and expert in the order of the experts */
    CUDA_EXPERTS_FEW,       /* grouped product, act: few pairs an expert */
    CUDA_EXPERTS_MANY,      /* many */
    CUDA_COMBINE,           /* weighted sum of a token's experts, residual add */
    CUDA_ATTENTION_DECODE,  /* split-KV, GQA-packed; head_dim 64 or 128, 16 bit */
    CUDA_ATTENTION_PREFILL, /* tensor cores, causal, cached context; likewise */
    CUDA_ATTENTION_ANY,     /* any head_dim up to 256, any dtype, chunks and decode rows */
    CUDA_MATMUL_ONE, /* one row, of at most CUDA_MATMUL_ONE_BYTES; norm, bias, act, residual */
    CUDA_MATMUL_ONE_GATED, /* gate and up, then silu(gate) * up */
    CUDA_MATMUL_FEW,       /* up to 8 rows, 8 out features a block; norm, bias, act, residual */
    CUDA_MATMUL_FEW_WIDE,  /* 16 out features a block */
    CUDA_MATMUL_FEW_GATED, /* gate and up, then silu(gate) * up */
    CUDA_MATMUL_SOME,      /* the same for up to 16 rows */
    CUDA_MATMUL_SOME_WIDE,
    CUDA_MATMUL_SOME_GATED,
    CUDA_DECODE_STEP, /* all layers and lm_head for up to 4 decode rows; 16 bit */
    CUDA_ARGMAX,
    CUDA_SAMPLE, /* temperature, min_p, top_k, top_p */
    CUDA_RANDOM, /* weights of model.weights=random:<seed> */
    CUDA_FILL,
    CUDA_KERNELS
};

/* The largest step that a launch is made for. */
struct cuda_sizes {
    int tokens, rows, chunks, decodes;
    int runs; /* of attention_decode, and the parts of all: engine/cuda/parts.h */
    int parts;
    int parts_at_once;       /* that the device runs at once */
    int spans;               /* lists of runs and parts, each of these sizes; 0 is as 1 */
    int windows[CUDA_SPANS]; /* keys that a row of each sees; 0 = all */
    int sms;                 /* multiprocessors of the device */
};

struct cuda_launch {
    unsigned grid[3], block;
    unsigned shared_bytes; /* dynamic; above 48 KiB the function's limit must be raised first */
};

/* What no implementation can do without, on the batch the arguments name: every input and weight
 * read once, every output written once. */
struct cuda_floor {
    double bytes, flop;
};

enum { CUDA_SHARES = 6 };

struct cuda_kernel {
    const char *name;                /* without the dtype: "norm" */
    const char *source;              /* file of kernels/ */
    const char *shares[CUDA_SHARES]; /* other files of kernels/ in front of it, ends with NULL */
    const char *help;
    unsigned dtypes; /* 1 << enum cuda_dtype */
    int min_arch;    /* 80 = sm_80 */
    bool head_dim;   /* its program is made for one head_dim, 64 or 128 */
    size_t args_bytes;
    double tolerance[CUDA_DTYPES];
    void (*launch)(const void *args, enum cuda_dtype t, const struct cuda_sizes *most,
                   struct cuda_launch *out);
    void (*twin)(const void *args, enum cuda_dtype t);               /* pointers are the host's */
    struct cuda_floor (*floor)(const void *args, enum cuda_dtype t); /* likewise */
};

extern const struct cuda_kernel cuda_kernels[CUDA_KERNELS];

/* The row and dtype of an entry ("norm_bf16"); NULL = there is none. */
const struct cuda_kernel *cuda_kernel_find(const char *entry, enum cuda_dtype *t);
const char *cuda_kernel_entry(struct arena *a, const struct cuda_kernel *k, enum cuda_dtype t);

/* The whole text of a source's program, its entries listed in comments at the top. head_dim 0 where
 * no row of it wants one. NULL: no such source. */
const char *cuda_program(struct arena *a, const char *source, enum cuda_dtype t, int head_dim);
/* Whether attention_decode and attention_prefill take the shape; otherwise attention_any does. */
bool cuda_attention_fits(enum cuda_dtype t, int head_dim, int block_size);
/* Heads are handled in tiles of 8 that share a KV head: columns of attention_decode's grid, and
 * counters per sequence. */
int cuda_attention_head_tiles(int heads, int kv_heads);

/* ---- decode_step ------------------------------------------------------------------------- */

/* Its blocks wait for each other, so that all must run at once: one a multiprocessor, each with
 * CUDA_DECODE_STEP_SHARED_BYTES. Launch it only where gpu_kernel_blocks (gpu/module.h) says that a
 * multiprocessor has room for one, and beside no other kernel that waits for blocks of its own. */

/* Parts that the keys of a sequence are cut into when up to `rows` sequences are decoded. */
int cuda_decode_step_parts(int rows, int heads, int kv_heads, int sms);
/* Most rows that it takes for the sizes in `a`, whose pointers are not read; 0: none. */
int cuda_decode_step_rows(const struct cuda_decode_step_args *a, enum cuda_dtype t, int sms);
/* 8-byte words of args.exchange for the sizes in `a` and up to so many rows. */
long long cuda_decode_step_words(const struct cuda_decode_step_args *a, int rows, int sms);
enum { CUDA_STEP_PHASES = 6 };
/* Numbers of its stamps, and the phase of each: "qkv", "attend", "out", "up", "down", "head". */
int cuda_decode_step_stamps(int layers);
const char *cuda_decode_step_phase(int layers, int interval); /* between stamps i and i + 1 */

/* The grouped product for so many pairs, and the pairs of its tiles. */
enum cuda_kernel_id cuda_experts_pick(int64_t pairs, int experts);
int cuda_experts_rows(enum cuda_kernel_id id);
/* Most tiles of so many pairs. */
int cuda_experts_tiles(int64_t pairs, int experts, int rows);

/* The matmul for `a`, whose pointers are not read, with up to `rows` rows, at most 16. */
enum cuda_kernel_id cuda_matmul_pick(const struct cuda_matmul_args *a, int rows, enum cuda_dtype t,
                                     int sms);
enum { CUDA_MATMUL_ONE_BYTES = 48 << 10 }; /* of the longest row that matmul_one takes */

#endif
