#include "base/partial.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/vec.h"

static const char prefix[] = ".partial-";

bool partial_is_name(const char *name)
{
    return strncmp(name, prefix, sizeof prefix - 1) == 0;
}

/* ---- making ---------------------------------------------------------------------------------- */

static bool same_file(const char *path, int fd)
{
    struct stat s, t;
    return lstat(path, &s) == 0 && fstat(fd, &t) == 0 && s.st_dev == t.st_dev &&
           s.st_ino == t.st_ino;
}

/* False when the new folder was taken for a dead one and removed before it was locked. */
static bool hold(struct partial *p)
{
    p->lock = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (p->lock < 0)
        return errno != ENOENT;
    if (flock(p->lock, LOCK_SH | LOCK_NB) == 0)
        return same_file(p->path, p->lock);
    bool remover = errno == EWOULDBLOCK; /* else: no locks on this file system */
    close(p->lock);
    p->lock = -1;
    return !remover;
}

enum st partial_make(struct arena *a, const char *final_dir, struct partial *out, struct err *e)
{
    *out = (struct partial){.lock = -1};
    char *parent = fs_dir(a, final_dir);
    if (fs_mkdirs(parent, e) != ST_OK)
        return err_hint(e, "choose a writable place with out=");
    const char *name = fs_base(final_dir);
    for (int i = 0;; i++) {
        out->path = arena_printf(a, i ? "%s/%s%s-%ld.%d" : "%s/%s%s-%ld", parent, prefix, name,
                                 (long)getpid(), i);
        if (mkdir(out->path, 0777) == 0) {
            if (hold(out))
                return ST_OK;
            partial_release(out);
        } else if (errno != EEXIST) {
            err_errno(e, false, "cannot create folder %s", out->path);
            out->path = NULL;
            return err_hint(e, "choose a writable place with out=");
        }
    }
}

void partial_release(struct partial *p)
{
    if (p->lock >= 0)
        close(p->lock);
    *p = (struct partial){.lock = -1};
}

void partial_discard(struct partial *p)
{
    struct err quiet = {0};
    if (p->path) {
        const char *path = p->path;
        bool removed = fs_remove_tree(path, &quiet) == ST_OK;
        partial_release(p);
        if (!removed) /* looking into it takes a descriptor, and the lock may have had the last */
            fs_remove_tree(path, &quiet);
    }
}

/* ---- ownership ----------------------------------------------------------------------------- */

/* File systems whose writers are all processes of this kernel: there its locks are conclusive. */
static bool kernel_sees_all(int fd)
{
    static const unsigned long local[] = {
        0xef53,     /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683e, /* btrfs */
        0x01021994, /* tmpfs */
        0x858458f6, /* ramfs */
        0x794c7630, /* overlayfs */
        0x2fc12fc1, /* zfs */
        0xf2f52010, /* f2fs */
        0xca451a4e, /* bcachefs */
        0x3153464a, /* jfs */
    };
    struct statfs s;
    if (fstatfs(fd, &s) != 0)
        return false;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (((unsigned long)s.f_type & 0xffffffff) == local[i])
            return true;
    return false;
}

/* Seconds since that process started; negative when it cannot be seen. */
static double process_age_s(struct arena *a, long pid)
{
    enum { AFTER_NAME = 20 }; /* fields of stat(5) from the state to the start time */
    struct err quiet = {0};
    struct sv text;
    double uptime_s;
    if (fs_read(a, "/proc/uptime", 256, &text, &quiet) != ST_OK)
        return -1;
    uptime_s = strtod(text.p, NULL);
    if (fs_read(a, arena_printf(a, "/proc/%ld/stat", pid), 4096, &text, &quiet) != ST_OK)
        return -1;
    const char *at = strrchr(text.p, ')'); /* the name may contain ')' */
    for (int i = 0; at && i < AFTER_NAME; i++)
        at = strchr(at + 1, ' ');
    return at ? uptime_s - strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK) : -1;
}

/* Versions that took no lock left a name with their pid. A process that started after the last
 * change of the folder got the same pid by chance. */
static bool pid_may_own(struct arena *a, const struct partial_found *f)
{
    if (f->pid <= 0 || f->pid == (long)getpid() || (kill((pid_t)f->pid, 0) != 0 && errno == ESRCH))
        return false;
    double age_s = process_age_s(a, f->pid);
    return age_s < 0 || age_s >= ns_to_s(clock_wall_ns() - f->wrote_wall_ns);
}

