#include "search/probe_bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/worker/child.h"
#include "search/capacity.h"

enum { LINE_MAX_BYTES = 1 << 20, MAX_WORDS = 16, EXIT_REJECTED = 5, TRIES = 2 };
static const double patience_s = 5, nap_s = 0.2, tell_every_s = 10;

static int64_t s_ns(double s)
{
    return (int64_t)(s * 1e9);
}

struct probe_bench {
    struct probe_bench_params p;
    struct probe_ops ops; /* with the engine's name */
    struct arena *a;      /* of one probe */
    struct probe_samples samples;
};

/* ---- one child --------------------------------------------------------------------------- */

enum ended { ENDED, ENDED_LATE, ENDED_STOPPED };

static void drain(struct child *child)
{
    struct err ignored = {0};
    struct sv line;
    while (child_line(child, &line, &ignored) == ST_OK)
        ;
}

/* A line at the start, and then as often as a person would begin to wonder. */
struct probe_waiting {
    double rate;
    uint64_t seed;
    int64_t begun_ns, next_ns;
};

static void tell_waiting(struct probe_waiting *w, double least_s)
{
    const int64_t now = w->next_ns == w->begun_ns ? w->begun_ns : clock_mono_ns();
    if (now < w->next_ns)
        return;
    w->next_ns = now + s_ns(tell_every_s);
    if (now == w->begun_ns)
        log_info("%.4g requests/s, seed %llu: asked, for %.0f s or more", w->rate,
                 (unsigned long long)w->seed, least_s);
    else
        log_info("%.4g requests/s, seed %llu: %.0f s of %.0f or more", w->rate,
                 (unsigned long long)w->seed, (double)(now - w->begun_ns) / 1e9, least_s);
}

static void wait_until(struct child *child, int64_t until_ns, const volatile sig_atomic_t *stop)
{
    while (!child->ended && clock_mono_ns() < until_ns && !(stop && *stop)) {
        int64_t nap = clock_mono_ns() + s_ns(nap_s);
        child_wait(child, nap < until_ns ? nap : until_ns);
        drain(child);
    }
}

static enum ended wait_for(const struct probe_bench *b, struct child *child, double rate,
                           uint64_t seed)
{
    const int64_t now = clock_mono_ns(), end_ns = now + s_ns(b->p.timeout_s);
    const double least_s = b->p.span_s(b->p.self, seed) / rate;
    struct probe_waiting w = {rate, seed, now, now};
    while (!child->ended && clock_mono_ns() < end_ns && !(b->p.stop && *b->p.stop)) {
        tell_waiting(&w, least_s);
        wait_until(child, w.next_ns < end_ns ? w.next_ns : end_ns, b->p.stop);
    }
    if (child->ended)
        return ENDED;
    enum ended how = b->p.stop && *b->p.stop ? ENDED_STOPPED : ENDED_LATE;
    kill(child->p.pid, SIGTERM);
    wait_until(child, clock_mono_ns() + s_ns(patience_s), NULL);
    return how;
}

/* The innermost cause and the hint that the child printed, without their labels. */
static const char *said(struct arena *a, struct sv text, const char *label)
{
    const char *found = NULL;
    size_t n = strlen(label);
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, label, n) == 0) {
            const char *from = text.p + i + n;
            const char *end = memchr(from, '\n', text.n - i - n);
            found = arena_strn(a, from, end ? (size_t)(end - from) : text.n - i - n);
        }
    return found;
}

static enum st child_failed(struct probe_bench *b, const struct child *child, double rate,
                            struct err *e)
{
    static const enum st of_code[] = {ST_DEVICE, ST_DEVICE, ST_USAGE, ST_INPUT, ST_DEVICE};
    int code = WIFEXITED(child->p.status) ? WEXITSTATUS(child->p.status) : -1;
    struct sv tail = {child->err_tail.p, child->err_tail.n};
    const char *cause = said(b->a, tail, "because: "), *hint = said(b->a, tail, "hint: ");
    bool known = code >= 0 && code < (int)(sizeof of_code / sizeof *of_code);
    err_set(e, known ? of_code[code] : ST_DEVICE, "%s",
            cause ? cause : child_last_words(child, b->a));
    if (code >= 0)
        err_add(e, "bench at %g requests/s ended with exit code %d", rate, code);
    else
        err_add(e, "bench at %g requests/s was killed by signal %d", rate,
                WTERMSIG(child->p.status));
    return hint ? err_hint(e, "%s", hint) : e->st;
}

