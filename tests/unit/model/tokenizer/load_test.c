#include "model/tokenizer.h"

#include "support/support.h"

/* A tokenizer of a, b and ab; more members and another model may be spliced in. */
#define MODEL(more)                                                                              \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]" \
    "]" more "}"
#define FILE_OF(more) "{" MODEL("") ",\n" more "}"

static enum st load(struct test *t, const char *json, struct tokenizer **k)
{
    return tokenizer_load(test_write(t, "tokenizer.json", json), k, &t->e);
}

static void smallest(void **state)
{
    struct test *t = *state;
    struct tokenizer *k;
    int32_t *ids;
    size_t n;
    assert_ok(load(t, "{" MODEL("") "}", &k), t);
    assert_int_equal(tokenizer_vocab(k), 3);
    assert_ok(tokenizer_encode(t->a, k, SV("aba b"), true, &ids, &n, &t->e), t);
    assert_int_equal(n,
                     2); /* the space is unknown and there is no unk: it vanishes before merging */
    assert_true(ids[0] == 2 && ids[1] == 2);
    struct buf text = {0};
    assert_ok(tokenizer_decode(k, ids, n, false, &text, &t->e), t);
    assert_string_equal(buf_str(&text), "ab ab"); /* no decoder: joined with spaces */
    buf_free(&text);
    tokenizer_free(&k);
}

static void refused(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"[]", "1:1: expected a map, got a list"},
        {"{}", "1:1: model: missing"},
        {FILE_OF("\"extra\":1"),
         "2:9: unknown key 'extra'; known are version|truncation|padding|added_tokens|normalizer|"
         "pre_tokenizer|post_processor|decoder|model"},
        {FILE_OF("\"truncation\":{}"), "2:14: truncation: is not supported; set it to null"},
        {FILE_OF("\"normalizer\":{\"type\":\"Lowercase\"}"),
         "2:22: normalizer: the type 'Lowercase' is not supported"},
        {FILE_OF("\"normalizer\":[]"), "2:14: normalizer: expected a map, got a list"},
        {FILE_OF("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x\"},\"content\":"
                 "\"\"}"),
         "2:42: pattern: only a String is supported here"},
        {FILE_OF("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":"
                 "\"\"}"),
         "2:52: String: must not be empty"},
        {FILE_OF("\"pre_tokenizer\":{\"type\":\"Whitespace\"}"),
         "2:25: pre_tokenizer: the type 'Whitespace' is not supported"},
        {FILE_OF(
             "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x(\"},\"behavior\":"
             "\"Isolated\"}"),
         "2:43: pattern: missing closing parenthesis"},
        {FILE_OF("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":"
                 "\"Contiguous\"}"),
         "2:68: behavior: 'Contiguous' is not supported; Isolated and Removed are"},
        {FILE_OF(
             "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
             "{\"type\":\"Metaspace\",\"replacement\":\"_\"}]}"),
         "2:74: pre_tokenizer: a step behind ByteLevel is not supported"},
        {FILE_OF(
             "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"
             "\"last\"}"),
         "2:72: prepend_scheme: expected always, first or never, got 'last'"},
        {FILE_OF(
             "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"
             "\"first\",\"add_prefix_space\":false}"),
         "2:72: prepend_scheme: 'first' contradicts add_prefix_space"},
        {FILE_OF("\"post_processor\":{\"type\":\"BertProcessing\"}"),
         "2:26: post_processor: the type 'BertProcessing' is not supported"},
        {FILE_OF("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],"
                 "\"special_tokens\":{}}"),
         "2:56: post_processor: the template lacks sequence A"},
        {FILE_OF("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
                 "\"id\":\"B\"}}],\"special_tokens\":{}}"),
         "2:57: post_processor: a template holds special tokens and sequence A once"},
        {FILE_OF(
             "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
             "\"id\":\"s\"}}],\"special_tokens\":{}}"),
         "2:73: post_processor: 's' is not among special_tokens"},
        {FILE_OF(
             "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
             "\"id\":\"s\"}}],\"special_tokens\":{\"s\":{\"ids\":[3]}}}"),
         "2:116: post_processor: no token has this id"},
        {FILE_OF("\"decoder\":{\"type\":\"WordPiece\"}"),
         "2:19: decoder: the type 'WordPiece' is not supported"},
        {FILE_OF("\"added_tokens\":[{\"id\":5}]"), "2:17: content: missing"},
        {FILE_OF("\"added_tokens\":[{\"id\":-1}]"), "2:23: id: -1 is below the minimum 0"},
        {FILE_OF("\"added_tokens\":[{\"id\":99999999,\"content\":\"x\"}]"),
         "2:23: id: 99999999 is above the maximum 4194303"},
        {FILE_OF("\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]"),
         "2:17: added_tokens: the id 1 of 'x' is that of 'b'"},
        {FILE_OF("\"added_tokens\":[{\"id\":4,\"content\":\"b\"}]"),
         "2:17: added_tokens: 'b' has the id 4, in the vocabulary 1"},
        {"{\"model\":{\"type\":\"WordPiece\"}}", "1:18: model: only the type BPE is supported"},
        {"{" MODEL(",\"dropout\":0.1") "}", "1:84: dropout: is not supported"},
        {"{" MODEL(",\"end_of_word_suffix\":\"</w>\"") "}",
         "1:95: end_of_word_suffix: is not supported"},
        {"{" MODEL(",\"unk_token\":\"u\"") "}", "1:86: unk_token: 'u' is not in the vocabulary"},
        {"{\"model\":{\"vocab\":{},\"merges\":[]}}", "1:19: vocab: is empty"},
        {"{\"model\":{\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}}",
         "1:30: vocab: two tokens have the id 1"},
        {"{\"model\":{\"vocab\":{\"a\":4194304},\"merges\":[]}}",
         "1:24: vocab: an id is an integer from 0 to 4194303"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
         "1:37: merges: 'b' is not in the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
         "1:37: merges: expected two tokens, as [\"a\", \"b\"] or \"a b\""},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\",\"a\"]]}}",
         "1:37: merges: expected two tokens, as [\"a\", \"b\"] or \"a b\""},
        {"{" MODEL(",\"byte_fallback\":true") ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
         "1:90: byte_fallback: is not supported together with ByteLevel"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *k;
        const char *want =
            arena_printf(t->a, "cannot use the tokenizer DIR/tokenizer.json\nDIR/tokenizer.json:%s",
                         cases[i].error);
        assert_err(load(t, cases[i].json, &k), ST_INPUT, t, want);
        assert_null(k);
        err_clear(&t->e);
    }
}

