#include "gpu/places.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/vec.h"

struct found {
    struct arena *a;
    VEC(const char *) folders;
};

static void add(struct found *f, const char *folder)
{
    if (!fs_is_dir(folder))
        return;
    for (size_t i = 0; i < f->folders.n; i++)
        if (strcmp(f->folders.p[i], folder) == 0)
            return;
    vec_push(&f->folders, arena_str(f->a, folder));
}

/* Folders that a pattern matches; the last in order of their names, the newest version, first. */
static void add_matching(struct found *f, const char *pattern)
{
    glob_t g;
    if (glob(pattern, 0, NULL, &g) != 0)
        return;
    for (size_t i = g.gl_pathc; i-- > 0;)
        add(f, g.gl_pathv[i]);
    globfree(&g);
}

static void add_toolkit(struct found *f, const char *root)
{
    static const char *const parts[] = {"lib64", "lib", "extras/CUPTI/lib64"};
    for (size_t i = 0; root && *root && i < sizeof parts / sizeof *parts; i++)
        add_matching(f, arena_printf(f->a, "%s/%s", root, parts[i]));
}

static void add_environment(struct found *f, const char *root)
{
    static const char *const parts[] = {"lib/python3*/site-packages", "lib/python3*/dist-packages",
                                        "lib/python3/dist-packages"};
    for (size_t i = 0; root && *root && i < sizeof parts / sizeof *parts; i++)
        add_matching(f, arena_printf(f->a, "%s/%s/nvidia/*/lib", root, parts[i]));
}

/* Where the environment of the python3 in PATH is: two folders above the program, of the link and
 * of what it leads to. */
static void add_python(struct found *f)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        const size_t n = strcspn(path, ":");
        const char *program = arena_printf(f->a, "%.*s/python3", (int)n, path);
        path += n + (path[n] == ':');
        if (access(program, X_OK) != 0)
            continue;
        char *real = realpath(program, NULL);
        add_environment(f, fs_dir(f->a, fs_dir(f->a, program)));
        if (real)
            add_environment(f, fs_dir(f->a, fs_dir(f->a, real)));
        free(real);
        return;
    }
}

static void add_named(struct found *f, const char *list)
{
    while (list && *list) {
        const size_t n = strcspn(list, ":");
        if (n > 0)
            add(f, arena_strn(f->a, list, n));
        list += n + (list[n] == ':');
    }
}

void gpu_places_find(struct arena *a, struct gpu_places *out)
{
    static const char *const toolkits[] = {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"};
    static const char *const drivers[] = {
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
        "/usr/local/nvidia/lib64",   "/usr/local/nvidia/lib",      "/usr/lib/wsl/lib",
        "/run/opengl-driver/lib"};
    struct found f = {.a = a};
    const char *home = getenv("HOME");
    add_named(&f, getenv("TWINFER_GPU_LIBRARIES"));
    add_toolkit(&f, getenv("CUDA_HOME"));
    add_toolkit(&f, getenv("CUDA_PATH"));
    for (size_t i = 0; i < sizeof toolkits / sizeof *toolkits; i++)
        add_toolkit(&f, toolkits[i]);
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        add(&f, drivers[i]);
    add_environment(&f, getenv("VIRTUAL_ENV"));
    add_environment(&f, getenv("CONDA_PREFIX"));
    add_python(&f);
    if (home && *home)
        add_environment(&f, arena_printf(a, "%s/.local", home));
    add_environment(&f, "/usr/local");
    add_environment(&f, "/usr");
    *out = (struct gpu_places){arena_array(a, const char *, f.folders.n), f.folders.n};
    for (size_t i = 0; i < f.folders.n; i++)
        out->folders[i] = f.folders.p[i];
    vec_free(&f.folders);
}
