#include "job/lengths.h"

bool job_lengths_has(const struct plan *p, int64_t times)
{
    const double most = 1e8; /* requests in memory */
    const double once = p->workload.make.duration_s > 0 ? p->workload.make.duration_s
                                                        : (double)p->workload.make.num_requests;
    return !job_is_stretched(p) && once > 0 && once * (double)times <= most;
}

enum st job_lengths_open(struct job_lengths *l, int64_t times, struct err *e)
{
    struct job_context *c = arena_copy(l->c->a, l->c, sizeof *c);
    struct plan *plan = arena_copy(l->c->a, l->c->plan, sizeof *plan);
    if (l->open && l->times == times)
        return ST_OK;
    job_lengths_close(l);
    plan->workload.make.num_requests *= times;
    plan->workload.make.duration_s *= (double)times; /* at a mean rate of 1 request/s */
    c->plan = plan;
    TRY(job_probe_open(c, &l->probe, e));
    l->open = true;
    l->times = times;
    return ST_OK;
}

void job_lengths_close(struct job_lengths *l)
{
    if (l->open)
        job_probe_close(&l->probe);
    l->open = false;
}
