#include "trace/kineto_ids.h"

#include <ctype.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"

enum { MOST_HELD = 1 << 20 }; /* 48 MiB; PyTorch writes the calls before and beside the work */

/* Numbers for handles begin where no driver's own counters come. */
static const uint32_t NUMBERED = UINT32_C(1) << 31;

/* ---- ranks ---- */

/* The digits at q as a number; -1 = none. */
static int32_t number_at(const char *q)
{
    const char *first = q;
    int32_t v = 0;
    for (; isdigit((unsigned char)*q) && q - first < 7; q++)
        v = v * 10 + (*q - '0');
    return q > first ? v : -1;
}

/* "1728-TP-1.trace.json.gz" of SGLang; -1 where a second degree is in the name. */
static int32_t rank_of_sglang(const char *name)
{
    static const char *const others[] = {"-DP-", "-PP-", "-EP-"};
    const char *tp = strstr(name, "-TP-");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(name, others[i]))
            return -1;
    return tp ? number_at(tp + 4) : -1;
}

/* The number behind the word "rank", as PyTorch's and vLLM's files are called; -1 = none. */
static int32_t rank_of_name(const char *name)
{
    for (const char *p = name; (p = strstr(p, "rank")); p += 4) {
        const char *q = p + 4;
        if (p > name && isalpha((unsigned char)p[-1]))
            continue;
        const int32_t v = number_at(q + (*q == '_' || *q == '-'));
        if (v >= 0)
            return v;
    }
    return rank_of_sglang(name);
}

/* The number of "[TP01] "; -1: none, or several ("[TP00-DP01] "), which are no rank of the world.
 */
static int32_t rank_of_prefix(struct sv prefix)
{
    int32_t v = -1;
    for (size_t i = 0; i < prefix.n; i++) {
        if (!isdigit((unsigned char)prefix.p[i]))
            continue;
        if (v >= 0)
            return -1;
        v = 0;
        size_t first = i;
        for (; i < prefix.n && isdigit((unsigned char)prefix.p[i]) && i - first < 7; i++)
            v = v * 10 + (prefix.p[i] - '0');
    }
    return v;
}

/* ---- groups and processes ---- */

/* A text without a number names a process; work of a GPU under one ("GPU") is of no rank. */
static struct sv prefix_of(const struct kineto_event *v)
{
    bool work = v->type == KINETO_KERNEL || v->type == KINETO_COPY || v->type == KINETO_SET;
    bool nameless = v->pid < 0 && v->pid_prefix.n && *v->pid_prefix.p != '[';
    return nameless && work ? (struct sv){0} : v->pid_prefix;
}

static uint32_t group_of(struct kineto_ids *x, const struct kineto_event *v)
{
    const struct sv prefix = prefix_of(v);
    bool same = x->has_group && x->last_prefix.n == prefix.n &&
                (!prefix.n || memcmp(x->last_prefix.p, prefix.p, prefix.n) == 0);
    if (same)
        return x->last_group;
    bool is_new;
    struct map_entry *at = map_put(&x->groups, prefix.n ? prefix.p : "", prefix.n, &is_new);
    if (is_new) {
        const bool named = v->pid < 0 && prefix.n && *prefix.p != '[';
        at->i = (int64_t)x->list.n;
        vec_push(&x->list, (struct kineto_group){.owner = x->dict->n_gpu_owners++,
                                                 .rank = rank_of_prefix(prefix),
                                                 .merged = prefix.n > 0 && !named,
                                                 .named = named,
                                                 .launcher = TRACE_NONE,
                                                 .host = TRACE_NONE,
                                                 .local = TRACE_NONE});
    }
    x->has_group = true;
    x->has_process = x->has_thread = false;
    x->last_prefix = (struct sv){at->key, prefix.n};
    x->last_group = (uint32_t)at->i;
    return x->last_group;
}

/* A process of this file alone: pids of several files may be equal. */
static uint32_t process_new(struct kineto_ids *x, int64_t pid)
{
    uint32_t process = trace_process_of(x->dict, UINT32_MAX, x->dict->n_processes);
    x->dict->processes[process].host = 0;
    x->dict->processes[process].pid = pid < 0 ? 0 : (uint32_t)pid;
    return process;
}

