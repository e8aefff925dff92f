#include "trace/stream.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/arena.h"
#include "base/fs.h"

enum { PIECE_BYTES = 1 << 18, FREE_BYTES = 64 << 20 };

struct trace_stream {
    FILE *f;
    char *path;
    enum { PLAIN, GZIP, ZSTD } packing;
    char *packed; /* [PIECE_BYTES] */
    size_t at, have;
    uint64_t read_bytes, unpacked_bytes;
    bool file_ended, member_ended;
    z_stream z;
    ZSTD_DStream *zstd;
};

static enum st refill(struct trace_stream *s, struct err *e)
{
    if (s->at < s->have || s->file_ended)
        return ST_OK;
    s->at = 0;
    s->have = fread(s->packed, 1, PIECE_BYTES, s->f);
    s->read_bytes += s->have;
    if (s->have == 0) {
        s->file_ended = true;
        if (ferror(s->f))
            return err_set(e, ST_INPUT, "%s: cannot be read", s->path);
    }
    return ST_OK;
}

static enum st begin(struct trace_stream *s, struct err *e)
{
    static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    TRY(refill(s, e));
    s->member_ended = true; /* an empty file is whole */
    if (s->have >= sizeof gzip && memcmp(s->packed, gzip, sizeof gzip) == 0) {
        s->packing = GZIP;
        if (inflateInit2(&s->z, 15 + 16) != Z_OK)
            return err_set(e, ST_IO, "%s: zlib does not start", s->path);
        s->member_ended = false;
    } else if (s->have >= sizeof zstd && memcmp(s->packed, zstd, sizeof zstd) == 0) {
        s->packing = ZSTD;
        s->zstd = ZSTD_createDStream();
        if (!s->zstd)
            return err_set(e, ST_IO, "%s: zstd does not start", s->path);
        s->member_ended = false;
    }
    return ST_OK;
}

enum st trace_stream_open(struct trace_stream **out, const char *path, struct err *e)
{
    if (fs_is_dir(path))
        return err_set(e, ST_INPUT, "%s is a folder", path);
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_errno(e, true, "cannot open %s", path);
    struct trace_stream *s = mem_alloc(sizeof *s);
    s->f = f;
    s->packed = mem_alloc(PIECE_BYTES);
    size_t n = strlen(path) + 1;
    s->path = mem_alloc(n);
    memcpy(s->path, path, n);
    *out = s;
    enum st st = begin(s, e);
    if (st != ST_OK)
        trace_stream_close(out);
    return st;
}

static enum st broken(struct trace_stream *s, struct err *e, const char *why)
{
    return err_set(e, ST_INPUT, "%s: the %s stream is %s", s->path,
                   s->packing == GZIP ? "gzip" : "zstd", why);
}

/* One step of inflate; gzip files may have several members. */
static enum st step_gzip(struct trace_stream *s, char *p, size_t cap, size_t *n, struct err *e)
{
    if (s->member_ended && inflateReset(&s->z) != Z_OK)
        return broken(s, e, "damaged");
    s->member_ended = false;
    s->z.next_in = (Bytef *)s->packed + s->at;
    s->z.avail_in = (uInt)(s->have - s->at);
    s->z.next_out = (Bytef *)p;
    s->z.avail_out = cap < UINT32_MAX ? (uInt)cap : UINT32_MAX;
    uInt room = s->z.avail_out;
    int code = inflate(&s->z, Z_NO_FLUSH);
    s->at = s->have - s->z.avail_in;
    *n = room - s->z.avail_out;
    s->member_ended = code == Z_STREAM_END;
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR ? ST_OK
                                                                       : broken(s, e, "damaged");
}

static enum st step_zstd(struct trace_stream *s, char *p, size_t cap, size_t *n, struct err *e)
{
    ZSTD_inBuffer in = {s->packed, s->have, s->at};
    ZSTD_outBuffer out = {p, cap, 0};
    size_t left = ZSTD_decompressStream(s->zstd, &out, &in);
    if (ZSTD_isError(left))
        return broken(s, e, "damaged");
    s->at = in.pos;
    *n = out.pos;
    s->member_ended = left == 0;
    return ST_OK;
}

static enum st read_plain(struct trace_stream *s, char *p, size_t cap, size_t *n, struct err *e)
{
    size_t buffered = s->have - s->at;
    if (buffered) {
        *n = buffered < cap ? buffered : cap;
        memcpy(p, s->packed + s->at, *n);
        s->at += *n;
        return ST_OK;
    }
    *n = fread(p, 1, cap, s->f);
    if (*n == 0 && ferror(s->f))
        return err_set(e, ST_INPUT, "%s: cannot be read", s->path);
    return ST_OK;
}

enum st trace_stream_read(struct trace_stream *s, char *p, size_t cap, size_t *n, struct err *e)
{
    *n = 0;
    if (s->packing == PLAIN)
        return read_plain(s, p, cap, n, e);
    while (*n == 0) {
        TRY(refill(s, e));
        if (s->at == s->have && s->file_ended && s->member_ended)
            return ST_OK;
        size_t before = s->at;
        TRY(s->packing == GZIP ? step_gzip(s, p, cap, n, e) : step_zstd(s, p, cap, n, e));
        if (*n == 0 && s->at == before && s->file_ended && !s->member_ended)
            return broken(s, e, "cut short");
    }
    s->unpacked_bytes += *n;
    if (s->unpacked_bytes > FREE_BYTES &&
        s->unpacked_bytes / TRACE_STREAM_MAX_RATIO > s->read_bytes)
        return err_set(e, ST_INPUT, "%s: unpacks to more than %d times its size", s->path,
                       TRACE_STREAM_MAX_RATIO);
    return ST_OK;
}

void trace_stream_close(struct trace_stream **sp)
{
    struct trace_stream *s = sp ? *sp : NULL;
    if (!s)
        return;
    if (s->packing == GZIP)
        inflateEnd(&s->z);
    ZSTD_freeDStream(s->zstd);
    fclose(s->f);
    mem_free(s->packed);
    mem_free(s->path);
    mem_free(s);
    *sp = NULL;
}