/* String patterns are literal, Removed drops matches, or with invert all else. */
static void split_behaviours(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *step, *text;
        int32_t want[4];
        size_t n;
    } cases[] = {
        {"{\"String\":\".\"},\"behavior\":\"Isolated\"", "ab.ab", {2, 2}, 2},
        {"{\"String\":\"a\"},\"behavior\":\"Removed\"", "abab", {1, 1}, 2},
        {"{\"Regex\":\"a\"},\"behavior\":\"Removed\",\"invert\":true", "abab", {0, 0}, 2},
        {"{\"Regex\":\"b\"},\"behavior\":\"Isolated\"", "abab", {0, 1, 0, 1}, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *k;
        int32_t *ids;
        size_t n;
        assert_ok(load(t,
                       arena_printf(
                           t->a, FILE_OF("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":%s}"),
                           cases[i].step),
                       &k),
                  t);
        assert_ok(tokenizer_encode(t->a, k, sv_of(cases[i].text), false, &ids, &n, &t->e), t);
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(ids, cases[i].want, n * sizeof *ids);
        tokenizer_free(&k);
    }
}

/* A small file must not ask for any memory or time. */
static void files_are_bounded(void **state)
{
    struct test *t = *state;
    struct tokenizer *k;
    struct buf b = {0};
    static const char replace[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaa\"}";
    const char *two = arena_printf(t->a, "%s,%s", replace, replace);
    assert_ok(load(t,
                   arena_printf(t->a,
                                FILE_OF("\"normalizer\":{\"type\":\"Sequence\","
                                        "\"normalizers\":[%s]}"),
                                two),
                   &k),
              t);
    tokenizer_free(&k);
    assert_err(
        load(t,
             arena_printf(t->a,
                          FILE_OF("\"normalizer\":{\"type\":\"Sequence\","
                                  "\"normalizers\":[%s,%s]}"),
                          two, replace),
             &k),
        ST_INPUT, t,
        "cannot use the tokenizer DIR/tokenizer.json\nDIR/tokenizer.json:2:178: up to here a "
        "text becomes up to 512 times as long; the limit is 64");
    assert_err(
        load(t,
             arena_printf(t->a,
                          FILE_OF("\"decoder\":{\"type\":\"Sequence\","
                                  "\"decoders\":[%s,%s]}"),
                          two, replace),
             &k),
        ST_INPUT, t,
        "cannot use the tokenizer DIR/tokenizer.json\nDIR/tokenizer.json:2:172: up to here a "
        "text becomes up to 512 times as long; the limit is 64");
    for (int i = 0; i < 64; i++)
        buf_puts(&b, i ? ",{\"type\":\"NFC\"}" : "{\"type\":\"NFC\"}");
    assert_int_equal(load(t,
                          arena_printf(t->a,
                                       FILE_OF("\"normalizer\":{\"type\":\"Sequence\","
                                               "\"normalizers\":[%s]}"),
                                       b.p),
                          &k),
                     ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 1), "normalizer: more than 64 steps"));
    buf_clear(&b);
    for (int i = 0; i < 65; i++)
        buf_puts(&b, "{\"SpecialToken\":{\"id\":\"x\",\"type_id\":0}},");
    assert_int_equal(
        load(t,
             arena_printf(t->a,
                          FILE_OF("\"post_processor\":{\"type\":\"TemplateProcessing\","
                                  "\"single\":[%s{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
                                  "\"pair\":[],\"special_tokens\":{\"x\":{\"id\":\"x\","
                                  "\"ids\":[0],\"tokens\":[\"a\"]}}}"),
                          b.p),
             &k),
        ST_INPUT);
    assert_non_null(
        strstr(err_cause(&t->e, 1), "post_processor: more than 64 tokens around a text"));
    buf_clear(&b);
    for (int i = 0; i < 1025; i++)
        buf_putc(&b, 'q');
    assert_int_equal(
        load(t,
             arena_printf(t->a,
                          FILE_OF("\"added_tokens\":[{\"id\":3,\"content\":\"%s\",\"single_word\":"
                                  "false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
                                  "false,\"special\":true}]"),
                          b.p),
             &k),
        ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 1), "content: more than 1024 bytes"));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(smallest), TEST(refused), TEST(split_behaviours),
                                       TEST(files_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
