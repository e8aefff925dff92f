/* CUPTI: finding it, taking its one subscriber, switching records and callbacks on and off.
 *
 * Found once and kept open. inject_cupti_start attaches (clock, subscriber, buffers) and, when the
 * gate allows it, switches on what the settings enable: kinds of activity records (decode.h) and
 * callbacks (handlers.h). inject_cupti_rest switches these off and stays attached;
 * inject_cupti_stop releases CUPTI. A note reports what is not available, and the rest is recorded
 * without it. After a fork the library's state is the parent's: the child never calls it again. */
#ifndef INJECT_CUPTI_H
#define INJECT_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/abi/cupti.h"

bool inject_cupti_open(void); /* find the library; notes why not */

/* Lock `control` held. */
bool inject_cupti_start(void);
void inject_cupti_stop(void); /* where graphs are recorded whole, only as inject_cupti_rest */
void inject_cupti_rest(void);
/* Before the first inject_cupti_start: no CUDA graph can exist yet, so that graphs=graph is
 * possible. */
void inject_cupti_is_early(void);
/* Whether graphs are recorded at this level, or the level can still be chosen. */
bool inject_cupti_graphs_can_be(bool whole);
uint64_t
inject_cupti_take_dropped(void); /* records dropped for lack of buffers, since the last call */

void inject_cupti_pause(bool on); /* whether inject_cupti_start may */
bool inject_cupti_wanted(void);   /* found, and not paused */
bool inject_cupti_running(void);
bool inject_cupti_has_callbacks(void); /* a subscriber is in place */
void inject_cupti_flush(bool forced);
void inject_cupti_forget(void); /* in a child after fork */

uint32_t inject_cupti_version(void); /* as cuptiGetVersion; 0 = none */
int64_t inject_cupti_now_ns(void);   /* its clock, 0 = none */
bool inject_cupti_own_clock(void);   /* CUPTI uses CLOCK_MONOTONIC */
const char *inject_cupti_api_name(int domain,
                                  uint32_t cbid); /* "cudaLaunchKernel_v7000", "" = unknown */
/* 1, 0 at the end, -1 when CUPTI cannot parse further. */
int inject_cupti_next_record(uint8_t *buffer, size_t bytes, void **record);
/* For handlers.h: enables one function's callback. */
void inject_cupti_callback(CUpti_CallbackDomain domain, uint32_t cbid, bool on);

#endif
