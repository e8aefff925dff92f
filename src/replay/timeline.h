/* When each operation of a captured region ran in the program, as a picture (kernels/gantt.h): a
 * row a stream, from the first operation's start to the last one's end. The names are those of
 * load.h. Operations without times are not in it; no bars where none has any. */
#ifndef REPLAY_TIMELINE_H
#define REPLAY_TIMELINE_H

#include "capsule/capsule.h"
#include "kernels/gantt.h"

struct kernels_gantt replay_timeline(struct arena *a, const struct capsule *c);

/* timeline.json of a folder: kernels_gantt_fields. Nothing is written where there are no bars.
 * ST_INPUT: the capsule. */
enum st replay_timeline_write(struct arena *a, const struct artifact *art, const char *dir,
                              struct err *e);

#endif
