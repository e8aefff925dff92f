/* Starts the process that replays (worker.h), again where it must, and reads its answers. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "replay/answers.h"
#include "replay/place.h"
#include "replay/replay.h"
#include "replay/worker.h"
#include "text/json.h"

enum { ATTEMPTS = 16 };

struct capsule_run {
    struct arena *a;
    const struct replay_capsule_params *p;
    struct worker_order order;
    struct replay_report *out;
    struct progress progress;
    int64_t began_ns;
    const char *taken; /* address that was not free */
    bool done;
    bool is_late; /* what was begun did not end in its time */
    bool is_over; /* nor did all of it */
    bool *tried;  /* [kernels.n] in front; NULL = none yet */
    /* begun and not ended; -1 = none: of what is timed, or loop of what is held */
    int64_t at_class;
    int64_t at_repeated; /* a class that is repeated in the region */
    bool at_nodes;       /* or times inside the region are taken */
    int64_t again_for;   /* the class for which order.again was set; -1 = the region */
};

/* ---- answers --------------------------------------------------------------------------------- */

static int64_t get_int(const struct node *map, const char *key)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_INT ? n->i : 0;
}

static double get_double(const struct node *map, const char *key)
{
    const struct node *n = node_find(map, key);
    return !n ? NAN : n->kind == NODE_INT ? (double)n->i : n->kind == NODE_FLOAT ? n->f : NAN;
}

static const char *get_text(const struct node *map, const char *key)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_STR ? n->s.p : NULL;
}

static void take_timing(struct capsule_run *r, const struct node *n, struct timing *out)
{
    fields_read_loose(r->a, &worker_timing_fields, n, out);
}

static void take_loaded(struct capsule_run *r, const struct node *n)
{
    struct replay_report *out = r->out;
    const struct node *list = node_find(n, "classes");
    if (out->loaded || !list || list->kind != NODE_LIST)
        return;
    out->loaded = true;
    out->gpu = get_text(n, "gpu");
    out->uuid = get_text(n, "uuid");
    out->region.app_nodes_s = get_double(n, "app_s");
    out->region.app_wall_s = get_double(n, "app_wall_s");
    const struct node *graphs = node_find(n, "graphs");
    out->region.graphs = graphs && graphs->kind == NODE_BOOL && graphs->b;
    out->kernels.n = list->n;
    out->kernels.p = arena_array(r->a, struct replay_kernel, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *k = list->items[i];
        out->kernels.p[i] = (struct replay_kernel){.name = get_text(k, "name"),
                                                   .mangled = get_text(k, "mangled"),
                                                   .number = get_int(k, "class"),
                                                   .tier = (int)get_int(k, "tier"),
                                                   .count = get_int(k, "count"),
                                                   .first = get_int(k, "first"),
                                                   .sets = get_int(k, "sets"),
                                                   .bytes = get_int(k, "bytes"),
                                                   .app_s = get_double(k, "app_s"),
                                                   .in_context_s = NAN,
                                                   .as_launched_s = NAN,
                                                   .alone_s = NAN};
        const struct node *chosen = node_find(k, "chosen");
        if (chosen && chosen->kind == NODE_BOOL && !chosen->b)
            out->kernels.p[i].why = "it is not among replay.classes";
    }
}

static bool is_in_front(const struct capsule_run *r, int64_t class)
{
    for (size_t i = 0; i < r->order.n_in_front; i++)
        if (r->order.in_front[i] == class)
            return true;
    return false;
}

static void take_class(struct capsule_run *r, const struct node *n)
{
    const int64_t i = get_int(n, "class");
    r->at_class = -1;
    if (i < 0 || (size_t)i >= r->out->kernels.n)
        return;
    struct replay_kernel *k = &r->out->kernels.p[i];
    take_timing(r, node_find(n, "warm"), &k->warm);
    take_timing(r, node_find(n, "cold"), &k->cold);
    k->sets_s = get_double(n, "sets_s");
    k->in_front = is_in_front(r, i);
    r->order.from_class = i + 1;
}

static void take_repeated(struct capsule_run *r, const struct node *n)
{
    const int64_t i = get_int(n, "class");
    r->at_repeated = -1;
    if (i >= 0 && (size_t)i < r->out->kernels.n)
        take_timing(r, node_find(n, "timing"), &r->out->kernels.p[i].repeated);
}

