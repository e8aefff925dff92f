/* One safetensors file: its header turned into tensors, and headers written. Private to weights.c
 * and init.c; use weights.h elsewhere. */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include "model/weights.h"

enum { SAFETENSORS_MAX_HEADER_BYTES = 100 << 20 }; /* the format's own limit */

/* The tensors of the file's bytes, in order of their bytes. Names live in the arena, data points
 * into the bytes. path is for messages. */
enum st safetensors_parse(struct arena *a, const char *path, struct sv file, struct tensor **out,
                          size_t *n, struct err *e);

/* The 8 length bytes and the header for tensors written one after another in the given order; bytes
 * of each are taken from dtype and dims. metadata: a map of strings beside "format", or NULL. The
 * data begins 8-byte aligned. */
void safetensors_header(struct buf *out, const struct node *metadata, const struct tensor *tensors,
                        size_t n);

#endif
