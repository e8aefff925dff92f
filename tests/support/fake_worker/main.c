/* The smallest worker (docs/worker-protocol.md): token k of request i is 100 * i + k, all tokens of
 * a request come as soon as it was submitted. It knows the lines of twinfer's writer, no JSON.
 *
 * Arguments: skew=NS  its clock is ahead by that much      boot=1  it says the boot id
 *            gap=US   time between the tokens of a request  batches=1  it sends batch messages
 *            max_model_len=N   ids=0  tokens without ids    takes=ids|text   of prompts
 *            passes=1  it carries out passes: sequences and tokens take 1 us each, cached tokens
 *            1 ns, a pass 100 us; of that the device has half (passes_device=0: unknown)
 *            loop=N  requests take their time: one after another, every token what a pass takes, in
 *            thousandths, and 20 us more behind a prompt; with batches that say so
 *            trails=1  a last batch message comes behind the clock message after the requests
 *            passes_most=N   more sequences are refused     pass_FAULT=[N]  at the Nth pass
 *            weigh=1  token k is weight + k instead, the sum of place * id over the prompt, modulo
 * 1000 FAULT[=N]  at the Nth submit (default 1), or where else the fault belongs: see the table at
 * the end. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int n_args;
static char **args;

/* The value of the argument `key`, `missing` when it is not there; "key" alone is 1. */
static long long arg(const char *key, long long missing)
{
    size_t n = strlen(key);
    for (int i = 1; i < n_args; i++)
        if (strncmp(args[i], key, n) == 0 && (args[i][n] == '=' || !args[i][n]))
            return args[i][n] ? strtoll(args[i] + n + 1, NULL, 10) : 1;
    return missing;
}

static int is_arg(const char *whole)
{
    for (int i = 1; i < n_args; i++)
        if (strcmp(args[i], whole) == 0)
            return 1;
    return 0;
}

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec + arg("skew", 0);
}