static double seconds(const struct node *x)
{
    return x->kind == NODE_FLOAT ? x->f : x->kind == NODE_INT ? (double)x->i : NAN;
}

static void take_alone(struct capsule_run *r, const struct node *list)
{
    for (uint32_t i = 0; list->kind == NODE_LIST && i < list->n && i < r->out->kernels.n; i++)
        r->out->kernels.p[i].alone_s = seconds(list->items[i]);
}

static void take_nodes(struct capsule_run *r, const struct node *n)
{
    const struct node *list = node_find(n, "classes");
    r->out->region.nodes_s = get_double(n, "sum_s");
    r->out->region.why_no_nodes = get_text(n, "why");
    for (uint32_t i = 0; list && list->kind == NODE_LIST && i < list->n && i < r->out->kernels.n;
         i++)
        r->out->kernels.p[i].in_context_s = seconds(list->items[i]);
}

static void take_as_launched(struct capsule_run *r, const struct node *n)
{
    const struct node *list = node_find(n, "classes");
    r->out->region.as_launched_s = get_double(n, "sum_s");
    r->out->region.why_not_as_launched = get_text(n, "why");
    for (uint32_t i = 0; list && list->kind == NODE_LIST && i < list->n && i < r->out->kernels.n;
         i++)
        r->out->kernels.p[i].as_launched_s = seconds(list->items[i]);
}

static void take_conditions(const struct node *n, struct gpu_conditions *c)
{
    c->samples += get_int(n, "samples");
    c->sm_mhz = get_double(n, "sm_mhz");
    c->sm_mhz_low = get_double(n, "sm_mhz_low");
    c->memory_mhz = get_double(n, "memory_mhz");
    c->power_w = get_double(n, "power_w");
    c->celsius_high = get_double(n, "celsius_high");
    c->reasons |= (unsigned long long)get_int(n, "reasons");
}

static void take_held(struct capsule_run *r, const struct node *n)
{
    const int64_t i = get_int(n, "loop");
    const struct node *under = node_find(n, "under");
    r->at_class = -1;
    if (i < 0 || (size_t)i >= r->out->n_held)
        return;
    take_timing(r, node_find(n, "timing"), &r->out->held[i].time);
    if (under)
        take_conditions(under, &r->out->held[i].under);
    r->order.from_loop = i + 1;
}

static void take_error(const struct node *n, struct err *e)
{
    const struct node *list = node_find(n, "causes");
    const int64_t status = get_int(n, "status");
    const char *hint = get_text(n, "hint");
    const bool known = status <= ST_USAGE && status >= ST_IO;
    err_clear(e);
    for (uint32_t i = list && list->kind == NODE_LIST ? list->n : 0; i-- > 0;) {
        const char *cause = list->items[i]->kind == NODE_STR ? list->items[i]->s.p : "?";
        if (e->n == 0)
            err_set(e, known ? (enum st)status : ST_DEVICE, "%s", cause);
        else
            err_add(e, "%s", cause);
    }
    if (e->n == 0)
        err_set(e, ST_DEVICE, "the process that replays says no more");
    if (hint)
        err_hint(e, "%s", hint);
}

