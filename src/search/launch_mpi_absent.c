/* Replaces launch_mpi.c in builds without MPI. */
#include "search/launch.h"

static enum st open_mpi(bool *leads, struct err *e)
{
    *leads = true;
    err_set(e, ST_DEVICE, "launcher=mpi: this build has no MPI");
    return err_hint(e, "install libopenmpi-dev and openmpi-bin and build with cmake -DTW_MPI=ON; "
                       "launcher=fork uses the cores of one machine");
}

static enum st run_mpi(const struct launch_work *w, struct err *e)
{
    bool leads;
    (void)w;
    return open_mpi(&leads, e);
}

static void close_mpi(void) {}

const struct launcher_ops launch_mpi = {
    .name = "mpi",
    .help = "MPI ranks (not in this build)",
    .version = LAUNCH_VERSION,
    .open = open_mpi,
    .run = run_mpi,
    .close = close_mpi,
};
