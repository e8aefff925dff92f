#include "deep/argv.h"

#include <string.h>

void argv_add(struct argv *v, const char *word)
{
    if (v->n + 1 >= v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 32;
        const char **words = arena_array(v->a, const char *, cap);
        if (v->n)
            memcpy(words, v->words, v->n * sizeof *words);
        v->words = words;
        v->cap = cap;
    }
    v->words[v->n++] = word;
}

void argv_option(struct argv *v, const char *option, const char *value)
{
    if (!value)
        return;
    argv_add(v, option);
    argv_add(v, value);
}

void argv_number(struct argv *v, const char *option, int64_t value)
{
    argv_option(v, option, arena_printf(v->a, "%lld", (long long)value));
}

void argv_joined(struct argv *v, const char *option, struct texts items)
{
    struct buf all = {0};
    for (size_t i = 0; i < items.n; i++)
        buf_printf(&all, "%s%s", i ? "," : "", items.items[i]);
    if (items.n)
        argv_option(v, option, arena_str(v->a, buf_str(&all)));
    buf_free(&all);
}

void argv_each(struct argv *v, const char *option, struct texts items)
{
    for (size_t i = 0; i < items.n; i++)
        argv_option(v, option, items.items[i]);
}

void argv_all(struct argv *v, struct texts words)
{
    for (size_t i = 0; i < words.n; i++)
        argv_add(v, words.items[i]);
}

const char *const *argv_words(struct argv *v)
{
    argv_add(v, NULL);
    v->n--;
    return v->words;
}

void argv_print(struct buf *out, const struct argv *v)
{
    for (size_t i = 0; i < v->n; i++) {
        for (const char *p = v->words[i]; *p; p++)
            if (*p == '\n')
                buf_puts(out, "\\n");
            else if (*p == '\\')
                buf_puts(out, "\\\\");
            else
                buf_putc(out, *p);
        buf_putc(out, '\n');
    }
}

/* Words of these bytes alone mean themselves to a shell. */
static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,+@%^";
    return *word && !word[strspn(word, plain)];
}

const char *argv_line(struct arena *a, struct texts words)
{
    struct buf out = {0};
    for (size_t i = 0; i < words.n; i++) {
        buf_puts(&out, i ? " " : "");
        if (is_plain(words.items[i]))
            buf_puts(&out, words.items[i]);
        else
            buf_shell(&out, words.items[i]);
    }
    const char *line = arena_str(a, buf_str(&out));
    buf_free(&out);
    return line;
}
