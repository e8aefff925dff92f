#include "workload/events.h"

enum st events_open(struct events *v, const char *path, struct err *e)
{
    *v = (struct events){.path = path};
    TRY(gz_open(path, &v->file, e));
    v->r = json_reader_new(path, &(struct json_limits){.python = true});
    json_feed(v->r, v->file.text.p, v->file.text.n);
    return ST_OK;
}

void events_close(struct events *v)
{
    json_reader_free(&v->r);
    gz_close(&v->file);
}

enum json_event events_next(struct events *v, struct err *e)
{
    enum json_event ev = json_next(v->r, e);
    if (ev == JSON_MORE) {
        json_finish(v->r);
        ev = json_next(v->r, e);
    }
    return ev;
}

enum st events_bad(const struct events *v, struct err *e, const char *text)
{
    uint32_t line, column;
    json_place(v->r, &line, &column);
    return err_at(e, ST_INPUT, v->path, line, column, "%s", text);
}

bool events_opens(enum json_event ev)
{
    return ev == JSON_LIST_BEGIN || ev == JSON_MAP_BEGIN;
}

bool events_closes(enum json_event ev)
{
    return ev == JSON_LIST_END || ev == JSON_MAP_END;
}

enum st events_skip(struct events *v, enum json_event first, struct err *e)
{
    for (int depth = events_opens(first); depth > 0;) {
        enum json_event ev = events_next(v, e);
        if (ev == JSON_ERROR)
            return e->st;
        depth += events_opens(ev) - events_closes(ev);
    }
    return ST_OK;
}
