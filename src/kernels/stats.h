/* Figures of many durations, and dense ids for pairs of small numbers. Private to kernels/. */
#ifndef KERNELS_STATS_H
#define KERNELS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kern_stats {
    size_t n;
    int64_t sum, min, max;
    double mean, median; /* of an even count the mean of the two in the middle */
    double stddev;       /* of a sample (n - 1); 0 for one value */
};

/* Puts v in another order. */
struct kern_stats kern_stats_of(int64_t *v, size_t n);

/* n values sorted into groups, order inside a group kept: group g has
 * values[first[g]] up to, not including, values[first[g + 1]]. Groups of TRACE_NONE are left out.
 */
struct kern_groups {
    size_t *first; /* [n_groups + 1] */
    int64_t *values;
    uint32_t n_groups;
};
typedef int64_t kern_value_fn(const void *self, size_t i);
struct kern_groups kern_group(const uint32_t *group, size_t n, uint32_t n_groups,
                              kern_value_fn *value, const void *self);
void kern_groups_free(struct kern_groups *g);

/* Dense ids, in order of first use, for 64-bit keys. */
struct kern_keys {
    uint64_t *keys; /* [n] by id */
    uint32_t n, mask;
    uint32_t *slots;
    uint64_t last_key;
    uint32_t last_id;
};
uint32_t kern_key(struct kern_keys *k, uint64_t key);
void kern_keys_free(struct kern_keys *k);
static inline uint64_t kern_pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

#endif
