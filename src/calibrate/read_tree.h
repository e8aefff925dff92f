/* JSON documents of load generators, read leniently where their versions differ: members that are
 * absent or null are unknown, those of the wrong kind are faults at their place. */
#ifndef CALIBRATE_READ_TREE_H
#define CALIBRATE_READ_TREE_H

#include "calibrate/observed.h"

/* A whole document, gzip or not. Records with texts have hundreds of megabytes. */
enum st read_tree(struct arena *a, const char *path, struct node **out, struct err *e);

/* Whether a JSON file's top level is a map with one of the keys ("a|b"); false for anything else.
 */
bool read_tree_has(const char *path, const char *keys);

/* A number of a map, by the first of the names "a|b" that is there; NAN where none is. ST_INPUT for
 * other kinds, and numbers outside. */
enum st read_tree_number(const struct node *map, const char *names, double min, double max,
                         double *out, struct err *e);
enum st read_tree_count(const struct node *map, const char *names, int64_t *out, struct err *e);
/* A count of tokens or requests that a record has as any number; 0 where it is none of 1 to 2^30.
 */
int64_t read_tree_whole(double v);

/* Whether a file's name ends so. */
bool read_tree_ends(const char *path, const char *end);

#endif
