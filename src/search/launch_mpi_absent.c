/* In place of launch_mpi.c in builds without MPI. */
#include "search/launch.h"

static enum st open_mpi(bool *leads, struct err *e)
{
    *leads = true;
    err_set(e, ST_DEVICE, "launcher=mpi: this build has no MPI");
    return err_hint(e, "install libopenmpi-dev and openmpi-bin and build again (cmake says whether "
                       "it found MPI); launcher=fork uses the cores of one machine");
}

static enum st run_mpi(const struct launch_work *w, struct err *e)
{
    (void)w;
    (void)e;
    ASSERT(!"not open");
    return ST_OK;
}

static void close_mpi(bool failed)
{
    (void)failed;
}

const struct launcher_ops launch_mpi = {
    .name = "mpi",
    .help = "MPI ranks (not in this build)",
    .version = LAUNCH_VERSION,
    .open = open_mpi,
    .run = run_mpi,
    .close = close_mpi,
};
