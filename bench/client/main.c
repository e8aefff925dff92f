/* client_bench: the measuring client against a server that costs nothing; see README.md. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"
#include "client/null_server.h"
#include "metrics/metrics.h"

enum { SERVER_CORE = 0, CLIENT_CORE = 1, LONG_TOKENS = 100000 };

static double percentile(double *v, size_t n, double q)
{
    double *scratch = mem_alloc((n + 1) * sizeof *scratch);
    stats_sort(v, scratch, n);
    mem_free(scratch);
    return n ? stats_percentile(v, n, q) : NAN;
}

/* A prompt of that many token ids. */
static struct sv body(struct arena *a, int64_t prompt_tokens, int64_t tokens)
{
    struct buf b = {0};
    buf_printf(&b, "{\"model\":\"m\",\"stream\":true,\"max_tokens\":%lld,\"prompt\":[",
               (long long)tokens);
    for (int64_t i = 0; i < prompt_tokens; i++)
        buf_printf(&b, "%s%d", i ? "," : "", (int)(10000 + i % 80000));
    buf_puts(&b, "]}");
    struct sv s = {arena_strn(a, b.p, b.n), b.n};
    buf_free(&b);
    return s;
}

struct measured {
    struct client_request *requests;
    struct client_result *results;
    struct client_health health;
    size_t n, ok;
    double cpu_s;
};

static double thread_cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* requests and their times are made; expects `tokens` chunks of each. watch may be NULL. */
static void run_watched(struct arena *a, struct measured *r, int port, int64_t tokens,
                        const struct client_watch *watch)
{
    struct err e = {0};
    const struct client_params p = {.url =
                                        arena_printf(a, "http://127.0.0.1:%d/v1/completions", port),
                                    .timeout_s = 60,
                                    .connect_timeout_s = 10};
    r->results = arena_array(a, struct client_result, r->n);
    double before_s = thread_cpu_s();
    if (client_run(&p, r->requests, r->n, NULL, watch, r->results, &r->health, &e) != ST_OK) {
        err_print(&e, "client_bench", stderr);
        exit(1);
    }
    r->cpu_s = thread_cpu_s() - before_s;
    r->ok = 0;
    for (size_t i = 0; i < r->n; i++)
        r->ok += r->results[i].status == RUN_OK && (int64_t)r->results[i].chunks.n == tokens;
}

static void run_client(struct arena *a, struct measured *r, int port, int64_t tokens)
{
    run_watched(a, r, port, tokens, NULL);
}

static void free_run(struct measured *r)
{
    for (size_t i = 0; i < r->n; i++)
        client_result_free(&r->results[i]);
}

/* ---- dispatch lag -------------------------------------------------------------------------- */

/* What a loop that does nothing but wait for each planned time is late, as the client waits. */
static void bare_loop(double rate, size_t n, double *lag_ns)
{
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), epoll = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &ev);
    int64_t t0 = clock_mono_ns() + NS_PER_MS;
    for (size_t i = 0; i < n; i++) {
        int64_t at = t0 + (int64_t)((double)i * 1e9 / rate), now;
        struct itimerspec t = {.it_value = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S}};
        uint64_t fired;
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL);
        while ((now = clock_mono_ns()) < at) {
            epoll_wait(epoll, &ev, 1, -1);
            if (read(timer, &fired, sizeof fired) < 0)
                break;
        }
        lag_ns[i] = (double)(now - at);
    }
    close(timer);
    close(epoll);
}

static void quartiles(double *v, size_t n, double out[3])
{
    out[1] = percentile(v, n, 50);
    out[0] = percentile(v, n, 25);
    out[2] = percentile(v, n, 75);
}

/* Bare loop and client by turns, so that both see the same machine; each round gives one difference
 * of their p99. Whatever else runs meets both, but not in the same round alike: the median over the
 * rounds is what the client adds, and how many rounds meet the limit is how sure that is. */
