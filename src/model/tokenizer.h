/* Tokenizers from Hugging Face's tokenizer.json: BPE with
 *  - ByteLevel pre-tokenizer, alone or after Split(Regex) (Qwen, BLOOM, GPT-2), NFC normaliser;
 *  - Metaspace pre-tokenizer or Prepend/Replace normalisers, with byte fallback (LLaMA).
 * Anything else in the file that would change ids is refused by name, never ignored. Ids equal
 * those of the `tokenizers` library (tests/golden/tokenizer). Thread-safe after loading. */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H

#include "base/arena.h"
#include "base/str.h"

struct tokenizer;

enum st tokenizer_load(const char *path, struct tokenizer **out, struct err *e);
/* The same from the text of such a file; source is its name in messages. */
enum st tokenizer_load_bytes(const char *source, struct sv text, struct tokenizer **out,
                             struct err *e);
void tokenizer_free(struct tokenizer **t);
int64_t tokenizer_vocab(const struct tokenizer *t); /* largest id + 1 */

/* Ids of valid UTF-8 text, in the arena. add_special: what the post-processor adds (bos). */
enum st tokenizer_encode(struct arena *a, const struct tokenizer *t, struct sv text,
                         bool add_special, int32_t **ids, size_t *n, struct err *e);
/* Text of ids; skip_special leaves special tokens out. Invalid byte runs become U+FFFD. */
enum st tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                         struct buf *out, struct err *e);

#endif
