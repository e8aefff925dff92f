/* The folders where NVIDIA's libraries may be (gpu/folders.h says which), as a list. */
#ifndef GPU_PLACES_H
#define GPU_PLACES_H

#include "base/arena.h"

struct gpu_places {
    const char **folders; /* that exist, best first, each once */
    size_t n;
};

void gpu_places_find(struct arena *a, struct gpu_places *out);

#endif
