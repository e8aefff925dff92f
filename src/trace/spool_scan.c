#include "trace/spool_scan.h"

#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

/* A string to look up. They are few, so a second pass over the string blocks finds them. */
struct wanted {
    uint32_t id;
    const char *text;
};

struct spool_scan {
    struct arena *a;
    struct fs_map map;
    struct spool_facts *out;
    VEC(struct wanted) wanted; /* 0 = the command, then notes */
};

/* A plausible block header with its payload inside the file. */
static const struct spool_block *header(const struct fs_map *m, uint64_t at)
{
    if (at > m->n || m->n - at < sizeof(struct spool_block))
        return NULL;
    const struct spool_block *b = (const void *)(m->p + at);
    if (b->magic != SPOOL_BLOCK_MAGIC || b->bytes > SPOOL_BLOCK_MAX_BYTES || b->bytes % 8 != 0 ||
        b->bytes > m->n - at - sizeof *b)
        return NULL;
    if (b->kind != SPOOL_STRINGS &&
        (b->record_bytes == 0 || (uint64_t)b->count * b->record_bytes > b->bytes))
        return NULL;
    return b;
}

static bool whole(const struct spool_block *b)
{
    uint64_t sum = trace_spool_checksum(0, b, offsetof(struct spool_block, checksum));
    return trace_spool_checksum(sum, b + 1, b->bytes) == b->checksum;
}

/* Blocks lie at multiples of 8. Every block between takes at least 32 bytes, which bounds the next
 * sequence number. */
uint64_t trace_spool_find(const struct fs_map *m, uint64_t from, uint32_t sequence)
{
    enum { HASHED_ANYWAY = 1 << 24 };
    uint64_t left = 4 * (uint64_t)m->n + HASHED_ANYWAY; /* bounds the work on a hostile file */
    for (uint64_t at = (from + 7) / 8 * 8; at < m->n; at += 8) {
        const struct spool_block *b = header(m, at);
        if (!b || b->sequence - sequence > (at - from) / sizeof *b + 1)
            continue;
        if (b->bytes > left)
            break;
        left -= b->bytes;
        if (whole(b))
            return at;
    }
    return m->n;
}

/* The valid block at *at, or the next one behind damage; NULL at the end. */
static const struct spool_block *next_block(const struct fs_map *m, uint64_t *at,
                                            struct spool_facts *out, uint32_t sequence)
{
    const struct spool_block *b = header(m, *at);
    if (b && whole(b))
        return b;
    uint64_t next = trace_spool_find(m, *at, sequence);
    if (next >= m->n) {
        out->cut_bytes = m->n - *at;
        return NULL;
    }
    b = (const void *)(m->p + next);
    out->skipped_bytes += next - *at;
    out->skipped_blocks += b->sequence - sequence;
    *at = next;
    return b;
}

static void record(const struct spool_block *b, uint32_t i, void *to, size_t bytes)
{
    memset(to, 0, bytes);
    memcpy(to, (const char *)(b + 1) + (size_t)i * b->record_bytes,
           b->record_bytes < bytes ? b->record_bytes : bytes);
}

static void look(struct spool_scan *s, const struct spool_block *b)
{
    struct spool_facts *out = s->out;
    if (b->kind == SPOOL_STRINGS)
        return; /* not needed yet; its count is not checked against its size */
    for (uint32_t i = 0; i < b->count; i++) {
        struct spool_process p;
        struct spool_drop d;
        struct spool_note n;
        if (b->kind == SPOOL_PROCESS) {
            record(b, i, &p, sizeof p);
            s->wanted.p[0].id = p.command;
            out->rank = p.rank;
        } else if (b->kind == SPOOL_DROPS) {
            record(b, i, &d, sizeof d);
            out->dropped += d.count;
            out->dropped_by[d.source < SPOOL_SOURCES ? d.source : 0] += d.count;
        } else if (b->kind == SPOOL_COSTS) {
            record(b, i, &out->cost, sizeof out->cost);
        } else if (b->kind == SPOOL_NOTES) {
            record(b, i, &n, sizeof n);
            if (n.level >= SPOOL_WARNING && s->wanted.n < 100)
                vec_push(&s->wanted, (struct wanted){.id = n.text});
        } else if (b->kind == SPOOL_END) {
            out->ended = true;
        }
    }
}

