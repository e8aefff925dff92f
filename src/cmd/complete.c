#include "cmd/complete.h"

#include <string.h>

#include "base/vec.h"
#include "cmd/cmd.h"
#include "cmd/flags.h"
#include "config/source.h"
#include "config/when.h"

struct word_completion {
    struct arena *a;
    struct buf *out;
    const char *const *words;
    size_t n;
    const char *cur; /* the word being typed */
    const struct cmd *cmd;
    bool sweep;
    struct sources sources;
};

static bool begins_with(const char *s, const char *start)
{
    return strncmp(s, start, strlen(start)) == 0;
}

/* `before`: typed prefix that stays, the "+" of a key or the "key=" of a value. */
static void offer(struct word_completion *c, const char *before, const char *word, const char *help)
{
    const char *full = arena_printf(c->a, "%s%s", before, word);
    if (begins_with(full, c->cur))
        buf_printf(c->out, "%s\t%s\n", full, help ? help : "");
}

static void offer_commands(struct word_completion *c)
{
    for (enum command k = 0; k < N_COMMANDS; k++)
        offer(c, "", command_name(k), cmd_table[k]->summary);
}

static void offer_flags(struct word_completion *c)
{
    for (const struct cmd_flag *f = cmd_flags; f->name; f++)
        offer(c, "", f->name, f->help);
}

/* Offers each word of "init|inspect". */
static void offer_each(struct word_completion *c, const char *before, const char *words)
{
    while (words && *words) {
        size_t n = strcspn(words, "|");
        offer(c, before, arena_strn(c->a, words, n), NULL);
        words += n + (words[n] == '|');
    }
}

/* ---- keys ---- */

static bool reads(const struct cmd *cmd, const struct option *o)
{
    return o->commands & command_bit(cmd->id);
}

/* The row's help and when it is read. */
static const char *help_of(struct word_completion *c, const struct option *o)
{
    struct buf when = {0};
    when_text(&when, o, command_bit(c->cmd->id));
    const char *s = option_help_text(c->a, o);
    if (when.n)
        s = arena_printf(c->a, "%s (%s)", s, buf_str(&when));
    buf_free(&when);
    return s;
}

/* Whether the command uses a group: it reads a key of that name, or there are no such keys. */
static bool reads_group(const struct cmd *cmd, const char *group)
{
    for (struct option_iter i = {0}; option_next(&i);)
        if (reads(cmd, i.o) && option_is_below(i.o->key, group))
            return true;
    return !option_is_section(group);
}

static void offer_groups(struct word_completion *c, const char *before)
{
    size_t n;
    const char **groups = sources_groups(c->a, &c->sources, &n);
    for (size_t i = 0; i < n; i++)
        if (reads_group(c->cmd, groups[i]))
            offer(c, before, arena_printf(c->a, "%s=", groups[i]),
                  arena_printf(c->a, "a file of configs/%s", groups[i]));
}

/* Offers keys up to the next dot, each section once: its rows are not always adjacent in the table.
 */
static void offer_keys(struct word_completion *c, const char *before, const char *typed)
{
    VEC(const char *) sections = {0};
    for (struct option_iter i = {0}; option_next(&i);) {
        const struct option *o = i.o;
        if (!reads(c->cmd, o) || !begins_with(o->key, typed))
            continue;
        const char *dot = strchr(o->key + strlen(typed), '.');
        if (!dot) {
            offer(c, before, arena_printf(c->a, "%s%s", o->key, o->type == OPT_MAP ? "." : "="),
                  help_of(c, o));
            continue;
        }
        const char *section = arena_strn(c->a, o->key, (size_t)(dot - o->key) + 1);
        bool seen = false;
        for (size_t k = 0; k < sections.n && !seen; k++)
            seen = strcmp(sections.p[k], section) == 0;
        if (!seen) {
            vec_push(&sections, section);
            offer(c, before, section, "settings of this section");
        }
    }
    vec_free(&sections);
}

/* Behind --explain: a whole key. */
static void offer_plain_keys(struct word_completion *c)
{
    for (struct option_iter i = {0}; option_next(&i);)
        if (reads(c->cmd, i.o))
            offer(c, "", i.o->key, help_of(c, i.o));
}

