#include "base/map_guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/str.h"

/* Never freed, as the handler may read it at any moment: a removed one is used again. */
struct guarded {
    struct guarded *next;
    atomic_uintptr_t begin; /* 0 = removed */
    size_t n;
    char path[512]; /* a longer one is cut */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct guarded *) all;
static struct sigaction before;

static const struct guarded *find(uintptr_t address)
{
    for (const struct guarded *g = atomic_load(&all); g; g = g->next) {
        uintptr_t begin = atomic_load(&g->begin);
        if (begin && address >= begin && address - begin < g->n)
            return g;
    }
    return NULL;
}

static void say(const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        ssize_t put = write(STDERR_FILENO, text, n);
        if (put <= 0)
            return;
        text += put;
        n -= (size_t)put;
    }
}

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const struct guarded *g = find((uintptr_t)info->si_addr);
    if (!g) { /* of somebody else's: the access is repeated, and meets what was there before */
        sigaction(sig, &before, NULL);
        return;
    }
    say("twinfer: ");
    say(g->path);
    say(" became shorter while it was read\n  hint: run again when nothing writes to it\n");
    _Exit(err_exit_code(ST_INPUT));
}

static void install(void)
{
    struct sigaction sa = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &sa, &before);
}

void map_guard_add(const void *p, size_t n, const char *path)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    struct guarded *g = atomic_load(&all);
    while (g && atomic_load(&g->begin))
        g = g->next;
    const bool fresh = !g;
    if (fresh) {
        g = mem_alloc(sizeof *g);
        g->next = atomic_load(&all);
    }
    snprintf(g->path, sizeof g->path, "%s", path);
    str_make_printable(g->path, strlen(g->path), false);
    g->n = n;
    atomic_store(&g->begin, (uintptr_t)p);
    if (fresh)
        atomic_store(&all, g);
    pthread_mutex_unlock(&lock);
}

void map_guard_remove(const void *p)
{
    pthread_mutex_lock(&lock);
    for (struct guarded *g = atomic_load(&all); g; g = g->next)
        if (atomic_load(&g->begin) == (uintptr_t)p)
            atomic_store(&g->begin, 0);
    pthread_mutex_unlock(&lock);
}
