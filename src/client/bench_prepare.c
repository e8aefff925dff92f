/* Before the clock starts: makes all bodies, and checks that the server accepts them. */
#include <string.h>

#include "base/log.h"
#include "client/bench.h"
#include "client/prompt_words.h"
#include "client/proxy.h"
#include "client/turns.h"

#define PREFLIGHT_PROMPT "Say hello."

/* ---- bodies ---- */

/* Tokens that the tokenizer adds to a text count only where the server adds them to it alone. */
static bool adds_special(const struct client_bench *b)
{
    return b->p.body.endpoint == BODY_COMPLETIONS && b->p.body.chat == CHAT_NONE;
}

/* drawn: random ids, in whose places words are put. */
static enum st write_prompt(struct client_bench *b, struct arena *scratch, int32_t *ids, int64_t n,
                            bool drawn, struct sv *text, struct err *e)
{
    int64_t got;
    if (!b->p.tokenizer) {
        err_set(e, ST_USAGE,
                "the workload has lengths without texts, and model %s has no tokenizer",
                b->p.model);
        if (b->p.body.endpoint != BODY_COMPLETIONS)
            return err_hint(e, "client.tokenizer=FILE names one, workload.prompts=FILE has texts");
        return err_hint(e, "client.tokenizer=FILE names one, client.prompts=ids needs none");
    }
    if (drawn)
        prompt_words_draw(b->words, ids, (size_t)n);
    TRY(prompt_words_text(scratch, b->words, ids, (size_t)n, n, adds_special(b), text, &got, e));
    b->misfits += got != n;
    return ST_OK;
}

/* Whether the text has exactly the workload's length: false when lengths are drawn. */
static bool text_fits(const struct client_bench *b, struct arena *scratch, const char *text,
                      int64_t tokens)
{
    struct err ignored = {0};
    int32_t *ids;
    size_t n;
    if (!b->p.tokenizer)
        return true;
    return tokenizer_encode(scratch, b->p.tokenizer, sv_of(text), true, &ids, &n, &ignored) ==
               ST_OK &&
           (int64_t)n == tokens;
}

static enum st make_prompt(struct client_bench *b, struct arena *scratch,
                           const struct workload_request *r, const char *text,
                           struct body_prompt *out, struct err *e)
{
    *out = (struct body_prompt){0};
    if (!b->p.as_ids && text && text_fits(b, scratch, text, r->num_prefill_tokens)) {
        out->text = sv_of(text);
        return ST_OK;
    }
    int64_t vocab = b->p.vocab;
    if (!b->p.as_ids && b->p.tokenizer && tokenizer_vocab(b->p.tokenizer) < vocab)
        vocab = tokenizer_vocab(b->p.tokenizer);
    int32_t *ids = arena_array(scratch, int32_t, r->num_prefill_tokens);
    TRY(workload_prompt_ids(scratch, r, text, b->p.tokenizer, vocab, b->p.seed, ids, e));
    if (!b->p.as_ids)
        return write_prompt(b, scratch, ids, r->num_prefill_tokens, !text, &out->text, e);
    out->ids = ids;
    out->n_ids = (size_t)r->num_prefill_tokens;
    return ST_OK;
}

static enum st make_requests(struct client_bench *b, struct err *e)
{
    struct arena *a = b->a, *scratch = arena_new();
    const char **texts;
    enum st st = body_maker_new(a, &b->p.body, &b->maker, e);
    b->misfits = 0;
    if (st == ST_OK && !b->p.as_ids && b->p.tokenizer && !b->words)
        st = prompt_words_find(a, b->p.tokenizer, &b->words, e);
    if (st == ST_OK)
        st = workload_texts(a, b->p.w, b->p.prompts, b->p.n_prompts, &texts, e);
    b->requests = arena_array(a, struct client_request, b->n);
    b->results = arena_array(a, struct client_result, b->n);
    for (size_t i = 0; i < b->n && st == ST_OK; i++) {
        const struct workload_request *r = &b->p.w->requests[i];
        struct body_prompt prompt;
        b->requests[i].at_ns = r->arrival_ns;
        b->requests[i].session_id = r->session_id;
        b->requests[i].turn = r->turn;
        b->requests[i].think_ns = r->think_ns;
        b->requests[i].max_tokens = r->num_decode_tokens;
        st = make_prompt(b, scratch, r, texts[i], &prompt, e);
        if (st == ST_OK)
            st = body_make(a, b->maker, &prompt, r->num_decode_tokens, &b->requests[i].body, e);
        arena_reset(scratch);
    }
    arena_free(&scratch);
    return st;
}

/* ---- what the server takes ---- */

/* temperature: the configured one. */
static void tell_preflight(const struct client_bench *b, double temperature)
{
    const struct preflight *f = &b->preflight;
    const char *limit = body_limit_name(f->limit);
    if (!f->asked) {
        log_warn("the server is busy: it was not asked which settings of a request it takes");
        return;
    }
    if (f->no_ignore_eos)
        log_warn("the server does not take ignore_eos: answers may end before they have the "
                 "workload's lengths");
    if (f->no_temperature)
        log_warn("the server does not take temperature=%g: its own is used", temperature);
    if (f->limit == BODY_LIMIT_MAX_COMPLETION_TOKENS)
        log_info("the limit on output tokens is sent as %s", limit);
    if (f->unlimited)
        log_warn("the server's answer is longer than %s allows", limit);
    if (f->one_chunk)
        log_warn("the server sends an answer's text in one piece: such answers have no TPOT");
}

