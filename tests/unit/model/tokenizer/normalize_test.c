#include "model/tokenizer/normalize.h"

#include "support/support.h"

static void check(const struct normalizers *n, const char *in, const char *want)
{
    struct buf out = {0}, spare = {0};
    tokenizer_normalize(n, sv_of(in), &out, &spare);
    assert_sv(((struct sv){buf_str(&out), out.n}), want);
    buf_free(&out);
    buf_free(&spare);
}

static void nfc(void **state)
{
    (void)state;
    struct normalizers n = {0};
    vec_push(&n.steps, (struct normalizer){.kind = NORMALIZE_NFC});
    check(&n, "", "");
    check(&n, "plain \xc3\xa9", "plain \xc3\xa9");
    check(&n, "cafe\xcc\x81!", "caf\xc3\xa9!");
    check(&n,
          "\xcc\x81"
          "a",
          "\xcc\x81"
          "a");
    check(&n, "a\xcc\xa3\xcc\x82", "\xe1\xba\xad");        /* a, dot below, circumflex */
    check(&n, "a\xcc\x82\xcc\xa3", "\xe1\xba\xad");        /* the same in the wrong order */
    check(&n, "\xe1\x84\x80\xe1\x85\xa1", "\xea\xb0\x80"); /* Hangul jamo */
    check(&n, "\xe2\x84\xab x \xe2\x84\xa6", "\xc3\x85 x \xce\xa9");   /* Angstrom, Ohm */
    check(&n, "\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc"); /* composition exclusion */
    vec_free(&n.steps);
}

/* 100,000 marks in an order that a bubble sort hates. */
static void many_marks(void **state)
{
    (void)state;
    enum { MARKS = 50000 };
    struct normalizers n = {0};
    struct buf in = {0}, want = {0}, out = {0}, spare = {0};
    vec_push(&n.steps, (struct normalizer){.kind = NORMALIZE_NFC});
    buf_puts(&in, "x");
    buf_puts(&want, "x");
    for (int i = 0; i < MARKS; i++)
        buf_puts(&in, "\xcc\x90\xcc\xa4"); /* class 230, then 220 */
    for (int i = 0; i < MARKS; i++)
        buf_puts(&want, "\xcc\xa4");
    for (int i = 0; i < MARKS; i++)
        buf_puts(&want, "\xcc\x90");
    tokenizer_normalize(&n, (struct sv){in.p, in.n}, &out, &spare);
    assert_int_equal(out.n, want.n);
    assert_memory_equal(out.p, want.p, want.n);
    buf_free(&in);
    buf_free(&want);
    buf_free(&out);
    buf_free(&spare);
    vec_free(&n.steps);
}

static void prepend_and_replace(void **state)
{
    (void)state;
    struct normalizers n = {0};
    vec_push(&n.steps, (struct normalizer){.kind = NORMALIZE_PREPEND, .what = SV("_")});
    vec_push(&n.steps,
             (struct normalizer){.kind = NORMALIZE_REPLACE, .what = SV(" "), .with = SV("_")});
    vec_push(&n.steps,
             (struct normalizer){.kind = NORMALIZE_REPLACE, .what = SV("aa"), .with = SV("")});
    check(&n, "", "");
    check(&n, "b c ", "_b_c_");
    check(&n, "aaab", "_ab");
    check(&n, "baa", "_b");
    vec_free(&n.steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(nfc), TEST(many_marks), TEST(prepend_and_replace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
