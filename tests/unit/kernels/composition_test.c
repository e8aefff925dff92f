#include "kernels/composition.h"

#include "support/support.h"

static void templates_match_whole_names(void **state)
{
    static const struct {
        const char *template, *name;
        bool match;
        double tokens, decode, kv;
    } rows[] = {
        {"p={prefill_tokens} d={decode}", "p=12 d=3", true, 12, 3, 0},
        {"p={prefill_tokens} d={decode}", "p=12 d=3 ", false, 0, 0, 0},
        {"p={prefill_tokens} d={decode}*", "p=12 d=3 kv=9", true, 12, 3, 0},
        {"p={prefill_tokens} d={decode}", "p= d=3", false, 0, 0, 0},
        {"*{decode} seqs*", "1 of 2 with 34 seqs, more", true, 0, 34, 0},
        {"*kv={kv}*d={decode}", "kv=1 kv=2 d=x d=7", true, 0, 7, 1},
        {"*d={decode}", "d=1 d=2", true, 0, 2, 0},
        {"d={decode}", "d=99999999999", false, 0, 0, 0}, /* more than there are */
        {"*", "anything", true, 0, 0, 0},
        {"*x", "", false, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct composition c;
        assert_int_equal(composition_match(rows[i].template, rows[i].name, &c), rows[i].match);
        if (!rows[i].match)
            continue;
        assert_near(c.v[COMPOSITION_PREFILL_TOKENS], rows[i].tokens, 0);
        assert_near(c.v[COMPOSITION_DECODE], rows[i].decode, 0);
        assert_near(c.v[COMPOSITION_KV], rows[i].kv, 0);
    }
}

/* As these engines name their ranges; docs/formats.md. */
static void known_names_are_read(void **state)
{
    static const struct {
        const char *name;
        int template;
        struct iterations_batch b;
    } rows[] = {
        {"step prefill_tokens=512 context=100 decode=8 kv=8192",
         0,
         {512, 512 * (100 + 256.5), 8, 8192}},
        {"execute_context_2(300)_generation_16(32)", 1, {300, 300 * 75.5, 16, 0}},
        {"execute_context_0(0)_generation_7(7)", 1, {0, 0, 7, 0}},
        {"[Executor] _forward_step 41: 1 ctx reqs, 64 ctx tokens, 3 gen reqs",
         2,
         {64, 64 * 32.5, 3, 0}},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; composition_known[k].name; k++) {
            struct composition c;
            assert_ok(composition_check(composition_known[k].text, &t->e), t);
            assert_int_equal(composition_match(composition_known[k].text, rows[i].name, &c),
                             k == rows[i].template);
            if (k != rows[i].template)
                continue;
            const struct iterations_batch b = composition_batch(&c);
            assert_near(b.chunk_tokens, rows[i].b.chunk_tokens, 0);
            assert_near(b.chunk_context, rows[i].b.chunk_context, 1e-9);
            assert_near(b.decode_sequences, rows[i].b.decode_sequences, 0);
            assert_near(b.decode_kv_tokens, rows[i].b.decode_kv_tokens, 0);
        }
    }
}

static void payloads_are_read(void **state)
{
    struct composition c;
    (void)state;
    assert_true(composition_of_json("{\"decode\": 4, \"kv\": 100, \"other\": [1]}", &c));
    assert_near(c.v[COMPOSITION_DECODE], 4, 0);
    assert_true(c.known[COMPOSITION_KV] && !c.known[COMPOSITION_PREFILL_TOKENS]);
    assert_false(composition_of_json("{\"size\": 4}", &c));
    assert_false(composition_of_json("{\"decode\": -4}", &c));
    assert_false(composition_of_json("[1]", &c));
    assert_false(composition_of_json("no json", &c));
    assert_true(composition_of_json("{\"prefill_tokens\": 8, \"chunk_context\": 20}", &c));
    assert_near(composition_batch(&c).chunk_context, 20, 0);
}

static void tables_are_looked_up(void **state)
{
    struct test *t = *state;
    struct composition_table table;
    const char *path = test_write(t, "s.csv", "kv,step,decode,x\n7,30,2,a\n,4,3,b\n");
    assert_ok(composition_load(t->a, path, &table, &t->e), t);
    assert_int_equal(table.n, 2);
    assert_null(composition_at(&table, 5));
    assert_near(composition_at(&table, 30)->v[COMPOSITION_KV], 7, 0);
    assert_near(composition_at(&table, 4)->v[COMPOSITION_DECODE], 3, 0);
    assert_false(composition_at(&table, 4)->known[COMPOSITION_KV]);
    assert_null(composition_at(&(struct composition_table){0}, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(templates_match_whole_names),
                                       TEST(known_names_are_read), TEST(payloads_are_read),
                                       TEST(tables_are_looked_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
