/* Texts, each once, by small ids: names of kernels, ranges, domains, threads, fields of payloads.
 *
 * From any thread. A known text is found without a lock; a new one takes the lock `names`. Nothing
 * is ever removed, and a fork keeps the table. Ids are those of the spool's strings (written by
 * inject_writer_string). */
#ifndef INJECT_NAMES_H
#define INJECT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAMES_MAX = 1 << 18 };
struct name {
    const char *text; /* ends with NUL */
    uint32_t bytes;
    uint32_t hash;
    uint8_t gate; /* bit i: settings.patterns.list[i].range matches */
};

bool inject_names_open(void); /* false = no memory */
/* Its id, 0 for "" and when the table is full. Texts beyond SPOOL_STRING_MAX_BYTES are cut. */
uint32_t inject_names_intern(const char *text, size_t bytes);
uint32_t inject_names_intern_wide(const wchar_t *text); /* as UTF-8, cut at 1 KiB */
const struct name *inject_names_get(uint32_t id);
uint32_t inject_names_count(void);     /* ids are 1 .. count */
uint64_t inject_names_take_lost(void); /* texts not stored since the last call */

#endif
