/* The folders where NVIDIA's libraries may be, beyond those that the loader looks in, one after the
 * other. gpu/places.h lists them for the program; the guest library asks here, so this file needs
 * nothing but libc, and none of its functions is younger than glibc 2.17.
 *
 * In this order: folders that TWINFER_GPU_LIBRARIES names (joined by ':'); toolkits ($CUDA_HOME,
 * $CUDA_PATH, /usr/local/cuda, /usr/local/cuda-<version> from the newest, /opt/cuda: their lib64,
 * lib and extras/CUPTI/lib64); the folders that distributions, containers and WSL use for a driver;
 * the wheels of Python environments (site-packages/nvidia/<part>/lib) below $VIRTUAL_ENV,
 * $CONDA_PREFIX, the python3 in PATH, ~/.local, /usr/local and /usr. */
#ifndef GPU_FOLDERS_H
#define GPU_FOLDERS_H

#include <stdbool.h>

/* Calls back for every one that exists, some twice, until `visit` returns true, which it returns
 * then. A program with another user's rights is not led by its environment. */
bool gpu_folders_each(bool (*visit)(void *user, const char *folder), void *user);

#endif
