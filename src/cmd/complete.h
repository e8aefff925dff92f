/* Candidates at the cursor of a command line, for the completion of shells. The shells' own parts
 * (completion/) only call the program and show its output, so they match this very program, and the
 * groups of a ./configs as well. */
#ifndef CMD_COMPLETE_H
#define CMD_COMPLETE_H

#include "base/embed.h"
#include "base/str.h"

/* words: those typed after "twinfer", up to the cursor; the last one, perhaps empty, is incomplete.
 * Appends a line for each candidate that begins with it:
 *
 *     word TAB description
 *
 * A word that ends in '=' or '.' is incomplete. Candidates for a value have the key before it.
 * After them may follow one line that begins with ':', for other kinds of words: ":files" or
 * ":folders" (names of them, behind the '=' if there is one), ":command" (another program). Keys
 * are offered a section at a time. Never fails: unreadable files offer nothing. config_dir:
 * searched first without a typed --config-dir; NULL = none. */
void complete_words(struct buf *out, const struct embed_file *embedded, const char *config_dir,
                    const char *const *words, size_t n);

#endif
