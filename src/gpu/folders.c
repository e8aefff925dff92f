#define _GNU_SOURCE /* secure_getenv, strverscmp */
#include "gpu/folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct folder_walk {
    bool (*visit)(void *user, const char *folder);
    void *user;
};

/* Not stat(), which glibc before 2.33 has not as a function. */
static bool is_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool join(char out[PATH_MAX], const char *a, const char *b)
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", a, b);
    return n > 0 && n < PATH_MAX;
}

/* The entry of a folder that matches and stands last before `below` ("" = last of all), the newest
 * version first. False when there is none. */
static bool entry_before(const char *folder, const char *pattern, const char *below,
                         char out[NAME_MAX + 1])
{
    DIR *d = opendir(folder);
    out[0] = 0;
    for (const struct dirent *x; d && (x = readdir(d)) != NULL;)
        if (fnmatch(pattern, x->d_name, FNM_PERIOD) == 0 &&
            (!below[0] || strverscmp(x->d_name, below) < 0) && strverscmp(x->d_name, out) > 0)
            memcpy(out, x->d_name, strlen(x->d_name) + 1);
    if (d)
        closedir(d);
    return out[0] != 0;
}

/* base/pattern, where a part of the pattern may hold '*'. */
static bool each_matching(const struct folder_walk *w, const char *base, const char *pattern)
{
    char part[NAME_MAX + 1], name[NAME_MAX + 1], below[NAME_MAX + 1] = "", path[PATH_MAX];
    const size_t n = strcspn(pattern, "/");
    const char *rest = pattern[n] ? pattern + n + 1 : NULL;
    if (n > NAME_MAX)
        return false;
    memcpy(part, pattern, n);
    part[n] = 0;
    if (!strchr(part, '*'))
        return join(path, base, part) &&
               (rest ? each_matching(w, path, rest) : is_folder(path) && w->visit(w->user, path));
    while (entry_before(base, part, below, name)) {
        if (join(path, base, name) &&
            (rest ? each_matching(w, path, rest) : is_folder(path) && w->visit(w->user, path)))
            return true;
        memcpy(below, name, sizeof below);
    }
    return false;
}

static bool toolkit(const struct folder_walk *w, const char *root)
{
    return root && *root &&
           (each_matching(w, root, "lib64") || each_matching(w, root, "lib") ||
            each_matching(w, root, "extras/CUPTI/lib64"));
}

/* /usr/local/cuda-12.9: a toolkit for each. */
static bool is_toolkit(void *user, const char *folder)
{
    return toolkit(user, folder);
}

static bool environment(const struct folder_walk *w, const char *root)
{
    return root && *root &&
           (each_matching(w, root, "lib/python3*/site-packages/nvidia/*/lib") ||
            each_matching(w, root, "lib/python3*/dist-packages/nvidia/*/lib") ||
            each_matching(w, root, "lib/python3/dist-packages/nvidia/*/lib"));
}

/* Two folders above the program. */
static bool above(const struct folder_walk *w, const char *program)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", program);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    return environment(w, path);
}

/* Where the environment of the python3 in PATH is: by the link and by what it leads to. */
static bool python(const struct folder_walk *w)
{
    char program[PATH_MAX], real[PATH_MAX];
    for (const char *path = secure_getenv("PATH"); path && *path;) {
        const size_t n = strcspn(path, ":");
        const int m = snprintf(program, sizeof program, "%.*s/python3", (int)n, path);
        path += n + (path[n] == ':');
        if (m > 0 && m < PATH_MAX && access(program, X_OK) == 0)
            return above(w, program) || (realpath(program, real) && above(w, real));
    }
    return false;
}

static bool named(const struct folder_walk *w, const char *list)
{
    char path[PATH_MAX];
    while (list && *list) {
        const size_t n = strcspn(list, ":");
        if (n > 0 && n < sizeof path) {
            memcpy(path, list, n);
            path[n] = 0;
            if (is_folder(path) && w->visit(w->user, path))
                return true;
        }
        list += n + (list[n] == ':');
    }
    return false;
}

bool gpu_folders_each(bool (*visit)(void *user, const char *folder), void *user)
{
    static const char *const drivers[] = {
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
        "/usr/local/nvidia/lib64",   "/usr/local/nvidia/lib",      "/usr/lib/wsl/lib",
        "/run/opengl-driver/lib"};
    struct folder_walk w = {visit, user};
    const struct folder_walk toolkits = {is_toolkit, &w};
    const char *home = secure_getenv("HOME");
    char local[PATH_MAX];
    if (named(&w, secure_getenv("TWINFER_GPU_LIBRARIES")) ||
        toolkit(&w, secure_getenv("CUDA_HOME")) || toolkit(&w, secure_getenv("CUDA_PATH")) ||
        toolkit(&w, "/usr/local/cuda") || each_matching(&toolkits, "/usr/local", "cuda-*") ||
        toolkit(&w, "/opt/cuda"))
        return true;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (is_folder(drivers[i]) && visit(user, drivers[i]))
            return true;
    return environment(&w, secure_getenv("VIRTUAL_ENV")) ||
           environment(&w, secure_getenv("CONDA_PREFIX")) || python(&w) ||
           (home && *home && join(local, home, ".local") && environment(&w, local)) ||
           environment(&w, "/usr/local") || environment(&w, "/usr");
}
