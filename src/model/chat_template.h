/* Chat templates by name: messages as one prompt.
 *
 *     chatml  <|im_start|>role\ncontent<|im_end|>\n ..., then <|im_start|>assistant\n (Qwen)
 *     llama2  [INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST] assistant </s><s>[INST] ... (LLaMA
 * 2, CodeLlama); the first <s> is the tokenizer's
 *     none    the contents, one after the other, a line each
 *     model   the model's own template: model/chat_format.h */
#ifndef MODEL_CHAT_TEMPLATE_H
#define MODEL_CHAT_TEMPLATE_H

#include "base/str.h"

/* order of option chat_template */
enum chat_template { CHAT_NONE, CHAT_CHATML, CHAT_LLAMA2, CHAT_MODEL };

struct chat_message {
    struct sv role, content; /* role: system, user, assistant, tool */
};

/* Of the named ones, so not CHAT_MODEL. ST_INPUT: no message; llama2: a system message that is not
 * the first, or roles that do not take turns, user first and last. */
enum st chat_template_apply(struct buf *out, enum chat_template t, const struct chat_message *m,
                            size_t n, struct err *e);

#endif
