#include "support/fake_tokenizer.h"
#include "support/support.h"
#include "workload/workload.h"

static void ids_are_cut_or_repeated(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    int32_t ids[7];
    const struct workload_request two = {.request_id = 3, .num_prefill_tokens = 2},
                                  seven = {.request_id = 3, .num_prefill_tokens = 7};
    const int32_t want[] = {1, 3, 5, 1, 3, 5, 1};
    assert_ok(workload_prompt_ids(a, &two, "the quick", fake_tokenizer(), 10, 0, ids, &e), &e);
    assert_memory_equal(ids, want, 2 * sizeof *ids);
    assert_ok(workload_prompt_ids(a, &seven, "the quick", fake_tokenizer(), 10, 0, ids, &e), &e);
    assert_memory_equal(ids, want, 7 * sizeof *ids);
    arena_free(&a);
}

static void without_a_text_ids_are_random(void **state)
{
    (void)state;
    enum { N = 20000, VOCAB = 50 };
    static int32_t one[N], two[N];
    struct arena *a = arena_new();
    struct err e = {0};
    struct workload_request r = {.request_id = 3, .num_prefill_tokens = N};
    assert_ok(workload_prompt_ids(a, &r, NULL, NULL, VOCAB, 7, one, &e), &e);
    assert_ok(workload_prompt_ids(a, &r, NULL, NULL, VOCAB, 7, two, &e), &e);
    assert_memory_equal(one, two, sizeof one);
    int count[VOCAB] = {0};
    for (int i = 0; i < N; i++) {
        assert_in_range(one[i], 0, VOCAB - 1);
        count[one[i]]++;
    }
    for (int i = 0; i < VOCAB; i++)
        assert_near(count[i], N / VOCAB, 5 * 20); /* 5 deviations of a Poisson of mean 400 */
    r.request_id = 4;
    assert_ok(workload_prompt_ids(a, &r, NULL, NULL, VOCAB, 7, two, &e), &e);
    assert_memory_not_equal(one, two, sizeof one);
    arena_free(&a);
}

static void faults_name_the_request(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    int32_t ids[4];
    const struct workload_request r = {.request_id = 3, .num_prefill_tokens = 4};
    assert_int_equal(workload_prompt_ids(a, &r, "the prompt", fake_tokenizer(), 6, 0, ids, &e),
                     ST_INPUT);
    assert_cause(&e, "token id 6 of request 3 is not below the model's vocabulary 6");
    assert_string_equal(err_hint_text(&e), "is the tokenizer the model's own?");
    assert_int_equal(workload_prompt_ids(a, &r, " ", fake_tokenizer(), 6, 0, ids, &e), ST_INPUT);
    assert_cause(&e, "the prompt of request 3 gives no tokens");
    assert_int_equal(workload_prompt_ids(a, &r, "x", NULL, 6, 0, ids, &e), ST_USAGE);
    assert_cause(&e, "request 3 has a prompt, but the model has no tokenizer");
    int64_t *counts;
    const struct prompt empty = {"p7", " "};
    assert_int_equal(workload_count_tokens(a, fake_tokenizer(), &empty, 1, &counts, &e), ST_INPUT);
    assert_cause(&e, "the text gives no tokens");
    assert_string_equal(err_cause(&e, 0), "cannot tokenize prompt 'p7'");
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_cut_or_repeated),
        cmocka_unit_test(without_a_text_ids_are_random),
        cmocka_unit_test(faults_name_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