static void dispatch(double rate, double round_s, size_t rounds, int64_t tokens, double limit_ms)
{
    struct arena *a = arena_new();
    struct null_server s = null_server_start(SERVER_CORE, 0);
    struct measured r = {.n = (size_t)(rate * round_s)};
    size_t ok = 0, met = 0;
    double *bare = arena_array(a, double, r.n), *lag = arena_array(a, double, r.n);
    double *bare99 = arena_array(a, double, rounds), *lag99 = arena_array(a, double, rounds);
    double *above = arena_array(a, double, rounds);
    double cpu_s = 0, wall_s = 0, q[3];
    r.requests = arena_array(a, struct client_request, r.n);
    struct sv text = body(a, 128, tokens);
    for (size_t i = 0; i < r.n; i++)
        r.requests[i] = (struct client_request){
            .at_ns = NS_PER_S / 10 + (int64_t)((double)i * 1e9 / rate), .body = text};
    pin(CLIENT_CORE);
    for (size_t k = 0; k < rounds; k++) {
        if (k % 2 == 0)
            bare_loop(rate, r.n, bare);
        run_client(a, &r, s.port, tokens);
        if (k % 2)
            bare_loop(rate, r.n, bare);
        for (size_t i = 0; i < r.n; i++)
            lag[i] = (double)r.results[i].delay_ns;
        bare99[k] = percentile(bare, r.n, 99) / 1e6;
        lag99[k] = percentile(lag, r.n, 99) / 1e6;
        above[k] = lag99[k] - bare99[k];
        met += above[k] <= limit_ms;
        ok += r.ok;
        cpu_s += r.cpu_s;
        wall_s += r.health.wall_s;
        free_run(&r);
    }
    quartiles(above, rounds, q);
    printf("dispatch  %5.0f/s x %lld tokens: p99 above bare, median of %zu rounds %.3f ms "
           "(quartiles %.3f, %.3f), limit %.1f ms met in %zu of %zu; bare p99 %.3f, client p99 "
           "%.3f ms; %zu of %zu ok, CPU %.0f %%\n",
           rate, (long long)tokens, rounds, q[1], q[0], q[2], limit_ms, met, rounds,
           percentile(bare99, rounds, 50), percentile(lag99, rounds, 50), ok, rounds * r.n,
           100 * cpu_s / wall_s);
    fflush(stdout);
    null_server_stop(&s);
    arena_free(&a);
}

/* ---- many streams -------------------------------------------------------------------------- */

static void streams(size_t n, int64_t tokens, int64_t gap_ns)
{
    struct arena *a = arena_new();
    struct null_server s = null_server_start(SERVER_CORE, gap_ns);
    struct measured r = {.n = n};
    struct sv text = body(a, 128, tokens);
    r.requests = arena_array(a, struct client_request, n);
    for (size_t i = 0; i < n; i++)
        r.requests[i] =
            (struct client_request){.at_ns = NS_PER_S / 10 + (int64_t)i * 500000, .body = text};
    pin(CLIENT_CORE);
    run_client(a, &r, s.port, tokens);
    printf(
        "streams   %zu x %lld tokens every %.0f ms: %zu ok, at most %lld at once, %.0f chunks/s, "
        "schedule delay p99 %.3f ms, CPU %.1f us a chunk\n",
        n, (long long)tokens, (double)gap_ns / 1e6, r.ok, (long long)r.health.peak_concurrency,
        (double)r.health.chunks / r.health.wall_s, (double)r.health.delay_p99_ns / 1e6,
        1e6 * r.cpu_s / (double)r.health.chunks);
    free_run(&r);
    null_server_stop(&s);
    arena_free(&a);
}

/* ---- long prompts -------------------------------------------------------------------------- */

/* Bytes/s of one loopback connection, into the same server by plain sends. */
static double loopback_bandwidth(int port)
{
    enum { PIECE = 1 << 20, PIECES = 512 };
    static char piece[PIECE], answer[512];
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
        return NAN;
    int n = snprintf(answer, sizeof answer, "POST / HTTP/1.1\r\nContent-Length: %lld\r\n\r\n",
                     (long long)PIECE * PIECES);
    int64_t begin_ns = clock_mono_ns();
    bool ok = send(fd, answer, (size_t)n, 0) == n;
    for (int i = 0; i < PIECES && ok; i++)
        for (size_t sent = 0; sent < PIECE && ok;) {
            ssize_t k = send(fd, piece + sent, PIECE - sent, 0);
            ok = k > 0;
            sent += ok ? (size_t)k : 0;
        }
    ok = ok && recv(fd, answer, sizeof answer, 0) > 0;
    double s = ns_to_s(clock_mono_ns() - begin_ns);
    close(fd);
    return ok ? (double)PIECE * PIECES / s : NAN;
}

/* Prompts of 128 and of LONG_TOKENS tokens by turns. */
static void prompt(size_t n, int64_t tokens)
{
    struct arena *a = arena_new();
    struct null_server s = null_server_start(SERVER_CORE, 0);
    struct measured r = {.n = 2 * n};
    struct sv texts[] = {body(a, 128, tokens), body(a, LONG_TOKENS, tokens)};
    double *ttft[] = {arena_array(a, double, n), arena_array(a, double, n)};
    r.requests = arena_array(a, struct client_request, r.n);
    for (size_t i = 0; i < r.n; i++)
        r.requests[i] = (struct client_request){
            .at_ns = NS_PER_S / 10 + (int64_t)i * 10 * NS_PER_MS, .body = texts[i % 2]};
    pin(CLIENT_CORE);
    double bandwidth = loopback_bandwidth(s.port);
    run_client(a, &r, s.port, tokens);
    for (size_t i = 0; i < r.n; i++) {
        const struct client_result *x = &r.results[i];
        ttft[i % 2][i / 2] = x->chunks.n ? (double)(x->chunks.p[0].time_ns - x->sent_ns) : NAN;
    }
    double short_ms = percentile(ttft[0], n, 50) / 1e6, long_ms = percentile(ttft[1], n, 50) / 1e6;
    double wire_ms = 1e3 * (double)texts[1].n / bandwidth;
    printf(
        "prompt    %zu + %zu requests, %zu ok: TTFT p50 %.3f ms at 128 tokens, %.3f ms at %d (%zu "
        "bytes): added %.3f ms; body / loopback bandwidth (%.2f GB/s) is %.3f ms, above that %.3f "
        "ms\n",
        n, n, r.ok, short_ms, long_ms, LONG_TOKENS, texts[1].n, long_ms - short_ms, bandwidth / 1e9,
        wire_ms, long_ms - short_ms - wire_ms);
    free_run(&r);
    null_server_stop(&s);
    arena_free(&a);
}

