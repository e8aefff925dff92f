/* Turns the messages of a chat into one prompt: by a named template (model/chat_template.h), or by
 * the model's own. */
#ifndef MODEL_CHAT_FORMAT_H
#define MODEL_CHAT_FORMAT_H

#include "model/chat_template.h"
#include "text/jinja.h"

struct chat_format {
    enum chat_template kind;
    const struct jinja *program; /* CHAT_MODEL */
    /* CHAT_MODEL: texts of bos_token, eos_token, ..., a map of variables for the template. The
     * template writes special tokens itself, so the tokenizer adds none. */
    const struct node *tokens;
};

/* The template of the model in `dir`: chat_template.jinja, or chat_template of
 * tokenizer_config.json (of several, the one named default). *found false: it has none. ST_INPUT
 * names the unsupported construct (text/jinja.h) or the file that cannot be read. */
enum st chat_format_load(struct arena *a, const char *dir, struct chat_format *out, bool *found,
                         struct err *e);

/* The prompt for messages [n], maps with role and content (texts) and whatever else a template
 * reads, up to where the assistant's answer begins. kwargs: more variables, a map or NULL,
 * `tools` among them; CHAT_MODEL only. Intermediate values live in the arena. ST_INPUT: the
 * template refuses them. */
enum st chat_format_apply(struct arena *scratch, const struct chat_format *f,
                          const struct node *messages, const struct node *kwargs, struct buf *out,
                          struct err *e);

#endif
