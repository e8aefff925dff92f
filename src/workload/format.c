#include "workload/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "workload/make.h"

/* Why formats of conversations are not written. */
#define NO_ANSWERS \
    "it says an output length by the text of an answer, and a workload has no answers"

const struct workload_format workload_formats[] = {
    {"azure", "Azure LLM inference traces of 2023 and 2024",
     FORMAT_HOLDS_PREFILLS | FORMAT_FROM_ZERO, 100, format_azure_read, format_azure_write, NULL,
     NULL},
    {"bailian", "Alibaba's Bailian traces, with hash_ids and the chats that go on", 0, 0,
     format_bailian_read, NULL, "export=mooncake holds the same but the chats", NULL},
    {"burstgpt", "BurstGPT", FORMAT_HOLDS_PREFILLS | FORMAT_FROM_ZERO, 1, format_burstgpt_read,
     format_burstgpt_write, NULL, NULL},
    {"lmsys", "LMSYS-Chat-1M: first question, length of the answer", FORMAT_TEXTS, 0,
     format_sharegpt_read, NULL, NO_ANSWERS, NULL},
    {"mooncake", "Mooncake's traces, with hash_ids; sessions",
     FORMAT_HOLDS_PREFILLS | FORMAT_HOLDS_HASHES | FORMAT_UNITS, NS_PER_MS, format_mooncake_read,
     format_mooncake_write, NULL, NULL},
    {"sharegpt", "ShareGPT conversations: first question, length of the answer", FORMAT_TEXTS, 0,
     format_sharegpt_read, NULL, NO_ANSWERS, NULL},
    {"vidur", "Vidur's trace.csv", FORMAT_HOLDS_PREFILLS, 1, format_vidur_read, format_vidur_write,
     NULL, NULL},
    {"vllm", "vLLM's detailed benchmark result, or its custom dataset, which is written",
     FORMAT_TEXTS | FORMAT_HOLDS_TEXTS, 0, format_vllm_read, format_vllm_write, NULL,
     format_vllm_has_texts},
    {"wildchat", "WildChat: first question, length of the answer", FORMAT_TEXTS, 0,
     format_sharegpt_read, NULL, NO_ANSWERS, NULL},
    {0},
};

static void without(struct buf *out, uint32_t bits)
{
    for (const struct workload_format *f = workload_formats; f->name; f++)
        if (f->read && !(f->traits & bits))
            option_name(out, f->name);
}

static void with(struct buf *out, uint32_t bits)
{
    for (const struct workload_format *f = workload_formats; f->name; f++)
        if (f->traits & bits)
            option_name(out, f->name);
}

const struct option_capability format_capabilities[] = {
    {"import", "arrivals", without, FORMAT_TEXTS},
    {"import", "units", with, FORMAT_UNITS},
    {0},
};

static void add_lost(struct buf *b, const char *what)
{
    buf_printf(b, "%s%s", b->n ? ", " : "", what);
}

const char *workload_format_lost(struct arena *a, const struct workload_format *f,
                                 const struct workload *w, const char *const *texts)
{
    struct buf b = {0};
    bool any_text = false, any_hash = false, any_time = false, between = false;
    bool any_session = false;
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        any_text |= texts[i] != NULL;
        any_hash |= q->hash_ids != NULL;
        any_session |= q->turn > 0;
        any_time |= q->arrival_ns != 0;
        between |= f->tick_ns > 0 && q->arrival_ns % f->tick_ns != 0;
    }
    if (any_text && !(f->traits & FORMAT_HOLDS_TEXTS))
        add_lost(&b, "texts");
    if (!(f->traits & FORMAT_HOLDS_PREFILLS))
        add_lost(&b, "lengths of prompts");
    if (any_hash && !(f->traits & FORMAT_HOLDS_HASHES))
        add_lost(&b, "hash_ids");
    if (any_time && f->tick_ns == 0)
        add_lost(&b, "arrivals");
    if (between)
        add_lost(&b, f->tick_ns == NS_PER_MS ? "arrivals below 1 ms" : "arrivals below 100 ns");
    if (any_session)
        add_lost(&b, "sessions and their think times");
    if (w->concurrency)
        add_lost(&b, "the limit of a closed loop");
    if (w->n && w->requests[0].arrival_ns > 0 && f->traits & FORMAT_FROM_ZERO)
        add_lost(&b, "the time before the first arrival, for who reads it");
    const char *text = arena_str(a, buf_str(&b));
    buf_free(&b);
    return text;
}

enum st workload_format_find(const char *name, bool write, const struct workload_format **out,
                             struct err *e)
{
    struct buf names = {0};
    const char *import_only = NULL;
    for (const struct workload_format *f = workload_formats; f->name; f++) {
        bool can = write ? f->write != NULL : f->read != NULL;
        if (can && strcmp(f->name, name) == 0) {
            buf_free(&names);
            *out = f;
            return ST_OK;
        }
        if (write && !can && strcmp(f->name, name) == 0)
            import_only = f->import_only;
        if (can)
            buf_printf(&names, "%s%s", names.n ? ", " : "", f->name);
    }
    if (import_only)
        err_set(e, ST_USAGE, "format %s can be imported only: %s", name, import_only);
    else
        err_set(e, ST_USAGE, "there is no format '%s' to %s", name, write ? "export" : "import");
    err_hint(e, "formats: %s", buf_str(&names));
    buf_free(&names);
    return ST_USAGE;
}

