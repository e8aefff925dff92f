/* How long work of a GPU takes, on the device.
 *
 * A step is work that is given to a stream: a copy, a kernel, a chain of them. It is captured into
 * a CUDA graph many times over, so that no gap of the host stands between two steps, and that graph
 * is launched between two events. A sample is the time between the events over the number of steps;
 * it is as long as sample_s or longer, by the device's clock or by the host's, whichever gets there
 * first. Clocks rise before the first sample (warm_up_s).
 *
 * Warm: one step after the other; what they read may still be in the L2 cache. Cold: before each
 * step twice the L2 cache is overwritten. A graph of those writes alone, launched in turn with the
 * other, gives what they cost, and that is taken off sample by sample; the error of a cold time is
 * that of both. Steps of one graph follow each other as on one stream: a time holds the gap between
 * two nodes, about 1 us on an H200, which a record of CUPTI leaves out.
 *
 * Threads: as struct gpu. */
#ifndef REPLAY_TIMING_H
#define REPLAY_TIMING_H

#include <signal.h>

#include "gpu/stream.h"

/* Of one step, seconds of device time. */
struct timing {
    int64_t n;                      /* samples; 0 = not measured */
    int64_t runs;                   /* steps that the samples hold */
    double median_s, low_s, high_s; /* quartiles */
    double min_s, max_s;
    int64_t start_wall_ns, end_wall_ns; /* of the samples */
};

struct timer_params {
    int64_t samples;                   /* 0 = 20 */
    double sample_s, warm_up_s;        /* 0 = 0.005, and ten samples but at most 0.05 */
    const volatile sig_atomic_t *stop; /* raised by a signal; NULL = never */
};

struct timer {
    const struct gpu *g; /* borrowed */
    struct timer_params p;
    CUstream stream;
    CUevent start, end, third; /* the third is for rounds that follow each other */
    CUdeviceptr flush;         /* 0 until the first cold time */
    size_t flush_bytes;
    double *samples; /* [p.samples] */
    /* Given to the stream before each sample and round, outside what is timed but inside what is
     * held; NULL = nothing. */
    enum st (*before)(void *self, CUstream stream, struct err *e);
    void *before_self;
};

/* i counts the steps of a graph from 0: a step that stands for several of a kind takes them in
 * turn. Called while the stream is captured. */
typedef enum st timer_step(void *self, int64_t i, CUstream stream, struct err *e);

enum st timer_open(const struct gpu *g, const struct timer_params *p, struct timer *out,
                   struct err *e);
void timer_close(struct timer *t); /* zeroed is fine */

/* cycle: how many there are of the kind, 1 or more; a graph holds a multiple of it. */
enum st timer_warm(struct timer *t, timer_step *step, void *self, int64_t cycle, struct timing *out,
                   struct err *e);
enum st timer_cold(struct timer *t, timer_step *step, void *self, int64_t cycle, struct timing *out,
                   struct err *e);
/* Of a graph that is there already and holds `steps` steps. */
enum st timer_graph(struct timer *t, CUgraphExec graph, int64_t steps, struct timing *out,
                    struct err *e);

/* Held: steps without a gap for s seconds of the host's clock, and for a sensor of power. A round
 * is a graph launched over sample_s; while one is waited for the next is in the queue. A sample is
 * the time from the end of one round to that of the next, start_wall_ns to end_wall_ns the end of
 * the first round to that of the last one, and `runs` the steps between these: at both ends the
 * device was at work. Three samples at least, and least_launches of the graph between them. */
enum st timer_hold(struct timer *t, timer_step *step, void *self, int64_t cycle, double s,
                   struct timing *out, struct err *e);
enum st timer_hold_graph(struct timer *t, CUgraphExec graph, int64_t steps, int64_t least_launches,
                         double s, struct timing *out, struct err *e);

/* The graph of n steps. Close it with gpu_graph_close. */
enum st timer_capture(struct timer *t, timer_step *step, void *self, int64_t n, CUgraphExec *out,
                      struct err *e);

/* Median, quartiles and range of n samples, which are sorted. */
void timing_set(struct timing *t, double *samples, size_t n);

enum { TIMING_TEXT = 32 };
/* "2026-11-23 03:06:50.123" in the machine's time zone, as nvidia-smi and Python's loggers write
 * it;
 * "" for 0. */
void timing_stamp(int64_t wall_ns, char out[TIMING_TEXT]);

#endif
