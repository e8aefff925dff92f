/* Launchers: many independent jobs over the cores of a machine, or over MPI ranks.
 *
 *     fork  processes of this machine, `workers` of them (default)
 *     mpi   the ranks of mpirun; the first hands out jobs, the others work. Absent from builds
 *           without MPI, and then refused by name (launch_mpi_absent.c)
 *
 * A job is a function of its index and yields bytes, independent of the worker and of time: results
 * in order of index are then the same bytes for any number of workers. Workers are processes, since
 * predictors and bundles belong to one thread; jobs see the memory of the parent as it was, and
 * their changes to it are lost. */
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
    /* Called in a worker. An error ends the whole run with that error. */
    enum st (*job)(void *self, size_t i, struct buf *out, struct err *e);
    /* Called in the calling process for each result, in unspecified order. */
    enum st (*done)(void *self, size_t i, struct sv bytes, struct err *e);
    const volatile sig_atomic_t *stop; /* may be NULL; != 0 ends it at once: ST_INTERRUPTED */
};

struct launcher_ops {
    const char *name, *help;
    int version; /* LAUNCH_VERSION */
    /* Called first by the command; *leads: this process reads results, writes and prints. */
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

/* Cores this process may use: default of `workers`. */
int64_t launch_cores(void);

#endif
