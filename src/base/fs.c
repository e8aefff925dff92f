#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/map_guard.h"
#include "base/vec.h"

enum { PROC_BYTES = 1 << 16 };

static enum st open_regular(const char *path, int *fd, size_t *size, struct err *e)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (*fd < 0)
        return err_errno(e, true, "cannot open %s", path);
    struct stat s;
    if (fstat(*fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        close(*fd);
        return err_set(e, ST_INPUT, "%s is not a regular file", path);
    }
    *size = (size_t)s.st_size;
    return ST_OK;
}

enum st fs_read(struct arena *a, const char *path, size_t max_bytes, struct sv *out, struct err *e)
{
    int fd;
    size_t size;
    TRY(open_regular(path, &fd, &size, e));
    if (size > max_bytes) {
        close(fd);
        return err_set(e, ST_INPUT, "%s has %zu bytes; the limit for this kind of file is %zu",
                       path, size, max_bytes);
    }
    if (size == 0) /* files of /proc and /sys report size 0 */
        size = max_bytes < PROC_BYTES ? max_bytes : PROC_BYTES;
    char *p = arena_alloc(a, size + 1);
    size_t n = 0;
    while (n < size) {
        ssize_t got = read(fd, p + n, size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            enum st st = err_errno(e, true, "cannot read %s", path);
            close(fd);
            return st;
        }
        if (got == 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    *out = (struct sv){p, n};
    return ST_OK;
}

enum st fs_map(const char *path, struct fs_map *out, struct err *e)
{
    int fd;
    size_t size;
    *out = (struct fs_map){0};
    TRY(open_regular(path, &fd, &size, e));
    if (size > 0) {
        void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            enum st st = err_errno(e, true, "cannot map %s", path);
            close(fd);
            return st;
        }
        map_guard_add(p, size, path);
        *out = (struct fs_map){p, size};
    }
    close(fd);
    return ST_OK;
}

void fs_unmap(struct fs_map *m)
{
    if (m->p) {
        map_guard_remove(m->p);
        munmap((void *)(uintptr_t)m->p, m->n);
    }
    *m = (struct fs_map){0};
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}

int fs_create_temp(struct arena *a, const char *path, const char **temp, struct err *e)
{
    enum { MOST_NAMES = 1000 }; /* taken ones, of killed processes or put there to be in the way */
    for (int i = 0; i < MOST_NAMES; i++) {
        *temp = arena_printf(a, i ? "%s.tmp.%ld.%d" : "%s.tmp.%ld", path, (long)getpid(), i);
        int fd = open(*temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            break;
    }
    err_errno(e, false, "cannot create %s", *temp);
    return -1;
}

enum st fs_open_append(const char *path, FILE **f, struct err *e)
{
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat s;
    *f = NULL;
    if (fd < 0 && errno == ELOOP) {
        err_set(e, ST_IO, "cannot write %s: it is a symbolic link", path);
        return err_hint(e, "remove the link");
    }
    if (fd >= 0 && (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode))) {
        close(fd);
        return err_set(e, ST_IO, "cannot write %s: it is not a regular file", path);
    }
    *f = fd >= 0 ? fdopen(fd, "ab") : NULL;
    return *f ? ST_OK : err_errno(e, false, "cannot write %s", path);
}

static enum st write_atomic(struct arena *a, const char *path, const void *p, size_t n,
                            struct err *e)
{
    const char *tmp;
    int fd = fs_create_temp(a, path, &tmp, e);
    if (fd < 0)
        return e->st;
    bool ok = write_all(fd, p, n) && fsync(fd) == 0;
    if (!ok)
        err_errno(e, false, "cannot write %s", tmp);
    close(fd);
    if (ok && rename(tmp, path) != 0) {
        err_errno(e, false, "cannot rename %s to %s", tmp, path);
        ok = false;
    }
    if (!ok)
        unlink(tmp);
    return ok ? ST_OK : e->st;
}

enum st fs_write_atomic(const char *path, const void *p, size_t n, struct err *e)
{
    struct arena *a = arena_new();
    enum st st = write_atomic(a, path, p, n, e);
    arena_free(&a);
    return st;
}

enum st fs_mkdirs(const char *path, struct err *e)
{
    enum { TRIES = 100 };
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return err_set(e, ST_IO, "cannot create a folder of a name of %zu bytes", n);
    memcpy(part, path, n + 1);
    int again = 0;
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != 0)
            continue;
        char c = part[i];
        part[i] = 0;
        const bool made = mkdir(part, 0777) == 0 || errno == EEXIST;
        const bool gone = !made && errno == ENOENT && again++ < TRIES;
        if (!made && !gone)
            return err_errno(e, false, "cannot create folder %s", part);
        part[i] = c;
        if (gone)
            i = 0; /* another process removed an empty parent */
    }
    if (!fs_is_dir(path))
        return err_set(e, ST_IO, "cannot create folder %s: a file is in the way", path);
    return ST_OK;
}

