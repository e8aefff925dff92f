/* YAML through libyaml into the same trees as JSON.
 *
 * Scalars are typed by the YAML 1.2 core schema (null ~ true false, decimal integers, decimal and
 * exponent floats), quoted ones stay strings. Anchors and merge keys are expanded, within the
 * limits on nodes and bytes; tags other than the core ones, several documents in a file and
 * duplicate keys are errors at file:line:column. `${...}` is text here; config/ gives it meaning.
 */
#ifndef TEXT_YAML_H
#define TEXT_YAML_H

#include "text/node.h"

/* YAML_MAX_BYTES: of a file, and of the texts that aliases repeat, which a copy of the tree writes
 * out. */
enum { YAML_MAX_BYTES = 4 << 20, YAML_MAX_DEPTH = 64, YAML_MAX_NODES = 1 << 20 };

enum st yaml_parse(struct arena *a, const char *source, struct sv text, struct node **out,
                   struct err *e); /* an empty document gives an empty map */
enum st yaml_load(struct arena *a, const char *path, struct node **out, struct err *e);

/* Block style, keys in tree order; reads back as an equal tree. */
void yaml_write(struct buf *out, const struct node *n);

#endif
