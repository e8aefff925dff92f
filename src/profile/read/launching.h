/* How an engine launches a batch: as a CUDA graph, as graphs of the pieces between its attentions,
 * or kernel by kernel. The host's time for it differs by factors of ten, and a batch ends no
 * earlier than its last kernel is launched.
 *
 * The modes are vLLM's cudagraph_mode (vllm/config/compilation.py), and what engines with other
 * names for it do is among them. Batches are padded to the sizes that were captured: 1, 2, 4, then
 * multiples of 8 up to 256 and of 16 from there on (vllm/config/vllm.py, _set_cudagraph_sizes). */
#ifndef PROFILE_READ_LAUNCHING_H
#define PROFILE_READ_LAUNCHING_H

#include <stdbool.h>
#include <stdint.h>

enum launching_mode {
    LAUNCHING_UNTOLD, /* nothing is known of it, and no time is counted */
    LAUNCHING_NONE,
    LAUNCHING_PIECEWISE,
    LAUNCHING_FULL,
    LAUNCHING_FULL_DECODE_ONLY,
    LAUNCHING_FULL_AND_PIECEWISE, /* decode steps as one graph, others in pieces */
};
const char *launching_mode_name(enum launching_mode m); /* "auto", "none": scheduler.cuda_graphs */

struct launching {
    enum launching_mode mode;
    int64_t tokens; /* of the largest batch that was captured */
};

enum launch { LAUNCH_UNTOLD, LAUNCH_GRAPH, LAUNCH_PIECES, LAUNCH_KERNELS };

/* Of a batch of that many tokens; decodes: it has no chunk of a prompt. */
enum launch launching_of(const struct launching *l, int64_t tokens, bool decodes);

/* Tokens that are computed of a batch launched so: those of the captured size. */
int64_t launching_padded(const struct launching *l, int64_t tokens, bool decodes);

/* Launching the n-th batch of a run takes this times the mean. A launch takes its least, and now
 * and then something comes between: (1 - spread ln(1 - u)) / (1 + spread), a least and an
 * exponential delay, of mean 1. The u of successive n are multiples of the golden ratio, so that
 * those of any kind of batch are spread evenly, and nothing is drawn. */
double launching_unevenness(double spread, int64_t n);

/* Whether there can be batches in pieces. */
bool launching_has_pieces(const struct launching *l);

#endif
