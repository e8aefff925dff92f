/* Sampling parameters of a request. Order, as in vLLM: logits are divided by the temperature;
 * min_p, top_k and top_p leave candidates out, in this order; one of the others is drawn with its
 * share of their probability. */
#ifndef MODEL_SAMPLING_H
#define MODEL_SAMPLING_H

#include <stdint.h>

struct sampling {
    double temperature; /* > 0; greedy requests have no struct sampling */
    double min_p;       /* drops tokens less likely than min_p times the likeliest, 0 .. 1 */
    int64_t top_k;      /* keeps the k likeliest; 0 = all */
    double top_p;  /* keeps the fewest, likeliest first, that have this share together, 0 .. 1 */
    uint64_t seed; /* equal seeds draw equal tokens from equal logits */
};

#endif
