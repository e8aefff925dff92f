/* vLLM: the result of `vllm bench serve --save-result --save-detailed`, whose requests have lengths
 * and times; and the custom dataset of its benchmarks, which holds texts. */
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "workload/events.h"
#include "workload/format.h"
#include "workload/jsonl.h"
#include "workload/make.h"

/* ---- results ----------------------------------------------------------------------------- */

typedef VEC(double) number_vec;
typedef VEC(bool) flag_vec;

struct vllm_lists {
    number_vec input, output, start;
    flag_vec failed;
    bool has_input, has_members;
};

/* A list of numbers from 0 to max; of whole ones unless max is above INT32_MAX. */
static enum st read_numbers(struct events *v, const char *key, double max, number_vec *out,
                            struct err *e)
{
    char text[100];
    if (events_next(v, e) != JSON_LIST_BEGIN) {
        snprintf(text, sizeof text, "%s: expected a list of numbers", key);
        return e->st != ST_OK ? e->st : events_bad(v, e, text);
    }
    vec_clear(out);
    for (enum json_event ev; (ev = events_next(v, e)) != JSON_LIST_END;) {
        if (ev == JSON_ERROR)
            return e->st;
        bool number = ev == JSON_INT || (ev == JSON_FLOAT && max > INT32_MAX);
        double x = number ? json_double(v->r) : -1;
        if (!(x >= 0 && x <= max)) {
            snprintf(text, sizeof text, "%s: expected numbers from 0 to %.10g", key, max);
            return events_bad(v, e, text);
        }
        vec_push(out, x);
    }
    return ST_OK;
}

/* errors: "" for a successful request. */
static enum st read_errors(struct events *v, flag_vec *out, struct err *e)
{
    if (events_next(v, e) != JSON_LIST_BEGIN)
        return e->st != ST_OK ? e->st : events_bad(v, e, "errors: expected a list");
    vec_clear(out);
    for (enum json_event ev; (ev = events_next(v, e)) != JSON_LIST_END;) {
        if (ev == JSON_ERROR)
            return e->st;
        vec_push(out, ev == JSON_STRING ? json_text(v->r).n > 0 : ev != JSON_NULL);
        TRY(events_skip(v, ev, e));
    }
    return ST_OK;
}

static enum st read_vllm(struct events *v, struct vllm_lists *l, struct err *e)
{
    static const double max_seconds = 9.2e9;
    if (events_next(v, e) != JSON_MAP_BEGIN)
        return e->st != ST_OK ? e->st : events_bad(v, e, "expected an object: a benchmark result");
    for (enum json_event ev; (ev = events_next(v, e)) != JSON_MAP_END;) {
        if (ev == JSON_ERROR)
            return e->st;
        struct sv key = json_text(v->r);
        l->has_members = true;
        l->has_input |= sv_eq(key, "input_lens");
        if (sv_eq(key, "input_lens"))
            TRY(read_numbers(v, "input_lens", INT32_MAX, &l->input, e));
        else if (sv_eq(key, "output_lens"))
            TRY(read_numbers(v, "output_lens", INT32_MAX, &l->output, e));
        else if (sv_eq(key, "start_times"))
            TRY(read_numbers(v, "start_times", max_seconds, &l->start, e));
        else if (sv_eq(key, "errors"))
            TRY(read_errors(v, &l->failed, e));
        else if ((ev = events_next(v, e)) == JSON_ERROR)
            return e->st;
        else
            TRY(events_skip(v, ev, e));
    }
    return events_next(v, e) == JSON_ERROR ? e->st : ST_OK;
}

static enum st take_vllm(struct arena *a, const struct format_params *p, const struct vllm_lists *l,
                         struct format_result *out, struct err *e)
{
    const struct {
        const char *name;
        size_t n;
    } lists[] = {{"output_lens", l->output.n}, {"start_times", l->start.n}};
    if (l->has_members && !l->has_input) {
        err_at(e, ST_INPUT, p->path, 0, 0, "input_lens: missing");
        return err_hint(e, "vllm bench serve writes it with --save-result --save-detailed");
    }
    for (size_t i = 0; i < 2; i++) {
        if (lists[i].n == l->input.n)
            continue;
        err_at(e, ST_INPUT, p->path, 0, 0, "%s has %zu values, input_lens %zu", lists[i].name,
               lists[i].n, l->input.n);
        return err_hint(e, "vllm bench serve writes them all with --save-result --save-detailed");
    }
    out->w.requests = arena_array(a, struct workload_request, l->input.n);
    for (size_t i = 0; i < l->input.n; i++) {
        bool failed = i < l->failed.n && l->failed.p[i];
        if (failed || l->input.p[i] < 1 || l->output.p[i] < 1)
            out->left_out++;
        else if (!p->max_requests || (int64_t)out->w.n < p->max_requests)
            out->w.requests[out->w.n++] =
                (struct workload_request){.arrival_ns = ns_from_s(l->start.p[i]),
                                          .arrival_s = l->start.p[i],
                                          .num_prefill_tokens = (int64_t)l->input.p[i],
                                          .num_decode_tokens = (int64_t)l->output.p[i]};
    }
    return format_settle(p->path, out, true, e);
}

