/* Decides when to record. The gate is open while every condition of the settings holds (inside a
 * range, between cuProfilerStart and cuProfilerStop, from one launch of a CUDA graph to another,
 * after the delay, before the end, not paused, disk not full); each period it is open is a window
 * (SPOOL_WINDOWS).
 *
 * Work is recorded if it was launched inside a window, whenever it runs: a window has the
 * correlation ids of its launches. Without callbacks that supply these, start times decide.
 *
 * Application threads open and close; the writer queries. */
#ifndef INJECT_GATE_H
#define INJECT_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

void inject_gate_open(void); /* at the start of recording */
extern _Atomic int inject_gate_is_open;
extern bool inject_gate_filters; /* a condition is set: records are checked against windows */

/* The conditions. */
void inject_gate_range(bool enter);
void inject_gate_profiler(bool start);
/* Around a launch of a CUDA graph: the begin, in front of the call, returns its number, which the
 * end, behind the call, is given. Launches count from 1 in this process, with settings.profiler
 * those between cuProfilerStart and cuProfilerStop; 0 = this one does not count. */
int64_t inject_gate_graph_begins(void);
void inject_gate_graph_ends(int64_t number);
int64_t inject_gate_graphs(void); /* that counted so far */
void inject_gate_pause(bool paused);
void inject_gate_disk_full(void);
void inject_gate_tick(int64_t now_ns); /* the writer: time limits, before it decodes a buffer */
/* For launches: the gate may still be open, as the writer closes it. */
bool inject_gate_time_is_up(int64_t now_ns);
void inject_gate_launch(uint32_t correlation);

/* The writer: whether the work of that launch, or the time, is inside a window. A binary search
 * that takes no lock: the application's threads, which open and close windows, never wait for it.
 */
bool inject_gate_keeps(uint32_t correlation, int64_t start_ns);
bool inject_gate_overlaps(int64_t start_ns, int64_t end_ns);
/* The writer: writes windows that ended since the last call to the spool; at the end the open one
 * too. */
void inject_gate_write(bool end);
/* How long the gate has been closed: decides whether CUPTI is switched off. */
int64_t inject_gate_closed_ns(int64_t now_ns);
uint64_t inject_gate_take_lost(void); /* the writer: records whose window is no longer kept */

#endif
