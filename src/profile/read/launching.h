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

/* A host is fast and slow by turns: launching takes this times the mean in a bout of LAUNCHING_BOUT
 * batches, from 0. It is exp(spread z - spread^2 / 2), where the z of
 * successive bouts are normal quantiles of a van der Corput sequence: nothing is drawn, and few
 * bouts have the distribution's percentiles. */
enum { LAUNCHING_BOUT = 16 };
double launching_unevenness(double spread, int64_t bout);

/* Whether there can be batches in pieces. */
bool launching_has_pieces(const struct launching *l);

#endif
