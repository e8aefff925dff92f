#include <string.h>

#include "compare/intern.h"
#include "text/json.h"
#include "workload/concurrency.h"

/* Planned arrivals may have passed through seconds as doubles on their way (Vidur's trace.csv). */
enum { ARRIVAL_TOLERANCE_NS = 1000 };

static const struct node *limit_of(const struct run *r)
{
    const struct node *n = node_find(r->meta, "concurrency");
    return n && n->kind == NODE_LIST ? n : NULL;
}

static bool same_text(const struct node *x, const struct node *y)
{
    struct buf a = {0}, b = {0};
    json_write(&a, x, 0, true);
    json_write(&b, y, 0, true);
    bool same = strcmp(buf_str(&a), buf_str(&b)) == 0;
    buf_free(&a);
    buf_free(&b);
    return same;
}

struct moments align_moments(const struct run *x, const struct run *y)
{
    const struct node *a = limit_of(x), *b = limit_of(y);
    return (struct moments){.closed = a && b, .same_limit = a && b ? same_text(a, b) : !a && !b};
}

const char *align_limit(struct arena *a, const struct run *r)
{
    const struct concurrency *c;
    struct err ignored = {0};
    if (!limit_of(r))
        return "none, an open loop";
    return concurrency_read(a, r->meta, &c, &ignored) == ST_OK ? concurrency_text(a, c) : "unknown";
}

bool align_same_moment(const struct moments *m, const struct run_request *a,
                       const struct run_request *b)
{
    if (!m->same_limit)
        return false;
    if (m->closed || a->turn > 1 || b->turn > 1)
        return a->turn == b->turn && a->session_id == b->session_id;
    int64_t d = a->arrival_ns - b->arrival_ns;
    return d <= ARRIVAL_TOLERANCE_NS && d >= -ARRIVAL_TOLERANCE_NS;
}

/* Differences that make the two sides different workloads: count, and the first. */
struct mismatch {
    size_t n;
    const struct run_request *real, *sim;
};

static void mismatch_add(struct mismatch *m, const struct run_request *real,
                         const struct run_request *sim)
{
    if (m->n++ == 0)
        m->real = real, m->sim = sim;
}

struct alignment_walk {
    struct comparison *c;
    struct alignment *out;
    struct moments moments;
    struct mismatch arrivals, prompts;
    bool follows; /* a moment of an aligned request followed from an end */
    size_t n_uncut;
};

static void align_pair(struct alignment_walk *w, const struct run_request *real,
                       const struct run_request *sim)
{
    struct comparison *c = w->c;
    if (real->warmup || sim->warmup) {
        c->n_warmup++;
        return;
    }
    int64_t nr = real->num_decode_tokens_actual, ns = sim->num_decode_tokens_actual;
    int64_t tokens = nr < ns ? nr : ns;
    if (real->status != RUN_OK || sim->status != RUN_OK || tokens < 1) {
        c->n_not_ok++;
        return;
    }
    if (nr != ns && !(nr > ns ? c->real : c->sim).tokens) {
        w->n_uncut++;
        return;
    }
    c->n_early_stop += nr != ns;
    w->follows |= w->moments.closed || real->turn > 1;
    if (!align_same_moment(&w->moments, real, sim))
        mismatch_add(&w->arrivals, real, sim);
    if (real->num_prefill_tokens != sim->num_prefill_tokens)
        mismatch_add(&w->prompts, real, sim);
    w->out->ids[w->out->n] = real->request_id;
    w->out->max_tokens[w->out->n++] = tokens;
}

