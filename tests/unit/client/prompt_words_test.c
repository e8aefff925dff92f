#include "client/prompt_words.h"

#include "base/rng.h"
#include "support/support.h"

enum { VOCAB = 2000 };

struct made {
    struct tokenizer *t;
    struct prompt_words *w;
};

static void make(struct test *t, struct made *m)
{
    assert_ok(tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &m->t, &t->e),
              t);
    assert_ok(prompt_words_find(t->a, m->t, &m->w, &t->e), t);
}

static int64_t count(struct test *t, const struct made *m, struct sv text)
{
    int64_t n;
    assert_ok(prompt_words_count(m->w, text, true, &n, &t->e), t);
    return n;
}

static void draw(uint64_t seed, int32_t *ids, size_t n)
{
    struct rng rng = rng_stream(seed, "test");
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)rng_below(&rng, VOCAB);
}

/* As a text the ids themselves come back longer: that is what the words are for. */
static void drawn_words_have_as_many_tokens_as_ids(void **state)
{
    struct test *t = *state;
    struct made m;
    int32_t ids[768];
    struct sv text;
    struct buf raw = {0};
    int64_t got;
    make(t, &m);
    draw(1, ids, 768);
    assert_ok(tokenizer_decode(m.t, ids, 768, true, &raw, &t->e), t);
    assert_true(count(t, &m, (struct sv){buf_str(&raw), raw.n}) > 900);
    for (int64_t n = 1; n <= 768; n += n < 8 ? 1 : 76) {
        draw((uint64_t)n, ids, (size_t)n);
        assert_true(prompt_words_draw(m.w, ids, (size_t)n));
        assert_ok(prompt_words_text(t->a, m.w, ids, (size_t)n, n, true, &text, &got, &t->e), t);
        assert_int_equal(got, n);
        assert_int_equal(count(t, &m, text), n);
    }
    buf_free(&raw);
    tokenizer_free(&m.t);
}

/* What two prompts share of their ids they share of their text, and of the text's tokens. */
static void a_shared_prefix_stays_shared(void **state)
{
    struct test *t = *state;
    struct made m;
    int32_t one[100], two[100], *a, *b;
    struct sv text_one, text_two;
    size_t n_a, n_b;
    int64_t got;
    make(t, &m);
    draw(1, one, 100);
    draw(2, two, 100);
    memcpy(two, one, 64 * sizeof *two);
    prompt_words_draw(m.w, one, 100);
    prompt_words_draw(m.w, two, 100);
    assert_ok(prompt_words_text(t->a, m.w, one, 100, 100, true, &text_one, &got, &t->e), t);
    assert_ok(prompt_words_text(t->a, m.w, two, 100, 100, true, &text_two, &got, &t->e), t);
    assert_ok(tokenizer_encode(t->a, m.t, text_one, true, &a, &n_a, &t->e), t);
    assert_ok(tokenizer_encode(t->a, m.t, text_two, true, &b, &n_b, &t->e), t);
    assert_int_equal(n_a, 100);
    assert_int_equal(n_b, 100);
    assert_memory_equal(a, b, 64 * sizeof *a);
    assert_true(memcmp(a, b, 100 * sizeof *a) != 0);
    tokenizer_free(&m.t);
}

/* Texts that are cut or repeated to a length merge at the seams: any ids are made to fit. */
static void any_ids_are_made_to_fit(void **state)
{
    struct test *t = *state;
    struct made m;
    int32_t ids[300];
    struct sv text, again;
    int64_t got;
    make(t, &m);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const int64_t want = (int64_t)(seed * 7);
        draw(seed, ids, 300);
        assert_ok(prompt_words_text(t->a, m.w, ids, 300, want, true, &text, &got, &t->e), t);
        assert_int_equal(got, want);
        assert_int_equal(count(t, &m, text), want);
        assert_ok(prompt_words_text(t->a, m.w, ids, 300, want, true, &again, &got, &t->e), t);
        assert_true(again.n == text.n && memcmp(again.p, text.p, text.n) == 0);
    }
    tokenizer_free(&m.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(drawn_words_have_as_many_tokens_as_ids),
        TEST(a_shared_prefix_stays_shared),
        TEST(any_ids_are_made_to_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
