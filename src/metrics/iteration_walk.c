#include "metrics/iteration_walk.h"

#include <stdlib.h>
#include <string.h>

/* LOOK_AHEAD: iterations with prompts that decide how to go on behind one that does not agree.
 * CACHE_UNIT divides what a prefix cache holds of a prompt: vLLM's smallest block. */
enum { LOOK_AHEAD = 8, CACHE_UNIT = 16, GUESSES_MOST = 64 };

/* What the context part of an iteration is. */
struct context {
    bool agrees;
    size_t done;     /* requests from the head on whose prompts end with it */
    bool more;       /* a chunk of one more */
    int64_t of_last; /* tokens of the last of these */
    int64_t hits;    /* tokens that their prompts have besides: from the prefix cache */
};

static const struct run_request *request_at(const struct iteration_walk *w, size_t place)
{
    return &w->run->requests[w->queue[place].request];
}

static int by_first_token(const void *pa, const void *pb)
{
    const struct queued *a = pa, *b = pb;
    if (a->first_token_ns != b->first_token_ns)
        return a->first_token_ns < b->first_token_ns ? -1 : 1;
    if (a->arrival_ns != b->arrival_ns)
        return a->arrival_ns < b->arrival_ns ? -1 : 1;
    return (a->request > b->request) - (a->request < b->request);
}

void walk_rewind(struct iteration_walk *w)
{
    w->s = (struct walk_state){.rows = w->s.rows};
    w->unresolved = ITERATION_NONE;
}

void walk_init(struct iteration_walk *w)
{
    w->queue = arena_array(w->a, struct queued, w->run->n_requests);
    for (size_t i = 0; i < w->run->n_requests; i++) {
        const struct run_request *q = &w->run->requests[i];
        if (q->first_token_ns != RUN_NONE && q->num_decode_tokens_actual > 0)
            w->queue[w->n_queue++] = (struct queued){q->first_token_ns, q->arrival_ns, i};
    }
    qsort(w->queue, w->n_queue, sizeof *w->queue, by_first_token);
    w->s.rows = arena_array(w->a, struct running_row, w->n_queue);
    walk_rewind(w);
}

/* ---- what an iteration should hold ----------------------------------------------------------- */

static bool is_live(const struct running_row *x)
{
    return !x->preempted && !x->late;
}

static int64_t live_rows(const struct walk_state *s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += is_live(&s->rows[i]);
    return n;
}

/* Rows that generate in the next iteration, of those there now. */
static int64_t rows_after(const struct iteration_walk *w)
{
    int64_t n = 0;
    for (size_t i = 0; i < w->s.n; i++) {
        const struct running_row *x = &w->s.rows[i];
        n += is_live(x) && x->made + 1 < w->run->requests[x->request].num_decode_tokens_actual;
    }
    return n;
}

static const struct logged_iteration *after(const struct iteration_walk *w, size_t i)
{
    for (i++; i < w->log->n && w->log->of[i].dummy; i++) {
    }
    return i < w->log->n && w->log->of[i].follows ? &w->log->of[i] : NULL;
}

/* Context requests that have fewer tokens than their prompts: whether the last is a chunk that goes
 * on or all are done, as the requests of the next iteration say. */
static bool settle_short(const struct iteration_walk *w, size_t i, size_t requests, int64_t hits,
                         struct context *c)
{
    const struct logged_iteration *next = after(w, i);
    int64_t generate = rows_after(w);
    for (size_t k = 0; k < requests; k++)
        generate += request_at(w, w->s.head + k)->num_decode_tokens_actual > 1;
    const bool last_stays = request_at(w, w->s.head + requests - 1)->num_decode_tokens_actual > 1;
    if (!next)
        return false;
    if (c->of_last > 0 && next->context_requests > 0 &&
        next->generation_requests == generate - last_stays) {
        c->more = true;
        c->done = requests - 1;
        return true;
    }
    c->done = requests;
    c->hits = hits;
    return hits % CACHE_UNIT == 0 && next->generation_requests == generate;
}

static struct context context_of(const struct iteration_walk *w, size_t i)
{
    const struct logged_iteration *x = &w->log->of[i];
    const size_t n = (size_t)x->context_requests;
    struct context c = {.done = n};
    int64_t before = 0;
    if (n == 0) {
        c.agrees = x->context_tokens == 0 && w->s.done == 0;
        return c;
    }
    if (n > w->n_queue - w->s.head)
        return c;
    for (size_t k = 0; k + 1 < n; k++)
        before += request_at(w, w->s.head + k)->num_prefill_tokens - (k ? 0 : w->s.done);
    const int64_t last =
        request_at(w, w->s.head + n - 1)->num_prefill_tokens - (n > 1 ? 0 : w->s.done);
    c.of_last = x->context_tokens - before;
    c.agrees = c.of_last == last;
    if (c.of_last < last)
        c.agrees = settle_short(w, i, n, last - c.of_last, &c);
    return c;
}

