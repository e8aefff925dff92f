/* The files of a session's folder, from its figures. Private to deep/. */
#ifndef DEEP_SESSION_FILES_H
#define DEEP_SESSION_FILES_H

#include "artifact/artifact.h"
#include "deep/analysis.h"

/* groups: metric groups of the tables of regions, deep_group_name; empty = all. */
enum st deep_files_write(struct arena *a, const struct deep_analysis *x, const struct artifact *art,
                         struct texts groups, const struct deep_result *r, struct err *e);

#endif