/* *how is ENDED or ENDED_LATE; after ENDED dir is a run, healthy or not. */
static enum st run_child(struct probe_bench *b, double rate, uint64_t seed, const char *dir,
                         enum ended *how, struct err *e)
{
    const char *argv[MAX_WORDS] = {b->p.program,    "bench",         "--config-dir",
                                   b->p.config_dir, "--config-name", b->p.config_name};
    const char *scratch = arena_printf(b->a, "%s.workload", dir);
    const char *words[PROBE_BENCH_WORDS];
    size_t n = 6, n_words = 0;
    struct child child;
    TRY(b->p.words(b->p.self, b->a, rate, seed, scratch, words, &n_words, e));
    argv[n++] = arena_printf(b->a, "out=%s", dir);
    argv[n++] = arena_printf(b->a, "seed=%llu", (unsigned long long)seed);
    for (size_t i = 0; i < n_words; i++)
        argv[n++] = words[i];
    enum st st = child_start(&child, argv, LINE_MAX_BYTES, e);
    if (st == ST_OK) {
        *how = wait_for(b, &child, rate, seed);
        child_stop(&child, clock_mono_ns() + s_ns(1));
        int code = WIFEXITED(child.p.status) ? WEXITSTATUS(child.p.status) : -1;
        if (*how == ENDED_STOPPED)
            st = err_set(e, ST_INTERRUPTED, "interrupted at %g requests/s", rate);
        else if (*how == ENDED && code != 0 && code != EXIT_REJECTED)
            st = child_failed(b, &child, rate, e);
        child_free(&child);
    }
    struct err ignored = {0};
    fs_remove_tree(scratch, &ignored);
    return st;
}

/* ---- one probe --------------------------------------------------------------------------- */

/* Reads the client's health from the meta of a run over HTTP. */
static void read_client(const struct node *meta, struct probe_result *out)
{
    const struct node *client = node_find(meta, "client");
    const struct node *verdict = node_find(client, "verdict");
    struct err ignored = {0};
    double p99_ms;
    if (!verdict || verdict->kind != NODE_STR)
        return;
    out->unhealthy = !sv_eq(verdict->s, "healthy");
    if (node_get_double(client, "schedule_delay_p99_ms", 0, 1e300, &p99_ms, &ignored) == ST_OK)
        out->client_delay_p99_s = p99_ms / 1e3;
}

static void read_contention(const struct node *meta, double rate, struct probe_result *out)
{
    struct contention c = contention_of(meta, "contention");
    out->contention = contention_share(&c);
    if (out->contention > CONTENTION_TOO_MUCH)
        log_warn("at %g requests/s the machine was busy with something else: for %.0f %% of the "
                 "time the run needed a core, it had none",
                 rate, 100 * out->contention);
}

/* Ends the search when every request is an error (not rejected, not timed out): the engine is gone
 * or does not accept such requests, whatever the rate. */
static enum st check_any_served(const struct run *run, double rate, struct err *e)
{
    const struct run_request *first = run->requests;
    for (size_t i = 0; i < run->n_requests; i++)
        if (run->requests[i].status != RUN_ERROR)
            return ST_OK;
    if (run->n_requests == 0)
        return ST_OK;
    err_set(e, ST_DEVICE, "%s: %s", first->error_type ? first->error_type : "error",
            first->error_msg ? first->error_msg : "no reason was given");
    return err_add(e, "none of %zu requests at %g requests/s ended well", run->n_requests, rate);
}

/* Ends the search when answers or prompts (key) have other lengths than requested: the server does
 * other work than the workload's, at any rate. */
static enum st check_lengths(const struct run *run, const char *key, double rate, struct err *e)
{
    const struct node *lengths = node_find(run->meta, key);
    const struct node *verdict = node_find(lengths, "verdict"), *why = node_find(lengths, "why");
    if (!verdict || verdict->kind != NODE_STR || !sv_eq(verdict->s, "rejected"))
        return ST_OK;
    err_set(e, ST_REJECTED, "%s", why && why->kind == NODE_STR ? why->s.p : "wrong lengths");
    err_add(e, "the run at %g requests/s says nothing of the workload", rate);
    if (strcmp(key, "prompt_lengths") == 0)
        return err_hint(e, "client.prompts=ids sends the planned tokens, client.max_wrong_lengths "
                           "sets the share of wrong lengths that a run may have");
    return err_hint(e, "engine.ignore_eos=false lets answers end early, client.max_wrong_lengths "
                       "sets the share of wrong lengths that a run may have");
}

/* Refuses a limit on a latency that runs of this engine lack. */
static enum st check_measured(const struct probe_bench *b, const struct probe_result *r,
                              int64_t output_tokens, struct err *e)
{
    static const struct {
        enum slo_metric m;
        bool several; /* only requests of several tokens have it */
        const char *why, *hint;
    } rows[] = {
        {SLO_DELAY, false, "does not say when the first batch of a request begins: delay",
         "slo=ttft:MS,tpot:MS"},
        {SLO_TPOT, true, "sends all tokens of an answer at once: tpot", "slo=e2el:MS"},
    };
    const double ok = r->requests - r->failed;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!isfinite(b->p.slo->limit_s[rows[i].m]) || !(ok > 0) ||
            !isnan(r->latency_s[rows[i].m][0]) ||
            (rows[i].several && !((double)output_tokens > ok)))
            continue;
        err_set(e, ST_USAGE, "slo: engine %s %s is no limit here", b->p.engine, rows[i].why);
        return err_hint(e, "%s", rows[i].hint);
    }
    return ST_OK;
}

