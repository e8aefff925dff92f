#include <mpi.h>
#include <string.h>

#include "base/clock.h"
#include "search/launch.h"

enum { TAG_JOB = 1, TAG_RESULT = 2 };
static const uint64_t NO_JOB = UINT64_MAX;

/* Header of a worker's message. NO_JOB: no result yet, request for a job. */
struct message_frame {
    uint64_t job, bytes;
    struct err e;
};

static enum st open_mpi(bool *leads, struct err *e)
{
    int rank = 0, n = 0;
    *leads = true;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS ||
        MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &n) != MPI_SUCCESS) {
        err_set(e, ST_DEVICE, "launcher=mpi: MPI does not start");
        return err_hint(e, "start it as: mpirun -n 8 twinfer search launcher=mpi ...");
    }
    *leads = rank == 0;
    return ST_OK;
}

/* Sends bytes: MPI counts in int, results are kilobytes. */
static void send_bytes(const void *p, size_t n, int to)
{
    ASSERT(n < INT32_MAX);
    MPI_Send(p, (int)n, MPI_BYTE, to, TAG_RESULT, MPI_COMM_WORLD);
}

static void work_for_leader(const struct launch_work *w)
{
    struct buf out = {0};
    struct message_frame f = {.job = NO_JOB};
    for (;;) {
        uint64_t job;
        f.bytes = out.n;
        send_bytes(&f, sizeof f, 0);
        if (out.n > 0)
            send_bytes(out.p, out.n, 0);
        MPI_Recv(&job, sizeof job, MPI_BYTE, 0, TAG_JOB, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (job == NO_JOB)
            break;
        f = (struct message_frame){.job = job};
        buf_clear(&out);
        if (w->job(w->self, (size_t)job, &out, &f.e) != ST_OK)
            buf_clear(&out);
    }
    buf_free(&out);
}

struct leader {
    const struct launch_work *w;
    size_t next;
    int working; /* ranks not yet asked to end */
};

static uint64_t next_job(struct leader *l)
{
    while (l->next < l->w->n && l->w->skip && l->w->skip[l->next])
        l->next++;
    return l->next < l->w->n ? l->next++ : NO_JOB;
}

/* Waits without using a core: MPI itself would spin, beside workers of the same machine. */
static int wait_for_worker(void)
{
    MPI_Status status;
    int there = 0;
    for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_RESULT, MPI_COMM_WORLD, &there, &status);
        if (there)
            return status.MPI_SOURCE;
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS / 2);
    }
}

static enum st take(struct leader *l, int from, struct err *e)
{
    struct message_frame f;
    enum st st = ST_OK;
    MPI_Recv(&f, sizeof f, MPI_BYTE, from, TAG_RESULT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    char *bytes = mem_alloc(f.bytes + 1);
    if (f.bytes > 0)
        MPI_Recv(bytes, (int)f.bytes, MPI_BYTE, from, TAG_RESULT, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (f.e.st != ST_OK) {
        *e = f.e;
        st = e->st;
    } else if (f.job != NO_JOB) {
        st = l->w->done(l->w->self, (size_t)f.job, (struct sv){bytes, f.bytes}, e);
    }
    mem_free(bytes);
    return st;
}

/* Leads the run: after an error or a signal, ends each rank when it reports back. */
static enum st lead(struct leader *l, struct err *e)
{
    enum st st = ST_OK;
    while (l->working > 0) {
        struct err later = {0};
        int from = wait_for_worker();
        enum st now = take(l, from, st == ST_OK ? e : &later);
        if (st == ST_OK)
            st = now;
        bool stop = st != ST_OK || (l->w->stop && *l->w->stop);
        uint64_t job = stop ? NO_JOB : next_job(l);
        MPI_Send(&job, sizeof job, MPI_BYTE, from, TAG_JOB, MPI_COMM_WORLD);
        l->working -= job == NO_JOB;
    }
    if (st == ST_OK && l->w->stop && *l->w->stop)
        st = err_set(e, ST_INTERRUPTED, "interrupted by a signal");
    return st;
}

static enum st run_mpi(const struct launch_work *w, struct err *e)
{
    int rank, n;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (n == 1) {
        struct launch_work alone = *w;
        alone.workers = 1;
        return launch_fork.run(&alone, e);
    }
    if (rank != 0) {
        work_for_leader(w);
        return ST_OK;
    }
    struct leader l = {.w = w, .working = n - 1};
    return lead(&l, e);
}

static void close_mpi(void)
{
    MPI_Finalize();
}

const struct launcher_ops launch_mpi = {
    .name = "mpi",
    .help = "MPI ranks: the first hands out, the others work",
    .version = LAUNCH_VERSION,
    .open = open_mpi,
    .run = run_mpi,
    .close = close_mpi,
};
