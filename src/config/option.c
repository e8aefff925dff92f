#include "config/option.h"

#include <string.h>

bool option_next(struct option_iter *i)
{
    const struct option_place *places = option_table.places;
    if (i->section < option_table.n && i->row == places[i->section].section->n) {
        i->section++;
        i->row = 0;
    }
    if (i->section == option_table.n)
        return false;
    i->o = &places[i->section].section->rows[i->row++];
    i->offset = places[i->section].offset + i->o->offset;
    return true;
}

const char *option_default(const struct option *o, uint32_t command)
{
    return o->instead.commands & command ? o->instead.def : o->def;
}

const struct option *option_find(const char *key)
{
    for (struct option_iter i = {0}; option_next(&i);)
        if (strcmp(i.o->key, key) == 0)
            return i.o;
    return NULL;
}

bool option_is_below(const char *key, const char *section)
{
    size_t n = strlen(section);
    return strncmp(key, section, n) == 0 && key[n] == '.';
}

const struct option *option_map_of(const char *key)
{
    for (struct option_iter i = {0}; option_next(&i);)
        if (i.o->type == OPT_MAP && option_is_below(key, i.o->key))
            return i.o;
    return NULL;
}

bool option_is_section(const char *key)
{
    for (struct option_iter i = {0}; option_next(&i);)
        if (option_is_below(i.o->key, key))
            return true;
    return false;
}

void option_name(struct buf *names, const char *member)
{
    buf_printf(names, "%s%s", names->n ? "|" : "", member);
}

static const struct option_capability *find_capability(struct sv key, struct sv word)
{
    for (const struct option_capability *const *list = option_table.capabilities; *list; list++)
        for (const struct option_capability *c = *list; c->key; c++)
            if (sv_eq(key, c->key) && sv_eq(word, c->word))
                return c;
    return NULL;
}

const char *option_members(struct arena *a, const char *key, const char *values)
{
    struct buf out = {0};
    if (!values || !strchr(values, '@'))
        return values;
    for (const char *p = values; *p; p += *p == '|') {
        const struct sv word = {p + 1, strcspn(p, "|") - 1};
        const struct option_capability *c = *p == '@' ? find_capability(sv_of(key), word) : NULL;
        if (c)
            c->names(&out, c->bits);
        else
            option_name(&out, arena_strn(a, p, word.n + 1));
        p += word.n + 1;
    }
    const char *all = arena_str(a, buf_str(&out));
    buf_free(&out);
    return all;
}

const char *option_help_text(struct arena *a, const struct option *o)
{
    struct buf out = {0};
    const char *p = o->help, *at;
    for (; (at = strstr(p, "@{")); p = strchr(at, '}') + 1) {
        const size_t key = strcspn(at, ":"), end = strcspn(at, "}");
        const struct option_capability *c =
            find_capability((struct sv){at + 2, key - 2}, (struct sv){at + key + 1, end - key - 1});
        struct buf names = {0};
        c->names(&names, c->bits);
        buf_add(&out, p, (size_t)(at - p));
        option_list_values(&out, buf_str(&names), ", ");
        buf_free(&names);
    }
    if (p == o->help)
        return p;
    buf_puts(&out, p);
    const char *text = arena_str(a, buf_str(&out));
    buf_free(&out);
    return text;
}

void option_list_values(struct buf *out, const char *values, const char *last)
{
    while (*values) {
        size_t n = strcspn(values, "|");
        buf_add(out, values, n);
        values += n + (values[n] == '|');
        buf_puts(out, !*values ? "" : strchr(values, '|') ? ", " : last);
    }
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
    for (struct option_iter i = {0}; option_next(&i);) {
        if (!(i.o->commands & bits))
            continue;
        int d = key_distance(unknown, i.o->key);
        size_t at = n;
        while (at > 0 && best[at - 1] > d)
            at--;
        if (at == max)
            continue;
        n = n < max ? n + 1 : n;
        for (size_t k = n - 1; k > at; k--)
            best[k] = best[k - 1], out[k] = out[k - 1];
        best[at] = d;
        out[at] = i.o->key;
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
