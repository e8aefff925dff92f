#include "model/chat_template.h"

static void add(struct buf *out, struct sv s)
{
    buf_add(out, s.p, s.n);
}

static enum st chatml(struct buf *out, const struct chat_message *m, size_t n, struct err *e)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, "<|im_start|>");
        add(out, m[i].role);
        buf_putc(out, '\n');
        add(out, m[i].content);
        buf_puts(out, "<|im_end|>\n");
    }
    buf_puts(out, "<|im_start|>assistant\n");
    return ST_OK;
}

static enum st llama2(struct buf *out, const struct chat_message *m, size_t n, struct err *e)
{
    size_t first = sv_eq(m[0].role, "system");
    for (size_t i = first; i < n; i++) {
        bool user = (i - first) % 2 == 0;
        const char *want = user ? "user" : "assistant";
        if (!sv_eq(m[i].role, want))
            return err_set(e, ST_INPUT,
                           "chat_template llama2: message %zu is of role %.*s, expected %s", i,
                           (int)(m[i].role.n < 40 ? m[i].role.n : 40), m[i].role.p, want);
        if (!user) {
            buf_putc(out, ' ');
            add(out, m[i].content);
            buf_puts(out, " </s><s>");
            continue;
        }
        buf_puts(out, "[INST] ");
        if (first && i == first) {
            buf_puts(out, "<<SYS>>\n");
            add(out, m[0].content);
            buf_puts(out, "\n<</SYS>>\n\n");
        }
        add(out, m[i].content);
        buf_puts(out, " [/INST]");
    }
    if ((n - first) % 2 == 0)
        return err_set(e, ST_INPUT, "chat_template llama2: the last message must be the user's");
    return ST_OK;
}

static enum st none(struct buf *out, const struct chat_message *m, size_t n, struct err *e)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(out, '\n');
        add(out, m[i].content);
    }
    return ST_OK;
}

enum st chat_template_apply(struct buf *out, enum chat_template t, const struct chat_message *m,
                            size_t n, struct err *e)
{
    static enum st (*const apply[])(struct buf *, const struct chat_message *, size_t,
                                    struct err *) = {
        [CHAT_NONE] = none, [CHAT_CHATML] = chatml, [CHAT_LLAMA2] = llama2};
    if (n == 0)
        return err_set(e, ST_INPUT, "a chat needs a message");
    return apply[t](out, m, n, e);
}