static void pause_us(long long us)
{
    struct timespec t = {us / 1000000, (us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

static long long number(const char *line, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *at = strstr(line, pattern);
    return at ? strtoll(at + strlen(pattern), NULL, 10) : -1;
}

static void hang(void)
{
    for (;;)
        pause();
}

static long long weight; /* of the prompt submitted last */

static void weigh(const char *line)
{
    const char *at = strstr(line, "\"prompt_ids\":[");
    char *end;
    weight = 0;
    at = at ? strchr(at, '[') + 1 : "";
    for (long long place = 1; *at && *at != ']'; place++) {
        weight += place * strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    weight %= 1000;
}

static void token(long long id, long long k, long long t)
{
    printf("{\"type\": \"tokens\", \"t_ns\": %lld, \"ids\": [%lld]", t, id);
    if (arg("ids", 1))
        printf(", \"tokens\": [%lld]", arg("weigh", 0) ? weight + k : 100 * id + k);
    puts("}");
}

static void finished(long long id, long long n, const char *reason)
{
    printf("{\"type\": \"finished\", \"id\": %lld, \"num_tokens\": %lld, \"reason\": \"%s\"}\n", id,
           n, reason);
}

static long long trails; /* a batch message is to come behind the next clock message */

static void serve(long long id, long long n)
{
    for (long long k = 0; k < n; k++) {
        long long start = now_ns();
        if (arg("gap", 0))
            pause_us(arg("gap", 0));
        token(id, k, now_ns());
        if (arg("batches", 0))
            printf("{\"type\": \"batch\", \"start_ns\": %lld, \"end_ns\": %lld, "
                   "\"num_prefill_tokens\": %d, \"num_decode_tokens\": %d, \"batch_size\": 1, "
                   "\"device_ns\": 1}\n",
                   start, now_ns() + 1, k == 0 ? 7 : 0, k > 0);
        fflush(stdout);
    }
    finished(id, n, "length");
    trails = arg("trails", 0);
}

static long long pass_ns(long long sequences, long long cached, long long chunk, long long before)
{
    return 100000 + 1000 * (sequences + chunk) + sequences * cached + before;
}

/* A request on a time line of its own, which the clock follows: times are exact on any machine. */
static void serve_in_time(long long id, long long prompt, long long n)
{
    static long long free_ns;
    free_ns = free_ns > now_ns() ? free_ns : now_ns();
    for (long long k = 0; k < n; k++) {
        const long long start_ns = free_ns + (k == 1 ? 20000 : 0);
        const long long whole_ns = k ? pass_ns(1, prompt + k - 1, 0, 0) : pass_ns(0, 0, prompt, 0);
        free_ns = start_ns + whole_ns * arg("loop", 0) / 1000;
        while (now_ns() < free_ns)
            pause_us((free_ns - now_ns()) / 1000 + 1);
        token(id, k, free_ns);
        printf("{\"type\": \"batch\", \"start_ns\": %lld, \"end_ns\": %lld, "
               "\"num_prefill_tokens\": %lld, \"num_decode_tokens\": %d, \"batch_size\": 1}\n",
               start_ns, free_ns, k ? 0 : prompt, k > 0);
    }
    finished(id, n, "length");
}

/* ---- faults: what happens instead of serving a request ---- */

static void fault_crash(long long id, long long n)
{
    (void)n;
    token(id, 0, now_ns());
    fflush(stdout);
    fputs("Traceback (most recent call last):\nRuntimeError: out of luck\n", stderr);
    exit(3);
}

static void fault_kill(long long id, long long n)
{
    (void)id, (void)n;
    raise(SIGKILL);
}

static void fault_hang(long long id, long long n)
{
    (void)id, (void)n;
    hang();
}

static void fault_mute(long long id, long long n) /* this one request gets no answer */
{
    (void)id, (void)n;
}

static void fault_garbage(long long id, long long n)
{
    (void)id, (void)n;
    puts("Loading checkpoint shards: 100%");
}

static void fault_cut(long long id, long long n)
{
    (void)id, (void)n;
    fputs("{\"type\": \"tok", stdout);
    exit(0);
}

static void fault_long(long long id, long long n)
{
    (void)id, (void)n;
    for (int i = 0; i < (1 << 20) + 1; i++)
        putchar('x');
}

static void fault_stranger(long long id, long long n)
{
    (void)id, (void)n;
    token(4711, 0, now_ns());
}

static void fault_over(long long id, long long n)
{
    serve(id, n);
    token(id, n, now_ns());
}

static void fault_more(long long id, long long n)
{
    for (long long k = 0; k <= n; k++)
        token(id, k, now_ns());
}

static void fault_fewer(long long id, long long n)
{
    token(id, 0, now_ns());
    finished(id, n, "length");
}

static void fault_short(long long id, long long n)
{
    (void)n;
    token(id, 0, now_ns());
    finished(id, 1, "length");
}

static void fault_stop(long long id, long long n)
{
    (void)n;
    token(id, 0, now_ns());
    finished(id, 1, "stop");
}

static void fault_past(long long id, long long n)
{
    (void)n;
    token(id, 0, now_ns() / 2); /* of a clock that may have started seconds ago */
}

static void fault_future(long long id, long long n)
{
    (void)n;
    token(id, 0, now_ns() + 60000000000);
}

static void fault_back(long long id, long long n)
{
    (void)n;
    long long t = now_ns();
    token(id, 0, t);
    token(id, 1, t - 1);
}

static void fault_refuse(long long id, long long n)
{
    (void)n;
    printf("{\"type\": \"error\", \"id\": %lld, \"message\": \"prompt too rude\", \"kind\": "
           "\"taste\"}\n",
           id);
}

static void fault_give_up(long long id, long long n)
{
    (void)id, (void)n;
    puts("{\"type\": \"error\", \"message\": \"CUDA out of memory\"}");
}

static void fault_hello(long long id, long long n)
{
    (void)id, (void)n;
    puts("{\"type\": \"ready\"}");
}

static const struct {
    const char *name;
    void (*serve)(long long id, long long n);
} faults[] = {
    {"crash", fault_crash},       {"kill", fault_kill},         {"hang", fault_hang},
    {"mute", fault_mute},         {"garbage", fault_garbage},   {"cut", fault_cut},
    {"long", fault_long},         {"stranger", fault_stranger}, {"over", fault_over},
    {"more", fault_more},         {"fewer", fault_fewer},       {"short", fault_short},
    {"stop", fault_stop},         {"past", fault_past},         {"future", fault_future},
    {"back", fault_back},         {"refuse", fault_refuse},     {"give_up", fault_give_up},
    {"ready_again", fault_hello},
};

static void submit(const char *line)
{
    static long long count;
    long long id = number(line, "id"), n = number(line, "max_tokens");
    count++;
    weigh(line);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (arg(faults[i].name, 0) == count) {
            faults[i].serve(id, n);
            return;
        }
    if (arg("loop", 0))
        serve_in_time(id, number(line, "num_prefill_tokens"), n);
    else
        serve(id, n);
}

/* ---- passes ---- */

static void list(const char *key, long long n, long long v)
{
    printf(", \"%s\": [", key);
    for (long long i = 0; i < n; i++)
        printf("%s%lld", i ? ", " : "", v + i % 3 * v / 100); /* 0, 1, 2 % apart */
    fputs("]", stdout);
}

/* Its times are a formula, so tests can foretell a bundle; that long it sleeps, too. */
static void pass(const char *line)
{
    static long long count;
    long long id = number(line, "id"), sequences = number(line, "decode_sequences");
    long long cached = number(line, "cached_tokens"), chunk = number(line, "chunk_tokens");
    long long before = number(line, "chunk_cached_tokens"), n = number(line, "repeats");
    long long ns = pass_ns(sequences, cached, chunk, before);
    count++;
    if (arg("pass_crash", 0) == count)
        exit(3);
    if (arg("pass_hang", 0) == count)
        hang();
    if (arg("pass_garbage", 0) == count)
        puts("{\"type\": \"passed\", \"id\": 1}");
    if (arg("pass_token", 0) == count)
        token(0, 0, now_ns());
    if (arg("pass_give_up", 0) == count)
        puts("{\"type\": \"error\", \"message\": \"CUDA out of memory\"}");
    if (arg("passes_most", 1 << 20) < sequences) {
        printf("{\"type\": \"error\", \"id\": %lld, \"message\": \"no room for %lld\"}\n", id,
               sequences);
        return;
    }
    if (arg("pass_other", 0) == count)
        id += 5;
    if (arg("pass_fewer", 0) == count)
        n--;
    if (arg("pass_long", 0) == count)
        ns += 3600000000000;
    else
        pause_us((number(line, "warmup") + n) * ns * 51 / 50000 + 1);
    printf("{\"type\": \"passed\", \"id\": %lld", id);
    list("total_ns", n, ns);
    if (arg("pass_device", 0) == count)
        list("device_ns", n, 2 * ns);
    else if (arg("passes_device", 1))
        list("device_ns", n, ns / 2);
    puts("}");
}

/* ---- before the first request: version=N, no_hello, no_ready, dies, bad_clock, old_clock ---- */

static void hello(void)
{
    char boot[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(boot, sizeof boot, f))
        boot[0] = 0;
    if (f)
        fclose(f);
    boot[strcspn(boot, "\n")] = 0;
    printf("{\"type\": \"hello\", \"protocol\": %lld, \"name\": \"fake\", \"version\": \"1.2\", "
           "\"clock\": {\"kind\": \"CLOCK_MONOTONIC\"",
           arg("version", 1));
    if (arg("boot", 0))
        printf(", \"boot_id\": \"%s\"", boot);
    printf("}, \"capabilities\": {\"prompt_ids\": %s, \"prompt_text\": %s, \"token_ids\": %s, "
           "\"batches\": %s, \"cancel\": true, \"batching\": \"none\", \"max_model_len\": %lld%s}, "
           "\"info\": {\"libraries\": {\"libc\": \"a\"}}}\n",
           is_arg("takes=text") ? "false" : "true", is_arg("takes=ids") ? "false" : "true",
           arg("ids", 1) ? "true" : "false", arg("batches", 0) || arg("loop", 0) ? "true" : "false",
           arg("max_model_len", 0),
           arg("passes_wrong", 0)    ? ", \"passes\": [\"decode\", \"jump\"]"
           : arg("passes_decode", 0) ? ", \"passes\": [\"decode\"]"
           : arg("passes", 0) ? ", \"passes\": [\"decode\", \"prompt\", \"chunk\", \"mixed\"]"
                              : "");
    fflush(stdout);
    if (arg("no_ready", 0))
        hang();
    if (arg("dies", 0)) {
        fputs("no such device\n\n", stderr);
        exit(9);
    }
    if (arg("refuses", 0))
        puts("{\"type\": \"error\", \"message\": \"no GPU\", \"hint\": \"plug one in\"}");
    else
        puts("{\"type\": \"ready\", \"info\": {\"load_seconds\": 0.5}}");
}

static void answer_clock(const char *line)
{
    long long recv = now_ns(), seq = number(line, "seq");
    if (arg("old_clock", 0))
        seq = 77;
    if (arg("bad_clock", 0))
        recv += seq * 1000000000;
    printf("{\"type\": \"clock\", \"seq\": %lld, \"recv_ns\": %lld, \"send_ns\": %lld}\n", seq,
           recv, arg("bad_clock", 0) ? recv : now_ns());
    const long long at_ns = now_ns();
    if (trails)
        printf("{\"type\": \"batch\", \"start_ns\": %lld, \"end_ns\": %lld, "
               "\"num_prefill_tokens\": 0, \"num_decode_tokens\": 1, \"batch_size\": 1}\n",
               at_ns, at_ns + 1);
    trails = 0;
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t cap = 0;
    n_args = argc;
    args = argv;
    if (arg("no_hello", 0))
        hang();
    while (getline(&line, &cap, stdin) > 0) {
        if (strstr(line, "\"type\":\"hello\""))
            hello();
        else if (strstr(line, "\"type\":\"clock\""))
            answer_clock(line);
        else if (strstr(line, "\"type\":\"submit\""))
            submit(line);
        else if (strstr(line, "\"type\":\"pass\""))
            pass(line);
        else if (strstr(line, "\"type\":\"shutdown\""))
            break;
        fflush(stdout);
    }
    free(line);
    if (arg("stays", 0)) {
        signal(SIGTERM, SIG_IGN);
        hang();
    }
    return (int)arg("exit", 0);
}