/* CPU and chunks at the first and the last look at a run while all streams were under way. */
struct window {
    const struct client_health *health;
    int64_t streams;
    double begin_cpu_s, end_cpu_s;
    int64_t begin_chunks, end_chunks;
};

static void look(void *self, const struct client_so_far *s)
{
    struct window *w = self;
    if (s->running < w->streams || s->finished > 0)
        return;
    w->end_cpu_s = thread_cpu_s();
    w->end_chunks = w->health->chunks;
    if (w->begin_chunks > 0)
        return;
    w->begin_cpu_s = w->end_cpu_s;
    w->begin_chunks = w->end_chunks;
}

/* CPU per token while n streams run and no body is sent, and per request besides. */
static void stream_cost(int64_t prompt_tokens, size_t n, double *token_us, double *request_us)
{
    enum { TOKENS = 2000 };
    struct arena *a = arena_new();
    struct null_server s = null_server_start(SERVER_CORE, NS_PER_MS);
    struct measured r = {.n = n};
    struct window w = {.health = &r.health, .streams = (int64_t)n};
    const struct client_watch watch = {&w, look};
    struct sv text = body(a, prompt_tokens, TOKENS);
    r.requests = arena_array(a, struct client_request, n);
    for (size_t i = 0; i < n; i++)
        r.requests[i] =
            (struct client_request){.at_ns = NS_PER_S / 10 + (int64_t)i * NS_PER_MS, .body = text};
    pin(CLIENT_CORE);
    run_watched(a, &r, s.port, TOKENS, &watch);
    if (r.ok != n)
        printf("per token: only %zu of %zu ok\n", r.ok, n);
    *token_us = 1e6 * (w.end_cpu_s - w.begin_cpu_s) / (double)(w.end_chunks - w.begin_chunks);
    *request_us = (1e6 * r.cpu_s - *token_us * (double)r.health.chunks) / (double)n;
    free_run(&r);
    null_server_stop(&s);
    arena_free(&a);
}

/* Short and long prompts by turns. */
static void per_token(size_t rounds, size_t n)
{
    const int64_t prompts[] = {128, LONG_TOKENS};
    struct arena *a = arena_new();
    double *token_us[2], *request_us[2], q[3], *ratio = arena_array(a, double, rounds);
    for (int p = 0; p < 2; p++) {
        token_us[p] = arena_array(a, double, rounds);
        request_us[p] = arena_array(a, double, rounds);
    }
    for (size_t k = 0; k < rounds; k++) {
        for (int p = 0; p < 2; p++)
            stream_cost(prompts[p], n, &token_us[p][k], &request_us[p][k]);
        ratio[k] = token_us[1][k] / token_us[0][k];
    }
    for (int p = 0; p < 2; p++) {
        quartiles(token_us[p], rounds, q);
        printf("per token %zu streams, prompts of %6lld: %.2f us of CPU a token (quartiles %.2f, "
               "%.2f), %.0f us a request besides; median of %zu rounds\n",
               n, (long long)prompts[p], q[1], q[0], q[2], percentile(request_us[p], rounds, 50),
               rounds);
    }
    quartiles(ratio, rounds, q);
    printf("per token long / short prompt: %.3f (quartiles %.3f, %.3f)\n", q[1], q[0], q[2]);
    arena_free(&a);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool all = strcmp(what, "all") == 0;
    if (all || strcmp(what, "dispatch") == 0) {
        dispatch(1000, 1, 12, 1, 0.1);
        dispatch(5000, 1, 12, 1, 1);
        dispatch(1000, 1, 12, 16, 0.1);
    }
    if (all || strcmp(what, "streams") == 0)
        streams(2000, 200, 50 * NS_PER_MS);
    if (all || strcmp(what, "prompt") == 0) {
        prompt(200, 2);
        per_token(7, 100);
    }
    if (!all && !strstr("dispatch streams prompt", what)) {
        fprintf(stderr, "usage: client_bench all|dispatch|streams|prompt\n");
        return 2;
    }
    return 0;
}
