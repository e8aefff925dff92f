/* Provenance of a session. Private to deep/. */
#ifndef DEEP_ENV_H
#define DEEP_ENV_H

#include "deep/argv.h"
#include "deep/result.h"

struct env_tools {
    const char *ncu, *nsys; /* programs, as they would be run */
};

/* env.json: host, GPUs with driver, clocks, power cap (by nvidia-smi), CUDA's version, versions of
 * the tools (null = not there), this program. */
struct node *env_node(struct arena *a, const struct env_tools *tools);
/* Its main facts, for the summary. */
struct deep_fact *env_facts(struct arena *a, const struct node *env, size_t *n);
/* inputs.yaml: the command, and each file among its words and `more`: path, bytes, sha256; folders
 * with the number and bytes of their files. */
struct node *env_inputs(struct arena *a, struct texts command, struct texts more);

#endif