/* ---- one iteration --------------------------------------------------------------------------- */

static struct matched_iteration *kept(const struct iteration_walk *w)
{
    return w->out ? &w->out->of[w->out->n] : NULL;
}

void walk_tell_unknown(const struct iteration_walk *w, const struct logged_iteration *x,
                       const char *why)
{
    if (w->out && !w->out->first_unknown)
        w->out->first_unknown = arena_printf(w->a, "%s:%ld: %s", w->log->path, x->line, why);
}

static void add_chunk(struct iteration_walk *w, size_t request, int64_t start, int64_t tokens,
                      bool last)
{
    struct matched_iteration *m = kept(w);
    if (!m)
        return;
    op_load_add_chunk(&m->is.load, w->spans, start, tokens);
    m->is.load.tokens += tokens;
    m->is.load.rows += last;
    m->is.chunks++;
    vec_push(&w->chunks, (struct matched_chunk){request, start, tokens, last});
}

static void add_decode(struct iteration_walk *w, const struct running_row *x)
{
    struct matched_iteration *m = kept(w);
    if (!m)
        return;
    const int64_t cached = w->run->requests[x->request].num_prefill_tokens + x->made;
    op_load_add_keys(&m->is.load, w->spans, cached);
    m->is.longest = cached > m->is.longest ? cached : m->is.longest;
    m->is.load.seqs++;
    m->is.load.tokens++;
    m->is.load.rows++;
}

/* The last of a request's tokens came. Returns whether the row stays. */
static bool got_last(struct iteration_walk *w, struct running_row *x)
{
    const struct run_request *q = &w->run->requests[x->request];
    if (w->out)
        w->out->last[x->request] = (int64_t)w->out->n;
    x->late = q->num_decode_tokens_actual < q->num_decode_tokens;
    return x->late;
}

/* A token of each row that takes part; rows that are done leave. */
static void advance_rows(struct iteration_walk *w, bool with_late)
{
    struct walk_state *s = &w->s;
    size_t left = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct running_row x = s->rows[i];
        bool stays = !x.late;
        if (x.late ? with_late : !x.preempted && !x.again)
            add_decode(w, &x);
        x.again = false;
        if (is_live(&x) && ++x.made >= w->run->requests[x.request].num_decode_tokens_actual)
            stays = got_last(w, &x);
        if (stays)
            s->rows[left++] = x;
    }
    s->n = left;
}

static void preempt_last(struct iteration_walk *w, int64_t n)
{
    for (size_t i = w->s.n; i-- > 0 && n > 0;) {
        struct running_row *x = &w->s.rows[i];
        if (!is_live(x))
            continue;
        x->preempted = true;
        w->s.preempted++;
        n--;
        if (w->out)
            w->out->preemptions++;
        if (w->out && w->unresolved == ITERATION_NONE)
            w->unresolved = (int64_t)w->out->n;
    }
}

/* Requests that were preempted and are computed again: the one preempted last comes first, which
 * was admitted first. False: other tokens than they have. */
static bool resume(struct iteration_walk *w, int64_t n, int64_t tokens)
{
    for (size_t i = 0; i < w->s.n && n > 0; i++) {
        struct running_row *x = &w->s.rows[i];
        if (!x->preempted)
            continue;
        const int64_t has = w->run->requests[x->request].num_prefill_tokens + x->made;
        x->preempted = false;
        x->again = true;
        w->s.preempted--;
        n--;
        tokens -= has;
        add_chunk(w, x->request, 0, has, true);
    }
    if (w->out && w->s.preempted == 0)
        w->unresolved = ITERATION_NONE;
    return tokens == 0;
}

/* The generation part: preemptions, and a token for each row. */
static bool generate(struct iteration_walk *w, const struct logged_iteration *x)
{
    const int64_t live = live_rows(&w->s), more = x->generation_requests - live;
    const int64_t late = (int64_t)(w->s.n - w->s.preempted) - live;
    const int64_t again = x->generation_tokens - x->generation_requests;
    bool agrees = again == 0, with_late = false;
    if (again == 0 && more < 0) {
        preempt_last(w, -more);
    } else if (again > 0 && more > 0 && more <= (int64_t)w->s.preempted) {
        agrees = resume(w, more, again + more);
    } else if (more > 0) {
        with_late = more == late;
        agrees = agrees && with_late;
    }
    advance_rows(w, with_late);
    return agrees;
}

