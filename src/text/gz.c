#include "text/gz.h"

#include <string.h>
#include <zlib.h>

enum { PIECE_BYTES = 1 << 18, FREE_BYTES = 64 << 20 };

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

static enum st unpack_file(const char *path, size_t max_bytes, struct buf *text, struct err *e)
{
    gzFile f = gzopen(path, "rb");
    if (!f)
        return err_errno(e, true, "cannot open %s", path);
    gzbuffer(f, PIECE_BYTES);
    enum st st = unpack(f, path, max_bytes, text, e);
    if (gzclose(f) != Z_OK && st == ST_OK)
        st = err_set(e, ST_INPUT, "%s: the gzip stream is cut short", path);
    return st;
}

enum st gz_read(struct arena *a, const char *path, size_t max_bytes, struct sv *out, struct err *e)
{
    struct buf text = {0};
    enum st st = unpack_file(path, max_bytes, &text, e);
    if (st == ST_OK)
        *out = (struct sv){arena_copy(a, text.p, text.n + 1), text.n};
    buf_free(&text);
    return st;
}

static size_t most_bytes(size_t packed)
{
    size_t most = packed < SIZE_MAX / GZ_MAX_RATIO ? packed * GZ_MAX_RATIO : SIZE_MAX - 1;
    return most > FREE_BYTES ? most : FREE_BYTES;
}

enum st gz_open(const char *path, struct gz_file *out, struct err *e)
{
    static const char gzip[] = {'\x1f', '\x8b'}, mark[] = {'\xef', '\xbb', '\xbf'};
    *out = (struct gz_file){0};
    TRY(fs_map(path, &out->map, e));
    out->text = (struct sv){out->map.p ? out->map.p : "", out->map.n};
    if (out->text.n >= sizeof gzip && memcmp(out->text.p, gzip, sizeof gzip) == 0) {
        size_t packed = out->map.n;
        fs_unmap(&out->map);
        out->text = (struct sv){"", 0};
        enum st st = unpack_file(path, most_bytes(packed), &out->unpacked, e);
        if (st != ST_OK) {
            gz_close(out);
            return st;
        }
        out->text = (struct sv){out->unpacked.p, out->unpacked.n};
    }
    if (out->text.n >= sizeof mark && memcmp(out->text.p, mark, sizeof mark) == 0)
        out->text = (struct sv){out->text.p + sizeof mark, out->text.n - sizeof mark};
    return ST_OK;
}

void gz_close(struct gz_file *f)
{
    fs_unmap(&f->map);
    buf_free(&f->unpacked);
    *f = (struct gz_file){0};
}
