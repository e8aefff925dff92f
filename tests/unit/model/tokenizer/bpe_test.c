#include "model/tokenizer/bpe.h"

#include "base/rng.h"
#include "support/support.h"

/* Ids 0..2 are the letters a, b, c; each merge makes the next id. */
enum { MERGES = 40 };

struct table {
    int32_t left[MERGES], right[MERGES];
    int n;
};

static struct table random_table(struct rng *r)
{
    struct table t = {.n = MERGES};
    for (int i = 0; i < MERGES; i++) {
        t.left[i] = (int32_t)rng_below(r, (uint64_t)(3 + i));
        t.right[i] = (int32_t)rng_below(r, (uint64_t)(3 + i));
    }
    return t;
}

static struct bpe bpe_of(struct arena *a, const struct table *t)
{
    struct bpe b = {.unk = -1};
    map_init(&b.vocab, a);
    for (int i = 0; i < 256; i++)
        b.first[i] = i >= 'a' && i <= 'c' ? i - 'a' : -1;
    bpe_merges_init(&b, a, MERGES);
    for (int i = t->n - 1; i >= 0; i--) /* so that of equal pairs the first stands */
        bpe_merges_put(&b, t->left[i], t->right[i], (uint32_t)i, 3 + i);
    return b;
}

/* The definition: the pair of lowest rank, the leftmost of equals, again and again. */
static size_t by_definition(const struct table *t, int32_t *id, size_t n)
{
    for (;;) {
        for (int rank = 0;; rank++) {
            if (rank == t->n)
                return n;
            size_t i = 0;
            while (i + 1 < n && !(id[i] == t->left[rank] && id[i + 1] == t->right[rank]))
                i++;
            if (i + 1 >= n)
                continue;
            id[i] = 3 + rank;
            memmove(id + i + 1, id + i + 2, (n - i - 2) * sizeof *id);
            n--;
            break;
        }
    }
}

/* Short texts are scanned and long ones go through the heap; both must be what is defined. */
static void as_defined(void **state)
{
    struct test *t = *state;
    struct rng r = rng_stream(3, "bpe");
    struct bpe_scratch s = {0};
    for (int round = 0; round < 400; round++) {
        enum { LONGEST = 200 };
        char text[LONGEST];
        int32_t want[LONGEST];
        const struct table table = random_table(&r);
        const struct bpe b = bpe_of(t->a, &table);
        size_t n = 1 + rng_below(&r, round % 2 ? 12 : LONGEST);
        for (size_t i = 0; i < n; i++) {
            text[i] = (char)('a' + rng_below(&r, 3));
            want[i] = text[i] - 'a';
        }
        vec_clear(&s.ids);
        bpe_encode(&b, &s, (struct sv){text, n});
        n = by_definition(&table, want, n);
        assert_int_equal(s.ids.n, n);
        assert_memory_equal(s.ids.p, want, n * sizeof *want);
    }
    bpe_scratch_free(&s);
}

static void check_ids(const struct bpe *b, const char *text, const int32_t *want, size_t n)
{
    struct bpe_scratch s = {0};
    bpe_encode(b, &s, sv_of(text));
    assert_int_equal(s.ids.n, n);
    if (n)
        assert_memory_equal(s.ids.p, want, n * sizeof *want);
    bpe_scratch_free(&s);
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__}), sizeof((const int32_t[]){__VA_ARGS__}) / 4

static void unknown_characters(void **state)
{
    struct test *t = *state;
    const struct table none = {0};
    struct bpe b = bpe_of(t->a, &none);
    check_ids(&b, "axyb", IDS(0, 1));
    b.unk = 9;
    check_ids(&b, "axyb\xc3\xa9", IDS(0, 9, 9, 1, 9));
    b.fuse_unk = true;
    check_ids(&b, "axyb\xc3\xa9", IDS(0, 9, 1, 9));
    b.byte_fallback = true;
    for (int i = 0; i < 256; i++)
        b.fallback[i] = 1000 + i;
    b.fallback['y'] = -1;
    check_ids(&b, "a\xc3\xa9", IDS(0, 1000 + 0xc3, 1000 + 0xa9));
    check_ids(&b, "yxa", IDS(1000 + 'x', 9, 0)); /* byte tokens overtake the unk that waits */
    check_ids(&b, "", NULL, 0);
}

static void words_are_independent(void **state)
{
    struct test *t = *state;
    const struct table table = {.left = {0, 3}, .right = {1, 3}, .n = 2}; /* ab; abab */
    struct bpe b = bpe_of(t->a, &table);
    map_put(&b.vocab, "\xe2\x96\x81", 3, NULL)->i = 77;
    b.cut_at_space = true;
    check_ids(&b,
              "abab\xe2\x96\x81\xe2\x96\x81"
              "ab\xe2\x96\x81",
              IDS(4, 77, 77, 3, 77));
    b.cut_at_space = false;
    check_ids(&b,
              "abab\xe2\x96\x81\xe2\x96\x81"
              "ab\xe2\x96\x81",
              IDS(4, 77, 77, 3, 77));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(as_defined), TEST(unknown_characters),
                                       TEST(words_are_independent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
