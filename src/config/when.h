/* The conditions of option rows (option.when) in words. config_check_read of config.h holds a
 * configuration against them. */
#ifndef CONFIG_WHEN_H
#define CONFIG_WHEN_H

#include "config/option.h"

/* "only with engine.kind=cpu; only with kernels.step": the conditions that a command can break.
 * Not that a key must be unset: what takes the place of other settings (workload.dir) says so in
 * its own help. Nothing when there are none. */
void when_text(struct buf *out, const struct option *o, uint32_t command);

#endif
