#include "text/gz.h"

#include <zlib.h>

enum { PIECE_BYTES = 1 << 18 };

static enum st unpack(gzFile f, const char *path, size_t max_bytes, struct buf *text, struct err *e)
{
    static const size_t most = PIECE_BYTES;
    for (;;) {
        if (text->cap - text->n < most + 1) {
            text->cap = 2 * text->cap + 2 * most;
            text->p = mem_resize(text->p, text->cap);
        }
        int n = gzread(f, text->p + text->n, PIECE_BYTES);
        if (n < 0) {
            int code;
            return err_set(e, ST_INPUT, "%s: %s", path, gzerror(f, &code));
        }
        if (n == 0)
            break;
        text->n += (size_t)n;
        if (text->n > max_bytes)
            return err_set(e, ST_INPUT, "%s: more than %zu bytes", path, max_bytes);
    }
    text->p[text->n] = 0;
    return ST_OK;
}

enum st gz_read(struct arena *a, const char *path, size_t max_bytes, struct sv *out, struct err *e)
{
    gzFile f = gzopen(path, "rb");
    if (!f)
        return err_errno(e, true, "cannot open %s", path);
    gzbuffer(f, PIECE_BYTES);
    struct buf text = {0};
    enum st st = unpack(f, path, max_bytes, &text, e);
    if (gzclose(f) != Z_OK && st == ST_OK)
        st = err_set(e, ST_INPUT, "%s: the gzip stream is cut short", path);
    if (st == ST_OK)
        *out = (struct sv){arena_copy(a, text.p, text.n + 1), text.n};
    buf_free(&text);
    return st;
}