static enum st read_result(struct arena *a, const struct format_params *p,
                           struct format_result *out, struct err *e)
{
    struct events v;
    struct vllm_lists l = {0};
    *out = (struct format_result){0};
    TRY(events_open(&v, p->path, e));
    enum st st = read_vllm(&v, &l, e);
    if (st == ST_OK)
        st = take_vllm(a, p, &l, out, e);
    events_close(&v);
    vec_free(&l.input);
    vec_free(&l.output);
    vec_free(&l.start);
    vec_free(&l.failed);
    return st;
}

/* ---- vLLM's custom dataset: {"prompt": ..., "output_tokens": ...}, one a line ---------------- */

bool format_vllm_has_texts(const char *path)
{
    struct events v;
    struct err ignored = {0};
    bool prompt = false;
    if (events_open(&v, path, &ignored) != ST_OK)
        return false;
    for (int depth = 0; !prompt;) { /* members of the first object */
        const enum json_event ev = events_next(&v, &ignored);
        depth += events_opens(ev) - events_closes(ev);
        if (ev == JSON_ERROR || ev == JSON_END || depth == 0)
            break;
        prompt = ev == JSON_KEY && depth == 1 && sv_eq(json_text(v.r), "prompt");
    }
    events_close(&v);
    return prompt;
}

struct dataset {
    VEC(struct workload_request) requests;
    VEC(struct prompt) prompts;
};

static enum st take_line(struct arena *a, const struct format_params *p, struct arena *scratch,
                         const struct node *line, struct dataset *d, struct format_result *out,
                         struct err *e)
{
    struct workload_request q = {0};
    const char *text;
    TRY(node_get_str(line, "prompt", &text, e));
    TRY(node_get_int(line, "output_tokens", 0, INT32_MAX, &q.num_decode_tokens, e));
    if (!*text || q.num_decode_tokens == 0) {
        out->left_out++;
        return ST_OK;
    }
    TRY(format_count(scratch, p->tokenizer, text, &q.num_prefill_tokens, e));
    q.prompt_id = arena_printf(a, "%zu", d->prompts.n);
    vec_push(&d->prompts, ((struct prompt){q.prompt_id, arena_str(a, text)}));
    vec_push(&d->requests, q);
    return ST_OK;
}

static enum st read_dataset(struct arena *a, const struct format_params *p,
                            struct format_result *out, struct err *e)
{
    struct jsonl j;
    struct dataset d = {0};
    struct node *line;
    *out = (struct format_result){0};
    struct arena *scratch = arena_new();
    enum st st = jsonl_open(&j, p->path, PROMPT_MAX_BYTES, e);
    while (st == ST_OK && !(p->max_requests && (int64_t)d.requests.n == p->max_requests) &&
           (st = jsonl_next(&j, &line, e)) == ST_OK) {
        arena_reset(scratch);
        st = take_line(a, p, scratch, line, &d, out, e);
    }
    jsonl_close(&j);
    arena_free(&scratch);
    if (st == ST_END || st == ST_OK) {
        out->w.requests = arena_copy(a, d.requests.p, d.requests.n * sizeof *d.requests.p);
        out->w.n = d.requests.n;
        out->prompts = arena_copy(a, d.prompts.p, d.prompts.n * sizeof *d.prompts.p);
        out->n_prompts = d.prompts.n;
        st = format_arrive(p, &out->w, e);
    }
    if (st == ST_OK)
        st = format_settle(p->path, out, false, e);
    vec_free(&d.requests);
    vec_free(&d.prompts);
    return st;
}

enum st format_vllm_read(struct arena *a, const struct format_params *p, struct format_result *out,
                         struct err *e)
{
    return (format_vllm_has_texts(p->path) ? read_dataset : read_result)(a, p, out, e);
}

enum st format_vllm_write(struct buf *out, const struct workload *w, const char *const *texts,
                          struct err *e)
{
    for (size_t i = 0; i < w->n; i++) {
        if (!texts[i]) {
            err_set(e, ST_USAGE, "vLLM's custom dataset holds texts, and request %lld has none",
                    (long long)w->requests[i].request_id);
            return err_hint(e, "export=vidur and export=mooncake hold lengths alone");
        }
        buf_puts(out, "{\"prompt\": ");
        json_quote(out, sv_of(texts[i]));
        buf_printf(out, ", \"output_tokens\": %lld}\n",
                   (long long)w->requests[i].num_decode_tokens);
    }
    return ST_OK;
}
