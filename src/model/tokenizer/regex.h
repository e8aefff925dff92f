/* The regular expressions of tokenizer.json (Oniguruma's Ruby syntax, as the `tokenizers` library
 * compiles them) on PCRE2, with its JIT where the machine has one.
 *
 * Where the two syntaxes differ the pattern is rewritten: \s is White_Space exactly, a class inside
 * a class is flattened, \v is a vertical tab. What cannot be rewritten (anchors ^ $, \w, \b, \h,
 * &&, negated inner classes, named groups, references) is refused by name. \p{..} follows PCRE2's
 * Unicode version. */
#ifndef MODEL_TOKENIZER_REGEX_H
#define MODEL_TOKENIZER_REGEX_H

#include "base/str.h"

struct regex;
struct regex_match; /* scratch of one thread */

enum st regex_compile(struct sv pattern, struct regex **out, struct err *e);
void regex_free(struct regex **r);

struct regex_match *regex_match_new(void);
void regex_match_free(struct regex_match **m);

/* The first match in valid UTF-8 text at or behind `from`; *begin == *end when none is left or only
 * empty ones are. A pattern that runs away is ST_INPUT. */
enum st regex_find(const struct regex *r, struct regex_match *m, struct sv text, size_t from,
                   size_t *begin, size_t *end, struct err *e);

/* The rewritten pattern, for tests. */
enum st regex_rewrite(struct sv pattern, struct buf *out, struct err *e);

#endif
