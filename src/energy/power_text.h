/* The text of a power log in one form: CSV with commas and a single header, each line at its place,
 * so that messages name the line of the file.
 *
 *  - tables of nvidia-smi dmon, whose '#' lines are a header and its units, and comments
 *  - semicolons where the comma is the decimal mark, tabs
 *  - a header that is repeated, as appended logs have it: left out and counted
 *  - messages of nvidia-smi between the rows: left out and counted
 *  - a second's fraction behind an unquoted comma, which makes one cell more than the header has */
#ifndef ENERGY_POWER_TEXT_H
#define ENERGY_POWER_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct power_text {
    struct sv bytes; /* of the arena, or the caller's */
    int64_t headers; /* repeated ones that were left out */
    int64_t messages;
    long other_header; /* line of the first one with other columns; 0 = none */
    bool cut;          /* the last line has no end, and was left out */
};

/* ST_INPUT: UTF-16, a second header with other columns, output of nvidia-smi that is no table. */
enum st power_text_make(struct arena *a, const char *source, struct sv bytes,
                        struct power_text *out, struct err *e);

#endif