static enum st take_line(struct capsule_run *r, struct sv line, struct err *e)
{
    struct node *map;
    TRY(json_parse(r->a, "the replay's answer", line, NULL, &map, e));
    for (uint32_t i = 0; map->kind == NODE_MAP && i < map->n; i++) {
        const char *key = map->pairs[i].key.p;
        struct node *n = map->pairs[i].value;
        if (strcmp(key, "taken") == 0) {
            r->taken = n->kind == NODE_STR ? n->s.p : "?";
        } else if (strcmp(key, "loaded") == 0) {
            take_loaded(r, n);
        } else if (strcmp(key, "verified") == 0) {
            r->out->verified = n;
            r->out->wrong_bytes = get_int(n, "wrong_bytes");
            r->out->verdict = get_text(n, "verdict");
            r->order.verify = false;
        } else if (strcmp(key, "region") == 0) {
            take_timing(r, n, &r->out->region.time);
            r->order.region_s = r->out->region.time.median_s;
        } else if (strcmp(key, "begin") == 0) {
            r->at_class = n->kind == NODE_INT ? n->i : -1;
        } else if (strcmp(key, "class") == 0) {
            take_class(r, n);
        } else if (strcmp(key, "begin_repeated") == 0) {
            r->at_repeated = n->kind == NODE_INT ? n->i : -1;
        } else if (strcmp(key, "repeated") == 0) {
            take_repeated(r, n);
        } else if (strcmp(key, "begin_nodes") == 0) {
            r->at_nodes = true;
        } else if (strcmp(key, "held") == 0) {
            take_held(r, n);
        } else if (strcmp(key, "nodes") == 0) {
            take_nodes(r, n);
        } else if (strcmp(key, "as_launched") == 0) {
            take_as_launched(r, n);
        } else if (strcmp(key, "alone") == 0) {
            take_alone(r, n);
        } else if (strcmp(key, "extracted") == 0) {
            r->out->extracted = n;
        } else if (strcmp(key, "done") == 0) {
            r->done = true;
            r->at_nodes = false;
            take_conditions(n, &r->out->under);
        } else if (strcmp(key, "error") == 0) {
            take_error(n, e);
            return e->st;
        }
    }
    return ST_OK;
}

/* ---- the process ----------------------------------------------------------------------------- */

/* What its settings ask for is not counted against a limit: samples that are long by wish. The
 * times of a class are up to five: warm, cold with the writes alone, repeated, its sets. */
enum { TIMES_OF_CLASS = 5 };

static double asked_s(const struct capsule_run *r, double times)
{
    return times * (double)r->order.samples * r->order.sample_s;
}

static int64_t after_s(int64_t from_ns, double s)
{
    return s < 1e9 ? from_ns + ns_from_s(s) : INT64_MAX;
}

/* Until when all must be over. */
static int64_t whole_until_ns(const struct capsule_run *r)
{
    const double limit_s = r->p->limits.total_s;
    const double loops = r->out->n_held ? (double)r->out->n_held + 1 : 0;
    if (limit_s <= 0)
        return INT64_MAX;
    return after_s(r->began_ns, limit_s + loops * r->order.hold_s +
                                    asked_s(r, TIMES_OF_CLASS * (double)(1 + r->out->kernels.n)));
}

/* Until when what was begun must have ended. */
static int64_t step_until_ns(const struct capsule_run *r)
{
    const double limit_s = r->p->limits.kernel_s;
    if (limit_s <= 0 || (r->at_class < 0 && r->at_repeated < 0 && !r->at_nodes))
        return INT64_MAX;
    return after_s(clock_mono_ns(), limit_s + asked_s(r, TIMES_OF_CLASS) +
                                        (r->order.hold ? 2 * r->order.hold_s : 0));
}

static void show_progress(void *self)
{
    struct capsule_run *r = self;
    const bool hold = r->order.hold;
    const struct replay_kernels *k = &r->out->kernels;
    const int64_t at = r->at_class >= 0 ? r->at_class : r->at_repeated;
    const char *name = !r->out->loaded                        ? "loading the capsule"
                       : r->order.verify                      ? "verifying"
                       : r->at_nodes                          ? "inside the region"
                       : hold || at < 0 || (size_t)at >= k->n ? NULL
                                                              : k->p[at].name;
    char note[80];
    snprintf(note, sizeof note, "%s", name ? name : "");
    r->progress.total = (int64_t)(hold ? r->out->n_held : k->n);
    progress_at(&r->progress, hold ? r->order.from_loop : r->order.from_class, name ? note : NULL);
}

/* Reads until it ends. */
static enum st read_answers(struct capsule_run *r, struct process *p, struct err *e)
{
    struct answers a = {.p = p, .stop = r->p->limits.stop, .tick = show_progress, .self = r};
    struct sv line;
    enum st st = ST_OK;
    enum answer now;
    a.until_ns = whole_until_ns(r);
    a.step_until_ns = INT64_MAX;
    while ((now = answers_next(&a, &line)) == ANSWER_LINE) {
        if (st == ST_OK) /* the rest is read and dropped: the process must not block */
            st = take_line(r, line, e);
        a.until_ns = whole_until_ns(r);
        a.step_until_ns = step_until_ns(r);
    }
    answers_close(&a);
    if (now == ANSWER_END)
        return st;
    err_clear(e);
    if (now == ANSWER_STOPPED)
        return err_set(e, ST_INTERRUPTED, "interrupted");
    if (now == ANSWER_STEP_LATE) {
        r->is_late = true;
        return err_set(e, ST_DEVICE, "it does not end within %g s", r->p->limits.kernel_s);
    }
    r->is_over = true;
    err_set(e, ST_DEVICE, "the replay does not end within %g s", r->p->limits.total_s);
    return err_hint(e, "replay.timeout_s=0 waits for ever");
}

