#include "energy/sampler.h"

#include <string.h>

const struct sampler_ops *const samplers[] = {&sampler_nvml_counter,
                                              &sampler_nvml_instant,
                                              &sampler_nvml_average,
                                              &sampler_rapl,
                                              &sampler_csv,
                                              &sampler_fake,
                                              NULL};

const struct sampler_ops *sampler_find(const char *name)
{
    for (int i = 0; samplers[i]; i++)
        if (strcmp(samplers[i]->name, name) == 0)
            return samplers[i];
    return NULL;
}

void sampler_names(struct buf *out)
{
    for (int i = 0; samplers[i]; i++)
        buf_printf(out, "%s%s", i ? ", " : "", samplers[i]->name);
}
