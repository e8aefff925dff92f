#include "config/option.h"

#include <math.h>
#include <string.h>

#include "config/plan.h"

const struct option *option_find(const char *key)
{
    for (size_t i = 0; i < config_options_n; i++)
        if (strcmp(config_options[i].key, key) == 0)
            return &config_options[i];
    return NULL;
}

bool option_is_below(const char *key, const char *section)
{
    size_t n = strlen(section);
    return strncmp(key, section, n) == 0 && key[n] == '.';
}

const struct option *option_map_of(const char *key)
{
    for (size_t i = 0; i < config_options_n; i++)
        if (config_options[i].type == OPT_MAP && option_is_below(key, config_options[i].key))
            return &config_options[i];
    return NULL;
}

bool option_is_section(const char *key)
{
    for (size_t i = 0; i < config_options_n; i++)
        if (option_is_below(config_options[i].key, key))
            return true;
    return false;
}

static const char *last_part(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

static int count_dots(const char *key)
{
    int n = 0;
    for (; *key; key++)
        n += *key == '.';
    return n;
}

/* How far a key is from what was typed: as a whole; by its last part alone, for a key typed without
 * its sections; by its first parts alone, for a section that is misspelt. */
static int key_distance(const char *unknown, const char *key)
{
    enum { NEAR_PART = 2, MAX_KEY = 128 };
    size_t section = strcspn(unknown, ".");
    bool elsewhere = unknown[section] && strncmp(unknown, key, section + 1) != 0;
    int best = str_distance(unknown, key) + (elsewhere ? 2 : 0);
    int part = str_distance(last_part(unknown), last_part(key));
    int far = (int)strlen(last_part(key)) / 2;
    if (part <= NEAR_PART && part < far && part + (elsewhere ? 3 : 1) < best)
        best = part + (elsewhere ? 3 : 1);

    char head[MAX_KEY] = "";
    int dots = count_dots(unknown);
    if (count_dots(key) > dots && strlen(key) < sizeof head) {
        const char *end = key;
        for (int i = 0; i <= dots; i++)
            end = strchr(i ? end + 1 : end, '.');
        memcpy(head, key, (size_t)(end - key));
        int d = str_distance(unknown, head);
        if (d <= NEAR_PART && d + 1 < best)
            best = d + 1;
    }
    return best;
}

size_t option_nearest(const char *unknown, uint32_t bits, const char **out, size_t max, bool *close)
{
    int best[8] = {0};
    size_t n = 0;
    if (max > sizeof best / sizeof *best)
        max = sizeof best / sizeof *best;
    for (size_t i = 0; i < config_options_n; i++) {
        if (!(config_options[i].commands & bits))
            continue;
        int d = key_distance(unknown, config_options[i].key);
        size_t at = n;
        while (at > 0 && best[at - 1] > d)
            at--;
        if (at == max)
            continue;
        n = n < max ? n + 1 : n;
        for (size_t k = n - 1; k > at; k--)
            best[k] = best[k - 1], out[k] = out[k - 1];
        best[at] = d;
        out[at] = config_options[i].key;
    }
    int limit = (int)strlen(unknown) / 3;
    *close = n > 0 && best[0] <= (limit < 2 ? limit : limit < 3 ? 2 : 3);
    while (*close && n > 1 && best[n - 1] > best[0] + 3)
        n--; /* drop far guesses where a close one exists */
    return n;
}

void option_hint(const char *unknown, uint32_t bits, struct err *e)
{
    const char *near[3];
    bool close;
    size_t n = option_nearest(unknown, bits, near, 3, &close);
    struct buf list = {0};
    for (size_t i = close; i < n; i++)
        buf_printf(&list, "%s%s", i > close ? ", " : "", near[i]);
    if (!close)
        err_hint(e, "the nearest keys are %s", buf_str(&list));
    else if (n == 1)
        err_hint(e, "did you mean %s?", near[0]);
    else
        err_hint(e, "did you mean %s? also near: %s", near[0], buf_str(&list));
    buf_free(&list);
}

static void add_alternatives(struct buf *out, const char *allowed)
{
    for (; *allowed; allowed++)
        if (*allowed == '|')
            buf_puts(out, ", ");
        else
            buf_putc(out, *allowed);
}

void option_range(struct buf *out, const struct option *o)
{
    /* larger bounds only prevent overflow: not shown */
    enum { NO_REAL_LIMIT = 100000 };
    char text[STR_DOUBLE_MAX];
    if (o->allowed) {
        buf_puts(out, "one of ");
        add_alternatives(out, o->allowed);
        return;
    }
    if (o->min == 0 && o->max == 0)
        return;
    bool tiny = o->type == OPT_DOUBLE && o->min > 0 && o->min < 1e-2;
    str_from_double(text, tiny ? 0 : o->min);
    buf_printf(out, "%s%s", tiny ? "above " : "", text);
    if (o->max < NO_REAL_LIMIT) {
        str_from_double(text, o->max);
        buf_printf(out, " to %s", text);
    } else if (!tiny) {
        buf_puts(out, " or more");
    }
}

static const char *const type_names[] = {
    [OPT_BOOL] = "true or false",
    [OPT_INT] = "integer",
    [OPT_DOUBLE] = "number",
    [OPT_STR] = "",
    [OPT_ENUM] = "",
    [OPT_LIST] = "list",
    [OPT_MAP] = "map",
};

/* A non-breaking space. */
enum { HARD_SPACE = 0x1f };

static void add_fact(struct buf *out, const char *before, const char *text)
{
    if (*text)
        buf_printf(out, "%s%s%s", out->n ? ", " : "", before, text);
}

void option_facts(struct buf *out, const struct option *o)
{
    struct buf range = {0};
    option_range(&range, o);
    add_fact(out, "", range.n ? "" : type_names[o->type]);
    add_fact(out, "", buf_str(&range));
    if (range.n && *o->unit)
        buf_printf(out, " %s", o->unit);
    else
        add_fact(out, "", o->unit);
    if (*o->def)
        buf_printf(out, "%sdefault %s", out->n ? "; " : "", o->def);
    buf_free(&range);
}

static void add_facts(struct buf *out, const struct option *o)
{
    struct buf facts = {0};
    option_facts(&facts, o);
    size_t bracketed = facts.n + 2;
    if (facts.n)
        buf_printf(out, " [%s]", facts.p);
    enum { SHORT = 50 };
    for (size_t i = bracketed; facts.n && i > 1 && bracketed < SHORT; i--)
        if (out->p[out->n - i] == ' ')
            out->p[out->n - i] = HARD_SPACE;
    buf_free(&facts);
}

/* Words of text from column `indent` on, broken before column 100. */
static void add_wrapped(struct buf *out, const char *text, int indent)
{
    enum { WIDTH = 100 };
    int column = indent;
    for (const char *p = text; *p;) {
        int n = (int)strcspn(p, " ");
        if (column > indent && column + 1 + n > WIDTH) {
            buf_printf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            buf_putc(out, ' ');
            column++;
        }
        for (int i = 0; i < n; i++)
            buf_putc(out, p[i] == HARD_SPACE ? ' ' : p[i]);
        column += n;
        p += n + (p[n] == ' ');
    }
    buf_putc(out, '\n');
}

void option_help(struct buf *out, uint32_t command_bit)
{
    int width = 0;
    for (size_t i = 0; i < config_options_n; i++) {
        int n = (int)strlen(config_options[i].key);
        if ((config_options[i].commands & command_bit) && n > width)
            width = n;
    }
    struct buf text = {0};
    for (size_t i = 0; i < config_options_n; i++) {
        const struct option *o = &config_options[i];
        if (!(o->commands & command_bit))
            continue;
        buf_clear(&text);
        buf_puts(&text, o->help);
        add_facts(&text, o);
        buf_printf(out, "  %-*s  ", width, o->key);
        add_wrapped(out, buf_str(&text), width + 4);
    }
    buf_free(&text);
}
