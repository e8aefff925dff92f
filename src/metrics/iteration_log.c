#define _GNU_SOURCE /* memmem */
#include "metrics/iteration_log.h"

#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"
#include "text/gz.h"

static const char MARK[] = "Iteration(";
static const double MOST = 1e12; /* of a count or a time in ms: no server gets there */

/* A line, and how far it was read. */
struct log_line {
    const char *path;
    struct sv text;
    size_t at;
    long number;
};

static enum st expected(const struct log_line *l, const char *what, struct err *e)
{
    err_at(e, ST_INPUT, l->path, l->number, (long)l->at + 1, "iteration log: expected \"%s\"",
           what);
    return err_hint(e,
                    "vLLM writes such lines with --enable-logging-iteration-details (0.24 to "
                    "0.33 are read); a line that was cut or mixed with another is to be removed");
}

static bool take_text(struct log_line *l, const char *text)
{
    const size_t n = strlen(text);
    if (l->text.n - l->at < n || memcmp(l->text.p + l->at, text, n) != 0)
        return false;
    l->at += n;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number without a sign: digits, and with `fraction` a point and more of them. */
static struct sv take_digits(struct log_line *l, bool fraction)
{
    const size_t from = l->at;
    while (l->at < l->text.n &&
           (is_digit(l->text.p[l->at]) || (fraction && l->text.p[l->at] == '.')))
        l->at++;
    return (struct sv){l->text.p + from, l->at - from};
}

/* A count, then the text after it. */
static enum st take_count(struct log_line *l, int64_t *out, const char *after, struct err *e)
{
    const size_t from = l->at;
    if (!str_int64(take_digits(l, false), out) || (double)*out > MOST) {
        l->at = from;
        return expected(l, "COUNT", e);
    }
    if (!take_text(l, after))
        return expected(l, after, e);
    return ST_OK;
}

static enum st take_number(struct log_line *l, double *out, const char *after, struct err *e)
{
    const size_t from = l->at;
    if (!str_double(take_digits(l, true), out) || *out > MOST) {
        l->at = from;
        return expected(l, "NUMBER", e);
    }
    if (!take_text(l, after))
        return expected(l, after, e);
    return ST_OK;
}

/* ", GPU KV cache usage: 1.5%": what comes before it names the device. */
static enum st take_usage(struct log_line *l, struct logged_iteration *x, struct err *e)
{
    static const char words[] = " KV cache usage: ";
    const struct sv rest = {l->text.p + l->at, l->text.n - l->at};
    const char *p = rest.n ? memmem(rest.p, rest.n, words, strlen(words)) : NULL;
    if (!p)
        return ST_OK;
    l->at = (size_t)(p - l->text.p) + strlen(words);
    TRY(take_number(l, &x->kv_usage, "%", e));
    x->kv_usage /= 100;
    if (!take_text(l, ", encoder inputs: "))
        return ST_OK;
    TRY(take_count(l, &x->encoder_inputs, ", encoder output embeddings: ", e));
    return take_count(l, &x->encoder_tokens, "", e);
}

/* Number after the last `mark` before the iteration; 0 = it is not there. */
static int32_t engine_at(const struct log_line *l, const char *mark)
{
    const size_t n = strlen(mark);
    int32_t engine = 0;
    for (size_t i = 0; i + n < l->at; i++) {
        if (memcmp(l->text.p + i, mark, n) != 0)
            continue;
        struct log_line number = *l;
        int64_t v;
        number.at = i + n;
        if (str_int64(take_digits(&number, false), &v) && v < INT32_MAX)
            engine = (int32_t)v;
    }
    return engine;
}

/* "Engine 001: " says it, or the name of the process: "(EngineCore_DP1 pid=7)". */
static int32_t engine_of(const struct log_line *l)
{
    const int32_t engine = engine_at(l, "Engine ");
    return engine ? engine : engine_at(l, "EngineCore_DP");
}

/* l->at: at MARK. */
static enum st read_iteration(struct log_line *l, struct logged_iteration *x, struct err *e)
{
    *x = (struct logged_iteration){
        .engine = engine_of(l), .line = l->number, .kv_usage = (double)NAN};
    l->at += strlen(MARK);
    TRY(take_count(l, &x->index, "): ", e));
    TRY(take_count(l, &x->context_requests, " context requests, ", e));
    TRY(take_count(l, &x->context_tokens, " context tokens, ", e));
    TRY(take_count(l, &x->generation_requests, " generation requests, ", e));
    TRY(take_count(l, &x->generation_tokens, " generation tokens, ", e));
    if (!take_text(l, "iteration elapsed time: "))
        return expected(l, "iteration elapsed time: ", e);
    TRY(take_number(l, &x->elapsed_s, " ms", e));
    x->elapsed_s /= 1e3;
    x->dummy = take_text(l, " (dummy)");
    return take_usage(l, x, e);
}

/* Where the line has an iteration; false = nowhere. */
static bool find_iteration(struct log_line *l)
{
    const size_t n = strlen(MARK);
    const char *p = l->text.n > n ? memmem(l->text.p, l->text.n, MARK, n) : NULL;
    if (!p || (size_t)(p - l->text.p) + n >= l->text.n || !is_digit(p[n]))
        return false;
    l->at = (size_t)(p - l->text.p);
    return true;
}

/* Marks those that follow the one before of their engine, and counts engines. */
static void follow(struct iteration_log *log)
{
    VEC(struct {
        int32_t engine;
        int64_t index;
    })
    last = {0};
    for (size_t i = 0; i < log->n; i++) {
        struct logged_iteration *x = &log->of[i];
        size_t k = 0;
        while (k < last.n && last.p[k].engine != x->engine)
            k++;
        if (k == last.n) {
            vec_reserve(&last, last.n + 1);
            last.p[last.n++].engine = x->engine;
        } else {
            x->follows = x->index == last.p[k].index + 1;
        }
        last.p[k].index = x->index;
    }
    log->engines = (int32_t)last.n;
    vec_free(&last);
}

/* vLLM writes such lines every few seconds, whatever it was started with. */
#define THROUGHPUT "Avg prompt throughput"

static bool has_throughput(struct sv text)
{
    const size_t n = strlen(THROUGHPUT);
    return text.n >= n && memmem(text.p, text.n, THROUGHPUT, n) != NULL;
}

enum st iteration_log_parse(struct arena *a, const char *path, struct sv text,
                            struct iteration_log *out, struct err *e)
{
    VEC(struct logged_iteration) all = {0};
    struct log_line l = {.path = path};
    const struct sv whole = text;
    enum st st = ST_OK;
    *out = (struct iteration_log){.path = path};
    while (text.n && st == ST_OK) {
        const char *end = memchr(text.p, '\n', text.n);
        const size_t n = end ? (size_t)(end - text.p) : text.n;
        struct logged_iteration x;
        l.text = (struct sv){text.p, n};
        l.number++;
        if (find_iteration(&l) && (st = read_iteration(&l, &x, e)) == ST_OK)
            vec_push(&all, x);
        text.p += end ? n + 1 : n;
        text.n -= end ? n + 1 : n;
    }
    out->n = all.n;
    out->of = arena_copy(a, all.p, all.n * sizeof *all.p);
    vec_free(&all);
    TRY(st);
    follow(out);
    if (out->n)
        return ST_OK;
    err_set(e, ST_INPUT, "%s: no line of an iteration is in it", path);
    if (has_throughput(whole))
        return err_hint(e, "start vLLM with --enable-logging-iteration-details (0.24 to 0.33 have "
                           "it); lines of throughput (\"" THROUGHPUT "\") say nothing of batches");
    return err_hint(e,
                    "start vLLM with --enable-logging-iteration-details, and do not turn off its "
                    "statistics (--disable-log-stats)");
}

enum st iteration_log_read(struct arena *a, const char *path, struct iteration_log *out,
                           struct err *e)
{
    struct gz_file f;
    TRY(gz_open(path, &f, e));
    const enum st st = iteration_log_parse(a, path, f.text, out, e);
    gz_close(&f);
    return st;
}

const char *iteration_log_beside(struct arena *a, const char *dir)
{
    static const char *const names[] = {"iterations.log", "iterations.log.gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = fs_join(a, dir, names[i]);
        if (fs_exists(path))
            return path;
    }
    return NULL;
}