static uint32_t process_of(struct kineto_ids *x, uint32_t group, int64_t pid)
{
    if (x->has_process && x->last_group == group && x->last_pid == pid)
        return x->last_process;
    const int64_t key[] = {group, pid};
    bool is_new;
    struct map_entry *at = map_put(&x->hosts, (const char *)key, sizeof key, &is_new);
    if (is_new)
        at->i = process_new(x, pid);
    if (x->last_group == group) {
        x->has_process = true;
        x->has_thread = false;
        x->last_pid = pid;
        x->last_process = (uint32_t)at->i;
    }
    return (uint32_t)at->i;
}

uint32_t kineto_ids_known(struct kineto_ids *x, const struct kineto_event *v)
{
    const int64_t key[] = {group_of(x, v), v->pid};
    const struct map_entry *at = map_find(&x->hosts, (const char *)key, sizeof key);
    return at ? (uint32_t)at->i : TRACE_NONE;
}

/* ---- operations ---- */

/* PyTorch puts the work of a GPU under a pid that is its number. Under another one, which is no
 * process either, it is a GPU of another rank. */
static uint32_t owner_of(struct kineto_ids *x, uint32_t group, const struct kineto_event *v)
{
    const int64_t key[] = {group, v->pid};
    bool is_new;
    if (v->device == TRACE_NONE || v->pid < 0 || v->pid == (int64_t)v->device || v->process ||
        map_find(&x->hosts, (const char *)key, sizeof key))
        return x->list.p[group].owner;
    struct map_entry *at = map_put(&x->tracks, (const char *)key, sizeof key, &is_new);
    if (is_new)
        at->i = x->dict->n_gpu_owners++;
    return (uint32_t)at->i;
}

static uint32_t gpu_of(struct kineto_ids *x, struct kineto_group *g, uint32_t owner, uint32_t local)
{
    if (g->local != local || g->last_owner != owner) {
        bool apart = g->merged || x->rank >= 0 || owner != g->owner;
        g->local = local;
        g->last_owner = owner;
        g->number = trace_gpu_number(x->dict, owner, local, apart);
    }
    return g->number;
}

static enum st emit(struct kineto_ids *x, struct kineto_group *g, uint32_t owner, uint32_t process,
                    struct trace_sig *sig, struct trace_op *op, struct err *e)
{
    sig->process = process;
    sig->device = gpu_of(x, g, owner, sig->device);
    op->sig = trace_sig_id(x->dict, sig);
    return x->sink->op(x->sink->self, op, e);
}

/* Whether the pid of an operation that says no GPU is that GPU's number: no process has it. */
static bool is_gpu_pid(struct kineto_ids *x, uint32_t group, int64_t pid)
{
    const int64_t key[] = {group, pid};
    return pid >= 0 && pid < KINETO_DEVICES && !map_find(&x->hosts, (const char *)key, sizeof key);
}

static enum st release(struct kineto_ids *x, struct kineto_group *g, uint32_t process,
                       struct err *e)
{
    uint32_t at = g->first;
    g->first = g->last = 0;
    g->implied = g->implied || at;
    while (at) {
        struct kineto_held *h = &x->held.p[at - 1];
        struct trace_sig sig = x->pending.sigs[h->op.sig];
        at = h->next;
        x->n_waiting--;
        if (h->gpu_pid >= 0 && !is_gpu_pid(x, (uint32_t)(g - x->list.p), h->gpu_pid)) {
            sig.device = 0;
            x->unplaced++;
        }
        TRY(emit(x, g, h->owner, process, &sig, &h->op, e));
    }
    if (x->n_waiting == 0)
        vec_clear(&x->held);
    return ST_OK;
}

/* The one process that works, TRACE_NONE: none. *several: there are more. annotated: those with
 * annotations alone ("Spans") count too. */