static enum st how_it_ended(const struct process *p, struct err *e)
{
    if (WIFSIGNALED(p->status))
        return err_set(e, ST_DEVICE, "the process that replays was ended by signal %d (%s)",
                       WTERMSIG(p->status), strsignal(WTERMSIG(p->status)));
    return err_set(e, ST_DEVICE, "the process that replays ended with code %d and no answer",
                   WEXITSTATUS(p->status));
}

static enum st run_once(struct capsule_run *r, struct err *e)
{
    struct buf order = {0};
    struct process p;
    json_write(&order, fields_node(r->a, &worker_order_fields, &r->order), 0, false);
    const char *argv[] = {"/proc/self/exe", WORKER_FLAG, buf_str(&order), NULL};
    const struct process_params params = {.argv = argv, .out = PROCESS_PIPE, .dies_with_us = true};
    r->taken = NULL;
    r->done = r->is_late = r->at_nodes = false;
    r->at_class = r->at_repeated = -1;
    const int error = process_start(&p, &params);
    buf_free(&order);
    if (error)
        return err_set(e, ST_IO, "cannot start the process that replays: %s", strerror(error));
    enum st st = read_answers(r, &p, e);
    process_end(&p);
    if (st == ST_OK && !r->done && !r->taken)
        st = how_it_ended(&p, e);
    return st;
}

/* First without random addresses. Where some are taken so, again and again with a layout drawn
 * anew. */
static enum st run_placed(struct capsule_run *r, struct err *e)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        place_randomise(i > 0);
        TRY(run_once(r, e));
        if (!r->taken)
            return ST_OK;
        log_debug("%s is taken; trying again", r->taken);
    }
    err_set(e, ST_DEVICE,
            "the capsule's addresses cannot be had: in %d processes something lay at %s", ATTEMPTS,
            r->taken);
    return err_hint(e, "log.level=debug names each; another machine or driver has other addresses");
}

/* The class that failed alone, or whose loop did; -1 = none, or several. */
static int64_t failed_class(const struct capsule_run *r)
{
    if (r->at_class < 0 || r->order.dispatch >= 0)
        return -1;
    if (!r->order.hold)
        return (size_t)r->at_class < r->out->kernels.n ? r->at_class : -1;
    return r->at_class >= 1 && (size_t)r->at_class <= r->order.n_alone
               ? r->order.alone[r->at_class - 1]
               : -1;
}

/* Alone, but behind what comes before it: an index that it reads is there then. */
static bool try_in_front(struct capsule_run *r, const struct err *e)
{
    const int64_t class = failed_class(r);
    const size_t n = r->out->kernels.n;
    if (class < 0 || (size_t) class >= n || e->st != ST_DEVICE)
        return false;
    if (!r->tried)
        r->tried = arena_array(r->a, bool, n);
    if (r->tried[class] || is_in_front(r, class))
        return false;
    r->tried[class] = true;
    log_info("%s: the first of it is repeated, behind all before it", err_cause(e, e->n - 1));
    int64_t *list = arena_array(r->a, int64_t, r->order.n_in_front + 1);
    for (size_t i = 0; i < r->order.n_in_front; i++)
        list[i] = r->order.in_front[i];
    list[r->order.n_in_front++] = class;
    r->order.in_front = list;
    if (r->order.hold)
        r->order.from_loop = r->at_class;
    else
        r->order.from_class = r->at_class;
    return true;
}

/* A region that counts in its memory runs a few times and then out of it: once more, with the
 * memory put back between samples. */
