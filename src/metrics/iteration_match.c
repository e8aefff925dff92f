#include "metrics/iteration_match.h"

#include <math.h>

#include "metrics/iteration_walk.h"

/* BEGINNING: iterations with prompts after which a place counts as the run's first. */
enum { BEGINNING = 8, STARTS_MOST = 64 };

/* The walk from `from` on; returns how many iterations agree. end: the one behind the last. */
static size_t walk_from(struct iteration_walk *w, size_t from, size_t *end)
{
    size_t known = 0, i = from;
    walk_rewind(w);
    for (; i < w->log->n && !walk_over(w); i++) {
        const struct logged_iteration *x = &w->log->of[i];
        if (x->dummy)
            continue;
        struct matched_iteration *m = w->out ? &w->out->of[w->out->n] : NULL;
        if (m) {
            *m = (struct matched_iteration){.log = x,
                                            .idle_before = w->s.n == 0 && w->s.done == 0,
                                            .chunk = w->chunks.n,
                                            .is.duration_s = (double)NAN};
            m->is.load.n_spans = w->spans ? w->spans->n : 0;
        }
        const bool agrees = walk_follow(w, i);
        known += agrees;
        if (m) {
            m->known = m->is.known = agrees;
            w->out->n++;
        }
    }
    *end = i;
    return known;
}

static enum st not_of_this_run(const struct iteration_walk *w, const char *why, struct err *e)
{
    err_set(e, ST_INPUT, "%s does not belong to the run %s: %s", w->log->path, w->run->dir, why);
    return err_hint(e, "give the log of the server that served this run, which names every "
                       "iteration from the run's first request to its last");
}

/* Places where most prompts agree, up to BEGINNING iterations; walk_over(w) counts as all. */
struct starts {
    size_t at[STARTS_MOST];
    size_t n; /* may be more than are in at */
    int agree;
};

/* idle: those alone at which nothing else runs. */
static struct starts find_starts(struct iteration_walk *w, bool idle)
{
    struct starts s = {.agree = 1};
    for (size_t i = 0; i < w->log->n; i++) {
        const struct logged_iteration *x = &w->log->of[i];
        if (x->context_requests == 0 || x->dummy || (idle && x->generation_requests > 0))
            continue;
        walk_rewind(w);
        const int agree = walk_agreeing(w, i, BEGINNING), n = walk_over(w) ? BEGINNING : agree;
        if (n < s.agree)
            continue;
        if (n > s.agree)
            s.n = 0;
        s.agree = n;
        if (s.n < STARTS_MOST)
            s.at[s.n] = i;
        s.n++;
    }
    return s;
}

/* Where the run begins: where most prompts agree, and of several places all the rest. */
static enum st find_start(struct iteration_walk *w, size_t *start, struct err *e)
{
    size_t known = 0, end, second = SIZE_MAX;
    struct starts s = find_starts(w, true);
    if (s.agree < BEGINNING)
        s = find_starts(w, false);
    walk_rewind(w);
    if (s.n == 0)
        return not_of_this_run(
            w,
            arena_printf(w->a, "no iteration begins with its first prompt, of %s tokens",
                         walk_wanted(w, 1)),
            e);
    for (size_t i = 0; i < s.n && s.n <= STARTS_MOST; i++) {
        const size_t whole = walk_from(w, s.at[i], &end);
        second = whole == known ? s.at[i] : whole > known ? SIZE_MAX : second;
        *start = whole > known ? s.at[i] : *start;
        known = whole > known ? whole : known;
    }
    if (s.n <= STARTS_MOST && second == SIZE_MAX)
        return ST_OK;
    err_set(e, ST_INPUT,
            "%s: the run %s may begin at line %ld or at line %ld: its requests were "
            "served several times",
            w->log->path, w->run->dir, w->log->of[s.n > STARTS_MOST ? s.at[0] : *start].line,
            w->log->of[s.n > STARTS_MOST ? s.at[1] : second].line);
    return err_hint(e, "cut the log to the lines of this run");
}

