/* Before the clock starts: makes all bodies, and checks that the server accepts them. */
#include <string.h>

#include "base/log.h"
#include "client/bench.h"
#include "client/turns.h"

/* ---- bodies ---- */

static enum st decode_prompt(const struct client_bench *b, struct arena *scratch,
                             const int32_t *ids, int64_t n, struct sv *text, struct err *e)
{
    struct buf out = {0};
    if (!b->p.tokenizer) {
        err_set(e, ST_USAGE,
                "the workload has lengths without texts, and model %s has no tokenizer",
                b->p.model);
        if (b->p.body.endpoint == BODY_CHAT)
            return err_hint(e, "model.tokenizer=FILE names one, workload.prompts=FILE has texts");
        return err_hint(e, "client.prompts=ids needs none");
    }
    enum st st = tokenizer_decode(b->p.tokenizer, ids, (size_t)n, true, &out, e);
    *text = (struct sv){arena_strn(scratch, buf_str(&out), out.n), out.n};
    buf_free(&out);
    return st;
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

static enum st make_prompt(const struct client_bench *b, struct arena *scratch,
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
        return decode_prompt(b, scratch, ids, r->num_prefill_tokens, &out->text, e);
    out->ids = ids;
    out->n_ids = (size_t)r->num_prefill_tokens;
    return ST_OK;
}

static enum st make_requests(struct client_bench *b, struct err *e)
{
    struct arena *a = b->a, *scratch = arena_new();
    const char **texts;
    enum st st = body_maker_new(a, &b->p.body, &b->maker, e);
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
    if (f->limit != BODY_LIMIT_MAX_TOKENS)
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

static enum st ask_server(struct client_bench *b, struct err *e)
{
    static const int32_t ids[] = {1, 2, 3, 4};
    struct body_prompt prompt = {.text = SV("Say hello.")};
    if (b->p.body.count == BODY_COUNT_TOKENIZER && !b->p.counter) {
        err_set(e, ST_USAGE, "client.count=tokenizer: no tokenizer was named");
        return err_hint(e, "client.tokenizer=FILE names that of the model which the server runs");
    }
    if (!b->p.preflight)
        return ST_OK;
    if (b->p.as_ids)
        prompt = (struct body_prompt){.ids = ids, .n_ids = sizeof ids / sizeof *ids};
    const double temperature = b->p.body.temperature;
    TRY(preflight_ask(b->a, &b->p.client, &b->p.body, &prompt, b->p.stop, &b->preflight, e));
    tell_preflight(b, temperature);
    tell_count(b);
    return ST_OK;
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
    TRY(make_requests(out, e));
    TRY(ask_server(out, e));
    if (out->preflight.changed)
        TRY(make_requests(out, e));
    TRY(turns_prepare(out, out->maker, &out->turns, e));
    out->hook = turns_hook(out->turns);
    out->p.client.turns = out->turns ? &out->hook : NULL;
    return ST_OK;
}
