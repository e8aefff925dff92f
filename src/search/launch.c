#include "search/launch.h"

#include <string.h>

const struct launcher_ops *const launcher_registry[] = {&launch_fork, &launch_mpi, NULL};

enum st launcher_find(const char *name, const struct launcher_ops **out, struct err *e)
{
    struct buf known = {0};
    *out = NULL;
    for (int i = 0; launcher_registry[i]; i++) {
        if (strcmp(launcher_registry[i]->name, name) == 0)
            *out = launcher_registry[i];
        buf_printf(&known, "%s%s", i ? ", " : "", launcher_registry[i]->name);
    }
    if (!*out) {
        err_set(e, ST_USAGE, "launcher: there is none called '%s'", name);
        err_hint(e, "known: %s", buf_str(&known));
    }
    buf_free(&known);
    return *out ? ST_OK : ST_USAGE;
}
