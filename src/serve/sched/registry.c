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
