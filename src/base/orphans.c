#include "base/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/vec.h"

struct pids {
    VEC(pid_t) list;
};

/* The parent in /proc/PID/stat, behind the name in brackets, which may hold anything; 0 = it is
 * over. */
static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static struct pids children(void)
{
    struct pids out = {0};
    DIR *d = opendir("/proc");
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            parent_of(entry->d_name) == getpid())
            vec_push(&out.list, (pid_t)strtol(entry->d_name, NULL, 10));
    if (d)
        closedir(d);
    return out;
}

struct orphans orphans_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct pids now = children();
    return (struct orphans){now.list.p, now.list.n};
}

static bool was_there(const struct orphans *o, pid_t pid)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->before[i] == pid)
            return true;
    return false;
}

/* A child that was not reaped keeps its pid: none of another process is signalled. */
static size_t end_children(const struct orphans *o)
{
    struct pids now = children();
    size_t ended = 0;
    for (size_t i = 0; i < now.list.n; i++) {
        pid_t pid = now.list.p[i];
        if (was_there(o, pid) || kill(pid, SIGKILL) != 0)
            continue;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        ended++;
    }
    vec_free(&now.list);
    return ended;
}

void orphans_end(struct orphans *o)
{
    while (end_children(o) > 0)
        ;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    mem_free(o->before);
    *o = (struct orphans){0};
}
