/* Human-readable numbers, for summaries and reports. */
#ifndef TEXT_WORDS_H
#define TEXT_WORDS_H

#include <stdint.h>

enum { WORDS_MAX = 32 };

/* Each writes into out and returns it. Non-finite values are "n/a". */
const char *words_duration(char out[WORDS_MAX], double seconds); /* "2.104 ms": 4 digits */
/* The number alone, of a column with "ms" in its header: "0.6321", "91.48", "1322". */
const char *words_ms(char out[WORDS_MAX], double seconds);
const char *words_percent(char out[WORDS_MAX], double percent); /* "1.2 %", "12 %" */
const char *words_change(char out[WORDS_MAX], double percent);  /* "+1.2 %", "-12 %" */
const char *words_share(char out[WORDS_MAX], double share);     /* "62 %"; "" when unknown */
const char *words_count(char out[WORDS_MAX], int64_t n);        /* "1,204" */

#endif
