/* What was read of Nsight Compute's tables: look-ups. */
#include <math.h>
#include <string.h>

#include "deep/ncu_csv.h"

void ncu_table_init(struct ncu_table *t, struct arena *a)
{
    *t = (struct ncu_table){.a = a};
    map_init(&t->metrics, a);
}

void ncu_table_free(struct ncu_table *t)
{
    vec_free(&t->launches);
    vec_free(&t->notes);
}

double ncu_value(const struct ncu_table *t, const struct ncu_launch *l, const char *metric)
{
    const struct map_entry *entry = map_find(&t->metrics, metric, strlen(metric));
    size_t from = 0, to = entry ? l->n_values : 0;
    while (from < to) { /* the first that is not below */
        size_t middle = from + (to - from) / 2;
        if (l->values[middle].metric < (uint32_t)entry->i)
            from = middle + 1;
        else
            to = middle;
    }
    return entry && from < l->n_values && l->values[from].metric == (uint32_t)entry->i
               ? l->values[from].v
               : (double)NAN;
}

bool deep_matches(const char *pattern, struct sv text)
{
    const char *star = NULL;
    size_t i = 0, again = 0;
    while (i < text.n) {
        if (*pattern == '*') {
            star = ++pattern;
            again = i;
        } else if (*pattern && (*pattern == '?' || *pattern == text.p[i])) {
            pattern++;
            i++;
        } else if (star) {
            pattern = star;
            i = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

/* ncu writes each range as "domain:name:...", in quotes, after the thread's number. */
bool ncu_inside(const struct ncu_launch *l, const char *pattern)
{
    for (const char *p = l->ranges; (p = strchr(p, '"')) != NULL;) {
        const char *end = strchr(++p, '"');
        if (!end)
            return false;
        const char *name = memchr(p, ':', (size_t)(end - p));
        name = name ? name + 1 : p;
        const char *stop = memchr(name, ':', (size_t)(end - name));
        struct sv text = {name, (size_t)((stop ? stop : end) - name)};
        if (deep_matches(pattern, text))
            return true;
        p = end + 1;
    }
    return false;
}
