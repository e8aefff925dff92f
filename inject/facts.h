/* Who is being recorded: the process and its GPUs. Called by the writer. */
#ifndef INJECT_FACTS_H
#define INJECT_FACTS_H

#include <stdbool.h>
#include <stddef.h>

void inject_facts_reset(void);
/* Whether CUDA's driver is loaded and initialized; from any thread. */
bool inject_facts_driver_is_up(void);
void inject_facts_process(void); /* SPOOL_PROCESS, and again when CUDA came up since */
void inject_facts_devices(void); /* SPOOL_DEVICES, once, when the driver is up */

/* The file's first bytes; returns how many. */
size_t inject_facts_read(const char *path, char *out, size_t room);

#endif
