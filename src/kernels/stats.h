/* Figures of many durations, and dense ids for pairs of small numbers. Private to kernels/. */
#ifndef KERNELS_STATS_H
#define KERNELS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernels_stats {
    size_t n;
    int64_t sum, min, max;
    double mean;
    double median; /* of an even count the mean of the two in the middle */
    double stddev; /* of a sample (n - 1); NAN for fewer than two values */
};

/* Reorders v. */
struct kernels_stats kernels_stats_of(int64_t *v, size_t n);

/* n values sorted into groups, order inside a group kept: group g has
 * values[first[g]] up to, not including, values[first[g + 1]]. Groups of TRACE_NONE are left out.
 */
struct kernels_groups {
    size_t *first; /* [n_groups + 1] */
    int64_t *values;
    uint32_t n_groups;
};
typedef int64_t kernels_value_fn(const void *self, size_t i);
struct kernels_groups kernels_group(const uint32_t *group, size_t n, uint32_t n_groups,
                                    kernels_value_fn *value, const void *self);
void kernels_groups_free(struct kernels_groups *g);

/* Dense ids, in order of first use, for 64-bit keys. */
struct kernels_keys {
    uint64_t *keys; /* [n] by id */
    uint32_t n, mask;
    uint32_t *slots;
    uint64_t last_key;
    uint32_t last_id;
};
uint32_t kernels_key(struct kernels_keys *k, uint64_t key);
void kernels_keys_free(struct kernels_keys *k);
static inline uint64_t kernels_pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

#endif
