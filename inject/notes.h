/* Notes: what a reader of the spool should know (SPOOL_NOTES), from any thread, with at most 64 of
 * them in a process; those that come later are not kept. */
#ifndef INJECT_NOTES_H
#define INJECT_NOTES_H

#include <stdint.h>

#include "trace/spool.h"

/* `what` may hold "%s" and "%d", once each and in any order, for the arguments; the text is cut at
 * 240 bytes. */
void inject_notes_add(enum spool_level level, const char *what, const char *s, int64_t d);
void inject_notes_write(void);  /* the writer: what was added since the last call */
void inject_notes_forget(void); /* in a child after fork */

#endif
