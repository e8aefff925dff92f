/* Checks what this machine has and lacks for the program, with a remedy for each lack; and finds
 * unfinished folders of killed processes. Changes nothing, except that it removes those on request.
 */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE,    /* works, but could be better */
    DOCTOR_MISSING, /* its purpose is not available */
    DOCTOR_NEEDED,  /* missing, and GPU commands need it */
};

struct doctor_finding {
    enum doctor_state state;
    const char *what, *found, *remedy; /* remedy: NULL or "" = none */
};

struct doctor_findings {
    struct arena *a;                 /* of the texts */
    VEC(struct doctor_finding) rows; /* vec_free them */
};

void doctor_add(struct doctor_findings *f, enum doctor_state state, const char *what,
                const char *found, const char *remedy);

/* GPUs, libraries that are opened at run time, the recorder, tools, permissions, the host. */
void doctor_machine(struct doctor_findings *f);

/* Unfinished folders in these and below; n = 0: here, and in runs/ with all below it. remove:
 * removes those whose writer is dead. e: the first argument that is no folder, or folder that
 * cannot be removed; the others are processed all the same. */
void doctor_leftovers(struct doctor_findings *f, const char *const *folders, size_t n, bool remove,
                      struct err *e);

#endif
