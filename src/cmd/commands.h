/* The functions behind the rows of the command table, one per file of this folder. */
#ifndef CMD_COMMANDS_H
#define CMD_COMMANDS_H

#include "cmd/cmd.h"

int cmd_workload(struct cmd_context *c, struct err *e);
int cmd_bench(struct cmd_context *c, struct err *e);
int cmd_serve(struct cmd_context *c, struct err *e);
int cmd_profile(struct cmd_context *c, struct err *e);
int cmd_simulate(struct cmd_context *c, struct err *e);
int cmd_capacity(struct cmd_context *c, struct err *e);
int cmd_search(struct cmd_context *c, struct err *e);
int cmd_compare(struct cmd_context *c, struct err *e);
int cmd_report(struct cmd_context *c, struct err *e);
int cmd_kernels(struct cmd_context *c, struct err *e);
int cmd_model(struct cmd_context *c, struct err *e);
int cmd_trace(struct cmd_context *c, struct err *e);
int cmd_doctor(struct cmd_context *c, struct err *e);

/* ST_USAGE for a name that engine= does not know. */
#define BENCH_ENGINES "cpu, null, openai, worker"
enum st bench_check_engine(const char *name, struct err *e);

/* Engines of bench that batch by themselves. */
enum st bench_worker(struct cmd_context *c, struct err *e);

#endif
