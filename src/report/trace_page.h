/* Contents of the pages of traces and of runs of `kernels`. Private to report/trace_*.c. */
#ifndef REPORT_TRACE_PAGE_H
#define REPORT_TRACE_PAGE_H

#include "kernels/summary.h"
#include "report/page.h"

struct trace_data {
    struct kernels_summary s;
    const struct node *analysis; /* of the run of `kernels`; NULL on a trace's own page */
    const char *command;         /* what was recorded; NULL = unknown */
    /* What the trace says of its machine, then what the recording's meta adds. */
    struct kernels_fact *machine;
    size_t n_machine;
};

/* The sections; each writes nothing where it has no data. */
void section_kernels(struct arena *a, struct buf *out, const struct trace_data *d);
void section_operators(struct buf *out, const struct trace_data *d);
void section_diff(struct arena *a, struct buf *out, const struct trace_data *d);
void section_regions(struct buf *out, const struct trace_data *d);
/* Of a server, by how it launched them. */
void section_iterations(struct buf *out, const struct trace_data *d);
void section_busy(struct arena *a, struct buf *out, const struct trace_data *d);
void section_launch(struct buf *out, const struct trace_data *d);
/* "Recorded on node7: NVIDIA H200, 140 GiB", for the banner. */
void section_machine_line(struct arena *a, struct buf *out, const struct trace_data *d);
void section_machine(struct buf *out, const struct trace_data *d);

/* Fills machine from s. */
void section_machine_facts(struct arena *a, struct trace_data *d);

#endif
