/* Descendants of a child that leave its group and session (setsid: what torchrun does with the
 * processes of a model) end with it too.
 *
 *     struct orphans o = orphans_adopt();
 *     process_start(&p, ...); ... process_end(&p);
 *     orphans_end(&o);
 *
 * In between, a descendant whose parent ends becomes a child of this process. orphans_end kills and
 * reaps the children that this process did not have before, and those that become its children
 * by that, until none is left. For a process that has one child at a time: no other may be started
 * in between. */
#ifndef BASE_ORPHANS_H
#define BASE_ORPHANS_H

#include <stddef.h>
#include <sys/types.h>

struct orphans {
    pid_t *before; /* children at the start */
    size_t n;
};

struct orphans orphans_adopt(void);
void orphans_end(struct orphans *o); /* empties it */

#endif
