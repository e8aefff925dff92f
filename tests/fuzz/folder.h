/* A folder for targets whose readers take paths: made once per process, in memory where there is
 * /dev/shm, removed at the end. */
#ifndef FUZZ_FOLDER_H
#define FUZZ_FOLDER_H

#include <string.h>

#include "base/fs.h"
#include "fuzz.h"

static char folder_path[64];

static void folder_remove(void)
{
    struct err e = {0};
    fs_remove_tree(folder_path, &e);
}

static inline const char *folder(void)
{
    if (folder_path[0])
        return folder_path;
    snprintf(folder_path, sizeof folder_path, "%s/twinfer-fuzz-XXXXXX",
             fs_is_dir("/dev/shm") ? "/dev/shm" : "/tmp");
    REQUIRE(mkdtemp(folder_path));
    atexit(folder_remove);
    return folder_path;
}

/* Writes <folder>/name; the path is the arena's. */
static inline const char *folder_put(struct arena *a, const char *name, const void *p, size_t n)
{
    const char *path = fs_join(a, folder(), name);
    FILE *f = fopen(path, "w");
    REQUIRE(f);
    REQUIRE(fwrite(p, 1, n, f) == n);
    REQUIRE(fclose(f) == 0);
    return path;
}

#endif
