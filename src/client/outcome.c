#include "client/outcome.h"

#include <math.h>
#include <string.h>

#include "metrics/metrics.h"
#include "text/json.h"

const int outcome_percentiles[OUTCOME_PERCENTILES] = {90, 95, 99};

const char *count_from_name(enum count_from c)
{
    static const char *const names[] = {"token_ids", "usage", "tokenizer", "chunks"};
    return names[c];
}

const char *length_name(enum length l)
{
    static const char *const names[] = {"right", "short", "long", "unknown"};
    return names[l];
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* Tokens by the counts of single chunks; -1 when one has none. */
static int64_t known_tokens(const struct client_result *r)
{
    int64_t sum = 0;
    for (size_t i = 0; i < r->chunks.n; i++) {
        if (r->chunks.p[i].tokens == 0)
            return -1;
        sum += r->chunks.p[i].tokens;
    }
    return sum;
}

static int64_t tokenized(const struct tokenizer *t, const struct client_result *r)
{
    struct arena *scratch = arena_new();
    struct err ignored = {0};
    int32_t *ids;
    size_t n = 0;
    struct sv text = {buf_str(&r->text), r->text.n};
    enum st st = tokenizer_encode(scratch, t, text, false, &ids, &n, &ignored);
    arena_free(&scratch);
    return st == ST_OK && n > 0 ? (int64_t)n : -1;
}

/* Bounds a server's count of output tokens, each of which is a row of a file, by a multiple of the
 * tokens requested and received. Prompts are only summed. */
static bool is_credible(const struct outcome *o, int64_t output_tokens)
{
    const int64_t asked = o->w->num_decode_tokens, came = (int64_t)(o->r->chunks.n + o->r->text.n);
    return output_tokens <= INT32_MAX && output_tokens / OUTCOME_MOST <= asked + came;
}

static int64_t count_output(const struct outcome *o, const struct tokenizer *t,
                            enum count_from *from)
{
    const struct client_result *r = o->r;
    int64_t known = known_tokens(r), n = (int64_t)r->chunks.n, counted;
    if (n == 0) {
        *from = COUNT_CHUNKS;
        return 0;
    }
    if (r->ids.n > 0 && known == (int64_t)r->ids.n) {
        *from = COUNT_IDS;
        return known;
    }
    if (r->completion_tokens > 0 && is_credible(o, r->completion_tokens)) {
        *from = COUNT_USAGE;
        return r->completion_tokens;
    }
    counted = t ? tokenized(t, r) : -1;
    *from = counted > 0 ? COUNT_TOKENIZER : COUNT_CHUNKS;
    return counted > 0 ? counted : n;
}

/* ceil gives the first chunk, which defines TTFT, at least one token. */
static void spread_tokens(struct outcome *o)
{
    int64_t n = (int64_t)o->r->chunks.n, before = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t upto = ((i + 1) * o->output_tokens + n - 1) / n;
        o->chunk_tokens[i] = (int32_t)(upto - before);
        before = upto;
    }
}

static enum length judge_length(const struct outcome *o)
{
    const int64_t asked = o->w->num_decode_tokens, n = o->output_tokens + o->hidden_tokens;
    const int64_t slack = o->count == COUNT_TOKENIZER ? (asked + 9) / 10 : 0;
    if (n > asked + slack)
        return LENGTH_LONG;
    if (n >= asked - slack)
        return LENGTH_RIGHT;
    return o->count != COUNT_CHUNKS || strcmp(o->r->finish, "stop") == 0 ? LENGTH_SHORT
                                                                         : LENGTH_UNKNOWN;
}

static enum length judge_prompt(const struct outcome *o, const struct outcome_prompts *p)
{
    enum { SPECIAL = 2 }; /* begin and end */
    const int64_t planned = o->w->num_prefill_tokens + (p ? p->template_tokens : 0);
    const int64_t slack = (planned + 9) / 10 + SPECIAL;
    /* a later turn has the answers that came, of which nobody knows the tokens in its text */
    if (!p || !p->known || !o->prompt_from_usage || (o->w->turn > 1 && !p->ids))
        return LENGTH_UNKNOWN;
    if (o->prompt_tokens >= planned - slack && o->prompt_tokens <= planned + slack)
        return LENGTH_RIGHT;
    return o->prompt_tokens > o->w->num_prefill_tokens ? LENGTH_LONG : LENGTH_SHORT;
}

/* Reasoning of which nothing was sent. One token at least is of what was. More chunks than there
 * are other tokens: it came as text like any other. */
static int64_t count_hidden(const struct outcome *o)
{
    const struct client_result *r = o->r;
    if (o->count != COUNT_USAGE || r->reasoned || r->text.n == 0)
        return 0;
    const int64_t hidden =
        r->reasoning_tokens < o->output_tokens ? r->reasoning_tokens : o->output_tokens - 1;
    return (int64_t)r->chunks.n > o->output_tokens - hidden ? 0 : hidden;
}

