#define _GNU_SOURCE /* memmem */
#include "metrics/server_log.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/order.h"
#include "text/gz.h"

static const char ENGINE[] = "Initializing a V1 LLM engine (v";

enum fact_kind { TEXT, COUNT, FRACTION, FLAG };

static const struct {
    const char *name;
    enum fact_kind kind;
} facts[FACTS] = {
    [FACT_VERSION] = {"version", TEXT},
    [FACT_MODEL] = {"model", TEXT},
    [FACT_DTYPE] = {"dtype", TEXT},
    [FACT_QUANTIZATION] = {"quantization", TEXT},
    [FACT_KV_DTYPE] = {"kv_cache_dtype", TEXT},
    [FACT_TP] = {"tensor_parallel_size", COUNT},
    [FACT_PP] = {"pipeline_parallel_size", COUNT},
    [FACT_DP] = {"data_parallel_size", COUNT},
    [FACT_EP] = {"enable_expert_parallel", FLAG},
    [FACT_MAX_MODEL_LEN] = {"max_model_len", COUNT},
    [FACT_TOKEN_BUDGET] = {"max_num_batched_tokens", COUNT},
    [FACT_BATCH_CAP] = {"max_num_seqs", COUNT},
    [FACT_BLOCK_SIZE] = {"block_size", COUNT},
    [FACT_KV_TOKENS] = {"kv_cache_tokens", COUNT},
    [FACT_NUM_BLOCKS] = {"num_gpu_blocks", COUNT},
    [FACT_MEMORY_UTILIZATION] = {"gpu_memory_utilization", FRACTION},
    [FACT_PREFIX_CACHING] = {"enable_prefix_caching", FLAG},
    [FACT_CHUNKED_PREFILL] = {"enable_chunked_prefill", FLAG},
    [FACT_ASYNC] = {"async_scheduling", FLAG},
    [FACT_EAGER] = {"enforce_eager", FLAG},
    [FACT_GRAPHS] = {"cudagraph_mode", TEXT},
    [FACT_GRAPH_SIZES] = {"cudagraph_capture_sizes", TEXT},
    [FACT_ATTENTION] = {"attention_backend", TEXT},
    [FACT_SPECULATIVE] = {"speculative_config", TEXT},
};

const char *server_fact_name(unsigned id)
{
    return id < FACTS ? facts[id].name : NULL;
}

/* A log while it is read. */
struct log_reader {
    struct arena *a;
    struct server_log *out;
    struct server_fact asked[FACTS]; /* arguments: they count where the engine says nothing */
    long line;
};

/* ---- facts --------------------------------------------------------------------------------- */

static enum st no_value(const struct log_reader *r, enum server_fact_id id, struct sv v,
                        struct err *e)
{
    return err_at(e, ST_INPUT, r->out->path, r->line, 0, "server log: %s is %.*s", facts[id].name,
                  (int)(v.n < 80 ? v.n : 80), v.p);
}

/* As it is kept; NULL = it is no such value. */
static const char *value_of(const struct log_reader *r, enum server_fact_id id, struct sv v)
{
    int64_t count;
    double number;
    if (facts[id].kind == FLAG)
        return sv_eq(v, "True") || sv_eq(v, "true")     ? "true"
               : sv_eq(v, "False") || sv_eq(v, "false") ? "false"
                                                        : NULL;
    if (facts[id].kind == COUNT && !(str_int64(v, &count) && count > 0 && count < 1 << 30))
        return NULL;
    if (facts[id].kind == FRACTION && !(str_double(v, &number) && number > 0 && number <= 1))
        return NULL;
    return arena_strn(r->a, v.p, v.n);
}

static enum st keep(struct log_reader *r, struct server_fact *of, enum server_fact_id id,
                    struct sv v, struct err *e)
{
    const char *value = value_of(r, id, v);
    if (!value)
        return no_value(r, id, v, e);
    if (of[id].value && strcmp(of[id].value, value) != 0) {
        err_at(e, ST_INPUT, r->out->path, r->line, 0, "server log: %s is %.80s, in line %ld %.80s",
               facts[id].name, value, of[id].line, of[id].value);
        return err_hint(e, "the log is of several servers: keep the lines of the one that served");
    }
    if (!of[id].value)
        of[id] = (struct server_fact){value, r->line};
    return ST_OK;
}

static enum st told(struct log_reader *r, enum server_fact_id id, struct sv v, struct err *e)
{
    return keep(r, r->out->of, id, v, e);
}

