/* The iterations of a trace: ranges around one each. Private to kernels/. */
#ifndef KERNELS_STEPS_H
#define KERNELS_STEPS_H

#include "base/vec.h"
#include "kernels/kernels.h"

struct kernels_step {
    uint32_t range;
    int64_t number;  /* of the range among the wanted ones, by start */
    int64_t next_ns; /* start of the next wanted range on its thread */
    int64_t busy_ns; /* time in which the GPU worked on what the range launched */
};
typedef VEC(struct kernels_step) kernels_step_list;

/* wanted: [n_ranges]. The last range of a thread, those inside others and those without launches
 * are left out. In the order of t->ranges; the list is the caller's to free. */
void kernels_steps_find(const struct kernels *k, const bool *wanted, kernels_step_list *out);

/* [n_ranges], to free: ranges whose name matches, with its domain or without. */
bool *kernels_steps_matching(const struct kernels *k, const char *pattern);

#endif