/* Both request tables are sorted by request_id. */
static void align_walk(struct alignment_walk *w)
{
    struct comparison *c = w->c;
    size_t i = 0, j = 0;
    while (i < c->real.n_requests || j < c->sim.n_requests) {
        const struct run_request *real = i < c->real.n_requests ? &c->real.requests[i] : NULL;
        const struct run_request *sim = j < c->sim.n_requests ? &c->sim.requests[j] : NULL;
        if (real && sim && real->request_id == sim->request_id) {
            align_pair(w, real, sim);
            i++, j++;
        } else if (!sim || (real && real->request_id < sim->request_id)) {
            c->n_warmup += real->warmup;
            c->n_only_real += !real->warmup;
            i++;
        } else {
            c->n_warmup += sim->warmup;
            c->n_only_sim += !sim->warmup;
            j++;
        }
    }
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void tell_left_out(const struct alignment_walk *w, struct notes *notes)
{
    const struct comparison *c = w->c;
    if (c->n_warmup)
        compare_note(notes, "%zu warm-up request%s left out.", c->n_warmup, plural(c->n_warmup));
    if (c->n_only_real)
        compare_note(notes, "%zu request%s left out: only in the real run.", c->n_only_real,
                     plural(c->n_only_real));
    if (c->n_only_sim)
        compare_note(notes, "%zu request%s left out: only in the simulated run.", c->n_only_sim,
                     plural(c->n_only_sim));
    if (c->n_not_ok)
        compare_note(notes, "%zu request%s left out: did not end well on both sides.", c->n_not_ok,
                     plural(c->n_not_ok));
    if (w->n_uncut)
        compare_note(
            notes,
            "%zu request%s left out: the sides produced different numbers of tokens, and the "
            "longer one has no token_metrics.csv to cut it by.",
            w->n_uncut, plural(w->n_uncut));
    if (c->n_early_stop)
        compare_note(
            notes,
            "%zu request%s ended earlier on one side (end of sequence): both were compared up to "
            "the last token they have in common, E2E and TPOT at that token.",
            c->n_early_stop, plural(c->n_early_stop));
}

static void found_mismatches(struct arena *a, const struct alignment_walk *w)
{
    static const char clause[] = "the runs are not of one workload";
    const size_t arrivals = w->arrivals.n, prompts = w->prompts.n, n = w->out->n;
    if (arrivals + prompts == 0)
        return;
    struct compare_reason *r = cause_found(
        a, w->c->found, CAUSE_WORKLOADS_DIFFER, clause,
        prompts ? arena_printf(a,
                               "%s: %zu of %zu requests arrive at other times, %zu have other "
                               "prompt lengths",
                               clause, arrivals, n, prompts)
                : arena_printf(a, "%s: %zu of %zu requests arrive at other times", clause, arrivals,
                               n));
    cause_figure(a, r, "requests", (double)n);
    cause_figure(a, r, "other_arrivals", (double)arrivals);
    cause_figure(a, r, "other_prompt_lengths", (double)prompts);
}

static void tell_mismatches(const struct alignment_walk *w, struct notes *notes)
{
    const struct mismatch *m = &w->arrivals;
    if (!w->moments.same_limit)
        compare_note(notes,
                     "The runs had other limits on what is in the system at once: %s real, %s "
                     "simulated.",
                     align_limit(notes->a, &w->c->real), align_limit(notes->a, &w->c->sim));
    else if (w->follows)
        compare_note(
            notes,
            "Planned moments of %s follow from ends and differ between the sides; requests "
            "are paired by their place in the workload, and latencies count from each "
            "side's own moment.",
            w->moments.closed ? "a closed loop" : "later turns of a session");
    if (m->n)
        compare_note(
            notes,
            "%zu of %zu requests arrive at other times on the two sides (first: request %lld, "
            "%.6f s real, %.6f s simulated). The runs are not of one workload.",
            m->n, w->out->n, (long long)m->real->request_id, (double)m->real->arrival_ns / 1e9,
            (double)m->sim->arrival_ns / 1e9);
    m = &w->prompts;
    if (m->n)
        compare_note(
            notes,
            "%zu of %zu requests have other prompt lengths on the two sides (first: request %lld, "
            "%lld tokens real, %lld simulated). The runs are not of one workload.",
            m->n, w->out->n, (long long)m->real->request_id, (long long)m->real->num_prefill_tokens,
            (long long)m->sim->num_prefill_tokens);
}

enum st align_runs(struct arena *a, struct comparison *c, struct alignment *out,
                   struct notes *notes, struct err *e)
{
    size_t max = c->real.n_requests < c->sim.n_requests ? c->real.n_requests : c->sim.n_requests;
    *out = (struct alignment){.ids = arena_array(a, int64_t, max),
                              .max_tokens = arena_array(a, int64_t, max)};
    struct alignment_walk w = {.c = c, .out = out, .moments = align_moments(&c->real, &c->sim)};
    align_walk(&w);
    c->n_aligned = out->n;
    if (out->n == 0) {
        err_set(e, ST_INPUT,
                "no request to compare: %s has %zu, %s has %zu, and none ended well on both sides",
                c->real.dir, c->real.n_requests, c->sim.dir, c->sim.n_requests);
        return err_hint(e, "both runs must come from one workload: requests are matched by "
                           "request_id");
    }
    tell_left_out(&w, notes);
    tell_mismatches(&w, notes);
    found_mismatches(a, &w);
    return ST_OK;
}

enum st align_check_spread(const struct run *real, const struct alignment *al,
                           const struct run *other, struct err *e)
{
    static const char hint[] = "spread= takes more real runs of the very same workload";
    const struct moments moments = align_moments(real, other);
    if (!moments.same_limit) {
        struct arena *a = arena_new();
        err_set(e, ST_INPUT, "%s: not a run of the same workload: its concurrency is %s, in %s %s",
                other->dir, align_limit(a, other), real->dir, align_limit(a, real));
        arena_free(&a);
        return err_hint(e, hint);
    }
    for (size_t i = 0; i < al->n; i++) {
        const struct run_request *want = run_find(real, al->ids[i]);
        const struct run_request *got = run_find(other, al->ids[i]);
        const char *what = NULL;
        int64_t w = 0, g = 0;
        if (!got) {
            err_set(e, ST_INPUT, "%s: not a run of the same workload: request %lld is missing",
                    other->dir, (long long)al->ids[i]);
            return err_hint(e, hint);
        }
        if (!align_same_moment(&moments, want, got))
            what = "arrival_time_ns", w = want->arrival_ns, g = got->arrival_ns;
        else if (want->num_prefill_tokens != got->num_prefill_tokens)
            what = "num_prefill_tokens", w = want->num_prefill_tokens, g = got->num_prefill_tokens;
        else if (want->num_decode_tokens != got->num_decode_tokens)
            what = "num_decode_tokens", w = want->num_decode_tokens, g = got->num_decode_tokens;
        if (what) {
            err_set(e, ST_INPUT,
                    "%s: not a run of the same workload: %s of request %lld is %lld, in %s %lld",
                    other->dir, what, (long long)al->ids[i], (long long)g, real->dir, (long long)w);
            return err_hint(e, hint);
        }
    }
    return ST_OK;
}

struct metrics_params align_params(const struct alignment *al, bool include_token0)
{
    return (struct metrics_params){.include_token0 = include_token0,
                                   .request_ids = al->ids,
                                   .max_tokens = al->max_tokens,
                                   .n_ids = al->n};
}
