/* Results of `vllm bench serve`, each of which is a stage. */
#ifndef CALIBRATE_READ_VLLM_H
#define CALIBRATE_READ_VLLM_H

#include "calibrate/observed.h"

/* Adds a stage to out. */
enum st vllm_read_result(struct arena *a, const char *path, const struct node *map,
                         struct observed *out, struct err *e);
/* Results that follow each other in a text. */
enum st vllm_read_results(struct arena *a, const char *path, struct sv text, struct observed *out,
                          struct err *e);

#endif
