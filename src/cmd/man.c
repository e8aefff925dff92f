#include "cmd/man.h"

#include <ctype.h>
#include <string.h>

#include "cmd/flags.h"
#include "config/option_help.h"
#include "config/source.h"
#include "engine/registry.h"

static const struct {
    int code;
    const char *meaning;
} exit_codes[] = {
    {0, "ok"},
    {1, "the verdict is negative: a comparison fails, no rate meets the objective"},
    {2, "usage: a setting is wrong"},
    {3, "bad input"},
    {4, "a device or library is missing"},
    {5, "measurement rejected or inconclusive"},
    {70, "a bug in twinfer"},
    {130, "interrupted"},
};

static const struct {
    const char *path, *what;
} files[] = {
    {"./configs", "configuration files of one's own, looked for before the program's"},
    {"<prefix>/share/twinfer/configs", "those of the program: stages, models, engines, workloads"},
    {"<prefix>/share/twinfer/data", "the model and the prompts of the example"},
    {"<prefix>/share/twinfer/adapters", "engines and programs in Python"},
    {"<prefix>/share/doc/twinfer", "the documentation: methods, file formats, protocols"},
    {"runs/", "results, unless out= names another place"},
};

/* ---- roff ---- */

/* Escapes characters special to roff. */
static void put_escaped(struct buf *out, char c)
{
    switch (c) {
    case '\\':
        buf_puts(out, "\\e");
        break;
    case '-':
        buf_puts(out, "\\-");
        break;
    case '~':
        buf_puts(out, "\\(ti");
        break;
    case '^':
        buf_puts(out, "\\(ha");
        break;
    case '`':
        buf_puts(out, "\\(ga");
        break;
    case '\'':
        buf_puts(out, "\\(aq");
        break;
    default:
        buf_putc(out, c);
    }
}

/* A word, or a line of an example, at the beginning of a line or behind a macro. */
static void put_literal(struct buf *out, const char *text)
{
    if (*text == '.')
        buf_puts(out, "\\&");
    for (; *text; text++)
        put_escaped(out, *text);
}

/* Writes text in short lines: roff checkers complain of long ones. */
static void put_text(struct buf *out, const char *text)
{
    enum { WIDTH = 72 };
    int column = 0;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + n > WIDTH) {
            buf_putc(out, '\n');
            column = 0;
        } else if (column > 0) {
            buf_putc(out, ' ');
            column++;
        }
        if (column == 0 && *text == '.')
            buf_puts(out, "\\&");
        for (int i = 0; i < n; i++)
            text[i] == '\'' || text[i] == '\\' ? put_escaped(out, text[i]) : buf_putc(out, text[i]);
        column += n;
        text += n + (text[n] == ' ');
    }
    buf_putc(out, '\n');
}

static void put_section(struct buf *out, const char *title)
{
    buf_printf(out, ".SH %s\n", title);
}

/* Writes a term in bold and its description. */
static void put_item(struct buf *out, const char *term, const char *text)
{
    buf_puts(out, ".TP\n.B \"");
    put_literal(out, term);
    buf_puts(out, "\"\n");
    put_text(out, text);
}

static void put_example(struct buf *out, const char *text)
{
    buf_puts(out, ".nf\n.RS\n");
    put_literal(out, text);
    buf_puts(out, "\n.RE\n.fi\n");
}

/* ---- parts of a page ---- */

static void put_head(struct buf *out, const char *name, const char *summary)
{
    buf_puts(out, ".TH ");
    for (const char *p = name; *p; p++)
        put_escaped(out, (char)toupper((unsigned char)*p));
    buf_printf(out, " 1 \"\" \"twinfer %s\" \"twinfer\"\n", TW_VERSION);
    put_section(out, "NAME");
    put_literal(out, name);
    buf_puts(out, " \\- ");
    put_text(out, summary);
}

static void put_flags(struct buf *out)
{
    put_section(out, "FLAGS");
    struct buf term = {0};
    for (const struct cmd_flag *f = cmd_flags; f->name; f++) {
        buf_clear(&term);
        buf_printf(&term, "%s%s%s%s%s", f->name, f->other ? ", " : "", f->other ? f->other : "",
                   f->value ? " " : "", f->value ? f->value : "");
        put_item(out, buf_str(&term), f->help);
    }
    buf_free(&term);
}

static void put_settings(struct buf *out, const struct cmd *c)
{
    struct arena *a = arena_new();
    put_section(out, "SETTINGS");
    struct buf text = {0};
    for (struct option_iter i = {0}; option_next(&i);) {
        const struct option *o = i.o;
        if (!(o->commands & command_bit(c->id)))
            continue;
        buf_clear(&text);
        option_facts(&text, o, command_bit(c->id));
        struct buf line = {0};
        buf_puts(&line, option_help_text(a, o));
        if (text.n)
            buf_printf(&line, " [%s]", buf_str(&text));
        put_item(out, o->key, buf_str(&line));
        buf_free(&line);
    }
    arena_free(&a);
    buf_free(&text);
}