static int by_arrival(const void *pa, const void *pb)
{
    const struct workload_request *a = pa, *b = pb;
    if (a->arrival_ns != b->arrival_ns)
        return a->arrival_ns < b->arrival_ns ? -1 : 1;
    return a->request_id < b->request_id ? -1 : a->request_id > b->request_id;
}

static const int64_t FIRST_DATE_S = 100000000; /* March 1973; three years from a trace's start */

enum st format_settle(const char *path, struct format_result *r, bool from_zero, struct err *e)
{
    struct workload *w = &r->w;
    if (w->n == 0 && r->left_out > 0)
        return err_at(e, ST_INPUT, path, 0, 0, "all %lld requests lack a prompt or an output token",
                      (long long)r->left_out);
    if (w->n == 0)
        return err_at(e, ST_INPUT, path, 0, 0, "has no requests");
    for (size_t i = 0; i < w->n; i++)
        w->requests[i].request_id = (int64_t)i;
    qsort(w->requests, w->n, sizeof *w->requests, by_arrival);
    const int64_t first_ns = w->requests[0].arrival_ns;
    const int64_t zero_ns = from_zero || first_ns >= FIRST_DATE_S * NS_PER_S ? first_ns : 0;
    for (size_t i = 0; i < w->n; i++) {
        struct workload_request *q = &w->requests[i];
        q->request_id = (int64_t)i;
        if (zero_ns) {
            q->arrival_ns -= zero_ns;
            q->arrival_s = ns_to_s(q->arrival_ns);
        }
    }
    return ST_OK;
}

enum st format_count(struct arena *scratch, const struct tokenizer *t, const char *text, int64_t *n,
                     struct err *e)
{
    struct prompt p = {"", text};
    int64_t *counts;
    TRY(workload_count_tokens(scratch, t, &p, 1, &counts, e));
    *n = counts[0];
    return ST_OK;
}

enum st format_arrive(const struct format_params *p, struct workload *w, struct err *e)
{
    struct arrivals g;
    TRY(arrivals_begin(p->arrivals, &g, e));
    enum st st = ST_OK;
    for (size_t i = 0; i < w->n && st == ST_OK; i++)
        st = arrivals_next(&g, &w->requests[i], e);
    arrivals_end(&g);
    if (st == ST_END)
        return err_set(e, ST_USAGE, "%s has fewer rows than %s has requests",
                       p->arrivals->arrival_trace, p->path);
    return st;
}

/* ---- times of day ------------------------------------------------------------------------- */

/* Parses n digits at *p and advances it; -1 when they are missing. */
static int64_t digits(const char **p, const char *end, int n)
{
    int64_t v = 0;
    for (; n > 0; n--, ++*p) {
        if (*p == end || **p < '0' || **p > '9')
            return -1;
        v = v * 10 + (**p - '0');
    }
    return v;
}

static bool skip(const char **p, const char *end, char c)
{
    if (*p == end || **p != c)
        return false;
    ++*p;
    return true;
}

/* Days since 1970-01-01 of the proleptic Gregorian calendar, years from 1970 on. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + of_year;
    return year / 400 * 146097 + of_era - 719468;
}

static bool read_fraction(const char **p, const char *end, int64_t *ns)
{
    *ns = 0;
    if (!skip(p, end, '.'))
        return true;
    int n = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; n++, ++*p)
        if (n < 9)
            *ns = *ns * 10 + (**p - '0');
    for (int i = n; i < 9; i++)
        *ns *= 10;
    return n > 0;
}

/* "", "Z", "+02:00": minutes east. */
static bool read_zone(const char **p, const char *end, int64_t *minutes)
{
    *minutes = 0;
    if (*p == end || skip(p, end, 'Z'))
        return true;
    bool west = skip(p, end, '-');
    if (!west && !skip(p, end, '+'))
        return false;
    int64_t h = digits(p, end, 2);
    skip(p, end, ':');
    int64_t m = digits(p, end, 2);
    *minutes = west ? -(60 * h + m) : 60 * h + m;
    return h >= 0 && h < 24 && m >= 0 && m < 60;
}

bool format_time(struct sv text, int64_t *ns)
{
    static const int64_t month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const char *p = text.p, *end = text.p + text.n;
    int64_t year = digits(&p, end, 4);
    bool ok = skip(&p, end, '-');
    int64_t month = digits(&p, end, 2);
    ok = ok && skip(&p, end, '-');
    int64_t day = digits(&p, end, 2);
    ok = ok && (skip(&p, end, ' ') || skip(&p, end, 'T'));
    int64_t hour = digits(&p, end, 2);
    ok = ok && skip(&p, end, ':');
    int64_t minute = digits(&p, end, 2);
    ok = ok && skip(&p, end, ':');
    int64_t second = digits(&p, end, 2);
    int64_t fraction, zone;
    if (!ok || year < 1970 || year >= 2200 || month < 1 || month > 12 || day < 1 ||
        day > month_days[month - 1] || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
        second < 0 || second > 60)
        return false;
    if (!read_fraction(&p, end, &fraction) || !read_zone(&p, end, &zone) || p != end)
        return false;
    int64_t s = ((days_of(year, month, day) * 24 + hour) * 60 + minute - zone) * 60 + second;
    *ns = s * NS_PER_S + fraction;
    return true;
}
