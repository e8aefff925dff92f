/* Streams, events and graphs of a GPU (gpu/device.h). All errors are ST_DEVICE. */
#ifndef GPU_STREAM_H
#define GPU_STREAM_H

#include "gpu/device.h"

/* Does not wait for the default stream, nor that for it. */
enum st gpu_stream_open(const struct gpu *g, CUstream *out, struct err *e);
void gpu_stream_close(const struct gpu *g, CUstream *s); /* clears it; NULL is fine */
enum st gpu_stream_wait(const struct gpu *g, CUstream s, struct err *e); /* until it is done */
/* Work that comes later on s waits for the event. */
enum st gpu_stream_after(const struct gpu *g, CUstream s, CUevent event, struct err *e);

/* timed: keeps the time of its record, for gpu_event_s. */
enum st gpu_event_open(const struct gpu *g, bool timed, CUevent *out, struct err *e);
void gpu_event_close(const struct gpu *g, CUevent *event);
enum st gpu_event_record(const struct gpu *g, CUevent event, CUstream s, struct err *e);
enum st gpu_event_wait(const struct gpu *g, CUevent event, struct err *e);
/* *done: whether all work before it is done; never waits. */
enum st gpu_event_query(const struct gpu *g, CUevent event, bool *done, struct err *e);
/* Seconds of device time between two timed events that are done; resolution about 0.5 us. */
enum st gpu_event_s(const struct gpu *g, CUevent start, CUevent end, double *s, struct err *e);

/* A graph, ready to launch: what was given to the stream between begin and end, which runs only
 * when launched. Parameters of kernels and addresses of copies are those of the capture. After an
 * error in between gpu_capture_end must be called all the same; its result is then without meaning.
 */
enum st gpu_capture_begin(const struct gpu *g, CUstream s, struct err *e);
/* n_nodes may be NULL. */
enum st gpu_capture_end(const struct gpu *g, CUstream s, CUgraphExec *out, size_t *n_nodes,
                        struct err *e);
enum st gpu_graph_launch(const struct gpu *g, CUgraphExec graph, CUstream s, struct err *e);
void gpu_graph_close(const struct gpu *g, CUgraphExec *graph);

#endif