static uint32_t only_process(const struct kineto_ids *x, bool annotated, bool *several)
{
    uint32_t only = TRACE_NONE;
    *several = false;
    for (size_t i = 0; i < x->list.n; i++) {
        const struct kineto_group *g = &x->list.p[i];
        uint32_t process = g->launcher != TRACE_NONE    ? g->launcher
                           : g->host_works || annotated ? g->host
                                                        : TRACE_NONE;
        *several |= process != TRACE_NONE && only != TRACE_NONE && process != only;
        only = process != TRACE_NONE ? process : only;
    }
    return only;
}

/* Work of a group without calls is its own process's; without one that of the only process, as
 * where pids are texts like "GPU 0". */
static enum st settle(struct kineto_ids *x, struct err *e)
{
    bool several;
    uint32_t only = only_process(x, false, &several);
    if (only == TRACE_NONE)
        only = only_process(x, true, &several);
    for (size_t i = 0; i < x->list.n; i++) {
        struct kineto_group *g = &x->list.p[i];
        if (!g->first)
            continue;
        const bool own = g->launcher != TRACE_NONE || g->host != TRACE_NONE;
        if (own)
            g->launcher = g->launcher != TRACE_NONE ? g->launcher : g->host;
        else
            g->launcher = several || only == TRACE_NONE ? process_new(x, 0) : only;
        x->unsettled |= !own && several;
        TRY(release(x, g, g->launcher, e));
    }
    return ST_OK;
}

static enum st hold(struct kineto_ids *x, struct kineto_group *g, uint32_t owner, int64_t gpu_pid,
                    const struct trace_sig *sig, struct trace_op *op, struct err *e)
{
    if (x->n_waiting == MOST_HELD)
        TRY(settle(x, e));
    op->sig = trace_sig_id(&x->pending, sig);
    vec_push(&x->held, ((struct kineto_held){.op = *op, .owner = owner, .gpu_pid = gpu_pid}));
    uint32_t at = (uint32_t)x->held.n;
    if (g->last)
        x->held.p[g->last - 1].next = at;
    else
        g->first = at;
    g->last = at;
    x->n_waiting++;
    return ST_OK;
}

enum st kineto_ids_op(struct kineto_ids *x, const struct kineto_event *v, struct trace_sig *sig,
                      struct trace_op *op, struct err *e)
{
    uint32_t group = group_of(x, v), owner = owner_of(x, group, v);
    bool by_pid = v->device == TRACE_NONE && is_gpu_pid(x, group, v->pid);
    sig->device = by_pid ? (uint32_t)v->pid : v->device; /* its pid is the GPU's number */
    if (sig->device == TRACE_NONE) {
        sig->device = 0;
        x->unplaced++;
    }
    if (v->process)
        return emit(x, &x->list.p[group], owner, process_of(x, group, v->process), sig, op, e);
    struct kineto_group *g = &x->list.p[group];
    if (g->launcher == TRACE_NONE)
        return hold(x, g, owner, by_pid ? v->pid : -1, sig, op, e);
    g->implied = true;
    return emit(x, g, owner, g->launcher, sig, op, e);
}

/* ---- threads, streams, correlations ---- */

static enum st learn(struct kineto_ids *x, struct kineto_group *g, uint32_t process,
                     enum kineto_type type, struct err *e)
{
    bool call = type == KINETO_RUNTIME || type == KINETO_DRIVER;
    bool works = call || type == KINETO_OPERATOR;
    if (g->host == TRACE_NONE || (works && !g->host_works)) {
        g->host = process;
        g->host_works = works;
    }
    if (!call || g->launcher == process)
        return ST_OK;
    g->shared = g->launcher != TRACE_NONE;
    if (g->shared)
        return ST_OK;
    g->launcher = process;
    return release(x, g, process, e);
}

static uint32_t numbered(struct map *m, const char *key, size_t n)
{
    bool is_new;
    struct map_entry *at = map_put(m, key, n, &is_new);
    if (is_new)
        at->i = (int64_t)(NUMBERED + (m->n - 1) % (NUMBERED - 1));
    return (uint32_t)at->i;
}

