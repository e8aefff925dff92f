#include "client/turns.h"

#include "client/prompt_words.h"
#include "support/support.h"
#include "text/json.h"

enum { N = 4 };

/* A session of three turns and a request of its own. */
static struct tokenizer *tokenizer;

static void prepare(struct test *t, struct client_bench *b, bool as_ids,
                    enum body_endpoint endpoint, struct client_turns *hook)
{
    static const int64_t ids[] = {77, 78};
    struct workload *w = arena_one(t->a, struct workload);
    w->n = N;
    w->requests = arena_array(t->a, struct workload_request, N);
    for (int64_t i = 0; i < 3; i++)
        w->requests[i] = (struct workload_request){.request_id = i,
                                                   .num_prefill_tokens = 5 + 8 * i,
                                                   .num_decode_tokens = 3,
                                                   .hash_ids = ids,
                                                   .hash_tokens = 16,
                                                   .session_id = 1,
                                                   .turn = i + 1};
    w->requests[3] =
        (struct workload_request){.request_id = 3, .num_prefill_tokens = 2, .num_decode_tokens = 2};
    *b = (struct client_bench){.a = t->a};
    b->p = (struct client_bench_params){
        .body = {.endpoint = endpoint, .model = "m", .count = BODY_COUNT_IDS, .chat = CHAT_NONE},
        .w = w,
        .vocab = 1000,
        .seed = 1,
        .as_ids = as_ids};
    if (!as_ids) {
        const char *path = TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json";
        assert_ok(tokenizer_load(path, &tokenizer, &t->e), t);
        b->p.tokenizer = tokenizer;
    }
    assert_ok(body_maker_new(t->a, &b->p.body, &b->maker, &t->e), t);
    if (!as_ids)
        assert_ok(prompt_words_find(t->a, tokenizer, &b->words, &t->e), t);
    assert_ok(turns_prepare(b, b->maker, &b->turns, &t->e), t);
    assert_non_null(b->turns);
    *hook = turns_hook(b->turns);
}

static struct node *body_of(struct test *t, struct client_turns *hook, size_t i,
                            const struct client_result *before)
{
    struct sv body = {0};
    struct node *tree;
    assert_ok(hook->body(hook->self, i, before, &body, &t->e), t);
    assert_ok(json_parse(t->a, "body", body, NULL, &tree, &t->e), t);
    return tree;
}

static int64_t id_at(const struct node *body, uint32_t i)
{
    return node_find(body, "prompt")->items[i]->i;
}

static void ids_of_answers_take_their_place(void **state)
{
    struct test *t = *state;
    struct client_bench b;
    struct client_turns hook;
    int32_t first[5], planned[21], answer[] = {901, 902, 903}, next[] = {801, 802};
    prepare(t, &b, true, BODY_COMPLETIONS, &hook);
    assert_ok(workload_prompt_ids(t->a, &b.p.w->requests[0], NULL, NULL, 1000, 1, first, &t->e), t);
    assert_ok(workload_prompt_ids(t->a, &b.p.w->requests[2], NULL, NULL, 1000, 1, planned, &t->e),
              t);
    const struct client_result one = {.ids = {answer, 3, 3}}, two = {.ids = {next, 2, 2}};
    const struct node *body = body_of(t, &hook, 1, &one);
    assert_int_equal(node_find(body, "prompt")->n, 13);
    body = body_of(t, &hook, 2, &two); /* one token of the answer is missing */
    assert_int_equal(node_find(body, "prompt")->n, 21);
    for (uint32_t i = 0; i < 21; i++) {
        int64_t want = i < 5               ? first[i]
                       : i < 8             ? answer[i - 5]
                       : i >= 13 && i < 15 ? next[i - 13]
                                           : planned[i];
        assert_int_equal(id_at(body, i), want);
    }
}

static void without_ids_the_workloads_stand_there(void **state)
{
    struct test *t = *state;
    struct client_bench b;
    struct client_turns hook;
    int32_t planned[13];
    prepare(t, &b, true, BODY_COMPLETIONS, &hook);
    assert_ok(workload_prompt_ids(t->a, &b.p.w->requests[1], NULL, NULL, 1000, 1, planned, &t->e),
              t);
    const struct client_result none = {.status = RUN_ERROR};
    const struct node *body = body_of(t, &hook, 1, &none);
    for (uint32_t i = 0; i < 13; i++)
        assert_int_equal(id_at(body, i), planned[i]);
}

static void texts_of_answers_stand_as_they_came(void **state)
{
    struct test *t = *state;
    for (int chat = 0; chat < 2; chat++) {
        struct client_bench b;
        struct client_turns hook;
        prepare(t, &b, false, chat ? BODY_CHAT : BODY_COMPLETIONS, &hook);
        struct client_result one = {0}, failed = {.status = RUN_TIMEOUT};
        buf_puts(&one.text, "<one>");
        buf_puts(&failed.text, "<half");
        body_of(t, &hook, 1, &one);
        const struct node *body = body_of(t, &hook, 2, &failed);
        if (chat) {
            const struct node *m = node_find(body, "messages");
            const char *role;
            assert_int_equal(m->n, 5);
            for (uint32_t i = 0; i < 5; i++) {
                assert_ok(node_get_str(m->items[i], "role", &role, &t->e), t);
                assert_string_equal(role, i % 2 ? "assistant" : "user");
            }
            assert_string_equal(node_find(m->items[1], "content")->s.p, "<one>");
            assert_true(node_find(m->items[3], "content")->s.n > 0); /* the workload's */
        } else {
            const char *text = node_find(body, "prompt")->s.p;
            assert_non_null(strstr(text, "<one>"));
            assert_null(strstr(text, "<half"));
        }
        buf_free(&one.text);
        buf_free(&failed.text);
        tokenizer_free(&tokenizer);
    }
}

static void without_later_turns_there_are_none(void **state)
{
    struct test *t = *state;
    struct workload_request q = {.num_prefill_tokens = 2, .num_decode_tokens = 2, .turn = 1};
    struct workload w = {.requests = &q, .n = 1};
    struct client_bench b = {.a = t->a, .p = {.w = &w, .as_ids = true}};
    struct turns *turns;
    assert_ok(turns_prepare(&b, NULL, &turns, &t->e), t);
    assert_null(turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_of_answers_take_their_place),
        TEST(without_ids_the_workloads_stand_there),
        TEST(texts_of_answers_stand_as_they_came),
        TEST(without_later_turns_there_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
