#include "client/turns.h"

#include <string.h>

#include "base/log.h"
#include "client/prompt_words.h"

struct turn {
    struct sv added, answer; /* texts */
    int32_t *ids;            /* [num_prefill_tokens], as sent */
    bool known;              /* texts: of tokens, so that they can be told apart */
};

struct turns {
    const struct client_bench *b;
    struct body_maker *maker;
    struct turn *of; /* [w->n] */
};

static const struct workload_request *request(const struct turns *t, size_t i)
{
    return &t->b->p.w->requests[i];
}

/* special: the tokenizer's tokens of a prompt's begin and end are among the n. */
static enum st text_of(const struct turns *t, const int32_t *ids, int64_t n, bool special,
                       struct sv *out, struct err *e)
{
    int64_t got;
    return prompt_words_text(t->b->a, t->b->words, ids, (size_t)n, n, special, out, &got, e);
}

static enum st ids_of(const struct turns *t, struct arena *a, size_t i, int32_t **ids,
                      struct err *e)
{
    const struct client_bench *b = t->b;
    const struct workload_request *q = request(t, i);
    int64_t vocab = b->p.vocab;
    if (!b->p.as_ids && tokenizer_vocab(b->p.tokenizer) < vocab)
        vocab = tokenizer_vocab(b->p.tokenizer);
    *ids = arena_array(a, int32_t, q->num_prefill_tokens);
    TRY(workload_prompt_ids(a, q, NULL, NULL, vocab, b->p.seed, *ids, e));
    if (!b->p.as_ids)
        prompt_words_draw(b->words, *ids, (size_t)q->num_prefill_tokens);
    return ST_OK;
}

/* The texts of a turn and of the answer before it, from the ids of its prompt. */
static enum st cut(struct turns *t, size_t i, const int32_t *ids, struct err *e)
{
    const struct workload_request *q = request(t, i), *last = q - 1;
    struct turn *x = &t->of[i];
    if (q->turn == 1) {
        x->known = true;
        return text_of(t, ids, q->num_prefill_tokens,
                       t->b->p.body.endpoint == BODY_COMPLETIONS && t->b->p.body.chat == CHAT_NONE,
                       &x->added, e);
    }
    const int64_t from = last->num_prefill_tokens, to = from + last->num_decode_tokens;
    if (!t->of[i - 1].known || to >= q->num_prefill_tokens)
        return ST_OK;
    x->known = true;
    TRY(text_of(t, ids + from, to - from, false, &t->of[i - 1].answer, e));
    return text_of(t, ids + to, q->num_prefill_tokens - to, false, &x->added, e);
}

static enum st prepare_one(struct turns *t, size_t i, struct arena *scratch, struct err *e)
{
    int32_t *ids;
    if (request(t, i)->turn == 0 || request(t, i)->prompt_id)
        return ST_OK;
    TRY(ids_of(t, t->b->p.as_ids ? t->b->a : scratch, i, &ids, e));
    if (!t->b->p.as_ids)
        return cut(t, i, ids, e);
    t->of[i].ids = ids;
    return ST_OK;
}

enum st turns_prepare(const struct client_bench *b, struct body_maker *maker, struct turns **out,
                      struct err *e)
{
    const struct workload *w = b->p.w;
    struct turns *t = *out = NULL;
    bool later = false;
    for (size_t i = 0; i < w->n && !later; i++)
        later = w->requests[i].turn > 1;
    if (!later || (!b->p.as_ids && !b->p.tokenizer))
        return ST_OK;
    t = arena_one(b->a, struct turns);
    *t = (struct turns){b, maker, arena_array(b->a, struct turn, w->n)};
    struct arena *scratch = arena_new();
    enum st st = ST_OK;
    for (size_t i = 0; i < w->n && st == ST_OK; i++) {
        st = prepare_one(t, i, scratch, e);
        arena_reset(scratch);
    }
    arena_free(&scratch);
    if (b->p.as_ids && b->p.body.count != BODY_COUNT_IDS)
        log_warn("later prompts hold the workload's tokens in place of the answers: "
                 "client.count=ids asks the server for their ids");
    *out = t;
    return st;
}

/* ---- while the clock runs ------------------------------------------------------------------ */

static void put_ids(struct turns *t, size_t i, const struct client_result *before)
{
    const struct workload_request *q = request(t, i), *last = q - 1;
    const size_t n = (size_t)last->num_prefill_tokens, answer = before->ids.n;
    if (answer == 0 || (int64_t)(n + answer) > q->num_prefill_tokens || !t->of[i - 1].ids)
        return;
    memcpy(t->of[i].ids, t->of[i - 1].ids, n * sizeof(int32_t));
    memcpy(t->of[i].ids + n, before->ids.p, answer * sizeof(int32_t));
}

static enum st body(void *self, size_t i, const struct client_result *before, struct sv *out,
                    struct err *e)
{
    struct turns *t = self;
    const struct workload_request *q = request(t, i);
    struct turn *x = &t->of[i];
    if (x->ids) {
        put_ids(t, i, before);
        const struct body_prompt prompt = {.ids = x->ids, .n_ids = (size_t)q->num_prefill_tokens};
        return body_make(t->b->a, t->maker, &prompt, q->num_decode_tokens, out, e);
    }
    if (!x->known)
        return ST_OK;
    if (before->status == RUN_OK && before->text.n)
        x[-1].answer = (struct sv){buf_str(&before->text), before->text.n};
    const size_t n = (size_t)q->turn - 1, first = i - n;
    struct sv *earlier = mem_alloc(2 * n * sizeof *earlier);
    for (size_t k = 0; k < n; k++) {
        earlier[2 * k] = t->of[first + k].added;
        earlier[2 * k + 1] = t->of[first + k].answer;
    }
    const struct body_prompt prompt = {.text = x->added, .earlier = earlier, .n_earlier = 2 * n};
    enum st st = body_make(t->b->a, t->maker, &prompt, q->num_decode_tokens, out, e);
    mem_free(earlier);
    return st;
}

struct client_turns turns_hook(struct turns *t)
{
    return (struct client_turns){t, body};
}
