/* Folders that are being made.
 *
 * What a stage writes grows in ".partial-<name>-<pid>" beside the place where it will stand, and is
 * renamed when it is whole; no reader accepts a name like that. A process that is killed leaves its
 * partial folder behind. This module makes them, finds them, and detects those without a living
 * owner.
 *
 * The writer of a partial folder holds a shared lock (flock) on it, or on a file in it: the guest
 * library in a traced program does that with its spool. The lock ends with the process, however it
 * ends, and is seen across pid namespaces, so neither pids that were given away again nor
 * containers deceive. Where locks do not reach every writer, on network file systems above all, a
 * folder is never called dead. */
#ifndef BASE_PARTIAL_H
#define BASE_PARTIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct partial {
    const char *path;
    int lock; /* descriptor that holds the lock; -1 = none, as on a file system without locks */
};

/* Makes "<parent>/.partial-<name>-<pid>" for <parent>/<name> = final_dir, which has no slash at its
 * end; with ".<n>" added while that exists. Parents are created. On failure out->path is NULL. */
enum st partial_make(struct arena *a, const char *final_dir, struct partial *out, struct err *e);
/* Releases the lock: after the rename, or the removal. */
void partial_release(struct partial *p);
/* Removes the folder with all in it, ignoring errors, and releases the lock. No-op where path is
 * NULL. */
void partial_discard(struct partial *p);

/* A name, without folders before it, of this form. */
bool partial_is_name(const char *name);

/* ---- those that are there -------------------------------------------------------------------- */

enum partial_state {
    PARTIAL_DEAD,    /* no writer is left */
    PARTIAL_LIVING,  /* its writer holds the lock */
    PARTIAL_UNKNOWN, /* cannot be decided: see `why` */
};

struct partial_found {
    const char *path;
    long pid;              /* from its name; 0 = none in it */
    int64_t bytes;         /* on disk, of all that can be seen in it */
    int64_t wrote_wall_ns; /* when anything in it last changed */
    enum partial_state state;
    const char *why; /* reason for PARTIAL_UNKNOWN, else NULL */
};

struct partial_list {
    struct partial_found *p;
    size_t n;
};

/* Partial folders in dir and `depth` levels of folders below it (0: in dir alone), sorted by path
 * within each folder; links are not followed, nor mounts. Folders that cannot be listed hold none.
 */
struct partial_list partial_find(struct arena *a, const char *dir, int depth);

/* Removes one that is dead, looking again first, with the lock held so that no writer starts
 * meanwhile. ST_REJECTED when it is not dead now; an absent folder is fine. */
enum st partial_remove(const struct partial_found *f, struct err *e);

#endif
