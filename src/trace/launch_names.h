/* Driver functions that launch work, by CUPTI's number. Private to trace/. */
#ifndef TRACE_LAUNCH_NAMES_H
#define TRACE_LAUNCH_NAMES_H

#include <stdint.h>

const char *trace_launch_name(uint16_t cbid); /* "cuLaunchKernel"; NULL = unknown */

#endif
