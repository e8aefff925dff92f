/* The folders where NVIDIA's libraries may be, beyond those that the loader looks in.
 *
 * In this order: folders that TWINFER_GPU_LIBRARIES names (joined by ':'); toolkits ($CUDA_HOME,
 * $CUDA_PATH, /usr/local/cuda, /usr/local/cuda-<version> from the newest, /opt/cuda: their lib64,
 * lib and extras/CUPTI/lib64); the folders that distributions, containers and WSL use for a driver;
 * the wheels of Python environments (site-packages/nvidia/<part>/lib) below $VIRTUAL_ENV,
 * $CONDA_PREFIX, the python3 in PATH, ~/.local, /usr/local and /usr. */
#ifndef GPU_PLACES_H
#define GPU_PLACES_H

#include "base/arena.h"

struct gpu_places {
    const char **folders; /* that exist, best first, each once */
    size_t n;
};

void gpu_places_find(struct arena *a, struct gpu_places *out);

#endif
