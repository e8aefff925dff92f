/* What was in the batch of an iteration, from the name or the payload of its range, or a table.
 *
 *     prefill_tokens  prompt tokens computed, all chunks together
 *     prefills        chunks (1 where there are prompt tokens and nothing is said)
 *     context         tokens of these prompts that were cached before, all together
 *     chunk_context   sum over the chunks of chunk x context, as in iteration.csv; where it is not
 *                     given the chunks are taken to be equal: T (context / m + (T / m + 1) / 2)
 *     decode          sequences that decode
 *     kv              tokens in their caches before the iteration, all together
 *
 * A template is the text of a range's name with {field} for a decimal number, as many digits as
 * there are, and * for any text: "execute_context_{prefills}({prefill_tokens})_generation_*". */
#ifndef KERNELS_COMPOSITION_H
#define KERNELS_COMPOSITION_H

#include "base/arena.h"
#include "base/err.h"
#include "profile/read/iterations.h"

enum composition_field {
    COMPOSITION_PREFILL_TOKENS,
    COMPOSITION_PREFILLS,
    COMPOSITION_CONTEXT,
    COMPOSITION_CHUNK_CONTEXT,
    COMPOSITION_DECODE,
    COMPOSITION_KV,
    COMPOSITION_FIELDS
};

struct composition {
    double v[COMPOSITION_FIELDS]; /* 0 where unknown */
    bool known[COMPOSITION_FIELDS];
};

/* ST_USAGE: a field that there is not, a brace that is not closed, neither prefill_tokens nor
 * decode. */
enum st composition_check(const char *template, struct err *e);
/* Whether all of the name matches. */
bool composition_match(const char *template, const char *name, struct composition *out);
/* Numbers of a JSON object under the names of the fields; false without prefill_tokens and decode.
 */
bool composition_of_json(const char *json, struct composition *out);

/* The templates of `auto`, with the engine that names its ranges so; ends with name NULL. */
extern const struct composition_template {
    const char *name, *text;
} composition_known[];

struct iterations_batch composition_batch(const struct composition *c);

/* A CSV with a column `step`, the number of a range from 0 on in the order of their starts, and
 * columns of fields, others than these are ignored. rows[i].of is that of rows[i].step, ascending.
 * ST_INPUT at its place: a number out of range, a step twice; no field column. */
struct composition_table {
    struct composition_row {
        int64_t step;
        struct composition of;
    } * rows;
    size_t n;
};
enum st composition_load(struct arena *a, const char *path, struct composition_table *out,
                         struct err *e);
const struct composition *composition_at(const struct composition_table *t, int64_t step);

#endif