/* The pid of ".partial-<name>-<pid>" or "...-<pid>.<n>"; 0 = none there. */
static long pid_of_name(const char *name)
{
    const char *dash = strrchr(name, '-');
    char *end;
    long pid = dash && isdigit((unsigned char)dash[1]) ? strtol(dash + 1, &end, 10) : 0;
    return pid > 0 && pid < INT32_MAX && (*end == 0 || *end == '.') ? pid : 0;
}

/* ---- looking --------------------------------------------------------------------------------- */

struct partial_look {
    struct arena *a;
    struct partial_found *f;
    bool locked; /* a file in it is */
};

static void look_inside(struct partial_look *l, const char *path, int depth)
{
    enum { MAX_DEPTH = 32 };
    struct stat s;
    if (lstat(path, &s) != 0)
        return;
    int64_t changed_ns = (int64_t)s.st_mtim.tv_sec * NS_PER_S + s.st_mtim.tv_nsec;
    l->f->bytes += (int64_t)s.st_blocks * 512;
    if (changed_ns > l->f->wrote_wall_ns)
        l->f->wrote_wall_ns = changed_ns;
    if (S_ISREG(s.st_mode)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            l->locked = true;
        if (fd >= 0)
            close(fd);
    } else if (S_ISDIR(s.st_mode) && depth < MAX_DEPTH) {
        const char **names;
        size_t n = 0;
        struct err quiet = {0};
        if (fs_list(l->a, path, &names, &n, &quiet) != ST_OK)
            return;
        for (size_t i = 0; i < n; i++)
            look_inside(l, fs_join(l->a, path, names[i]), depth + 1);
    }
}

static void unknown(struct partial_found *f, const char *why)
{
    f->state = PARTIAL_UNKNOWN;
    f->why = why;
}

/* Fills in f, whose path is set. Returns the folder's descriptor, with the lock that keeps writers
 * away when f is dead; -1 when it cannot be opened. */
static int look_at(struct arena *a, struct partial_found *f)
{
    struct partial_look l = {.a = a, .f = f};
    f->pid = pid_of_name(fs_base(f->path));
    f->bytes = f->wrote_wall_ns = 0;
    f->why = NULL;
    int fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        unknown(f, "it cannot be opened");
        return -1;
    }
    bool free_lock = flock(fd, LOCK_EX | LOCK_NB) == 0;
    bool held = !free_lock && errno == EWOULDBLOCK;
    look_inside(&l, f->path, 0);
    f->state = PARTIAL_DEAD;
    if (held || l.locked)
        f->state = PARTIAL_LIVING;
    else if (!free_lock || !kernel_sees_all(fd))
        unknown(f, "on this file system others may write that are not seen from here");
    else if (pid_may_own(a, f))
        unknown(f, arena_printf(a, "process %ld, which may be its writer, runs", f->pid));
    return fd;
}

struct partial_search {
    struct arena *a;
    dev_t dev;
    VEC(struct partial_found) v;
};

static void search_in(struct partial_search *s, const char *dir, int depth)
{
    const char **names;
    size_t n = 0;
    struct err quiet = {0};
    if (fs_list(s->a, dir, &names, &n, &quiet) != ST_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *path = strcmp(dir, ".") == 0 ? names[i] : fs_join(s->a, dir, names[i]);
        struct stat st;
        if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_dev != s->dev)
            continue;
        if (partial_is_name(names[i])) {
            struct partial_found f = {.path = path};
            int fd = look_at(s->a, &f);
            if (fd >= 0)
                close(fd);
            vec_push(&s->v, f);
        } else if (depth > 0) {
            search_in(s, path, depth - 1);
        }
    }
}

struct partial_list partial_find(struct arena *a, const char *dir, int depth)
{
    struct partial_search s = {.a = a};
    struct stat st;
    if (stat(dir, &st) != 0)
        return (struct partial_list){0};
    s.dev = st.st_dev;
    search_in(&s, dir, depth);
    struct partial_list out = {arena_copy(a, s.v.p, s.v.n * sizeof *s.v.p), s.v.n};
    vec_free(&s.v);
    return out;
}

enum st partial_remove(const struct partial_found *f, struct err *e)
{
    if (!fs_exists(f->path))
        return ST_OK;
    struct arena *a = arena_new();
    struct partial_found now = {.path = f->path};
    int fd = look_at(a, &now);
    enum st st = now.state == PARTIAL_DEAD ? fs_remove_tree(f->path, e)
                 : now.state == PARTIAL_LIVING
                     ? err_set(e, ST_REJECTED, "%s is being written again", f->path)
                     : err_set(e, ST_REJECTED, "%s: %s", f->path, now.why);
    if (fd >= 0)
        close(fd);
    arena_free(&a);
    return st;
}