bool fs_exists(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

bool fs_is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Bytes that this user can still write at path, or at the nearest folder above it that exists; -1 =
 * unknown. */
static int64_t find_free_bytes(const char *path)
{
    struct statvfs s;
    struct arena *a = arena_new();
    const char *at = path;
    int failed;
    while ((failed = statvfs(at, &s)) != 0 && errno == ENOENT && strcmp(at, ".") != 0 &&
           strcmp(at, "/") != 0)
        at = fs_dir(a, at);
    arena_free(&a);
    if (failed || s.f_blocks == 0) /* some file systems report 0 of 0 for unknown */
        return -1;
    unsigned long long free_bytes = (unsigned long long)s.f_bavail * s.f_frsize;
    return free_bytes > INT64_MAX ? INT64_MAX : (int64_t)free_bytes;
}

enum st fs_need_space(const char *path, int64_t bytes, struct err *e)
{
    int64_t there = find_free_bytes(path);
    char need[STR_BYTES_MAX], have[STR_BYTES_MAX];
    if (there < 0 || there >= bytes)
        return ST_OK;
    str_from_bytes(need, bytes);
    str_from_bytes(have, there);
    err_set(e, ST_IO, "%s needs %s of disk space, and %s are free there", path, need, have);
    return err_hint(e, "free space there, or choose another place");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum st fs_list(struct arena *a, const char *path, const char ***names, size_t *n, struct err *e)
{
    DIR *d = opendir(path);
    if (!d)
        return err_errno(e, true, "cannot list %s", path);
    VEC(const char *) v = {0};
    for (struct dirent *f; (f = readdir(d));)
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
            vec_push(&v, arena_str(a, f->d_name));
    closedir(d);
    if (v.n)
        qsort(v.p, v.n, sizeof *v.p, by_name);
    *names = arena_copy(a, v.p, v.n * sizeof *v.p);
    *n = v.n;
    vec_free(&v);
    return ST_OK;
}

enum st fs_remove_tree(const char *path, struct err *e)
{
    struct stat s;
    if (lstat(path, &s) != 0)
        return ST_OK;
    if (S_ISDIR(s.st_mode)) {
        struct arena *a = arena_new();
        const char **names;
        size_t n = 0;
        enum st st = fs_list(a, path, &names, &n, e);
        for (size_t i = 0; st == ST_OK && i < n; i++)
            st = fs_remove_tree(fs_join(a, path, names[i]), e);
        arena_free(&a);
        if (st != ST_OK)
            return st;
    }
    if (remove(path) != 0)
        return err_errno(e, false, "cannot remove %s", path);
    return ST_OK;
}

enum st fs_sync_dir(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, false, "cannot open folder %s", path);
    int bad = fsync(fd);
    close(fd);
    return bad ? err_errno(e, false, "cannot sync folder %s", path) : ST_OK;
}

char *fs_join(struct arena *a, const char *dir, const char *name)
{
    if (name[0] == '/')
        return arena_str(a, name);
    size_t n = strlen(dir);
    return arena_printf(a, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
}

const char *fs_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *fs_dir(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return arena_str(a, ".");
    return arena_strn(a, path, slash == path ? 1 : (size_t)(slash - path));
}

char *fs_self_dir(struct arena *a)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return arena_str(a, ".");
    path[n] = 0;
    return fs_dir(a, path);
}

static bool inside(const char *file, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(file, dir, n) == 0 && (file[n] == '/' || n == 1);
}

/* Hugging Face's cache keeps snapshots/<revision>/ full of links into blobs/. */
static bool is_blob(const char *file, const char *dir)
{
    const char *revision = strrchr(dir, '/');
    static const char above[] = "/snapshots";
    size_t n = revision ? (size_t)(revision - dir) : 0, m = sizeof above - 1;
    if (n <= m || memcmp(revision - m, above, m) != 0)
        return false;
    char blobs[PATH_MAX];
    int len = snprintf(blobs, sizeof blobs, "%.*s/blobs", (int)(n - m), dir);
    return len > 0 && len < (int)sizeof blobs && inside(file, blobs);
}

enum st fs_join_inside(struct arena *a, const char *dir, const char *name, char **path,
                       struct err *e)
{
    bool bad = name[0] == 0 || name[0] == '/';
    for (const char *p = name; *p && !bad; p++) {
        bool part_start = p == name || p[-1] == '/';
        bad = (unsigned char)*p < 0x20 || *p == 0x7f ||
              (part_start && p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == 0));
    }
    if (bad)
        return err_set(e, ST_INPUT, "file name '%.200s' does not stay inside %s", name, dir);
    char *joined = fs_join(a, dir, name);
    char real_dir[PATH_MAX], real_file[PATH_MAX];
    if (realpath(dir, real_dir) && realpath(joined, real_file) && !inside(real_file, real_dir) &&
        !is_blob(real_file, real_dir))
        return err_set(e, ST_INPUT, "file name '%.200s' is a link out of %s", name, dir);
    *path = joined;
    return ST_OK;
}
