/* Driven by a model of a server on virtual time: request i runs for service[i] seconds from its
 * planned moment on, however many run beside it. */
#include "workload/release.h"

#include <math.h>

#include "base/clock.h"
#include "support/support.h"

enum { MOST = 64 };

struct model {
    const struct workload_request *w;
    size_t n, pulled;
    double service[MOST]; /* 0 = 1 s */

    /* What happened. */
    size_t order[MOST], n_order;
    double moment[MOST]; /* by row */
    int64_t most;
    struct release r;
};

static enum st next(void *self, struct workload_request *out, struct err *e)
{
    struct model *m = self;
    (void)e;
    if (m->pulled == m->n)
        return ST_END;
    *out = m->w[m->pulled++];
    return ST_OK;
}

struct run {
    bool live;
    double end;
    int32_t session;
};

static struct moment at(double s)
{
    return (struct moment){ns_from_s(s), s};
}

static void play(struct test *t, struct model *m, const struct concurrency *c)
{
    struct run runs[MOST] = {0};
    int64_t running = 0;
    const struct release_params p = {.self = m, .next = next, .concurrency = c};
    release_init(&m->r, &p);
    for (;;) {
        struct moment start;
        double end = INFINITY;
        size_t first = 0;
        assert_ok(release_next(&m->r, &start, &t->e), t);
        for (size_t i = 0; i < m->n; i++)
            if (runs[i].live && runs[i].end < end)
                end = runs[first = i].end;
        if (!isfinite(end) && !isfinite(start.s))
            break;
        if (start.s <= end) {
            struct workload_request q;
            int32_t session;
            release_take(&m->r, &q, &session);
            assert_near(q.arrival_s, start.s, 0);
            assert_int_equal(q.arrival_ns, start.ns);
            size_t row = (size_t)q.row;
            m->order[m->n_order++] = row;
            m->moment[row] = q.arrival_s;
            double service = m->service[row] > 0 ? m->service[row] : 1;
            runs[row] = (struct run){true, q.arrival_s + service, session};
            m->most = ++running > m->most ? running : m->most;
        } else {
            runs[first].live = false;
            running--;
            release_over(&m->r, runs[first].session, at(end));
        }
    }
    assert_true(release_done(&m->r));
    assert_int_equal(m->n_order, m->n);
    assert_int_equal(m->r.peak, m->most);
}

static void expect(const struct model *m, const size_t *order, const double *moments)
{
    for (size_t i = 0; i < m->n; i++) {
        assert_int_equal(m->order[i], order[i]);
        assert_near(m->moment[order[i]], moments[i], 1e-12);
    }
}
#define EXPECT(m, ...) expect(m, (const size_t[]){__VA_ARGS__}, moments)

static void an_open_loop_keeps_its_arrivals(void **state)
{
    struct test *t = *state;
    const struct workload_request w[] = {{.arrival_ns = 1}, {.arrival_ns = 2}, {.arrival_ns = 2}};
    struct workload_request made[3];
    for (size_t i = 0; i < 3; i++) {
        made[i] = w[i];
        made[i].arrival_s = 0.1 * (double)w[i].arrival_ns; /* not the ns: both are handed on */
    }
    struct model m = {.w = made, .n = 3};
    play(t, &m, NULL);
    const double moments[] = {0.1, 0.2, 0.2};
    EXPECT(&m, 0, 1, 2);
    assert_false(release_follows(&m.r));
    release_free(&m.r);
}

static void a_closed_loop_starts_one_when_one_ends(void **state)
{
    struct test *t = *state;
    const struct workload_request w[6] = {{.arrival_s = 50}}; /* arrivals do not count */
    struct model m = {.w = w, .n = 6, .service = {3, 1, 5, 1, 1, 1}};
    play(t, &m, concurrency_of(t->a, 2, 0));
    /* 0 and 1 at 0; 1 ends at 1: 2; 0 ends at 3: 3; it ends at 4: 4; at 5: 5 */
    const double moments[] = {0, 0, 1, 3, 4, 5};
    EXPECT(&m, 0, 1, 2, 3, 4, 5);
    assert_int_equal(m.most, 2);
    assert_true(release_follows(&m.r));
    assert_near(release_concurrency(&m.r), (3 + 1 + 5 + 1 + 1 + 1) / 6.0, 1e-12);
    release_free(&m.r);
}

static void more_places_than_requests(void **state)
{
    struct test *t = *state;
    const struct workload_request w[2] = {{0}};
    struct model m = {.w = w, .n = 2};
    play(t, &m, concurrency_of(t->a, 1000000, 0));
    const double moments[] = {0, 0};
    EXPECT(&m, 0, 1);
    release_free(&m.r);
}

