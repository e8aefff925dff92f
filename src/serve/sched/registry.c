#include <string.h>

#include "serve/sched/policies.h"

const struct sched_ops *const sched_registry[] = {
    &sched_vllm_v1,  &sched_vllm_0_33,  &sched_vllm,
    &sched_sarathi,  &sched_orca,       &sched_faster_transformer,
    &sched_lightllm, &sched_sequential, NULL,
};

const struct sched_ops *sched_find(const char *name)
{
    for (int i = 0; sched_registry[i]; i++)
        if (strcmp(sched_registry[i]->name, name) == 0)
            return sched_registry[i];
    return NULL;
}

void sched_with_knobs(struct buf *out, uint32_t bits)
{
    for (int i = 0; sched_registry[i]; i++)
        if (sched_registry[i]->knobs & bits)
            option_name(out, sched_registry[i]->name);
}

static void with_traits(struct buf *out, uint32_t bits)
{
    for (int i = 0; sched_registry[i]; i++)
        if (sched_registry[i]->traits & bits)
            option_name(out, sched_registry[i]->name);
}

#define POLICY "scheduler.policy"
const struct option_capability sched_capabilities[] = {
    {POLICY, "chunk_size", sched_with_knobs, KNOB_CHUNK_SIZE},
    {POLICY, "max_waiting_iters", sched_with_knobs, KNOB_MAX_WAITING_ITERS},
    {POLICY, "prefix_caching", sched_with_knobs, KNOB_PREFIX_CACHING},
    {POLICY, "reserve_full_prompt", sched_with_knobs, KNOB_RESERVE_FULL_PROMPT},
    {POLICY, "long_prefill", sched_with_knobs, KNOB_LONG_PREFILL},
    {POLICY, "speculation", sched_with_knobs, KNOB_SPECULATION},
    {POLICY, "disaggregation", sched_with_knobs, KNOB_DISAGGREGATION},
    {POLICY, "kv_groups", with_traits, SCHED_KV_GROUPS},
    {0},
};