static bool try_again(struct capsule_run *r, const struct err *e)
{
    const bool repeats = r->order.time || r->order.hold;
    if (r->order.again || !repeats || !r->out->loaded || r->order.verify ||
        r->order.dispatch >= 0 || e->st != ST_DEVICE)
        return false;
    log_info("%s: from here on memory is put back between samples", err_cause(e, e->n - 1));
    r->order.again = true;
    r->again_for = failed_class(r);
    if (r->order.n_in_front && r->order.in_front[r->order.n_in_front - 1] == r->again_for)
        r->order.n_in_front--; /* it counts itself: in turn, and put back */
    return true;
}

/* What was tried for a class that fails all the same does not stay for the others. */
static void take_back_tries(struct capsule_run *r)
{
    const int64_t class = failed_class(r);
    if (r->order.again && class >= 0 && r->again_for == class)
        r->order.again = false;
    if (r->order.n_in_front && r->order.in_front[r->order.n_in_front - 1] == class)
        r->order.n_in_front--;
}

/* Whether to go on after a loop that fails alone. The region's, loop 0, must run. */
static bool skip_loop(struct capsule_run *r, const struct err *e)
{
    if (r->at_class < 1 || (size_t)r->at_class >= r->out->n_held || e->st != ST_DEVICE)
        return false;
    struct replay_held *h = &r->out->held[r->at_class];
    h->why = arena_printf(r->a, "it fails alone: %s", err_cause(e, e->n - 1));
    take_back_tries(r);
    log_warn("loop %lld: %s", (long long)r->at_class, h->why);
    r->order.from_loop = r->at_class + 1;
    return true;
}

/* Whether to go on after a class that fails alone, without it. */
static bool skip_class(struct capsule_run *r, const struct err *e)
{
    if (r->order.hold || r->at_class < 0 || (size_t)r->at_class >= r->out->kernels.n ||
        e->st != ST_DEVICE || r->order.dispatch >= 0)
        return false;
    struct replay_kernel *k = &r->out->kernels.p[r->at_class];
    k->why = arena_printf(r->a, "it fails alone: %s", err_cause(e, e->n - 1));
    log_warn("%.80s: %s", k->name, k->why);
    take_back_tries(r);
    r->order.from_class = r->at_class + 1;
    return true;
}

/* Repeated in its places, a class may leave what those behind it fail on: its times alone stay. */
static bool skip_repeated(struct capsule_run *r, const struct err *e)
{
    if (r->at_repeated < 0 || (size_t)r->at_repeated >= r->out->kernels.n || e->st != ST_DEVICE)
        return false;
    log_warn("%.80s: not repeated inside the region: %s", r->out->kernels.p[r->at_repeated].name,
             err_cause(e, e->n - 1));
    return true;
}

/* All kinds are measured when times inside the region are taken. */
static bool skip_nodes(struct capsule_run *r, const struct err *e)
{
    struct replay_region *region = &r->out->region;
    if (!r->at_nodes || e->st != ST_DEVICE)
        return false;
    const char *why = arena_printf(r->a, "taking them fails: %s", err_cause(e, e->n - 1));
    log_warn("times inside the region: %s", why);
    if (!isfinite(region->nodes_s) && !region->why_no_nodes)
        region->why_no_nodes = why;
    else if (!isfinite(region->as_launched_s) && !region->why_not_as_launched)
        region->why_not_as_launched = why;
    r->order.from_class = (int64_t)r->out->kernels.n;
    return true;
}

/* The limit of the whole came: what was measured until then stays. */
static bool leave_rest(struct capsule_run *r, const struct err *e)
{
    struct replay_kernels *k = &r->out->kernels;
    if (!r->is_over || r->order.hold || r->out->region.time.n == 0)
        return false;
    log_warn("%s: the rest is left out", err_cause(e, 0));
    for (size_t i = (size_t)r->order.from_class; i < k->n; i++)
        if (!k->p[i].why && k->p[i].warm.n == 0)
            k->p[i].why = "the limit of the replay came before (replay.timeout_s)";
    if (!isfinite(r->out->region.nodes_s) && !r->out->region.why_no_nodes)
        r->out->region.why_no_nodes = "the limit of the replay came before (replay.timeout_s)";
    return true;
}