static void a_limit_that_grows_starts_more(void **state)
{
    struct test *t = *state;
    const struct workload_request w[6] = {{0}};
    struct model m = {.w = w, .n = 6, .service = {100, 100, 100, 100, 1, 1}};
    play(t, &m, concurrency_of(t->a, 4, 6)); /* 1 at 0, 2 at 2, 3 at 4, 4 at 6 */
    const double moments[] = {0, 2, 4, 6, 100, 101};
    EXPECT(&m, 0, 1, 2, 3, 4, 5);
    release_free(&m.r);
}

static void a_limit_that_falls_takes_nothing_back(void **state)
{
    struct test *t = *state;
    const char *const items[] = {"2:3", "8:1", "10:2"};
    const struct concurrency *c;
    const struct workload_request w[6] = {{0}};
    struct model m = {.w = w, .n = 6, .service = {5, 6, 7, 20, 20, 1}};
    assert_ok(concurrency_parse(t->a, items, 3, &c, &t->e), t);
    play(t, &m, c);
    /* three run until 5, 6 and 7; only the last end leaves fewer than 1; from 10 on there are two
     */
    const double moments[] = {0, 0, 0, 7, 10, 27};
    EXPECT(&m, 0, 1, 2, 3, 4, 5);
    release_free(&m.r);
}

/* The limit rises while nothing asks: the start keeps the moment of the rise, and the end that was
 * reported first does not hide it. */
static void a_rise_keeps_its_moment(void **state)
{
    struct test *t = *state;
    const char *const items[] = {"2:1", "10:2"};
    const struct concurrency *c;
    const struct workload_request w[3] = {{0}};
    struct model m = {.w = w, .n = 3};
    struct workload_request q;
    struct moment first;
    int32_t session;
    assert_ok(concurrency_parse(t->a, items, 2, &c, &t->e), t);
    release_init(&m.r, &(struct release_params){.self = &m, .next = next, .concurrency = c});
    assert_ok(release_next(&m.r, &first, &t->e), t);
    release_take(&m.r, &q, &session);
    assert_ok(release_next(&m.r, &first, &t->e), t);
    assert_near(first.s, 2, 0);
    release_over(&m.r, session, at(2.5));
    for (int i = 0; i < 2; i++) {
        assert_ok(release_next(&m.r, &first, &t->e), t);
        assert_near(first.s, i ? 2.5 : 2, 0);
        release_take(&m.r, &q, &session);
    }
    release_free(&m.r);
}

#define TURN(session, number, think_s, ...)                                                      \
    {                                                                                            \
        .session_id = session, .turn = number, .think_ns = (int64_t)((think_s)*1e9), __VA_ARGS__ \
    }

/* Two sessions of three turns, and a request between them. */
static const struct workload_request talk[] = {
    TURN(7, 1, 0, .arrival_s = 1), TURN(7, 2, 2, .arrival_s = 1),
    TURN(7, 3, 0, .arrival_s = 1), {.arrival_s = 2},
    TURN(3, 1, 0, .arrival_s = 3), TURN(3, 2, 0.5, .arrival_s = 3),
};

static void a_turn_follows_the_one_before(void **state)
{
    struct test *t = *state;
    struct model m = {.w = talk, .n = 6};
    play(t, &m, NULL);
    /* 7.1 runs from 1 to 2; 7.2 at 4 to 5; 7.3 at 5. 3.1 from 3 to 4; 3.2 at 4.5 */
    const double moments[] = {1, 2, 3, 4, 4.5, 5};
    EXPECT(&m, 0, 3, 4, 1, 5, 2);
    assert_true(release_follows(&m.r));
    assert_int_equal(m.r.n_sessions, 2);
    release_free(&m.r);
}

static void a_session_holds_its_place(void **state)
{
    struct test *t = *state;
    struct model m = {.w = talk, .n = 6};
    play(t, &m, concurrency_of(t->a, 1, 0));
    /* 7.1 0-1, thinks, 7.2 3-4, 7.3 4-5; then the request alone 5-6; then 3.1 6-7, 3.2 7.5 */
    const double moments[] = {0, 3, 4, 5, 6, 7.5};
    EXPECT(&m, 0, 1, 2, 3, 4, 5);
    assert_int_equal(m.most, 1);
    release_free(&m.r);
}

