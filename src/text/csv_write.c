#include <math.h>
#include <string.h>

#include "text/csv.h"

static void separate(struct csv_writer *w)
{
    if (w->cells++)
        fputc(',', w->f);
}

static void put_plain(struct csv_writer *w, const char *s)
{
    separate(w);
    fputs(s, w->f);
}

void csv_put_str(struct csv_writer *w, const char *s)
{
    if (*s == 0) {
        csv_put_empty(w);
        return;
    }
    if (!s[strcspn(s, ",\"\r\n")]) {
        put_plain(w, s);
        return;
    }
    separate(w);
    fputc('"', w->f);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', w->f);
        fputc(*s, w->f);
    }
    fputc('"', w->f);
}

void csv_put_int(struct csv_writer *w, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    put_plain(w, text);
}

void csv_put_double(struct csv_writer *w, double v)
{
    char text[STR_DOUBLE_MAX];
    if (!isfinite(v)) {
        csv_put_empty(w);
        return;
    }
    str_from_double(text, v);
    put_plain(w, text);
}

void csv_put_empty(struct csv_writer *w)
{
    w->only_empty = w->cells == 0;
    separate(w);
}

void csv_end_row(struct csv_writer *w)
{
    if (w->cells == 1 && w->only_empty)
        fputs("\"\"", w->f); /* a bare newline would be a blank line, which readers skip */
    fputc('\n', w->f);
    w->cells = 0;
    w->only_empty = false;
}