/* Goes on after what fails alone, without it. */
static enum st run_all(struct capsule_run *r, struct err *e)
{
    for (;;) {
        if (run_placed(r, e) == ST_OK)
            return ST_OK;
        const bool retry = !r->is_over && !r->is_late && r->at_repeated < 0 && !r->at_nodes &&
                           (try_in_front(r, e) || try_again(r, e));
        if (leave_rest(r, e) || skip_nodes(r, e)) {
            err_clear(e);
            return ST_OK;
        }
        if (r->is_over || !(retry || skip_repeated(r, e) || skip_loop(r, e) || skip_class(r, e)))
            return e->st;
        err_clear(e);
    }
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static struct worker_order order_of(struct arena *a, const struct replay_capsule_params *p)
{
    return (struct worker_order){
        .dir = p->dir,
        .gpu = p->gpu,
        .trial = p->task == REPLAY_TRIAL,
        .verify = p->task == REPLAY_VERIFY || p->task == REPLAY_BOTH,
        .time = p->task == REPLAY_TIME || p->task == REPLAY_BOTH,
        .hold = p->task == REPLAY_HOLD,
        .classes = arena_copy(a, p->classes.items, p->classes.n * sizeof *p->classes.items),
        .n_classes = p->classes.n,
        .hold_s = p->hold_s,
        .alone = arena_copy(a, p->alone, p->n_alone * sizeof *p->alone),
        .n_alone = p->n_alone,
        .pooled = arena_copy(a, p->pooled, p->n_pooled * sizeof *p->pooled),
        .n_pooled = p->n_pooled,
        .in_front = arena_copy(a, p->in_front, p->n_in_front * sizeof *p->in_front),
        .n_in_front = p->n_in_front,
        .streams = p->order == REPLAY_STREAMS,
        .cold = p->cold,
        .repeated = p->repeated,
        .samples = p->timer.samples,
        .sample_s = p->timer.sample_s,
        .region_runs = p->region_runs,
        .tolerance = p->tolerance,
        .dtype = p->dtype,
        .dispatch = p->dispatch,
        .region_s = NAN,
        .extract = p->task == REPLAY_EXTRACT ? p->extract : NULL};
}

enum st replay_trial(struct arena *a, const char *dir, int gpu, const struct replay_limits *limits,
                     const char **fault, struct err *e)
{
    const struct replay_capsule_params p = {
        .dir = dir, .task = REPLAY_TRIAL, .gpu = gpu, .limits = *limits, .dispatch = -1};
    struct replay_report out;
    *fault = NULL;
    if (replay_capsule(a, &p, &out, e) == ST_OK)
        *fault = out.fault;
    return e->st;
}

/* A region that fails is what a trial is there to find. */
static enum st judge_trial(struct capsule_run *r, struct err *e)
{
    struct buf text = {0};
    if (!r->out->loaded || e->st != ST_DEVICE)
        return e->st;
    for (int i = 0; err_cause(e, i); i++)
        buf_printf(&text, "%s%s", i ? ": " : "", err_cause(e, i));
    r->out->fault = arena_str(r->a, buf_str(&text));
    buf_free(&text);
    err_clear(e);
    return ST_OK;
}

enum st replay_capsule(struct arena *a, const struct replay_capsule_params *p,
                       struct replay_report *out, struct err *e)
{
    struct capsule_run r = {.a = a, .p = p, .order = order_of(a, p), .out = out, .again_for = -1};
    *out = (struct replay_report){0};
    if (p->task == REPLAY_HOLD) {
        out->n_held = 1 + p->n_alone + (p->n_pooled > 0);
        out->held = arena_array(a, struct replay_held, out->n_held);
    }
    out->region.nodes_s = out->region.app_nodes_s = out->region.app_wall_s = NAN;
    out->region.as_launched_s = NAN;
    r.began_ns = clock_mono_ns();
    progress_begin(&r.progress, p->task == REPLAY_HOLD ? "energy" : "replay",
                   p->task == REPLAY_HOLD ? "loops" : "kernels", 0);
    enum st st = p->task == REPLAY_TRIAL ? run_placed(&r, e) : run_all(&r, e);
    progress_end(&r.progress);
    if (p->task == REPLAY_TRIAL)
        return st == ST_OK ? ST_OK : judge_trial(&r, e);
    return st == ST_OK && p->task == REPLAY_EXTRACT
               ? replay_trial(a, p->extract, (int)p->gpu, &p->limits, &out->fault, e)
               : st;
}
