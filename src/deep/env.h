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
 * with the number, bytes and hash of their files. */
struct node *env_inputs(struct arena *a, struct texts command, struct texts more);
void env_inputs_add(struct arena *a, struct node *inputs, struct texts paths);

#endif