static enum st check_log(const struct run *run, const struct iteration_log *log, struct err *e)
{
    size_t several = 0, generating = 0;
    if (log->engines > 1) {
        err_set(e, ST_INPUT,
                "%s is of %d engines (data parallelism), and which served a request of %s is not "
                "known",
                log->path, (int)log->engines, run->dir);
        return err_hint(e, "give the log of a server with one engine");
    }
    for (size_t i = 0; i < log->n; i++) {
        const struct logged_iteration *x = &log->of[i];
        generating += x->generation_requests > 0;
        several += x->generation_tokens > x->generation_requests;
    }
    if (several * 2 <= generating)
        return ST_OK;
    err_set(
        e, ST_INPUT,
        "%s: %zu of %zu iterations have several tokens a generation request: the server decodes "
        "speculatively",
        log->path, several, generating);
    return err_hint(e, "no such server is simulated: give a run without speculative decoding");
}

/* ST_INPUT: lines are missing inside of the run. */
static enum st check_gaps(const struct iteration_walk *w, size_t from, size_t end, struct err *e)
{
    for (size_t i = from + 1; i < end; i++)
        if (!w->log->of[i].follows) {
            err_at(e, ST_INPUT, w->log->path, w->log->of[i].line, 0,
                   "iteration %lld does not follow %lld inside of the run %s: lines are missing, "
                   "or the server was started anew",
                   (long long)w->log->of[i].index, (long long)w->log->of[i - 1].index, w->run->dir);
            return err_hint(e, "give the whole log of the run");
        }
    return ST_OK;
}

/* One was preempted and not seen again: what was taken for that was something else. */
static void drop_unresolved(struct iteration_walk *w)
{
    if (w->unresolved == ITERATION_NONE)
        return;
    for (size_t i = (size_t)w->unresolved; i < w->out->n; i++)
        w->out->of[i].known = w->out->of[i].is.known = false;
    walk_tell_unknown(
        w, w->out->of[w->unresolved].log,
        "fewer generation requests than the run has, and none that is computed again");
}

static enum st keep(struct iteration_walk *w, struct iteration_match *out, struct err *e)
{
    out->chunks = arena_copy(w->a, w->chunks.p, w->chunks.n * sizeof *w->chunks.p);
    out->n_chunks = w->chunks.n;
    drop_unresolved(w);
    for (size_t i = 0; i < out->n; i++)
        out->n_known += out->of[i].known;
    for (size_t i = 0; i < w->run->n_requests; i++)
        out->n_found += out->first[i] != ITERATION_NONE && out->last[i] != ITERATION_NONE;
    const bool agrees = 2 * out->n_known >= out->n && out->n_found;
    if (agrees && walk_over(w))
        return ST_OK;
    if (agrees) {
        err_set(e, ST_INPUT, "%s ends before the run %s does: it holds %zu of its %zu requests",
                w->log->path, w->run->dir, out->n_found, w->run->n_requests);
        return err_hint(e, "give the whole log of the run");
    }
    return not_of_this_run(
        w,
        arena_printf(w->a, "%zu of %zu iterations agree with its requests; %s", out->n_known,
                     out->n, out->first_unknown ? out->first_unknown : "none of them is whole"),
        e);
}

enum st iteration_match(struct arena *a, const struct run *run, const struct iteration_log *log,
                        const struct key_spans *spans, struct iteration_match *out, struct err *e)
{
    struct iteration_walk w = {.a = a, .run = run, .log = log, .spans = spans};
    size_t start = 0, end = 0;
    *out = (struct iteration_match){.n = 0};
    TRY(check_log(run, log, e));
    walk_init(&w);
    TRY(find_start(&w, &start, e));
    out->of = arena_array(a, struct matched_iteration, log->n - start);
    out->first = arena_array(a, int64_t, run->n_requests);
    out->last = arena_array(a, int64_t, run->n_requests);
    for (size_t i = 0; i < run->n_requests; i++)
        out->first[i] = out->last[i] = ITERATION_NONE;
    w.out = out;
    walk_from(&w, start, &end);
    enum st st = keep(&w, out, e);
    vec_free(&w.chunks);
    return st == ST_OK ? check_gaps(&w, start, end, e) : st;
}

const char *iteration_match_words(struct arena *a, const struct iteration_match *m)
{
    const char *text = arena_printf(a, "%zu of %zu iterations are known", m->n_known, m->n);
    if (m->first_unknown)
        text = arena_printf(a, "%s, the first that is not: %s", text, m->first_unknown);
    if (m->preemptions)
        text = arena_printf(a, "%s; %lld preemptions", text, (long long)m->preemptions);
    if (m->hit_tokens)
        text = arena_printf(a, "%s; %lld tokens of prompts were in the prefix cache", text,
                            (long long)m->hit_tokens);
    return text;
}
