/* goodput=: limits of a good request, for every run. */
#ifndef JOB_GOODPUT_H
#define JOB_GOODPUT_H

#include "job/job.h"
#include "search/slo.h"

/* *text: the setting as written, "ttft:200 tpot:50", in c->a; NULL and no limits where goodput is
 * unset. ST_USAGE as slo_parse, and for a limit on delay. */
enum st job_goodput(const struct job_context *c, struct slo *limits, const char **text,
                    struct err *e);

#endif
