/* What this machine has and lacks for what the program can do, each lack with its remedy; and
 * folders that killed processes left unfinished. Nothing is changed, but for those on request. */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE,    /* works, and could be better */
    DOCTOR_MISSING, /* what it is for does not work */
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

/* Unfinished folders in these and below; n = 0: here, and in runs/ with all below it. remove: those
 * whose writer is dead. The first folder that is none or cannot be removed is e; the others are
 * looked at all the same. */
void doctor_leftovers(struct doctor_findings *f, const char *const *folders, size_t n, bool remove,
                      struct err *e);

#endif
