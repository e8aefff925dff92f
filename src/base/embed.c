#include "base/embed.h"

#include <string.h>

const struct embed_file *embed_find(const struct embed_file *table, const char *path)
{
    for (; table->path; table++)
        if (strcmp(table->path, path) == 0)
            return table;
    return NULL;
}
