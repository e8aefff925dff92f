/* Questions of tools about the fake device: query.c. */
#ifndef FAKE_GPU_QUERY_H
#define FAKE_GPU_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/abi/cuda.h"

void *fake_context_current(void); /* NULL = none on this thread */

/* Each node of a graph: a kernel's name, or NULL and the bytes of a copy or (bit 63) a set. */
void fake_graph_nodes(CUgraphExec graph,
                      void (*each)(void *user, const char *kernel, uint64_t bytes, uint64_t node),
                      void *user);

bool fake_is_kernel(const void *handle); /* of a library: a CUkernel (observe.c) */

#endif
