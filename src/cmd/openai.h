/* bench engine=openai: the workload against a server, by src/client. */
#ifndef CMD_OPENAI_H
#define CMD_OPENAI_H

#include "job/job.h"

/* A run whose client could not keep its schedule is written and reported, and gives ST_REJECTED. */
enum st openai_bench(struct job_context *c, struct err *e);

#endif
