/* Launchers: many independent jobs over the cores of a machine, or over MPI ranks.
 *
 *     fork  processes of this machine, `workers` of them (default)
 *     mpi   the ranks of mpirun; the first hands out jobs, the others work. Absent from builds
 *           without MPI, and then refused by name (launch_mpi_absent.c)
 *
 * A job is a function of its index, and gives bytes. Which worker runs it and when must not matter:
 * then neither does the number of workers, and results taken in order of index are the same bytes
 * for any. Workers are processes, since predictors and bundles belong to one thread; jobs see the
 * memory of the parent as it was, and what they change there is lost. */
#ifndef SEARCH_LAUNCH_H
#define SEARCH_LAUNCH_H

#include <signal.h>

#include "base/str.h"

enum { LAUNCH_VERSION = 1 };

struct launch_work {
    void *self;
    size_t n;         /* jobs 0 .. n-1 */
    const bool *skip; /* [n] or NULL: jobs that are done already */
    int64_t workers;  /* fork: processes, >= 1; with 1 the jobs run in this process */
    /* In a worker. An error ends the whole, with that error. */
    enum st (*job)(void *self, size_t i, struct buf *out, struct err *e);
    /* In the calling process, as results come, in no order that means anything. */
    enum st (*done)(void *self, size_t i, struct sv bytes, struct err *e);
    const volatile sig_atomic_t *stop; /* may be NULL; != 0 ends it: ST_INTERRUPTED */
};

struct launcher_ops {
    const char *name, *help;
    int version; /* LAUNCH_VERSION */
    /* Before anything else of the command; *leads says whether this process is the one that reads
     * results, writes and prints. */
    enum st (*open)(bool *leads, struct err *e);
    /* All processes call it with equal jobs; returns when all is done. In those that do not lead it
     * returns ST_OK whatever happened. One that leads and has nothing to do calls it with n = 0, or
     * the others would wait for ever. */
    enum st (*run)(const struct launch_work *w, struct err *e);
    void (*close)(void);
};

extern const struct launcher_ops launch_fork, launch_mpi;
extern const struct launcher_ops *const launcher_registry[]; /* NULL-terminated */
enum st launcher_find(const char *name, const struct launcher_ops **out, struct err *e);

/* Cores this process may use, for workers where the user did not say. */
int64_t launch_cores(void);

#endif
