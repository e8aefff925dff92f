/* Facts of the recorded process and its GPUs. Called by the writer. */
#ifndef INJECT_FACTS_H
#define INJECT_FACTS_H

#include <stdbool.h>
#include <stddef.h>

void inject_facts_reset(void);
/* Whether CUDA's driver is loaded and initialized; from any thread. */
bool inject_facts_driver_is_up(void);
void inject_facts_process(void); /* writes SPOOL_PROCESS, again once CUDA is initialized */
void inject_facts_devices(void); /* writes SPOOL_DEVICES, once, when the driver is up */

/* Reads the file's first bytes; returns their number. */
size_t inject_facts_read(const char *path, char *out, size_t room);

#endif
