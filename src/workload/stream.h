/* A workload as a stream: the same requests as workload.h gives, one after the other, in memory
 * that does not grow with their number (workloads made or in one trace.csv; of a workload directory
 * too when both its tables stand in order of request_id, as we write them, and it has no
 * hash_ids.jsonl or sessions.csv, otherwise its rows are held; prompt ids are held once each, and
 * so are the hash_ids that prefixes and sessions make).
 *
 * A file is read twice: opening checks all of it, so that a fault on its last line is reported
 * before a run begins; rows are read again as they are used. A file that changed in between is
 * ST_INPUT. */
#ifndef WORKLOAD_STREAM_H
#define WORKLOAD_STREAM_H

#include "workload/workload.h"

struct workload_stream;

/* As workload_make; the prompts of *p are borrowed. */
enum st workload_stream_make(const struct workload_params *p, struct workload_stream **out,
                             struct err *e);
/* As workload_load_trace, or workload_load_mooncake for *.jsonl, whose requests are held. */
enum st workload_stream_trace(const char *csv, struct workload_stream **out, struct err *e);
/* As workload_load. */
enum st workload_stream_dir(const char *dir, struct workload_stream **out, struct err *e);
void workload_stream_close(struct workload_stream **s); /* NULL is fine */

int64_t workload_stream_total(const struct workload_stream *s);
bool workload_stream_has_sessions(const struct workload_stream *s);
/* Of a workload directory that is a closed loop, else NULL. */
const struct concurrency *workload_stream_concurrency(const struct workload_stream *s);

/* ST_END after the last. prompt_id lives as long as the stream. The first AHEAD requests are read
 * at open, so that timing a loop over a small workload does not time its file. */
enum st workload_stream_next(struct workload_stream *s, struct workload_request *out,
                             struct err *e);

#endif