/* The least of several: workers have caches of their own, and all take the smallest. */
static enum st told_least(struct log_reader *r, enum server_fact_id id, struct sv v, struct err *e)
{
    const int64_t have = server_fact_count(r->out, id);
    int64_t count;
    if (have && str_int64(v, &count) && count >= have)
        return ST_OK;
    r->out->of[id].value = NULL;
    return told(r, id, v, e);
}

/* One more of a list by blanks. */
static void told_also(struct log_reader *r, enum server_fact_id id, struct sv v)
{
    struct server_fact *f = &r->out->of[id];
    const char *word = arena_strn(r->a, v.p, v.n);
    const size_t n = strlen(word);
    for (const char *p = f->value; p && (p = strstr(p, word)); p += n)
        if ((p == f->value || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return;
    *f = (struct server_fact){f->value ? arena_printf(r->a, "%s %s", f->value, word) : word,
                              f->value ? f->line : r->line};
}

/* ---- Python's texts ------------------------------------------------------------------------ */

/* Bytes of the text up to `end` outside of quotes and brackets, or all; with a bracket or a quote
 * still open *open is set. */
static size_t span_of(struct sv s, char end, bool *open)
{
    int depth = 0;
    char quote = 0;
    size_t i = 0;
    for (; i < s.n && !(s.p[i] == end && !quote && depth == 0); i++) {
        const char c = s.p[i];
        if (quote) {
            i += c == '\\';
            quote = c == quote ? 0 : quote;
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (strchr("([{", c) && c) {
            depth++;
        } else if (strchr(")]}", c) && c) {
            if (depth == 0)
                break;
            depth--;
        }
    }
    *open = quote || depth > 0;
    return i < s.n ? i : s.n;
}

static struct sv after(struct sv s, size_t n)
{
    n = n < s.n ? n : s.n;
    return (struct sv){s.p + n, s.n - n};
}

/* Without quotes around it. */
static struct sv unquoted(struct sv s)
{
    s = sv_trim(s);
    const bool quoted = s.n >= 2 && (s.p[0] == '\'' || s.p[0] == '"') && s.p[s.n - 1] == s.p[0];
    return quoted ? (struct sv){s.p + 1, s.n - 2} : s;
}

/* Takes "key=value, " or "'key': value, " off the text; false at its end, and of a value that is
 * cut. `closed`: a bracket follows the text, so its last value is whole; else it is where it ends
 * in a bracket of its own. */
static bool take_pair(struct sv *rest, char between, bool closed, struct sv *key, struct sv *value)
{
    bool open;
    *rest = sv_trim(*rest);
    size_t n = span_of(*rest, between, &open);
    if (open || n >= rest->n || rest->p[n] != between)
        return false;
    *key = unquoted((struct sv){rest->p, n});
    *rest = after(*rest, n + 1);
    n = span_of(*rest, ',', &open);
    const bool last = n >= rest->n;
    const bool whole = !last || closed || (n && strchr(")]}", rest->p[n - 1]));
    *value = unquoted((struct sv){rest->p, n});
    *rest = after(*rest, n + 1);
    return !open && whole;
}

/* ---- the engine's configuration -------------------------------------------------------------- */

/* What a key of the engine's line or of the arguments is called here; FACTS = it is none. */
static enum server_fact_id id_of(struct sv key)
{
    static const struct {
        const char *key;
        enum server_fact_id id;
    } others[] = {
        {"max_seq_len", FACT_MAX_MODEL_LEN},
        {"chunked_prefill_enabled", FACT_CHUNKED_PREFILL}, /* 0.11 */
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sv_eq(key, others[i].key))
            return others[i].id;
    for (unsigned i = 0; i < FACTS; i++)
        if (sv_eq(key, facts[i].name))
            return (enum server_fact_id)i;
    return FACTS;
}

/* "torch.bfloat16" is bfloat16, None is none. */
static struct sv plain(struct sv v)
{
    if (v.n > 6 && memcmp(v.p, "torch.", 6) == 0)
        return after(v, 6);
    return sv_eq(v, "None") || sv_eq(v, "null") ? SV("none") : v;
}

/* cudagraph_mode: its name in an enum's repr, or its value. */
static enum st take_mode(struct log_reader *r, struct sv v, struct err *e)
{
    static const struct {
        const char *value, *mode;
    } values[] = {
        {"0", "none"},
        {"1", "piecewise"},
        {"2", "full"},
        {"[2,0]", "full_decode_only"},
        {"[2,1]", "full_and_piecewise"},
    };
    static const char prefix[] = "CUDAGraphMode.";
    const char *name = v.n ? memmem(v.p, v.n, prefix, strlen(prefix)) : NULL;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (sv_eq(v, values[i].value))
            return told(r, FACT_GRAPHS, sv_of(values[i].mode), e);
    if (!name)
        return ST_OK; /* of another version: not known */
    const struct sv rest = after(v, (size_t)(name - v.p) + strlen(prefix));
    char mode[32];
    size_t n = 0;
    for (; n < rest.n && n < sizeof mode && (isalpha((unsigned char)rest.p[n]) || rest.p[n] == '_');
         n++)
        mode[n] = (char)tolower((unsigned char)rest.p[n]);
    return told(r, FACT_GRAPHS, (struct sv){mode, n}, e);
}

/* "[512,504,...]": sorted, by blanks. */
static enum st take_sizes(struct log_reader *r, struct sv v, struct err *e)
{
    enum { MOST = 4096 };
    int64_t *sizes = arena_array(r->a, int64_t, MOST);
    size_t n = 0;
    const char *text = "";
    if (v.n < 2 || v.p[0] != '[' || v.p[v.n - 1] != ']')
        return ST_OK;
    for (struct sv rest = {v.p + 1, v.n - 2}; sv_trim(rest).n && n < MOST; n++) {
        const char *comma = memchr(rest.p, ',', rest.n);
        const size_t k = comma ? (size_t)(comma - rest.p) : rest.n;
        if (!str_int64(sv_trim((struct sv){rest.p, k}), &sizes[n]) || sizes[n] < 1 ||
            sizes[n] >= 1 << 20)
            return no_value(r, FACT_GRAPH_SIZES, v, e);
        rest = after(rest, k + 1);
    }
    if (n == 0)
        return ST_OK;
    qsort(sizes, n, sizeof *sizes, order_int64);
    for (size_t i = 0; i < n; i++)
        text = arena_printf(r->a, "%s%s%lld", text, i ? " " : "", (long long)sizes[i]);
    return told(r, FACT_GRAPH_SIZES, sv_of(text), e);
}

static enum st take_compilation(struct log_reader *r, struct sv v, struct err *e)
{
    struct sv key, value;
    if (v.n < 2 || v.p[0] != '{')
        return ST_OK;
    for (struct sv rest = {v.p + 1, v.n - 2}; take_pair(&rest, ':', true, &key, &value);) {
        if (sv_eq(key, "cudagraph_mode"))
            TRY(take_mode(r, value, e));
        else if (sv_eq(key, "cudagraph_capture_sizes"))
            TRY(take_sizes(r, value, e));
    }
    return ST_OK;
}

static enum st take_engine(struct log_reader *r, struct sv rest, struct err *e)
{
    static const char with[] = " with config: ";
    struct sv key, value;
    const char *close = rest.n ? memchr(rest.p, ')', rest.n) : NULL;
    const char *config = close ? memmem(rest.p, rest.n, with, strlen(with)) : NULL;
    if (!config)
        return ST_OK; /* cut */
    TRY(told(r, FACT_VERSION, (struct sv){rest.p, (size_t)(close - rest.p)}, e));
    rest = after(rest, (size_t)(config - rest.p) + strlen(with));
    while (take_pair(&rest, '=', false, &key, &value)) {
        const enum server_fact_id id = id_of(key);
        if (sv_eq(key, "compilation_config"))
            TRY(take_compilation(r, value, e));
        else if (id < FACTS)
            TRY(told(r, id, plain(value), e));
    }
    return ST_OK;
}

/* What was asked for: a value may be of any kind here, and one that is no fact's is left. */
static enum st take_arguments(struct log_reader *r, struct sv rest, struct err *e)
{
    struct sv key, value;
    bool open;
    const struct sv inside = after(rest, 1);
    const size_t n = rest.n && rest.p[0] == '{' ? span_of(inside, 0, &open) : inside.n;
    if (n == inside.n) /* cut: its last value may be, too */
        return ST_OK;
    for (struct sv in = {inside.p, n}; take_pair(&in, ':', true, &key, &value);) {
        const enum server_fact_id id = id_of(key);
        if (id < FACTS && id != FACT_GRAPHS && id != FACT_GRAPH_SIZES &&
            value_of(r, id, plain(value)))
            TRY(keep(r, r->asked, id, plain(value), e));
    }
    return ST_OK;
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Digits, which may have commas between them. */
static struct sv take_digits(const struct log_reader *r, struct sv rest)
{
    char *digits = arena_alloc(r->a, rest.n < 32 ? rest.n + 1 : 32);
    size_t n = 0;
    for (size_t i = 0; i < rest.n && n < 31; i++) {
        const bool comma =
            rest.p[i] == ',' && i + 1 < rest.n && isdigit((unsigned char)rest.p[i + 1]);
        if (isdigit((unsigned char)rest.p[i]))
            digits[n++] = rest.p[i];
        else if (!comma)
            break;
    }
    return (struct sv){digits, n};
}

static enum st take_budget(struct log_reader *r, struct sv rest, struct err *e)
{
    return told(r, FACT_TOKEN_BUDGET, take_digits(r, rest), e);
}

static enum st take_kv_tokens(struct log_reader *r, struct sv rest, struct err *e)
{
    return told_least(r, FACT_KV_TOKENS, take_digits(r, rest), e);
}

static enum st take_blocks(struct log_reader *r, struct sv rest, struct err *e)
{
    return told_least(r, FACT_NUM_BLOCKS, take_digits(r, rest), e);
}

static enum st take_block_size(struct log_reader *r, struct sv rest, struct err *e)
{
    return told(r, FACT_BLOCK_SIZE, take_digits(r, rest), e);
}

static enum st take_async(struct log_reader *r, struct sv rest, struct err *e)
{
    const bool on = rest.n >= 7 && memcmp(rest.p, "enabled", 7) == 0;
    const bool off = rest.n >= 8 && memcmp(rest.p, "disabled", 8) == 0;
    return on || off ? told(r, FACT_ASYNC, on ? SV("true") : SV("false"), e) : ST_OK;
}

/* The name before `end`, which begins where the text does. */
static void take_backend(struct log_reader *r, struct sv rest, const char *end)
{
    const char *stop = rest.n ? memmem(rest.p, rest.n, end, strlen(end)) : NULL;
    char name[64];
    size_t n = 0;
    for (const char *p = rest.p; stop && p < stop; p++) {
        if (n == sizeof name || !(isalnum((unsigned char)*p) || *p == '_' || *p == ' '))
            return; /* another kind of backend */
        name[n++] = *p == ' ' ? '_' : *p;
    }
    if (n)
        told_also(r, FACT_ATTENTION, (struct sv){name, n});
}

static enum st take_enum_backend(struct log_reader *r, struct sv rest, struct err *e)
{
    (void)e;
    take_backend(r, rest, " backend.");
    return ST_OK;
}

static enum st take_named_backend(struct log_reader *r, struct sv rest, struct err *e)
{
    (void)e;
    take_backend(r, rest, " attention backend out of potential backends");
    take_backend(r, rest, " backend on V1 engine");
    return ST_OK;
}

static enum st count_iteration(struct log_reader *r, struct sv rest, struct err *e)
{
    (void)e;
    r->out->iterations += rest.n && isdigit((unsigned char)rest.p[0]);
    return ST_OK;
}

static enum st count_throughput(struct log_reader *r, struct sv rest, struct err *e)
{
    (void)rest;
    (void)e;
    r->out->throughputs++;
    return ST_OK;
}

/* What follows a mark, anywhere in a line. */
static const struct {
    const char *mark;
    enum st (*take)(struct log_reader *r, struct sv rest, struct err *e);
} marks[] = {
    {ENGINE, take_engine},
    {"non-default args: ", take_arguments},
    {"Chunked prefill is enabled with max_num_batched_tokens=", take_budget},
    {"Asynchronous scheduling is ", take_async},
    {"GPU KV cache size: ", take_kv_tokens},
    {"cache_config_info with initialization after num_gpu_blocks is: ", take_blocks},
    {"Setting attention block size to ", take_block_size},
    {"Using AttentionBackendEnum.", take_enum_backend},
    {"Using ", take_named_backend},
    {"Iteration(", count_iteration},
    {"Avg prompt throughput: ", count_throughput},
};

/* With --enable-log-requests and --enable-log-outputs a line holds a prompt or an answer, which may
 * say anything. */
static bool is_request(struct sv line)
{
    static const char *const signs[] = {"Received request ", "Generated response "};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (line.n && memmem(line.p, line.n, signs[i], strlen(signs[i])))
            return true;
    return false;
}

static enum st read_line(struct log_reader *r, struct sv line, struct err *e)
{
    if (is_request(line))
        return ST_OK;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const size_t n = strlen(marks[i].mark);
        const char *p = line.n >= n ? memmem(line.p, line.n, marks[i].mark, n) : NULL;
        if (p)
            TRY(marks[i].take(r, after(line, (size_t)(p - line.p) + n), e));
    }
    return ST_OK;
}

static void take_asked(struct log_reader *r)
{
    for (unsigned i = 0; i < FACTS; i++)
        if (!r->out->of[i].value)
            r->out->of[i] = r->asked[i];
}

enum st server_log_parse(struct arena *a, const char *path, struct sv text, struct server_log *out,
                         struct err *e)
{
    struct log_reader r = {.a = a, .out = out};
    *out = (struct server_log){.path = arena_str(a, path)};
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        const size_t n = end ? (size_t)(end - text.p) : text.n;
        r.line++;
        TRY(read_line(&r, sv_trim((struct sv){text.p, n}), e));
        text = after(text, end ? n + 1 : n);
    }
    if (!out->of[FACT_VERSION].value) {
        err_set(e, ST_INPUT, "%s: no line of a vLLM engine that starts", path);
        return err_hint(e, "the log must begin where the server does: \"%s...\"", ENGINE);
    }
    take_asked(&r);
    return ST_OK;
}

enum st server_log_read(struct arena *a, const char *path, struct server_log *out, struct err *e)
{
    struct gz_file f;
    TRY(gz_open(path, &f, e));
    const enum st st = server_log_parse(a, path, f.text, out, e);
    gz_close(&f);
    return st;
}

bool server_log_states(struct sv text)
{
    return text.n >= strlen(ENGINE) && memmem(text.p, text.n, ENGINE, strlen(ENGINE)) != NULL;
}

const char *server_log_beside(struct arena *a, const char *dir)
{
    static const char *const names[] = {"server.log", "server.log.gz", "iterations.log",
                                        "iterations.log.gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = fs_join(a, dir, names[i]);
        struct gz_file f;
        struct err ignored = {0};
        if (!fs_exists(path))
            continue;
        if (gz_open(path, &f, &ignored) != ST_OK)
            return path;
        const bool states = server_log_states(f.text);
        gz_close(&f);
        if (states)
            return path;
    }
    return NULL;
}

/* ---- what follows from facts ----------------------------------------------------------------- */

int64_t server_fact_count(const struct server_log *l, enum server_fact_id id)
{
    int64_t v = 0;
    return l->of[id].value && str_int64(sv_of(l->of[id].value), &v) ? v : 0;
}

double server_fact_number(const struct server_log *l, enum server_fact_id id)
{
    double v;
    return l->of[id].value && str_double(sv_of(l->of[id].value), &v) ? v : (double)NAN;
}

bool server_fact_is(const struct server_log *l, enum server_fact_id id, const char *value)
{
    return l->of[id].value && strcmp(l->of[id].value, value) == 0;
}

struct server_fact server_log_graphs(const struct server_log *l)
{
    if (server_fact_is(l, FACT_EAGER, "true"))
        return (struct server_fact){"none", l->of[FACT_EAGER].line};
    return l->of[FACT_GRAPHS];
}

int64_t server_log_graph_tokens(const struct server_log *l)
{
    const char *sizes = l->of[FACT_GRAPH_SIZES].value;
    const char *last = sizes ? strrchr(sizes, ' ') : NULL;
    int64_t v = 0;
    return sizes && str_int64(sv_of(last ? last + 1 : sizes), &v) ? v : 0;
}

int64_t server_log_blocks(struct arena *a, const struct server_log *l, int64_t block_size,
                          const char **why)
{
    const int64_t told = server_fact_count(l, FACT_NUM_BLOCKS);
    const int64_t tokens = server_fact_count(l, FACT_KV_TOKENS);
    *why = NULL;
    if (told || !tokens)
        return told;
    if (block_size <= 0)
        *why = "the size of a block is not known";
    else if (tokens % block_size)
        *why = arena_printf(a, "its %lld tokens are no whole blocks of %lld", (long long)tokens,
                            (long long)block_size);
    return *why ? 0 : tokens / block_size;
}
