/* Errors are values with a chain.
 *
 * A function that can fail returns enum st and takes `struct err *e` last (never NULL). The place
 * that finds the fault calls err_set or err_at; each layer on the way up may add what it was doing
 * with err_add; a layer that has a remedy adds err_hint. Printed outermost cause first:
 *
 *     twinfer: simulate: cannot read the workload
 *       because: runs/w1/trace_lengths.csv:7:3: num_prefill_tokens: -4 is below the minimum 1
 *       hint: lengths are counts of tokens
 *
 * Nothing below cmd/ exits or prints. struct err holds its text itself: no allocation, copyable. A
 * text that does not fit is cut and ends in "...". Control characters and bytes that are not UTF-8
 * become '?', so input may be quoted as it is. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stdio.h>

enum st {
    ST_OK = 0,
    ST_USAGE = -1,       /* the command line or a configuration value is wrong: exit 2 */
    ST_INPUT = -2,       /* a file is missing, malformed, incomplete or of the wrong kind: exit 3 */
    ST_DEVICE = -3,      /* a device or library is missing or refuses: exit 4 */
    ST_REJECTED = -4,    /* a measurement that must not be used: exit 5 */
    ST_INTERRUPTED = -5, /* SIGINT or SIGTERM: exit 130 */
    ST_IO = -6,  /* the system refuses to write or allocate (disk full, permission): exit 3 */
    ST_END = -7, /* no more items: not an error, carries no text */
};

enum { ERR_MAX_CAUSES = 10, ERR_TEXT_BYTES = 3000 };

struct err {
    enum st st;
    int n;                     /* causes; text[at[0]] is the innermost */
    int hint;                  /* offset of the hint in text, 0 = none */
    int used;                  /* bytes of text in use */
    int at[ERR_MAX_CAUSES];    /* offsets into text */
    char text[ERR_TEXT_BYTES]; /* NUL-separated; text[0] is unused */
};

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* Forget everything; e is as good as new. `struct err e = {0};` is a cleared error too. */
void err_clear(struct err *e);

/* Start a chain with its innermost cause. Returns st. */
enum st err_set(struct err *e, enum st st, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same for a fault at a place in an input: "file:line:column: text"; line and column count from
 * 1, 0 leaves that part out. Returns st. */
enum st err_at(struct err *e, enum st st, const char *file, long line, long column, const char *fmt,
               ...) PRINTF_LIKE(6, 7);

/* Start a chain from errno: "what: strerror". ENOENT and the like give ST_INPUT if `reading`, all
 * others ST_IO. A limit of the process (EFBIG, EMFILE) gets a hint. Returns the status. */
enum st err_errno(struct err *e, bool reading, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Add what the caller was doing. Returns e->st, so `return err_add(e, ...)`. */
enum st err_add(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Add the remedy; the first hint given stays. Returns e->st. */
enum st err_hint(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Cause i, 0 = outermost; NULL past the end. */
const char *err_cause(const struct err *e, int i);
const char *err_hint_text(const struct err *e); /* NULL = none */

/* Print the chain as shown above, the first line led by "<prefix>: ". */
void err_print(const struct err *e, const char *prefix, FILE *to);

/* The exit code that stands for a status (table in README.md: 0, 2, 3, 4, 5, 130). */
int err_exit_code(enum st st);

/* Our own mistakes abort with exit code 70 and a stable place; input never gets here. */
#define ASSERT(cond)                            \
    do {                                        \
        if (!(cond))                            \
            err_bug(#cond, __FILE__, __LINE__); \
    } while (0)
_Noreturn void err_bug(const char *what, const char *file, int line);

/* `TRY(call)`: return its status if it is not ST_OK. */
#define TRY(call)             \
    do {                      \
        enum st st_ = (call); \
        if (st_ != ST_OK)     \
            return st_;       \
    } while (0)

#endif
