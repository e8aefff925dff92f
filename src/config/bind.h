/* Binds a composed and interpolated tree to the typed plan, by the option table. */
#ifndef CONFIG_BIND_H
#define CONFIG_BIND_H

#include "config/option.h"
#include "text/node.h"

/* Fills the plan, every field of it: the tree's value, else the row's default. A value parsed from
 * text (an environment variable for a number) replaces that text in the tree. Unknown keys, wrong
 * kinds, values out of range or not allowed are ST_USAGE at the place of the value. */
enum st config_bind(struct arena *a, struct node *root, uint32_t command, struct plan *out,
                    struct err *e);

#endif
