#define _GNU_SOURCE /* dl_iterate_phdr */
#include "inject/find.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu/cupti_list.h"
#include "gpu/folders.h"
#include "inject/settings.h"

static const char *const names[] = GPU_CUPTI_NAMES;

struct loaded {
    char path[SETTINGS_PATH];  /* of CUPTI */
    char wheel[SETTINGS_PATH]; /* folder of one of NVIDIA's wheels that the program uses */
};

static void keep(char *to, const char *path, size_t n)
{
    if (n >= SETTINGS_PATH)
        return;
    memcpy(to, path, n);
    to[n] = 0;
}

static int see_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    struct loaded *s = user;
    const char *path = info->dlpi_name, *slash = path ? strrchr(path, '/') : NULL;
    if (!slash)
        return 0;
    if (strncmp(slash + 1, "libcupti.so", 11) == 0)
        keep(s->path, path, strlen(path));
    const size_t n = (size_t)(slash - path);
    if (n > 4 && memcmp(slash - 4, "/lib", 4) == 0 && strstr(path, "/nvidia/"))
        keep(s->wheel, path, n);
    return s->path[0] != 0;
}

/* In that folder; for gpu_folders_each. */
static bool open_in(void *user, const char *folder)
{
    char path[SETTINGS_PATH];
    void **lib = user;
    for (size_t i = 0; i < sizeof names / sizeof *names && !*lib; i++) {
        const int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0)
            *lib = dlopen(path, RTLD_NOW);
    }
    return *lib != NULL;
}

/* Of the wheels that the program uses: the folder of them all ("nvidia/cu13/lib"), or CUPTI's
 * beside this one ("nvidia/cuda_runtime/lib"). */
static bool open_in_wheel(char *folder, void **lib)
{
    static const char cupti_folder[] = "/cuda_cupti/lib";
    if (!folder[0] || open_in(lib, folder))
        return *lib != NULL;
    char *part = folder + strlen(folder) - strlen("/lib");
    while (part > folder && part[-1] != '/')
        part--;
    if (part <= folder + 1 || (size_t)(part - 1 - folder) + sizeof cupti_folder > SETTINGS_PATH)
        return false;
    memcpy(part - 1, cupti_folder, sizeof cupti_folder);
    return open_in(lib, folder);
}

void *inject_find_cupti(const char *setting)
{
    struct loaded s = {{0}, {0}};
    void *lib = NULL;
    if (setting[0])
        return dlopen(setting, RTLD_NOW);
    dl_iterate_phdr(see_loaded, &s);
    if (s.path[0])
        lib = dlopen(s.path, RTLD_NOW | RTLD_NOLOAD);
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW);
    if (!lib && !open_in_wheel(s.wheel, &lib))
        gpu_folders_each(open_in, &lib);
    return lib;
}
