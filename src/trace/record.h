/* Recording: runs a program with the recorder's library, which writes a spool per process.
 *
 *     trace_record_prepare -> settings.txt      trace_record_run -> *.spool
 *     trace_recorded       -> contents and faults of the spools of the folder
 *
 * The program is started unchanged, in this process group and with this terminal, except for the
 * three variables of trace/settings.h. It may outlive its recording, and start others, which are
 * recorded too. */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include "artifact/artifact.h"
#include "config/option.h"

/* Rows: trace/options.c; capture and graph_* have none. */
struct trace_record {
    bool attach;         /* there is a program to run */
    const char *library; /* libtwinfer_inject.so, absolute: trace_guest_library */
    /* As the keys of that name in trace/settings.h, which has units and defaults. */
    struct texts ranges;
    bool copies, sync, nvtx, launches, profiler;
    int64_t capture, graph_first, graph_last;
    int graphs, api; /* TRACE_GRAPHS_..., TRACE_API_... */
    double delay_s, duration_s;
    int64_t flush_ms, buffers;
    const char *cupti; /* NULL = found by the recorder */
};
extern const struct option_section trace_options, trace_library_options;

/* The recorder's library: beside the program, in ../lib/twinfer beside it, or `path` (NULL = those
 * two). ST_DEVICE with a remedy when it is missing. The result is absolute. */
enum st trace_guest_library(struct arena *a, const char *path, const char **out, struct err *e);

/* Checks limits on ranges, which the recorder itself could only note in the spool. ST_USAGE. */
enum st trace_record_check(const struct trace_record *r, struct err *e);

/* Environment variables that make any program write spools. */
enum { TRACE_VARIABLES = 3 };
struct trace_variable {
    const char *name, *value;
};
/* Writes settings.txt into the artifact; spools will go to dir (absolute), the final folder of that
 * file. */
enum st trace_record_prepare(const struct trace_record *r, const struct artifact *art,
                             const char *dir, struct trace_variable out[TRACE_VARIABLES],
                             struct err *e);

/* Runs the program (ends with NULL) to its end; *status as waitpid gives it. "cannot run PROGRAM:
 * why" when it cannot be started. Meanwhile signals of the terminal are left to the program, and a
 * SIGTERM for this process is forwarded to it. One at a time in a process. */
enum st trace_record_run(struct arena *a, char *const *program,
                         const struct trace_variable variables[TRACE_VARIABLES], int *status,
                         struct err *e);

/* The same, with an end to waiting: the program gets SIGTERM after `most_s`, 0 = never; SIGKILL
 * when it has not ended `told_s` after such a signal, ours or one that was forwarded, or when a
 * second one comes for this process half a second or more after the first. */
struct trace_patience {
    double most_s, told_s;
};
enum st trace_record_run_within(struct arena *a, char *const *program,
                                const struct trace_variable variables[TRACE_VARIABLES],
                                const struct trace_patience *p, int *status, struct err *e);

/* The spools of a folder. */
struct trace_recorded {
    struct node *processes;                               /* a list, a map each (docs/formats.md) */
    int64_t n, kernels, launches, ranges, dropped, bytes; /* n: readable spools */
};
/* Damage, losses and warnings of the recorder are logged. */
enum st trace_recorded(struct arena *a, const char *dir, struct trace_recorded *out, struct err *e);

#endif
