/* Notes: remarks for readers of the spool (SPOOL_NOTES), from any thread, at most 64 per process;
 * later ones are dropped. */
#ifndef INJECT_NOTES_H
#define INJECT_NOTES_H

#include <stdint.h>

#include "trace/spool.h"

/* `what` may hold "%s" and "%d", once each and in any order, for the arguments; the text is cut at
 * 240 bytes. */
void inject_notes_add(enum spool_level level, const char *what, const char *s, int64_t d);
void inject_notes_write(void);  /* the writer: writes notes added since the last call */
void inject_notes_forget(void); /* in a child after fork */

#endif
