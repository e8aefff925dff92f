/* A composed and interpolated tree to the typed plan, by the option table. */
#ifndef CONFIG_BIND_H
#define CONFIG_BIND_H

#include "config/plan.h"

/* Fills every field: the tree's value, else the row's default. A value that text had to be read as
 * (an environment variable for a number) is put into the tree with its type. Unknown keys, wrong
 * kinds, values out of range or not allowed are ST_USAGE at the place of the value. */
enum st bind_plan(struct arena *a, struct node *root, uint32_t command_bit, struct plan *out,
                  struct err *e);

#endif
