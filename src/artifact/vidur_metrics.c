#include "artifact/vidur_metrics.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "text/csv.h"

const char *const vidur_metrics_columns[VIDUR_COLUMNS] = {
    "Request Id",
    "request_e2e_time",
    "request_e2e_time_normalized",
    "request_execution_time",
    "request_execution_time_normalized",
    "request_model_execution_time",
    "request_model_execution_time_normalized",
    "request_preemption_time",
    "request_scheduling_delay",
    "request_execution_plus_preemption_time",
    "request_execution_plus_preemption_time_normalized",
    "prefill_e2e_time",
    "prefill_time_execution_plus_preemption",
    "prefill_time_execution_plus_preemption_normalized",
    "decode_time_execution_plus_preemption_normalized",
    "request_inter_arrival_delay",
    "request_num_tokens",
    "request_num_prefill_tokens",
    "request_num_decode_tokens",
    "request_pd_ratio",
    "request_num_restarts",
};

/* A restart turns the output so far into prompt, and the normalized columns count that way. */
void vidur_metrics_row(const struct run_request *r, double out[VIDUR_COLUMNS])
{
    int64_t outputs = r->num_decode_tokens_actual;
    double p = (double)r->last_prefill_tokens;
    double d = (double)(r->num_prefill_tokens + outputs - r->last_prefill_tokens);
    double e2e = ns_to_s(r->completion_ns - r->arrival_ns);
    double both = ns_to_s(r->completion_ns - r->first_start_ns);
    double prefill = ns_to_s(r->first_token_ns - r->scheduled_ns);
    double gap = (double)NAN;
    if (r->arrival_before_ns != RUN_NONE)
        gap = ns_to_s(r->arrival_ns - r->arrival_before_ns);
    const double row[VIDUR_COLUMNS] = {
        (double)r->request_id,
        e2e,
        e2e / d,
        r->busy_s,
        r->busy_s / d,
        r->device_s,
        r->device_s / d,
        both - r->busy_s,
        ns_to_s(r->scheduled_ns - r->arrival_ns),
        both,
        both / d,
        ns_to_s(r->first_token_ns - r->arrival_ns),
        prefill,
        prefill / p,
        ns_to_s(r->completion_ns - r->first_token_ns) / d,
        gap,
        (double)(r->num_prefill_tokens + outputs),
        (double)r->num_prefill_tokens,
        (double)outputs,
        (double)r->num_prefill_tokens / (double)outputs,
        (double)r->preemptions,
    };
    for (int i = 0; i < VIDUR_COLUMNS; i++)
        out[i] = row[i];
}

struct vidur_metrics {
    const struct artifact *art;
    struct csv_writer csv;
    int write_errno;
};

enum st vidur_metrics_open(const struct artifact *art, struct vidur_metrics **out, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, VIDUR_METRICS, &f, e));
    struct vidur_metrics *w = mem_alloc(sizeof *w);
    *w = (struct vidur_metrics){.art = art, .csv = {.f = f}};
    for (int i = 0; i < VIDUR_COLUMNS; i++)
        csv_put_str(&w->csv, vidur_metrics_columns[i]);
    csv_end_row(&w->csv);
    *out = w;
    return ST_OK;
}

void vidur_metrics_write(struct vidur_metrics *w, const struct run_request *r)
{
    if (r->status != RUN_OK || r->first_start_ns == RUN_NONE)
        return;
    double row[VIDUR_COLUMNS];
    vidur_metrics_row(r, row);
    for (int i = 0; i < VIDUR_COLUMNS; i++)
        csv_put_double(&w->csv, row[i]);
    csv_end_row(&w->csv);
    if (ferror(w->csv.f) && !w->write_errno)
        w->write_errno = errno ? errno : EIO;
}

enum st vidur_metrics_close(struct vidur_metrics **pw, struct err *e)
{
    struct vidur_metrics *w = *pw;
    if (!w)
        return ST_OK;
    *pw = NULL;
    enum st st = ST_OK;
    if (w->write_errno) {
        errno = w->write_errno;
        st =
            err_errno(e, false, "cannot write %s", artifact_path(w->art->a, w->art, VIDUR_METRICS));
        fclose(w->csv.f);
    } else {
        st = artifact_close_file(w->art, VIDUR_METRICS, &w->csv.f, e);
    }
    mem_free(w);
    return st;
}