static void find_strings(struct spool_scan *s, const struct spool_block *b)
{
    const char *p = (const char *)(b + 1), *end = p + b->bytes;
    while (end - p >= (ptrdiff_t)sizeof(struct spool_string)) {
        struct spool_string h;
        memcpy(&h, p, sizeof h);
        p += sizeof h;
        if (h.bytes > (size_t)(end - p))
            return;
        for (size_t i = 0; i < s->wanted.n; i++)
            if (h.id && s->wanted.p[i].id == h.id)
                s->wanted.p[i].text = arena_strn(s->a, p, h.bytes);
        p += (h.bytes + 7) / 8 * 8;
    }
}

static void scan_blocks(struct spool_scan *s, uint64_t first)
{
    const struct spool_block *b;
    uint32_t sequence = 0;
    VEC(uint64_t) strings = {0};
    for (uint64_t at = first; (b = next_block(&s->map, &at, s->out, sequence));
         at += sizeof *b + b->bytes) {
        if (b->kind < SPOOL_KINDS)
            s->out->counts[b->kind] += b->count;
        if (b->kind == SPOOL_STRINGS)
            vec_push(&strings, at);
        look(s, b);
        sequence = b->sequence + 1;
    }
    s->out->whole_bytes = s->map.n - s->out->skipped_bytes - s->out->cut_bytes;
    for (size_t i = 0; i < strings.n; i++)
        find_strings(s, (const void *)(s->map.p + strings.p[i]));
    vec_free(&strings);
}

const char *trace_spool_since_flush(const struct spool_header *h, char out[SPOOL_SINCE_TEXT])
{
    out[0] = 0;
    if (h->flushed_ns > 0 && h->alive_ns >= h->flushed_ns)
        snprintf(out, SPOOL_SINCE_TEXT, ", %.0f ms before its last sign of life",
                 (double)(h->alive_ns - h->flushed_ns) / 1e6);
    return out;
}

enum st trace_spool_scan(struct arena *a, const char *path, struct spool_facts *out, struct err *e)
{
    struct spool_scan s = {.a = a, .out = out};
    *out = (struct spool_facts){.rank = -1, .command = ""};
    TRY(fs_map(path, &s.map, e));
    out->bytes = s.map.n;
    if (s.map.n < sizeof out->header ||
        memcmp(s.map.p, SPOOL_MAGIC, sizeof out->header.magic) != 0) {
        fs_unmap(&s.map);
        return err_set(e, ST_INPUT, "%s: not a spool: it does not begin with TWSPOOL", path);
    }
    memcpy(&out->header, s.map.p, sizeof out->header);
    if (out->header.version != SPOOL_VERSION || out->header.header_bytes < sizeof out->header ||
        out->header.header_bytes > s.map.n || out->header.header_bytes % 8 != 0) {
        fs_unmap(&s.map);
        return err_set(e, ST_INPUT, "%s: a spool of version %u; this twinfer reads version %d",
                       path, out->header.version, SPOOL_VERSION);
    }
    vec_push(&s.wanted, (struct wanted){0});
    scan_blocks(&s, out->header.header_bytes);
    out->command = s.wanted.p[0].text ? s.wanted.p[0].text : "";
    out->notes = arena_array(a, const char *, s.wanted.n);
    for (size_t i = 1; i < s.wanted.n; i++)
        if (s.wanted.p[i].text)
            out->notes[out->n_notes++] = s.wanted.p[i].text;
    vec_free(&s.wanted);
    fs_unmap(&s.map);
    return ST_OK;
}