static enum st read_run(struct probe_bench *b, const char *dir, double rate,
                        struct probe_result *out, struct err *e)
{
    struct run run;
    TRY(run_load(b->a, dir, "real", &run, e));
    if (check_any_served(&run, rate, e) != ST_OK) {
        struct err ignored = {0};
        fs_remove_tree(dir, &ignored); /* a resumed search measures it again */
        return e->st;
    }
    TRY(check_lengths(&run, "output_lengths", rate, e));
    TRY(check_lengths(&run, "prompt_lengths", rate, e));
    probe_samples_begin(&b->samples, b->p.slo);
    for (size_t i = 0; i < run.n_requests; i++)
        probe_samples_add(&b->samples, &run.requests[i]);
    probe_samples_sum(&b->samples, out);
    read_client(run.meta, out);
    read_contention(run.meta, rate, out);
    return check_measured(b, out, b->samples.output_tokens, e);
}

static const char *probe_name(struct probe_bench *b, double rate, uint64_t seed, int try)
{
    const char *parts[] = {b->p.config_text, arena_printf(b->a, "%.17g", rate),
                           arena_printf(b->a, "%llu", (unsigned long long)seed),
                           arena_printf(b->a, "%d", try)};
    return hash_stable_id(b->a, "probe", parts, sizeof parts / sizeof *parts);
}

/* Whether the run exists already, from this search or the one it resumes. */
static bool is_there(struct probe_bench *b, const char *name, const char *dir)
{
    if (fs_exists(fs_join(b->a, dir, "run_meta.json")))
        return true;
    if (!b->p.resume)
        return false;
    const char *old = fs_join(b->a, b->p.resume, name);
    return fs_exists(fs_join(b->a, old, "run_meta.json")) && rename(old, dir) == 0;
}

static void tell(const struct probe_bench *b, double rate, uint64_t seed, bool again,
                 const struct probe_result *r)
{
    const char *verdict = r->timed_out > 0                  ? "ended at its time limit"
                          : capacity_undecided(b->p.slo, r) ? "undecided, the client was late"
                          : capacity_holds(b->p.slo, r)     ? "holds"
                                                            : "does not hold";
    char good[32] = "";
    if (isfinite(r->good))
        snprintf(good, sizeof good, ", %.1f %% of %.0f good", 100 * r->good, r->requests);
    log_info("%.4g requests/s, seed %llu: %s%s%s", rate, (unsigned long long)seed, verdict, good,
             again ? " (measured before)" : "");
}

static enum st run_once(struct probe_bench *b, double rate, uint64_t seed, int try,
                        struct probe_result *out, struct err *e)
{
    const char *name = probe_name(b, rate, seed, try), *dir = fs_join(b->a, b->p.dir, name);
    enum ended how = ENDED;
    bool again = is_there(b, name, dir);
    if (!again)
        TRY(run_child(b, rate, seed, dir, &how, e));
    if (how == ENDED)
        TRY(read_run(b, dir, rate, out, e));
    else
        for (int i = 0; i < PROBE_FIELDS; i++)
            *probe_value(out, i) = (double)NAN;
    if (how != ENDED) {
        out->failed = out->unhealthy = out->extrapolated = out->alone = out->alone_bad = 0;
        out->timed_out = 1;
    }
    tell(b, rate, seed, again, out);
    return ST_OK;
}

static enum st run_probe(void *self, double rate, uint64_t seed, struct probe_result *out,
                         struct err *e)
{
    struct probe_bench *b = self;
    enum st st = ST_OK;
    for (int try = 0; try < TRIES && st == ST_OK; try++) {
        arena_reset(b->a);
        st = run_once(b, rate, seed, try, out, e);
        if (!capacity_undecided(b->p.slo, out))
            break;
    }
    return st;
}

static double least_rate(void *self, uint64_t seed)
{
    const struct probe_bench *b = self;
    return b->p.span_s(b->p.self, seed) / b->p.timeout_s;
}

struct rate_probe probe_bench_open(const struct probe_bench_params *params)
{
    struct probe_bench *b = mem_alloc(sizeof *b);
    *b = (struct probe_bench){.p = *params,
                              .ops = {.name = params->engine,
                                      .help = "a real engine, run by twinfer bench",
                                      .version = PROBE_VERSION,
                                      .run = run_probe,
                                      .least_rate = least_rate},
                              .a = arena_new()};
    return (struct rate_probe){&b->ops, b};
}

void probe_bench_close(struct rate_probe *p)
{
    struct probe_bench *b = p->self;
    if (!b)
        return;
    arena_free(&b->a);
    probe_samples_free(&b->samples);
    mem_free(b);
    *p = (struct rate_probe){0};
}