static bool reads_group(const struct cmd *c, const char *group)
{
    for (struct option_iter i = {0}; option_next(&i);)
        if ((i.o->commands & command_bit(c->id)) && option_is_below(i.o->key, group))
            return true;
    return false;
}

static void put_groups(struct buf *out, const struct cmd *c, const struct embed_file *embedded)
{
    struct arena *a = arena_new();
    const struct sources own = {.embedded = embedded};
    size_t n, titled = 0;
    const char **groups = sources_groups(a, &own, &n);
    for (size_t i = 0; i < n; i++) {
        if (!reads_group(c, groups[i]))
            continue;
        if (titled++ == 0) {
            put_section(out, "GROUPS");
            put_text(out, "Sets of settings under one name, as files in configs/.");
        }
        size_t n_options;
        const char **options = sources_options(a, &own, groups[i], &n_options);
        struct buf list = {0};
        for (size_t k = 0; k < n_options; k++)
            buf_printf(&list, "%s%s", k ? ", " : "", options[k]);
        put_item(out, arena_printf(a, "%s=", groups[i]), buf_str(&list));
        buf_free(&list);
    }
    arena_free(&a);
}

static void put_engines(struct buf *out, const struct cmd *c)
{
    bool titled = false;
    for (const struct engine *x = engine_registry; x->name; x++) {
        if (!(x->commands & command_bit(c->id)))
            continue;
        if (!titled)
            put_section(out, "ENGINES");
        titled = true;
        put_item(out, x->name, x->help);
    }
}

static void put_environment(struct buf *out)
{
    put_section(out, "ENVIRONMENT");
    put_item(out, "TWINFER_CONFIG_DIR", "stands for --config-dir where that is not given");
    put_item(out, "TWINFER_GPU_LIBRARIES",
             "folders with NVIDIA's libraries, joined by ':', which are looked into first");
}

static void put_exit_codes(struct buf *out)
{
    put_section(out, "EXIT STATUS");
    char code[16];
    for (size_t i = 0; i < sizeof exit_codes / sizeof *exit_codes; i++) {
        snprintf(code, sizeof code, "%d", exit_codes[i].code);
        put_item(out, code, exit_codes[i].meaning);
    }
}

/* ---- pages ---- */

static void put_overview(struct buf *out)
{
    put_head(out, "twinfer", "a test stand for LLM inference");
    put_section(out, "SYNOPSIS");
    buf_puts(out, ".B twinfer\n\\fIcommand\\fR [\\fIkey\\fR=\\fIvalue\\fR ...]\n");
    put_section(out, "DESCRIPTION");
    put_text(out, "Makes a workload, runs it for real, profiles the operators, simulates the same "
                  "run, and says how far the two are apart; records what the GPU really did in any "
                  "CUDA process. Every figure comes with its count, its spread and its unit.");
    buf_puts(out, ".PP\n");
    put_text(out, "Settings follow Hydra's grammar: model=qwen3_0_6b picks a file of the group "
                  "configs/model, a.b=4 sets a value, +a.b=4 adds one to a map, ~a.b brings the "
                  "default back. Each command's page lists the settings it reads.");
    put_section(out, "COMMANDS");
    for (enum command c = 0; c < N_COMMANDS; c++)
        put_item(out, command_name(c), cmd_table[c]->summary);
    put_flags(out);
    put_item(out, "--version", "print the version and the commit it was built from, and stop");
    put_environment(out);
    put_section(out, "FILES");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put_item(out, files[i].path, files[i].what);
    put_exit_codes(out);
    put_section(out, "SEE ALSO");
    for (enum command c = 0; c < N_COMMANDS; c++)
        buf_printf(out, ".BR twinfer\\-%s (1)%s\n", command_name(c), c + 1 < N_COMMANDS ? "," : "");
}

static void put_command(struct buf *out, const struct cmd *c, const struct embed_file *embedded)
{
    struct buf name = {0};
    buf_printf(&name, "twinfer-%s", command_name(c->id));
    put_head(out, buf_str(&name), c->summary);
    buf_free(&name);
    put_section(out, "SYNOPSIS");
    buf_printf(out, ".B twinfer %s\n", command_name(c->id));
    if (c->words)
        buf_printf(out, "[%s] ", c->words);
    buf_printf(out, "[\\fIkey\\fR=\\fIvalue\\fR ...]%s\n",
               c->program ? " \\-\\- \\fIcommand\\fR ..." : "");
    put_section(out, "DESCRIPTION");
    put_text(out, c->about);
    put_engines(out, c);
    put_section(out, "EXAMPLE");
    put_example(out, c->example);
    put_settings(out, c);
    put_groups(out, c, embedded);
    put_flags(out);
    put_exit_codes(out);
    put_section(out, "SEE ALSO");
    buf_puts(out, ".BR twinfer (1)\n");
}

void man_page(struct buf *out, const struct cmd *c, const struct embed_file *embedded)
{
    if (c)
        put_command(out, c, embedded);
    else
        put_overview(out);
}
