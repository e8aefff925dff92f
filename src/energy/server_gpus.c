#include "energy/server_gpus.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/proc_tree.h"
#include "base/vec.h"

/* A walk through /proc with 500 processes takes about 5 ms of a processor: 1 % of one. */
static const double LOOK_S = 0.5;

enum { WORDS = 160 };

/* Something that a look found and that spoils the energy: which GPU, and who; pid 0 = NVML did not
 * say who computes there, UNMEASURED = the server itself, on a GPU whose power is not read. */
enum { NOT_SAID = 0, UNMEASURED = -1 };
struct gpu_process {
    int gpu;
    int64_t pid;
};

typedef VEC(struct gpu_process) findings;

struct server_gpus {
    struct proc_tree *tree;
    struct board *all, *boards; /* of the machine; of the server */
    size_t n_all, n;
    bool contained;
    double interval_s;
    pthread_t thread;
    bool running, unwatched; /* unwatched: it could not be started */
    pthread_mutex_t lock;    /* of what follows; the thread looks without it */
    pthread_cond_t wake;
    bool stop;
    findings last, confirmed; /* of the look before; in two looks in a row */
    int64_t processes;
    char words[WORDS]; /* what the first that was confirmed is */
};

/* ---- one look -------------------------------------------------------------------------------- */

static bool has(const findings *f, const struct gpu_process *x)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->p[i].gpu == x->gpu && f->p[i].pid == x->pid)
            return true;
    return false;
}

static bool is_measured(const struct server_gpus *s, int gpu)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->boards[i].gpu == gpu)
            return true;
    return false;
}

/* Of one GPU: what is found there, and how many processes of the server. */
static int look_at(const struct server_gpus *s, const struct board *b, findings *found)
{
    int64_t pids[BOARD_PROCESSES];
    const bool measured = is_measured(s, b->gpu);
    const int n = board_processes(b, pids);
    int ours = 0;
    if (n < 0 || n > BOARD_PROCESSES) {
        vec_push(found, (struct gpu_process){b->gpu, NOT_SAID});
        return 0;
    }
    for (int i = 0; i < n; i++) {
        const bool of_tree = proc_tree_whose(s->tree, pids[i]) == PROC_OF_TREE;
        ours += of_tree;
        if (measured && !of_tree)
            vec_push(found, (struct gpu_process){b->gpu, pids[i]});
    }
    if (ours && !measured)
        vec_push(found, (struct gpu_process){b->gpu, UNMEASURED});
    return measured ? ours : 0;
}

static void name_finding(const struct server_gpus *s, const struct gpu_process *f, char out[WORDS])
{
    char name[64];
    const long long pid = f->pid;
    if (f->pid == NOT_SAID) {
        snprintf(out, WORDS, "NVML did not say who computed on GPU %d", f->gpu);
    } else if (f->pid == UNMEASURED) {
        snprintf(out, WORDS, "the server computed on GPU %d, too, whose power was not read",
                 f->gpu);
    } else if (proc_tree_whose(s->tree, f->pid) == PROC_ABSENT) {
        snprintf(out, WORDS, "pid %lld, which is not in /proc here", pid);
    } else {
        proc_tree_name(s->tree, f->pid, name);
        snprintf(out, WORDS, "%s (pid %lld)", *name ? name : "a process", pid);
    }
}

/* Keeps what the look before found, too. */
static void keep_confirmed(struct server_gpus *s, const findings *found)
{
    for (size_t i = 0; i < found->n; i++) {
        if (!has(&s->last, &found->p[i]) || has(&s->confirmed, &found->p[i]))
            continue;
        if (s->confirmed.n == 0)
            name_finding(s, &found->p[i], s->words);
        vec_push(&s->confirmed, found->p[i]);
    }
}

static void look(struct server_gpus *s)
{
    findings found = {0};
    int64_t ours = 0;
    proc_tree_walk(s->tree);
    for (size_t i = 0; i < s->n_all; i++)
        ours += look_at(s, &s->all[i], &found);
    pthread_mutex_lock(&s->lock);
    keep_confirmed(s, &found);
    s->processes = ours > s->processes ? ours : s->processes;
    vec_free(&s->last);
    s->last = found;
    pthread_mutex_unlock(&s->lock);
}

/* ---- looks over and over --------------------------------------------------------------------- */