/* At 2 the session's turn and a new request are ready: the turn first. */
static void of_one_moment_turns_come_first(void **state)
{
    struct test *t = *state;
    const struct workload_request w[] = {TURN(0, 1, 0, .arrival_s = 0),
                                         TURN(0, 2, 1, .arrival_s = 0),
                                         TURN(1, 1, 0, .arrival_s = 0),
                                         TURN(1, 2, 1, .arrival_s = 0),
                                         {.arrival_s = 2, .arrival_ns = 2 * NS_PER_S}};
    struct model m = {.w = w, .n = 5};
    play(t, &m, NULL);
    const double moments[] = {0, 0, 2, 2, 2};
    EXPECT(&m, 0, 2, 1, 3, 4);
    release_free(&m.r);
}

/* An end is reported after a request with a later moment was released. */
static void moments_never_go_back(void **state)
{
    struct test *t = *state;
    const struct workload_request w[] = {
        TURN(0, 1, 0, .arrival_s = 0), TURN(0, 2, 0, .arrival_s = 0), {.arrival_s = 5}};
    struct model m = {.w = w, .n = 3};
    struct workload_request q;
    struct moment first;
    int32_t session, own;
    release_init(&m.r, &(struct release_params){.self = &m, .next = next});
    assert_ok(release_next(&m.r, &first, &t->e), t);
    release_take(&m.r, &q, &session);
    assert_ok(release_next(&m.r, &first, &t->e), t);
    release_take(&m.r, &q, &own);
    assert_near(q.arrival_s, 5, 0);
    assert_ok(release_next(&m.r, &first, &t->e), t);
    assert_true(first.s == (double)INFINITY);
    assert_false(release_done(&m.r));
    release_over(&m.r, session, at(4));
    assert_ok(release_next(&m.r, &first, &t->e), t);
    assert_near(first.s, 5, 0);
    release_take(&m.r, &q, &session);
    assert_int_equal(q.turn, 2);
    assert_near(q.arrival_s, 5, 0);
    assert_ok(release_next(&m.r, &first, &t->e), t);
    assert_true(release_done(&m.r));
    release_free(&m.r);
}

static void think_time_is_exact_in_ns(void **state)
{
    struct test *t = *state;
    const struct workload_request w[] = {{.turn = 1}, {.turn = 2, .think_ns = 333333333}};
    struct model m = {.w = w, .n = 2};
    struct workload_request q;
    struct moment first;
    int32_t session;
    release_init(&m.r, &(struct release_params){.self = &m, .next = next});
    assert_ok(release_next(&m.r, &first, &t->e), t);
    release_take(&m.r, &q, &session);
    release_over(&m.r, session, (struct moment){1000000007, 1.000000007});
    assert_ok(release_next(&m.r, &first, &t->e), t);
    assert_int_equal(first.ns, 1333333340);
    release_free(&m.r);
}

static void what_stands_in_disorder_is_refused(void **state)
{
    struct test *t = *state;
    static const struct {
        struct workload_request w[3];
        const char *error;
    } bads[] = {
        {{{.request_id = 4, .session_id = 2, .turn = 2}},
         "request 4 is turn 2 of session 2, and turn 1 does not stand right before it"},
        {{{.session_id = 2, .turn = 1}, {.request_id = 9, .session_id = 2, .turn = 3}},
         "request 9 is turn 3 of session 2, and turn 2 does not stand right before it"},
        {{{.session_id = 2, .turn = 1}, {.request_id = 9, .session_id = 3, .turn = 2}},
         "request 9 is turn 2 of session 3, and turn 1 does not stand right before it"},
        {{{.arrival_s = 2}, {.request_id = 1, .arrival_s = 1}},
         "request 1 arrives at 1 s, before the one ahead of it (2 s)"},
        {{{.arrival_s = (double)NAN}},
         "request 0 arrives at nan s, before the one ahead of it (0 s)"},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct model m = {.w = bads[i].w, .n = 2};
        struct workload_request q;
        struct moment first;
        int32_t session;
        enum st st;
        err_clear(&t->e);
        release_init(&m.r, &(struct release_params){.self = &m, .next = next});
        while ((st = release_next(&m.r, &first, &t->e)) == ST_OK && isfinite(first.s))
            release_take(&m.r, &q, &session);
        assert_err(st, ST_INPUT, t, bads[i].error);
        release_free(&m.r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_open_loop_keeps_its_arrivals),
        TEST(a_closed_loop_starts_one_when_one_ends),
        TEST(more_places_than_requests),
        TEST(a_limit_that_grows_starts_more),
        TEST(a_limit_that_falls_takes_nothing_back),
        TEST(a_rise_keeps_its_moment),
        TEST(a_turn_follows_the_one_before),
        TEST(a_session_holds_its_place),
        TEST(of_one_moment_turns_come_first),
        TEST(moments_never_go_back),
        TEST(think_time_is_exact_in_ns),
        TEST(what_stands_in_disorder_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
