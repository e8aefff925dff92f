/* Byte-pair encoding: pieces of text to token ids.
 *
 * The same ids as repeating "join the pair of lowest rank, the leftmost of equals, until none is
 * left". Short words are scanned, long ones use a heap, so a megabyte without a space costs n log
 * n. Read-only after loading; each encoding has its own scratch memory. */
#ifndef MODEL_TOKENIZER_BPE_H
#define MODEL_TOKENIZER_BPE_H

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

struct bpe_merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank, id;
};

struct bpe {
    struct map vocab;        /* token text as in the file -> id */
    struct map words;        /* ignore_merges: bytes of a piece -> id */
    struct bpe_merge *slots; /* [slot_mask + 1], rank UINT32_MAX = free */
    uint64_t slot_mask;
    bool byte_level;       /* pieces are cut into bytes, otherwise into characters */
    bool byte_fallback;    /* an unknown character becomes its <0xNN> tokens, if all exist */
    bool fuse_unk;         /* a run of unknown characters is one unk */
    bool ignore_merges;    /* a piece that is a token is that token */
    bool cut_at_space;     /* no token has U+2581 behind another character: words are independent */
    int32_t unk;           /* -1 = unknown characters vanish */
    int32_t first[256];    /* byte level: id of the byte's character; else id of ASCII; -1 = none */
    int32_t fallback[256]; /* ids of <0xNN>, -1 = none */
};

struct bpe_symbol;
struct bpe_candidate;

struct bpe_scratch {
    VEC(int32_t) ids; /* result */
    VEC(int32_t) symbols;
    VEC(struct bpe_symbol) chain;
    VEC(struct bpe_candidate) heap;
};
void bpe_scratch_free(struct bpe_scratch *s);

void bpe_merges_init(struct bpe *b, struct arena *a, size_t n);
/* A later row of the same pair replaces the earlier one. */
void bpe_merges_put(struct bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id);

/* Append the ids of one piece (valid UTF-8, or any bytes at byte level). */
void bpe_encode(const struct bpe *b, struct bpe_scratch *s, struct sv piece);

#endif
