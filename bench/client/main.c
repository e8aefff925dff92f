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
    metrics_sort(v, scratch, n);
    mem_free(scratch);
    return n ? metrics_percentile(v, n, q) : NAN;
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

/* requests and their times are made; expects `tokens` chunks of each. */
static void run_client(struct arena *a, struct measured *r, int port, int64_t tokens)
{
    struct err e = {0};
    const struct client_params p = {.url =
                                        arena_printf(a, "http://127.0.0.1:%d/v1/completions", port),
                                    .timeout_s = 60,
                                    .connect_timeout_s = 10};
    r->results = arena_array(a, struct client_result, r->n);
    double before_s = thread_cpu_s();
    if (client_run(&p, r->requests, r->n, NULL, NULL, r->results, &r->health, &e) != ST_OK) {
        err_print(&e, "client_bench", stderr);
        exit(1);
    }
    r->cpu_s = thread_cpu_s() - before_s;
    r->ok = 0;
    for (size_t i = 0; i < r->n; i++)
        r->ok += r->results[i].status == RUN_OK && (int64_t)r->results[i].chunks.n == tokens;
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

/* By turns, so that both see the same machine. */
static void dispatch(double rate, double seconds, int64_t tokens)
{
    enum { ROUNDS = 4 };
    struct arena *a = arena_new();
    struct null_server s = null_server_start(SERVER_CORE, 0);
    struct measured r = {.n = (size_t)(rate * seconds / ROUNDS)};
    size_t n = ROUNDS * r.n, ok = 0;
    double *bare = arena_array(a, double, n), *lag = arena_array(a, double, n);
    double cpu_s = 0, wall_s = 0;
    r.requests = arena_array(a, struct client_request, r.n);
    struct sv text = body(a, 128, tokens);
    for (size_t i = 0; i < r.n; i++)
        r.requests[i] =
            (struct client_request){NS_PER_S / 10 + (int64_t)((double)i * 1e9 / rate), text};
    pin(CLIENT_CORE);
    for (size_t k = 0; k < ROUNDS; k++) {
        bare_loop(rate, r.n, bare + k * r.n);
        run_client(a, &r, s.port, tokens);
        for (size_t i = 0; i < r.n; i++)
            lag[k * r.n + i] = (double)r.results[i].delay_ns;
        ok += r.ok;
        cpu_s += r.cpu_s;
        wall_s += r.health.wall_s;
        free_run(&r);
    }
    double b50 = percentile(bare, n, 50), b99 = percentile(bare, n, 99);
    double c50 = percentile(lag, n, 50), c99 = percentile(lag, n, 99);
    printf(
        "dispatch  %5.0f/s x %lld tokens: bare p50 %.3f p99 %.3f ms, client p50 %.3f p99 %.3f ms, "
        "p99 above bare %.3f ms; %zu of %zu ok, CPU %.0f %%\n",
        rate, (long long)tokens, b50 / 1e6, b99 / 1e6, c50 / 1e6, c99 / 1e6, (c99 - b99) / 1e6, ok,
        n, 100 * cpu_s / wall_s);
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
        r.requests[i] = (struct client_request){NS_PER_S / 10 + (int64_t)i * 500000, text};
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
        r.requests[i] =
            (struct client_request){NS_PER_S / 10 + (int64_t)i * 10 * NS_PER_MS, texts[i % 2]};
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

/* CPU per token of many tokens, whatever the prompt. The cost of the requests themselves is taken
 * off by a run of 1 token each. */
static void per_token(int64_t prompt_tokens, size_t n, int64_t tokens)
{
    double cpu_s[2];
    for (int k = 0; k < 2; k++) {
        struct arena *a = arena_new();
        struct null_server s = null_server_start(SERVER_CORE, NS_PER_MS);
        struct measured r = {.n = n};
        struct sv text = body(a, prompt_tokens, k ? tokens : 1);
        r.requests = arena_array(a, struct client_request, n);
        for (size_t i = 0; i < n; i++)
            r.requests[i] = (struct client_request){NS_PER_S / 10 + (int64_t)i * NS_PER_MS, text};
        pin(CLIENT_CORE);
        run_client(a, &r, s.port, k ? tokens : 1);
        cpu_s[k] = r.cpu_s;
        if (r.ok != n)
            printf("per token: only %zu of %zu ok\n", r.ok, n);
        free_run(&r);
        null_server_stop(&s);
        arena_free(&a);
    }
    printf("per token %zu streams x %lld tokens, prompts of %lld: %.2f us of CPU a token\n", n,
           (long long)tokens, (long long)prompt_tokens,
           1e6 * (cpu_s[1] - cpu_s[0]) / (double)((int64_t)n * (tokens - 1)));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool all = strcmp(what, "all") == 0;
    if (all || strcmp(what, "dispatch") == 0) {
        dispatch(1000, 8, 1);
        dispatch(5000, 4, 1);
        dispatch(1000, 8, 16);
    }
    if (all || strcmp(what, "streams") == 0)
        streams(2000, 200, 50 * NS_PER_MS);
    if (all || strcmp(what, "prompt") == 0) {
        prompt(200, 2);
        per_token(128, 100, 2000);
        per_token(LONG_TOKENS, 100, 2000);
    }
    if (!all && !strstr("dispatch streams prompt", what)) {
        fprintf(stderr, "usage: client_bench all|dispatch|streams|prompt\n");
        return 2;
    }
    return 0;
}
