#include "model/tokenizer.h"

#include "support/support.h"
#include "text/json.h"

/* The rows of a golden .jsonl file. */
static struct node *rows_of(struct test *t, const char *path)
{
    struct node *list = node_new(t->a, NODE_LIST);
    char *text = (char *)(uintptr_t)test_read(t, path);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        struct node *row;
        assert_ok(
            json_parse(t->a, path, (struct sv){line, (size_t)(end - line)}, NULL, &row, &t->e), t);
        node_push(t->a, list, row);
    }
    assert_true(list->n > 0);
    return list;
}

static struct sv text_of(const struct node *row, const char *key)
{
    const struct node *n = node_find(row, key);
    assert_non_null(n);
    assert_int_equal(n->kind, NODE_STR);
    return n->s;
}

static void same_ids(const struct node *row, const char *key, const int32_t *ids, size_t n)
{
    const struct node *want = node_find(row, key);
    assert_non_null(want);
    bool same = want->n == n;
    for (uint32_t i = 0; same && i < n; i++)
        same = want->items[i]->i == ids[i];
    if (same)
        return;
    print_error("case %s, %s: got", text_of(row, "id").p, key);
    for (size_t i = 0; i < n; i++)
        print_error(" %d", ids[i]);
    print_error("\nwant");
    for (uint32_t i = 0; i < want->n; i++)
        print_error(" %lld", (long long)want->items[i]->i);
    print_error("\n");
    fail();
}

static void check_encoding(struct test *t, const struct tokenizer *k, struct sv text,
                           const struct node *want)
{
    int32_t *ids;
    size_t n;
    struct buf back = {0};
    assert_ok(tokenizer_encode(t->a, k, text, true, &ids, &n, &t->e), t);
    same_ids(want, "ids", ids, n);
    assert_ok(tokenizer_encode(t->a, k, text, false, &ids, &n, &t->e), t);
    same_ids(want, "ids_no_special", ids, n);
    assert_ok(tokenizer_decode(k, ids, n, false, &back, &t->e), t);
    assert_sv(((struct sv){buf_str(&back), back.n}), text_of(want, "decoded").p);
    buf_free(&back);
}

static void check_decoding(struct test *t, const struct tokenizer *k, const struct node *row)
{
    static const char *const keys[] = {"decoded", "decoded_skip_special"};
    const struct node *list = node_find(row, "ids");
    int32_t *ids = arena_array(t->a, int32_t, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        ids[i] = (int32_t)list->items[i]->i;
    for (int skip = 0; skip < 2; skip++) {
        struct buf text = {0};
        assert_ok(tokenizer_decode(k, ids, list->n, skip, &text, &t->e), t);
        assert_sv(((struct sv){buf_str(&text), text.n}), text_of(row, keys[skip]).p);
        buf_free(&text);
    }
}

static void like_the_library(struct test *t, const char *kind, const char *file)
{
    struct tokenizer *k;
    assert_ok(tokenizer_load(file, &k, &t->e), t);
    const struct node *cases = rows_of(t, "tests/golden/tokenizer/cases.jsonl");
    const struct node *want =
        rows_of(t, arena_printf(t->a, "tests/golden/tokenizer/expected_%s.jsonl", kind));
    const struct node *decode =
        rows_of(t, arena_printf(t->a, "tests/golden/tokenizer/decode_%s.jsonl", kind));
    assert_int_equal(cases->n, want->n);
    for (uint32_t i = 0; i < cases->n; i++) {
        assert_string_equal(text_of(cases->items[i], "id").p, text_of(want->items[i], "id").p);
        check_encoding(t, k, text_of(cases->items[i], "text"), want->items[i]);
    }
    for (uint32_t i = 0; i < decode->n; i++)
        check_decoding(t, k, decode->items[i]);
    tokenizer_free(&k);
    assert_null(k);
}

#define GOLDEN(kind, file)                     \
    static void golden_##kind(void **state)    \
    {                                          \
        like_the_library(*state, #kind, file); \
    }
GOLDEN(qwen, "data/models/tiny_qwen3/tokenizer.json")
GOLDEN(gpt2, "tests/golden/tokenizer/gpt2/tokenizer.json")
GOLDEN(bloom, "tests/golden/tokenizer/bloom/tokenizer.json")
GOLDEN(llama3, "tests/golden/tokenizer/llama3/tokenizer.json")
GOLDEN(llama_legacy, "tests/golden/tokenizer/llama_legacy/tokenizer.json")
GOLDEN(llama_first, "tests/golden/tokenizer/llama_first/tokenizer.json")
GOLDEN(llama_always, "tests/golden/tokenizer/llama_always/tokenizer.json")

/* A quarter of a megabyte in one word, in white space, in marks and in beginnings of added tokens
 * takes well under a second each; a quadratic step would outlast any test limit. */
static void no_blow_up(void **state)
{
    struct test *t = *state;
    static const char *const files[] = {"data/models/tiny_qwen3/tokenizer.json",
                                        "tests/golden/tokenizer/llama_legacy/tokenizer.json"};
    static const char *const units[] = {"a",    " ",           "\n ", "<|im_", "\xcc\x90\xcc\xa4",
                                        "ab1_", "\xe2\x96\x81"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct tokenizer *k;
        assert_ok(tokenizer_load(files[f], &k, &t->e), t);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            struct buf text = {0}, back = {0};
            int32_t *ids;
            size_t n;
            while (text.n < 1 << 18)
                buf_puts(&text, units[u]);
            assert_ok(
                tokenizer_encode(t->a, k, (struct sv){text.p, text.n}, false, &ids, &n, &t->e), t);
            assert_ok(tokenizer_decode(k, ids, n, false, &back, &t->e), t);
            if (units[u][0] != '\xcc' &&
                units[u][0] != '\xe2') /* NFC moves marks; U+2581 is a space */
                assert_true(back.n == text.n && memcmp(back.p, text.p, text.n) == 0);
            buf_free(&text);
            buf_free(&back);
        }
        tokenizer_free(&k);
    }
}

static void bad_input(void **state)
{
    struct test *t = *state;
    struct tokenizer *k;
    int32_t *ids;
    size_t n;
    struct buf out = {0};
    assert_ok(tokenizer_load("tests/golden/tokenizer/gpt2/tokenizer.json", &k, &t->e), t);
    assert_err(tokenizer_encode(t->a, k, SV("ab\xc3(c"), true, &ids, &n, &t->e), ST_INPUT, t,
               "the text is not valid UTF-8 at byte 2");
    err_clear(&t->e);
    const int32_t odd[] = {5, 1 << 30, 6, -2};
    assert_ok(tokenizer_decode(k, odd, 3, false, &out, &t->e), t);
    assert_string_equal(buf_str(&out), "&'"); /* an id without a token is skipped */
    assert_err(tokenizer_decode(k, odd, 4, false, &out, &t->e), ST_INPUT, t,
               "token 3 has the id -2");
    buf_free(&out);
    tokenizer_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(golden_qwen),         TEST(golden_gpt2),         TEST(golden_bloom),
        TEST(golden_llama3),       TEST(golden_llama_legacy), TEST(golden_llama_first),
        TEST(golden_llama_always), TEST(no_blow_up),          TEST(bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
