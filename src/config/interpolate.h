/* ${...} in the strings of a composed tree.
 *
 *     ${a.b} ${a.0} ${a[0]}    the value at a key from the root
 *     ${.b} ${..b}             from the map the value stands in, and from the one around it
 *     ${a.${b}}                innermost first
 *     ${oc.env:NAME,default}   environment
 *     ${data:path}             ./data/path, or where twinfer was installed
 *     ${stable_id:prefix,...}  hash_stable_id of base/hash.h
 *     \${                      a literal ${; \\${ is a backslash and an interpolation
 *
 * A string that is one interpolation takes the type of its value; inside other text scalars are
 * formatted as Hydra does (True, 4.0). Results are not interpolated again. */
#ifndef CONFIG_INTERPOLATE_H
#define CONFIG_INTERPOLATE_H

#include "text/node.h"

/* Resolves in place. Cycles, unknown keys, unset environment variables, results that grow past
 * 100,000 values or 4 MiB are ST_USAGE at the place of the value. */
enum st config_interpolate(struct arena *a, struct node *root, struct err *e);

#endif