static void make(struct arena *a, struct outcome *o, const struct tokenizer *t,
                 const struct outcome_prompts *prompts)
{
    const struct client_result *r = o->r;
    o->prompt_from_usage = r->prompt_tokens > 0 && r->prompt_tokens <= INT32_MAX;
    o->prompt_tokens = o->prompt_from_usage ? r->prompt_tokens : o->w->num_prefill_tokens;
    o->output_tokens = count_output(o, t, &o->count);
    o->hidden_tokens = count_hidden(o);
    o->output_tokens -= o->hidden_tokens;
    o->chunk_tokens = arena_array(a, int32_t, r->chunks.n);
    if (known_tokens(r) == o->output_tokens) {
        for (size_t i = 0; i < r->chunks.n; i++)
            o->chunk_tokens[i] = r->chunks.p[i].tokens;
    } else {
        o->spread = o->output_tokens != (int64_t)r->chunks.n;
        spread_tokens(o);
    }
    o->length = judge_length(o);
    o->prompt = judge_prompt(o, prompts);
    o->at_once = o->output_tokens > 1 && r->chunks.n > 0 &&
                 vec_last(&r->chunks).time_ns - r->chunks.p[0].time_ns <
                     (int64_t)(r->chunks.n + r->empties.n);
}

void outcomes_make(struct arena *a, const struct workload *w, const struct client_result *results,
                   const struct tokenizer *tokenizer, int64_t n_warmup,
                   const struct outcome_prompts *prompts, struct outcome *outcomes)
{
    for (size_t i = 0; i < w->n; i++) {
        outcomes[i] = (struct outcome){
            .w = &w->requests[i], .r = &results[i], .warmup = (int64_t)i < n_warmup};
        make(a, &outcomes[i], tokenizer, prompts);
    }
}

/* ---- files --------------------------------------------------------------------------------- */

static void write_tokens(struct run_writer *writer, const struct outcome *o)
{
    int64_t index = 0, last_ns = 0;
    bool ids = (int64_t)o->r->ids.n == o->output_tokens;
    for (size_t i = 0; i < o->r->chunks.n; i++)
        for (int32_t k = 0; k < o->chunk_tokens[i]; k++, index++) {
            struct run_token t = {.request_id = o->w->request_id,
                                  .token_index = index,
                                  .token_time_ns = o->r->chunks.p[i].time_ns,
                                  .token_id = ids ? o->r->ids.p[index] : RUN_NONE};
            t.token_latency_ns = index ? t.token_time_ns - last_ns : 0;
            last_ns = t.token_time_ns;
            run_write_token(writer, &t);
        }
}

static void write_request(struct run_writer *writer, const struct outcome *o, const char *backend)
{
    const struct client_result *r = o->r;
    struct run_request row = {
        .request_id = o->w->request_id,
        .prompt_id = o->w->prompt_id,
        .arrival_ns = r->planned_ns,
        .sent_ns = r->sent_ns,
        .scheduled_ns = RUN_NONE,
        .first_token_ns = r->chunks.n ? r->chunks.p[0].time_ns : RUN_NONE,
        .completion_ns = r->end_ns,
        .num_prefill_tokens = o->prompt_tokens,
        .num_decode_tokens = o->w->num_decode_tokens,
        .num_decode_tokens_actual = o->output_tokens,
        .preemptions = RUN_NONE,
        .status = r->status,
        .warmup = o->warmup,
        .backend = backend,
        .error_type = r->error_type[0] ? r->error_type : NULL,
        .error_msg = r->error_msg[0] ? r->error_msg : NULL,
        .session_id = o->w->turn ? o->w->session_id : RUN_NONE,
        .turn = o->w->turn ? o->w->turn : RUN_NONE,
        .arrival_before_ns = RUN_NONE,
        .first_start_ns = RUN_NONE,
    };
    run_write_request(writer, &row);
}

void outcomes_write(struct run_writer *writer, const struct outcome *o, size_t n,
                    const char *backend, bool tokens)
{
    for (size_t i = 0; i < n; i++) {
        if (tokens)
            write_tokens(writer, &o[i]);
        write_request(writer, &o[i], backend);
    }
}

void outcomes_answers(struct buf *out, const struct outcome *o, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct client_result *r = o[i].r;
        buf_printf(out, "{\"request_id\":%lld,\"prompt_id\":", (long long)o[i].w->request_id);
        if (o[i].w->prompt_id)
            json_quote(out, sv_of(o[i].w->prompt_id));
        else
            buf_puts(out, "null");
        buf_printf(out, ",\"status\":\"%s\",\"finish_reason\":", run_status_name(r->status));
        if (r->finish[0])
            json_quote(out, sv_of(r->finish));
        else
            buf_puts(out, "null");
        buf_printf(out, ",\"output_tokens\":%lld,\"text\":", (long long)o[i].output_tokens);
        json_quote(out, (struct sv){buf_str(&r->text), r->text.n});
        buf_puts(out, "}\n");
    }
}

/* ---- figures ------------------------------------------------------------------------------- */

struct samples {
    double *p;
    size_t n, cap;
};

static void add(struct samples *s, double ms)
{
    if (!isnan(ms))
        vec_push(s, ms);
}

