/* decode_step.cu: sizes, the block's memory, how its warps and the blocks wait for each other. */

/* Set by gpu_bench, which compares programs of other sizes. */
#if !defined(STEP_PARTS)
#define STEP_PARTS 12
#endif
#if !defined(STEP_GROUP)
#define STEP_GROUP 1
#endif
#if !defined(STEP_LATE_NORM)
#define STEP_LATE_NORM 1
#endif
#if !defined(STEP_COPIES)
#define STEP_COPIES 4
#endif
#if !defined(STEP_OUT_WIDE)
#define STEP_OUT_WIDE 1
#endif
#if !defined(STEP_CHUNKS)
#define STEP_CHUNKS 1
#endif

enum {
    WARPS = CUDA_DECODE_STEP_WARPS,
    THREADS = WARPS * 32,
    ROWS = CUDA_DECODE_STEP_ROWS,
    COPIERS = 2,             /* warps */
    SHARE = WARPS / COPIERS, /* computing warps that one copies for */
    SPAN = 512,              /* elements of a row in a chunk */
    CHUNK = 4,               /* vectors of a thread */
    RING = 9,                /* chunks */
    GROUP = STEP_GROUP,      /* tiles whose sums change hands together: 1 or 2 */
    PAGES = 1024,            /* of a part, found ahead */
    PAGE_CHUNKS = HEAD_DIM / 32,
    TOGETHER = 4,                 /* pairs of words that a thread waits for at once */
    PARTS = STEP_PARTS,           /* likewise, parts of 8 elements of a head */
    COPIES = STEP_COPIES,         /* of words that all blocks read: one line of L2 is one queue */
    OUT_WIDE = STEP_OUT_WIDE,     /* out by half the blocks if enough: each reads all parts */
    CHUNKS_AT_ONCE = STEP_CHUNKS, /* of a product: 1 or 2 */
#if defined(ELEM_BF16)
    LATE_NORM = STEP_LATE_NORM /* the norm's factor of a row goes to the sums of its product */
#else
    LATE_NORM = 0 /* an input that is not scaled down yet would overflow float16 */
#endif
};

enum { QKV, ATTEND, OUT, UP, DOWN, HEAD, END };
enum { WIDE, GATED, NARROW };
/* Places of words: [rows, ...] of two elements each; x behind out and behind down; parts of heads
 * [rows, heads, splits, HEAD_DIM]; log2 of the sums of their keys' weights [rows, heads, splits].
 * All but qkv's and the parts are there COPIES times. */
enum { AT_QKV, AT_OUT, AT_ACT, AT_DOWN, AT_PARTS, AT_SHARES, WORDS };
/* Named barriers: of the warps that compute; with LATE_NORM of them and the one that finishes, who
 * takes their sums of squares. All of them wait there; what is handed on without waiting goes by
 * mbarriers (with bar.arrive compute-sanitizer's racecheck told hazards that are none). */
enum { COMPUTE = 1, SQUARES = 2 };

__device__ static inline bool has_late_norm(int phase)
{
    return LATE_NORM && (phase == QKV || phase == UP || phase == HEAD);
}

struct product {
    const char *weight;
    int in, outs, tiles, chunks, mode;
};

/* Whose keys a block attends to: pages [from, to), none where from == to. */
struct item {
    struct decode d;
    int part, from, to;
    i64 newest; /* place of the newest key in a layer's cache */
};

struct shared {
    uint4 ring[RING][CHUNK][THREADS];
    union {
        elem x[CUDA_DECODE_STEP_INPUT_BYTES / sizeof(elem)];
        float outs[WARPS][TILE_HEADS][HEAD_DIM + 4];
    };
    float sums[2][GROUP][WARPS][16][ROWS];
    float squares[2][WARPS][ROWS]; /* who writes one again has met the reader at SQUARES since */
    float tops[WARPS][TILE_HEADS], totals[WARPS][TILE_HEADS];
    elem heads[TILE_HEADS][HEAD_DIM + 8], fresh[2][HEAD_DIM];
    float cosine[HEAD_DIM / 2], sine[HEAD_DIM / 2]; /* of the item's position */
    struct item item;
    u64 *words[WORDS];
    int copy_words[WORDS]; /* from one copy of them to the next; 0: there is one */
    u64 full[RING], empty[RING];
    u64 sums_full[2], sums_empty[2];
    struct product products[HEAD + 1];
    int parts[ROWS];
    u32 pages[PAGES];
};
static_assert(COPIES <= CUDA_DECODE_STEP_COPIES, "room in args.exchange");
static_assert(sizeof(struct shared) <= CUDA_DECODE_STEP_SHARED_BYTES, "shared memory");

/* ---- waiting ----------------------------------------------------------------------------------
 */

__device__ static inline void chunk_init(u64 *b, int arrivals)
{
    ptx_mbarrier_init(shared_address(b), arrivals);
}

__device__ static inline void chunk_arrive(u64 *b)
{
    ptx_mbarrier_arrive(shared_address(b));
}

/* Arrives when all that this thread has copied so far is there. */
__device__ static inline void chunk_arrive_copied(u64 *b)
{
    ptx_cp_async_mbarrier_arrive_noinc(shared_address(b));
}

__device__ static inline void chunk_wait(u64 *b, u32 parity)
{
    while (!ptx_mbarrier_try_wait_parity(shared_address(b), parity))
        ;
}

/* Counts looks at a word that another block has to write: a block that is missing is a fault, not a
 * hang. */
__device__ static inline void look_again(u32 &looks)
{
    if (++looks > 1u << 24)
        ptx_trap();
}

__device__ static inline void store_word(u64 *p, u32 v, u32 epoch)
{
    ptx_st_relaxed(p, (u64)epoch << 32 | v);
}

__device__ static inline u32 take_word(const u64 *p, u32 epoch)
{
    u32 looks = 0;
    u64 v;
    while ((u32)((v = ptx_ld_relaxed(p)) >> 32) != epoch)
        look_again(looks);
    return (u32)v;
}

/* What a block knows throughout. */
struct block {
    const struct cuda_decode_step_args *a;
    struct shared *s;
    int rows, warp, lane;
    u32 epoch; /* of layer 0 */
};

/* What warps that compute and the one that finishes count alike. */
struct turns {
    int groups; /* of sums */
    int norms;  /* late ones */
};

__device__ static inline const elem *of_layer(const struct block &b, const void *p, int layer)
{
    return (const elem *)((const char *)p + layer * b.a->layer_bytes);
}

__device__ static inline u64 *words_at(const struct block &b, int which)
{
    return b.s->words[which];
}

/* Those that this block reads. */
__device__ static inline const u64 *copy_at(const struct block &b, int which)
{
    return b.s->words[which] + (int)(blockIdx.x % COPIES) * b.s->copy_words[which];
}