enum st kineto_ids_thread(struct kineto_ids *x, const struct kineto_event *v, uint32_t *out,
                          struct err *e)
{
    uint32_t group = group_of(x, v), process = process_of(x, group, v->pid);
    TRY(learn(x, &x->list.p[group], process, v->type, e));
    int64_t tid = v->tid_text.n ? numbered(&x->tids, v->tid_text.p, v->tid_text.n) : v->tid;
    if (!x->has_thread || x->last_tid != tid)
        x->last_thread = trace_thread_of(x->dict, process, (uint32_t)tid);
    x->has_thread = true;
    x->last_tid = tid;
    *out = x->last_thread;
    return ST_OK;
}

uint32_t kineto_ids_stream(struct kineto_ids *x, const struct kineto_event *v)
{
    if (v->stream_handle.n)
        return numbered(&x->handles, v->stream_handle.p, v->stream_handle.n);
    return v->has_stream || v->tid < 0 ? v->stream : (uint32_t)v->tid;
}

uint32_t kineto_ids_correlation(struct kineto_ids *x, uint64_t correlation)
{
    if (correlation <= UINT32_MAX)
        return (uint32_t)correlation;
    return numbered(&x->correlations, (const char *)&correlation, sizeof correlation);
}

/* ---- all of it ---- */

void kineto_ids_open(struct kineto_ids *x, const char *path, struct trace_dict *d,
                     const struct trace_sink *sink)
{
    *x = (struct kineto_ids){.dict = d,
                             .sink = sink,
                             .path = path,
                             .a = arena_new(),
                             .rank = rank_of_name(fs_base(path)),
                             .first_process = d->n_processes};
    map_init(&x->groups, x->a);
    map_init(&x->hosts, x->a);
    map_init(&x->tracks, x->a);
    map_init(&x->tids, x->a);
    map_init(&x->handles, x->a);
    map_init(&x->correlations, x->a);
    trace_dict_init(&x->pending);
}

void kineto_ids_close(struct kineto_ids *x)
{
    vec_free(&x->list);
    vec_free(&x->held);
    trace_dict_free(&x->pending);
    arena_free(&x->a);
}

/* The processes of a group whose operations do not say which of them launched them. */
static void mark_team(struct kineto_ids *x, size_t group)
{
    struct trace_dict *d = x->dict;
    d->n_teams++;
    for (uint32_t i = 0; i < x->hosts.n; i++) {
        int64_t key[2];
        memcpy(key, x->hosts.entries[i].key, sizeof key);
        if (key[0] == (int64_t)group)
            d->processes[x->hosts.entries[i].i].team = d->n_teams;
    }
}

static enum st take_rank(struct kineto_ids *x, uint32_t process, int32_t rank, struct err *e)
{
    struct trace_dict *d = x->dict;
    for (uint32_t i = 0; rank >= 0 && i < x->first_process; i++)
        if (d->processes[i].rank == rank) {
            err_set(e, ST_INPUT, "%s: rank %d is in two files", x->path, rank);
            return err_hint(e, "a folder is read as one trace with a file for each rank: name one "
                               "file, or move the others away");
        }
    d->processes[process].rank = rank;
    return ST_OK;
}

enum st kineto_ids_finish(struct kineto_ids *x, struct err *e)
{
    TRY(settle(x, e));
    for (size_t i = 0; i < x->list.n; i++) {
        const struct kineto_group *g = &x->list.p[i];
        uint32_t process = g->launcher != TRACE_NONE ? g->launcher : g->host;
        if (g->shared && g->implied)
            mark_team(x, i);
        if (g->named && g->launcher == TRACE_NONE && !g->host_works)
            continue;
        if (process != TRACE_NONE && (!g->merged || x->list.n > 1))
            TRY(take_rank(x, process, g->merged ? g->rank : x->rank, e));
    }
    if (x->unsettled)
        trace_note(x->dict, LOG_WARN,
                   "%s: several processes launch, and some operations are of none of them: of no "
                   "operator or region here",
                   fs_base(x->path));
    if (x->unplaced)
        trace_note(x->dict, LOG_WARN, "%s: %llu operation%s no GPU: counted for GPU 0",
                   fs_base(x->path), (unsigned long long)x->unplaced,
                   x->unplaced == 1 ? " says" : "s say");
    return ST_OK;
}