static void describe(struct samples *s, struct outcome_stat *out)
{
    *out = (struct outcome_stat){s->n, NAN, NAN, NAN, {NAN, NAN, NAN}};
    if (s->n > 0) {
        double sum = 0, squares = 0;
        double *scratch = mem_alloc(s->n * sizeof *scratch);
        stats_sort(s->p, scratch, s->n);
        mem_free(scratch);
        for (size_t i = 0; i < s->n; i++)
            sum += s->p[i];
        out->mean = sum / (double)s->n;
        for (size_t i = 0; i < s->n; i++)
            squares += (s->p[i] - out->mean) * (s->p[i] - out->mean);
        out->std = sqrt(squares / (double)s->n);
        out->median = stats_percentile(s->p, s->n, 50);
        for (int i = 0; i < OUTCOME_PERCENTILES; i++)
            out->p[i] = stats_percentile(s->p, s->n, outcome_percentiles[i]);
    }
    vec_free(s);
}

static bool counts(const struct outcome *o)
{
    return o->r->status == RUN_OK && !o->warmup;
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static bool meets(const struct outcome_limits *l, double ttft, double tpot, double e2el)
{
    return !(ttft > l->ttft_ms) && !(tpot > l->tpot_ms) && !(e2el > l->e2el_ms);
}

void outcomes_figures(struct arena *a, const struct outcome *o, size_t n,
                      const struct outcome_limits *limits, struct outcome_figures *out)
{
    (void)a;
    enum { TTFT, TTFT_SENT, TPOT, ITL, E2EL, E2EL_SENT, KINDS };
    struct samples s[KINDS] = {0};
    struct outcome_figures f = {0};
    int64_t begin_ns = INT64_MAX, end_ns = 0, good = 0, good_sent = 0;
    for (size_t i = 0; i < n; i++) {
        const struct client_result *r = o[i].r;
        f.warmup += o[i].warmup;
        f.failed += !o[i].warmup && r->status != RUN_OK;
        if (!o[i].warmup && r->planned_ns < begin_ns)
            begin_ns = r->planned_ns;
        if (!o[i].warmup && r->end_ns > end_ns)
            end_ns = r->end_ns;
        if (!counts(&o[i]))
            continue;
        const struct client_chunk *c = r->chunks.p;
        size_t last = r->chunks.n - 1; /* an ok request has a chunk */
        int64_t tokens = o[i].output_tokens;
        double ttft = ms(c[0].time_ns - r->planned_ns), sent = ms(c[0].time_ns - r->sent_ns);
        double e2el = ms(c[last].time_ns - r->planned_ns);
        double e2el_sent = ms(c[last].time_ns - r->sent_ns);
        double tpot = tokens > 1 && !o[i].at_once
                          ? ms(c[last].time_ns - c[0].time_ns) / (double)(tokens - 1)
                          : NAN;
        f.completed++;
        f.input_tokens += o[i].prompt_tokens;
        f.planned_input_tokens += o[i].w->num_prefill_tokens;
        f.output_tokens += tokens + o[i].hidden_tokens;
        f.hidden_tokens += o[i].hidden_tokens;
        f.chunks += (int64_t)r->chunks.n;
        f.counted[o[i].count]++;
        f.spread += o[i].spread;
        f.lengths[o[i].length]++;
        f.prompts[o[i].prompt]++;
        f.at_once += o[i].at_once;
        f.prompt_from_usage += o[i].prompt_from_usage;
        good += meets(limits, ttft, tpot, e2el);
        good_sent += meets(limits, sent, tpot, e2el_sent);
        add(&s[TTFT], ttft);
        add(&s[TTFT_SENT], sent);
        add(&s[TPOT], tpot);
        add(&s[E2EL], e2el);
        add(&s[E2EL_SENT], e2el_sent);
        for (size_t k = 0; k <= last; k++) {
            if (k > 0)
                add(&s[ITL], ms(c[k].time_ns - c[k - 1].time_ns));
            if (o[i].chunk_tokens[k] > f.max_tokens_per_chunk)
                f.max_tokens_per_chunk = o[i].chunk_tokens[k];
        }
    }
    double d = f.duration_s = end_ns > begin_ns ? (double)(end_ns - begin_ns) / 1e9 : NAN;
    f.requests_per_s = (double)f.completed / d;
    f.output_tokens_per_s = (double)f.output_tokens / d;
    f.total_tokens_per_s = (double)(f.output_tokens + f.input_tokens) / d;
    f.goodput = limits->set ? (double)good / d : NAN;
    f.goodput_sent = limits->set ? (double)good_sent / d : NAN;
    describe(&s[TTFT], &f.ttft);
    describe(&s[TTFT_SENT], &f.ttft_sent);
    describe(&s[TPOT], &f.tpot);
    describe(&s[ITL], &f.itl);
    describe(&s[E2EL], &f.e2el);
    describe(&s[E2EL_SENT], &f.e2el_sent);
    *out = f;
}

double outcomes_wrong_lengths(const struct outcome_figures *f, bool early)
{
    int64_t wrong = f->lengths[LENGTH_LONG] + (early ? 0 : f->lengths[LENGTH_SHORT]);
    return f->completed ? (double)wrong / (double)f->completed : 0;
}
