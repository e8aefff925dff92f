/* Contents of the pages of traces and of runs of `kernels`. Private to report/trace_*.c. */
#ifndef REPORT_TRACE_PAGE_H
#define REPORT_TRACE_PAGE_H

#include "kernels/kernels.h"
#include "report/page.h"

/* One kind of machine fact, for people. */
struct trace_machine_fact {
    const char *title, *text;
};

struct trace_data {
    const struct node *meta;     /* of the recording; NULL = none */
    const struct node *analysis; /* of the run of `kernels`; NULL on a trace's own page */
    const char *command;         /* what was recorded; NULL = unknown */
    struct trace_machine_fact *machine;
    size_t n_machine;
    struct table *kernels, *operators, *regions;
    struct table *diff; /* of kernels_diff.csv; NULL = no comparison */
    const char *against;
    struct kernels_timeline timeline;
    size_t operations;
    const char *gantt;
    const char **notes;
    size_t n_notes;
};

/* The sections; each writes nothing where it has no data. */
void section_kernels(struct arena *a, struct buf *out, const struct trace_data *d);
void section_operators(struct buf *out, const struct trace_data *d);
void section_diff(struct arena *a, struct buf *out, const struct trace_data *d);
void section_regions(struct buf *out, const struct trace_data *d);
void section_busy(struct arena *a, struct buf *out, const struct trace_data *d);
void section_launch(struct buf *out, const struct trace_data *d);
/* "Recorded on node7: NVIDIA H200, 140 GiB", for the banner. */
void section_machine_line(struct arena *a, struct buf *out, const struct trace_data *d);
void section_machine(struct buf *out, const struct trace_data *d);

/* Fills `machine`: facts of the trace itself, then those of the recording's meta. */
void section_machine_facts(struct arena *a, struct trace_data *d, const struct trace_dict *dict);

#endif
