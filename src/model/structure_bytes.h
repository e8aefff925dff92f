/* A structure as bytes, for another process of the same program on this machine: structs as they
 * stand in memory, strings and lists behind them. No format for files that are kept. */
#ifndef MODEL_STRUCTURE_BYTES_H
#define MODEL_STRUCTURE_BYTES_H

#include "base/str.h"
#include "model/structure.h"

void structure_write(const struct structure *s, struct buf *out);

/* Takes it off the front of *left. Lists and strings live in the arena. False where bytes are
 * missing or counts are none that structure_write writes. */
bool structure_read(struct arena *a, struct sv *left, struct structure *out);

#endif