/* ---- values ---- */

/* head: the part of the word that stays, "key=" or in a sweep "key=a,". */
static void offer_values(struct word_completion *c, const char *key, const char *head)
{
    size_t n = 0;
    const char **files = sources_options(c->a, &c->sources, key, &n);
    for (size_t i = 0; i < n && reads_group(c->cmd, key); i++)
        offer(c, head, files[i], NULL);
    const struct option *o = option_find(key);
    if (!o || !reads(c->cmd, o))
        return;
    if (o->allowed)
        offer_each(c, head, o->allowed);
    else if (o->type == OPT_BOOL)
        offer_each(c, head, "true|false");
    else if (o->type == OPT_STR || o->type == OPT_LIST)
        buf_puts(c->out, ":files\n");
}

static void offer_setting(struct word_completion *c)
{
    size_t sign = strspn(c->cur, "+~");
    const char *before = arena_strn(c->a, c->cur, sign);
    const char *equal = strchr(c->cur, '=');
    if (!equal) {
        if (sign == 0)
            offer_each(c, "", c->n == 2 ? c->cmd->words : NULL);
        offer_groups(c, before);
        offer_keys(c, before, c->cur + sign);
        return;
    }
    const char *key = arena_strn(c->a, c->cur + sign, (size_t)(equal - c->cur) - sign);
    const char *comma = c->sweep ? strrchr(equal, ',') : NULL;
    const char *end = comma ? comma : equal;
    offer_values(c, key, arena_strn(c->a, c->cur, (size_t)(end - c->cur) + 1));
}

/* ---- words before the last ---- */

/* The program behind "--" is completed by the shell. */
static bool in_program(const struct word_completion *c)
{
    for (size_t i = 1; c->cmd->program && i + 1 < c->n; i++)
        if (strcmp(c->words[i], "--") == 0)
            return true;
    return false;
}

static const char *flag_before(const struct word_completion *c)
{
    const char *word = c->n > 1 ? c->words[c->n - 2] : "";
    for (const struct cmd_flag *f = cmd_flags; f->name; f++)
        if (f->value && strcmp(f->name, word) == 0)
            return f->name;
    return "";
}

static void complete_of_command(struct word_completion *c)
{
    const char *flag = flag_before(c);
    if (in_program(c))
        buf_puts(c->out, ":command\n");
    else if (strcmp(flag, "--explain") == 0)
        offer_plain_keys(c);
    else if (strcmp(flag, "--config-dir") == 0)
        buf_puts(c->out, ":folders\n");
    else if (strcmp(flag, "--config-name") == 0)
        return;
    else if (c->cur[0] == '-')
        offer_flags(c);
    else
        offer_setting(c);
}

void complete_words(struct buf *out, const struct embed_file *embedded, const char *config_dir,
                    const char *const *words, size_t n)
{
    if (n == 0)
        return;
    struct word_completion c = {
        .a = arena_new(), .out = out, .words = words, .n = n, .cur = words[n - 1]};
    struct err quiet = {0};
    for (size_t i = 1; i + 1 < n; i++) {
        c.sweep |= strcmp(words[i], "-m") == 0 || strcmp(words[i], "--multirun") == 0;
        if (strcmp(words[i], "--config-dir") == 0 && i + 2 < n)
            config_dir = words[i + 1];
    }
    if (sources_init(c.a, &c.sources, config_dir, embedded, &quiet) != ST_OK)
        sources_init(c.a, &c.sources, NULL, embedded, &quiet);
    for (enum command k = 0; k < N_COMMANDS && n > 1; k++)
        if (strcmp(command_name(k), words[0]) == 0)
            c.cmd = cmd_table[k];
    if (n == 1) {
        offer_commands(&c);
        offer_each(&c, "", "help|--help|--version");
    } else if (n == 2 && strcmp(words[0], "help") == 0) {
        offer_commands(&c);
    } else if (c.cmd) {
        complete_of_command(&c);
    }
    arena_free(&c.a);
}
