/* An H100's peaks, and models of the shape of Llama-2-7B and Llama-3-8B: what tests of calibrations
 * serve. */
#ifndef SUPPORT_H100_H
#define SUPPORT_H100_H

#include "model/model.h"
#include "profile/read/iteration.h"

extern const struct iteration_hardware h100_peaks;
extern const struct model llama_7b, llama_8b; /* 32 KV heads; 8 */

#endif
