#include "profile/read/filter.h"

#include <math.h>
#include <string.h>

void filter_add(struct filter *f, struct filter_column c)
{
    ASSERT(f->n < FILTER_MAX);
    f->c[f->n++] = c;
}

enum st filter_bind(struct filter *f, const struct csv_reader *r, struct err *e)
{
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        struct filter_column c = f->c[i];
        if (!c.optional)
            TRY(csv_require(r, c.name, &c.column, e));
        else if ((c.column = csv_find(r, c.name)) < 0)
            continue;
        f->c[n++] = c;
    }
    f->n = n;
    return ST_OK;
}

static enum st cell_value(const struct filter_column *c, const struct csv_reader *r, int64_t *v,
                          struct err *e)
{
    if (!c->is_bool)
        return csv_int(r, c->column, 0, INT64_MAX, v, e);
    struct sv s = csv_cell(r, c->column);
    if (sv_eq(s, "True") || sv_eq(s, "true") || sv_eq(s, "1"))
        *v = 1;
    else if (sv_eq(s, "False") || sv_eq(s, "false") || sv_eq(s, "0"))
        *v = 0;
    else
        return csv_err(r, c->column, e, "expected True or False, got '%.*s'", (int)s.n, s.p);
    return ST_OK;
}

enum st filter_match(struct filter *f, const struct csv_reader *r, bool *match, struct err *e)
{
    int64_t v[FILTER_MAX];
    int wrong = 0;
    double distance = 0;
    for (int i = 0; i < f->n; i++) {
        TRY(cell_value(&f->c[i], r, &v[i], e));
        if (v[i] == f->c[i].want)
            continue;
        if (f->matched) {
            *match = false;
            return ST_OK;
        }
        wrong++;
        distance += fabs(log(((double)v[i] + 1) / ((double)f->c[i].want + 1)));
    }
    *match = wrong == 0;
    f->matched += *match;
    if (*match || f->matched)
        return ST_OK;
    if (!f->seen || wrong < f->nearest_wrong ||
        (wrong == f->nearest_wrong && distance < f->nearest_distance)) {
        for (int i = 0; i < f->n; i++)
            f->nearest[i] = v[i];
        f->nearest_wrong = wrong;
        f->nearest_distance = distance;
        f->seen = true;
    }
    return ST_OK;
}

static const char *shown(const struct filter_column *c, int64_t v, char out[32])
{
    if (c->is_bool)
        return v ? "True" : "False";
    snprintf(out, 32, "%lld", (long long)v);
    return out;
}

const int64_t *filter_lone_difference(const struct filter *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!f->matched && f->seen && f->nearest_wrong == 1 && f->nearest[i] != f->c[i].want)
            return strcmp(f->c[i].name, name) == 0 ? &f->nearest[i] : NULL;
    return NULL;
}

enum st filter_done(const struct filter *f, const char *path, struct err *e)
{
    if (f->matched)
        return ST_OK;
    if (!f->seen)
        return err_set(e, ST_INPUT, "%s has no rows", path);
    struct buf want = {0}, near = {0};
    char text[32];
    for (int i = 0; i < f->n; i++) {
        const struct filter_column *c = &f->c[i];
        buf_printf(&want, "%s%s %s", i ? ", " : "", c->name, shown(c, c->want, text));
        if (f->nearest[i] != c->want)
            buf_printf(&near, "%s%s %s", near.n ? ", " : "", c->name,
                       shown(c, f->nearest[i], text));
    }
    err_set(e, ST_INPUT, "%s: no rows for %s; the nearest rows have %s", path, buf_str(&want),
            buf_str(&near));
    buf_free(&want);
    buf_free(&near);
    return e->st;
}
