/* Provenance of a session. Private to deep/. */
#ifndef DEEP_ENV_H
#define DEEP_ENV_H

#include "deep/argv.h"
#include "deep/result.h"
#include "deep/tool.h"

struct env_tools {
    const char *ncu, *nsys; /* programs, as they would be run */
    struct tool_limits limits;
};
enum { ENV_ASKED = 3 }; /* nvidia-smi, ncu, nsys */
struct env_silence {
    struct tool_answer ncu;      /* its version, or why it has none */
    const char *hung[ENV_ASKED]; /* of those that were cut off: why */
    size_t n_hung;
};

/* env.json: host, GPUs with driver, clocks, power cap (by nvidia-smi), CUDA's version, versions of
 * the tools (null = not there), this program. A tool that hangs is cut off, and its figures are
 * missing; after a stop they all may. */
struct node *env_node(struct arena *a, const struct env_tools *tools, struct env_silence *silence);
/* Its main facts, for the summary. */
struct deep_fact *env_facts(struct arena *a, const struct node *env, size_t *n);
/* inputs.yaml: the command, and each file among its words and `more`: path, bytes, sha256; folders
 * with the number, bytes and hash of their files. */
struct node *env_inputs(struct arena *a, struct texts command, struct texts more);
void env_inputs_add(struct arena *a, struct node *inputs, struct texts paths);

#endif
