#include "gpu/places.h"

#include <string.h>

#include "base/vec.h"
#include "gpu/folders.h"

struct found {
    struct arena *a;
    VEC(const char *) folders;
};

static bool add(void *user, const char *folder)
{
    struct found *f = user;
    for (size_t i = 0; i < f->folders.n; i++)
        if (strcmp(f->folders.p[i], folder) == 0)
            return false;
    vec_push(&f->folders, arena_str(f->a, folder));
    return false;
}

void gpu_places_find(struct arena *a, struct gpu_places *out)
{
    struct found f = {.a = a};
    gpu_folders_each(add, &f);
    *out = (struct gpu_places){arena_array(a, const char *, f.folders.n), f.folders.n};
    for (size_t i = 0; i < f.folders.n; i++)
        out->folders[i] = f.folders.p[i];
    vec_free(&f.folders);
}