static void *look_on(void *arg)
{
    struct server_gpus *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        const int64_t until = clock_mono_ns() + ns_from_s(s->interval_s);
        const struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
        if (pthread_cond_timedwait(&s->wake, &s->lock, &at) == 0)
            continue;
        pthread_mutex_unlock(&s->lock);
        look(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void server_gpus_begin(struct server_gpus *s)
{
    look(s);
    s->running = pthread_create(&s->thread, NULL, look_on, s) == 0;
    s->unwatched = !s->running;
}

static void end_looks(struct server_gpus *s)
{
    if (!s->running)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->running = false;
}

/* Processes: one on two GPUs is one. */
static int count_strangers(const findings *f)
{
    int n = 0;
    for (size_t i = 0; i < f->n; i++) {
        bool before = false;
        for (size_t k = 0; k < i; k++)
            before = before || f->p[k].pid == f->p[i].pid;
        n += f->p[i].pid > 0 && !before;
    }
    return n;
}

int server_gpus_strangers(struct server_gpus *s)
{
    pthread_mutex_lock(&s->lock);
    const int n = count_strangers(&s->confirmed);
    pthread_mutex_unlock(&s->lock);
    return n;
}

static const char *spoiled(struct arena *a, const struct server_gpus *s, int strangers)
{
    const struct gpu_process *first = s->confirmed.p;
    const char *where = "the server's GPUs";
    if (s->unwatched)
        return "no thread could be started that looks who else computes there";
    if (s->confirmed.n == 0)
        return NULL;
    if (first->pid <= 0)
        return arena_str(a, s->words);
    if (s->n == 1)
        where = arena_printf(a, "GPU %d", first->gpu);
    return arena_printf(a, "%d other process%s computed on %s: %s%s", strangers,
                        strangers == 1 ? "" : "es", where, s->words,
                        strangers == 1 ? "" : " and others");
}

static bool has_unconfirmed(const struct server_gpus *s)
{
    for (size_t i = 0; i < s->last.n; i++)
        if (!has(&s->confirmed, &s->last.p[i]))
            return true;
    return false;
}

struct server_gpus_seen server_gpus_end(struct arena *a, struct server_gpus *s)
{
    struct server_gpus_seen seen = {0};
    end_looks(s);
    look(s);
    if (has_unconfirmed(s)) {
        clock_sleep_until_ns(clock_mono_ns() + ns_from_s(s->interval_s));
        look(s);
    }
    seen.strangers = count_strangers(&s->confirmed);
    seen.processes = s->processes;
    seen.why = spoiled(a, s, seen.strangers);
    return seen;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* What NVML listed when it listed no process of the server. */
struct listing {
    int said, listed; /* GPUs that it answered for; processes */
    int64_t absent;   /* one of them that is not in /proc here; 0 = none */
};

static void find_boards(struct arena *a, struct server_gpus *s, struct listing *l)
{
    int64_t pids[BOARD_PROCESSES];
    s->boards = arena_array(a, struct board, s->n_all);
    for (size_t i = 0; i < s->n_all; i++) {
        const int n = board_processes(&s->all[i], pids);
        bool ours = false;
        l->said += n >= 0;
        for (int k = 0; k < n && n <= BOARD_PROCESSES; k++) {
            const enum proc_whose whose = proc_tree_whose(s->tree, pids[k]);
            ours = ours || whose == PROC_OF_TREE;
            l->listed++;
            if (whose == PROC_ABSENT)
                l->absent = pids[k];
        }
        if (ours)
            s->boards[s->n++] = s->all[i];
    }
}

static enum st tell_none(const struct server_gpus *s, int64_t pid, const struct listing *l,
                         struct err *e)
{
    const char *where = "run twinfer where the server's pids are the host's: on the host, or in a "
                        "container started with --pid=host";
    if (l->said == 0) {
        err_set(e, ST_DEVICE, "NVML does not list the processes that compute on a GPU");
        return err_hint(e, "%s", where);
    }
    if (l->absent) {
        err_set(e, ST_DEVICE,
                "NVML lists pid %lld, which is not in /proc here, and none of process %lld and "
                "its descendants: its pids are those of another namespace",
                (long long)l->absent, (long long)pid);
        return err_hint(e, "%s", where);
    }
    err_set(e, ST_DEVICE,
            "NVML lists neither process %lld nor a descendant of it on any GPU (processes of the "
            "server: %lld, GPUs: %zu, processes that NVML lists: %d)",
            (long long)pid, (long long)proc_tree_size(s->tree), s->n_all, l->listed);
    return err_hint(
        e, "%s",
        s->contained ? where : "the pid of the process that was started, when the server is up");
}

enum st server_gpus_open(struct arena *a, const struct server_gpus_params *p,
                         struct server_gpus **out, struct err *e)
{
    struct server_gpus *s = *out = mem_alloc(sizeof *s);
    struct listing l = {0};
    *s = (struct server_gpus){.interval_s = p->interval_s > 0 ? p->interval_s : LOOK_S,
                              .contained = proc_is_contained(p->proc)};
    pthread_condattr_t mono;
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, &mono);
    pthread_condattr_destroy(&mono);
    TRY(proc_tree_open(p->proc, p->pid, &s->tree, e));
    TRY(board_list(a, &s->all, &s->n_all, e));
    find_boards(a, s, &l);
    return s->n ? ST_OK : tell_none(s, p->pid, &l, e);
}

const struct board *server_gpus_boards(const struct server_gpus *s, size_t *n)
{
    *n = s->n;
    return s->boards;
}

bool server_gpus_contained(const struct server_gpus *s)
{
    return s->contained;
}

void server_gpus_close(struct server_gpus **s)
{
    if (!*s)
        return;
    end_looks(*s);
    vec_free(&(*s)->last);
    vec_free(&(*s)->confirmed);
    proc_tree_close(&(*s)->tree);
    pthread_mutex_destroy(&(*s)->lock);
    pthread_cond_destroy(&(*s)->wake);
    mem_free(*s);
    *s = NULL;
}
