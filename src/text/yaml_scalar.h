/* The YAML 1.2 core schema's rules for plain scalars; shared by the reader and the writer, which
 * quotes what would otherwise be read as something else. Not for other folders. */
#ifndef TEXT_YAML_SCALAR_H
#define TEXT_YAML_SCALAR_H

#include "text/node.h"

/* Gives n the kind and value of a plain scalar; a string keeps NODE_STR and n->s untouched. Returns
 * NULL, or what is wrong with a number that does not fit (a literal). */
const char *yaml_type_scalar(struct sv text, struct node *n);

#endif
