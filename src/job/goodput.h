/* goodput=: the limits that a good request meets, of every run. */
#ifndef JOB_GOODPUT_H
#define JOB_GOODPUT_H

#include "job/job.h"
#include "search/slo.h"

/* *text is as given, "ttft:200 tpot:50", in c->a; NULL where goodput is unset, and then there are
 * no limits. ST_USAGE: what slo_parse refuses, and a limit on delay. */
enum st job_goodput(const struct cmd_context *c, struct slo *limits, const char **text,
                    struct err *e);

#endif
