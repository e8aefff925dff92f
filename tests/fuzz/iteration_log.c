/* Any bytes as a server's log of iterations: iterations, or a named error; and beside the requests
 * of a run a match and times, or named errors. */
#include "fuzz.h"

#include <math.h>

#include "metrics/iteration_times.h"

/* Requests that come every 10 ms and end 50 ms later, of the log's own prompts. */
static struct run run_of(struct arena *a, const struct iteration_log *log)
{
    struct run r = {.dir = "run", .requests = arena_array(a, struct run_request, log->n)};
    for (size_t i = 0; i < log->n; i++) {
        const struct logged_iteration *x = &log->of[i];
        const int64_t at = (int64_t)i * 10000000;
        if (x->context_requests != 1)
            continue;
        r.requests[r.n_requests] = (struct run_request){.request_id = (int64_t)r.n_requests,
                                                        .arrival_ns = at,
                                                        .first_token_ns = at + 20000000,
                                                        .completion_ns = at + 50000000,
                                                        .num_prefill_tokens = x->context_tokens,
                                                        .num_decode_tokens = 3,
                                                        .num_decode_tokens_actual = 3};
        r.n_requests++;
    }
    return r;
}

static void check(const struct iteration_match *m, const struct run *r)
{
    size_t known = 0;
    for (size_t i = 0; i < m->n; i++) {
        known += m->of[i].known;
        REQUIRE(m->of[i].chunk + (size_t)m->of[i].is.chunks <= m->n_chunks);
    }
    REQUIRE(known == m->n_known && m->n_found <= r->n_requests);
    REQUIRE(known == m->n || m->first_unknown);
    for (size_t i = 0; i < r->n_requests; i++)
        REQUIRE(m->first[i] < (int64_t)m->n && m->last[i] < (int64_t)m->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct iteration_log log;
    struct iteration_match m;
    struct iteration_times t;
    struct err e = {0};
    enum st st = iteration_log_parse(a, "fuzz", (struct sv){(const char *)data, size}, &log, &e);
    REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
    if (st == ST_OK) {
        const struct run r = run_of(a, &log);
        REQUIRE(log.n > 0 && log.engines > 0);
        st = iteration_match(a, &r, &log, NULL, &m, &e);
        REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
        if (st == ST_OK) {
            check(&m, &r);
            st = iteration_times(a, &r, &m, &t, &e);
            REQUIRE(st == ST_OK || st == ST_REJECTED);
        }
        for (size_t i = 0; st == ST_OK && i < m.n; i++)
            REQUIRE(t.duration_s[i] >= 0 && isfinite(t.tokens_s[i]));
    }
    arena_free(&a);
    return 0;
}
