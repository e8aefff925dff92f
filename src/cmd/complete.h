/* What can stand at the cursor of a command line: for the completion of shells. The shells' own
 * parts (completion/) only ask the program and show what it says, so they know what this very
 * program knows, and the groups of a ./configs as well. */
#ifndef CMD_COMPLETE_H
#define CMD_COMPLETE_H

#include "base/embed.h"
#include "base/str.h"

/* words: what is typed behind "twinfer", up to the cursor; the last one, perhaps empty, is being
 * typed. Appends a line for each candidate that begins with it:
 *
 *     word TAB what it means
 *
 * A word that ends in '=' or '.' goes on. Candidates for a value have the key before it. After them
 * one line may stand that begins with ':' and says what else can be there: ":files" or ":folders"
 * (names of them, behind the '=' if there is one), ":command" (another program). Keys are offered a
 * section at a time. Never fails: what cannot be read offers nothing.
 * config_dir: where to look first when no --config-dir is typed; NULL = nowhere. */
void complete_words(struct buf *out, const struct embed_file *embedded, const char *config_dir,
                    const char *const *words, size_t n);

#endif