/* The first token of the request at the head. */
static void admit(struct iteration_walk *w)
{
    const size_t request = w->queue[w->s.head++].request;
    struct running_row x = {.request = request, .made = 1};
    w->s.done = 0;
    if (w->out)
        w->out->first[request] = (int64_t)w->out->n;
    if (w->run->requests[request].num_decode_tokens_actual > 1 || got_last(w, &x))
        w->s.rows[w->s.n++] = x;
}

/* The context part, which agrees: chunks, and rows of those that are done. */
static void take_prompts(struct iteration_walk *w, const struct context *c)
{
    const size_t n = c->done + c->more;
    for (size_t k = 0; k < n; k++) {
        const int64_t prompt = request_at(w, w->s.head)->num_prefill_tokens;
        const bool last = k + 1 == n;
        const int64_t hit = last && !c->more ? c->hits : 0;
        const int64_t start = w->s.done + hit;
        const int64_t tokens = last && c->more ? c->of_last : prompt - start;
        add_chunk(w, w->queue[w->s.head].request, start, tokens, k < c->done);
        if (k < c->done)
            admit(w);
        else
            w->s.done += tokens;
    }
    if (w->out)
        w->out->hit_tokens += c->hits;
}

int walk_agreeing(struct iteration_walk *w, size_t i, int most)
{
    int n = 0;
    for (; i < w->log->n && n < most && (w->s.head < w->n_queue || w->s.n); i++) {
        const struct logged_iteration *x = &w->log->of[i];
        if (x->dummy)
            continue;
        const struct context c = context_of(w, i);
        if (!c.agrees)
            break;
        generate(w, x);
        take_prompts(w, &c);
        n += x->context_requests > 0;
    }
    return n;
}

/* How many of the next requests an iteration that does not agree held: as makes most of those
 * behind it agree; of others' requests 0. */
static size_t guess_taken(struct iteration_walk *w, size_t i)
{
    const size_t told = (size_t)w->log->of[i].context_requests;
    const size_t most = told < GUESSES_MOST ? told : GUESSES_MOST;
    struct iteration_match *const out = w->out;
    const struct walk_state before = w->s;
    struct running_row *rows = arena_copy(w->a, before.rows, before.n * sizeof *rows);
    int best = -1;
    size_t taken = 0;
    w->out = NULL;
    for (size_t k = 0; k <= most && before.head + k <= w->n_queue; k++) {
        for (size_t j = 0; j < k; j++)
            admit(w);
        const int n = walk_agreeing(w, i + 1, LOOK_AHEAD);
        if (n > best) {
            best = n;
            taken = k;
        }
        w->s = before;
        memcpy(w->s.rows, rows, before.n * sizeof *rows);
    }
    w->out = out;
    return taken;
}

const char *walk_wanted(const struct iteration_walk *w, int64_t n)
{
    const char *text = "";
    for (size_t k = 0; k < (size_t)n && k < 4 && w->s.head + k < w->n_queue; k++)
        text = arena_printf(
            w->a, "%s%s%lld", text, k ? ", " : "",
            (long long)(request_at(w, w->s.head + k)->num_prefill_tokens - (k ? 0 : w->s.done)));
    return *text ? text : "none";
}

bool walk_follow(struct iteration_walk *w, size_t i)
{
    const struct logged_iteration *x = &w->log->of[i];
    const struct context c = context_of(w, i);
    const int64_t live = live_rows(&w->s);
    const bool ours = generate(w, x);
    if (!ours)
        walk_tell_unknown(w, x,
                          arena_printf(w->a,
                                       "%lld generation requests with %lld tokens; of the run %lld "
                                       "generate",
                                       (long long)x->generation_requests,
                                       (long long)x->generation_tokens, (long long)live));
    if (!c.agrees)
        walk_tell_unknown(
            w, x,
            arena_printf(w->a,
                         "%lld context requests with %lld tokens; the next prompts of the "
                         "run have %s",
                         (long long)x->context_requests, (long long)x->context_tokens,
                         walk_wanted(w, x->context_requests ? x->context_requests : 1)));
    if (c.agrees) {
        take_prompts(w, &c);
    } else {
        for (size_t k = guess_taken(w, i); k > 0; k--)
            admit(w);
    }
    const bool whose = c.hits == 0 || c.done + c.more == 1;
    if (!whose)
        walk_tell_unknown(
            w, x,
            arena_printf(w->a,
                         "%lld tokens of %lld prompts came from the prefix cache, and it "
                         "is not known of which",
                         (long long)c.hits, (long long)x->context_requests));
    return ours && c.agrees && whose;
}

bool walk_over(const struct iteration_walk *w)
{
    return w->s.head == w->n_queue && live_rows(&w->s) == 0 && w->s.preempted == 0;
}