static void tell_count(const struct client_bench *b)
{
    bool usage = b->preflight.has_usage && !b->preflight.no_usage;
    if (!b->preflight.asked || (usage && b->p.body.count != BODY_COUNT_TOKENIZER))
        return;
    if (b->p.counter)
        log_info("output tokens are counted by %s%s", b->p.counter_id,
                 usage ? "" : ": the server sends no usage");
    else
        log_warn("the server sends no usage and no tokenizer was named: each chunk is counted as "
                 "one output token (client.tokenizer=FILE, of the model that the server runs, "
                 "counts them)");
}

/* Whether prompts may be sent as ids if the server takes them: none has a text of its own, and
 * later turns hold the answers that came. */
static bool may_send_ids(const struct client_bench *b)
{
    return b->p.prompts_kind == CLIENT_PROMPTS_AUTO && b->p.n_prompts == 0 && adds_special(b) &&
           (!workload_has_sessions(b->p.w) || b->p.body.count == BODY_COUNT_IDS);
}

/* Counts the ids of a prompt by usage: a server that takes them for something else, a text or
 * several prompts, has another number of tokens. The largest id shows whether it knows them all. */
static enum st ask_for_ids(struct client_bench *b, struct err *e)
{
    const int32_t ids[] = {1, 2, (int32_t)(b->p.vocab / 2), (int32_t)(b->p.vocab - 1)};
    const size_t n = sizeof ids / sizeof *ids;
    const struct body_prompt prompt = {.ids = ids, .n_ids = n};
    struct body_params body = b->p.body;
    struct preflight f;
    struct err refused = {0};
    enum st st = preflight_ask(b->a, &b->p.client, &body, &prompt, b->p.stop, &f, &refused);
    if (st == ST_INTERRUPTED) {
        *e = refused;
        return st;
    }
    b->p.as_ids = st == ST_OK && f.asked && !f.changed && f.prompt_tokens == (int64_t)n;
    b->preflight.changed |= b->p.as_ids;
    return ST_OK;
}

/* What the server adds to each prompt, by the one that was asked. */
static enum st learn_template(struct client_bench *b, struct sv asked, struct err *e)
{
    const struct preflight *f = &b->preflight;
    struct outcome_prompts *p = &b->p_prompts;
    int64_t n;
    *p = (struct outcome_prompts){.known = b->p.as_ids || b->p.tokenizer, .ids = b->p.as_ids};
    if (b->p.as_ids || adds_special(b) || !p->known)
        return ST_OK;
    p->known = f->asked && f->prompt_tokens > 0;
    TRY(prompt_words_count(b->words, asked, false, &n, e));
    p->template_tokens = p->known && f->prompt_tokens > n ? f->prompt_tokens - n : 0;
    return ST_OK;
}

static void tell_proxy(const struct client_bench *b)
{
    const char *proxy = proxy_of_environment(b->p.client.url);
    if (proxy)
        log_warn(
            "the proxy of %s is not used, since its time would be measured: requests go to the "
            "server itself (NO_PROXY=HOST says that none is meant)",
            proxy);
}

static enum st ask_server(struct client_bench *b, struct err *e)
{
    static const int32_t ids[] = {1, 2, 3, 4};
    struct body_prompt prompt = {.text = SV(PREFLIGHT_PROMPT)};
    if (b->p.body.count == BODY_COUNT_TOKENIZER && !b->p.counter) {
        err_set(e, ST_USAGE, "client.count=tokenizer: no tokenizer was named");
        return err_hint(e, "client.tokenizer=FILE names that of the model which the server runs");
    }
    if (!b->p.preflight)
        return ST_OK;
    if (b->p.as_ids)
        prompt = (struct body_prompt){.ids = ids, .n_ids = sizeof ids / sizeof *ids};
    const double temperature = b->p.body.temperature;
    struct preflight *f = &b->preflight;
    TRY(preflight_ask(b->a, &b->p.client, &b->p.body, &prompt, b->p.stop, f, e));
    tell_preflight(b, temperature);
    tell_count(b);
    if (f->asked && !f->unlimited)
        b->p.client.sends = (struct client_sends){f->has_done, f->has_finish, f->has_usage};
    return f->asked && !b->p.as_ids && may_send_ids(b) ? ask_for_ids(b, e) : ST_OK;
}

enum st client_bench_prepare(struct arena *a, const struct client_bench_params *p,
                             struct client_bench *out, struct err *e)
{
    *out = (struct client_bench){.a = a, .p = *p, .n = p->w->n};
    out->p.client.concurrency = p->w->concurrency;
    if (p->client.duration_s > 0 && workload_has_sessions(p->w)) {
        err_set(e, ST_USAGE, "client.duration_s: a workload with sessions is run to its end");
        return err_hint(e, "leave client.duration_s out, or set workload.num_requests");
    }
    if (p->client.max_concurrency > 0 && p->w->concurrency) {
        err_set(e, ST_USAGE,
                "client.max_concurrency: the workload is a closed loop, which has "
                "its own limit");
        return err_hint(e, "workload.concurrency=%lld sets it",
                        (long long)p->client.max_concurrency);
    }
    out->p.as_ids = p->prompts_kind == CLIENT_PROMPTS_IDS;
    TRY(make_requests(out, e));
    tell_proxy(out);
    TRY(ask_server(out, e));
    if (out->preflight.changed)
        TRY(make_requests(out, e));
    TRY(learn_template(out, SV(PREFLIGHT_PROMPT), e));
    if (out->misfits > 0)
        log_warn(
            "for %lld of %zu prompts no text of exactly the planned number of tokens was found",
            (long long)out->misfits, out->n);
    TRY(turns_prepare(out, out->maker, &out->turns, e));
    out->hook = turns_hook(out->turns);
    out->p.client.turns = out->turns ? &out->hook : NULL;
    return ST_OK;
}
