#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "text/json.h"

enum { LENGTH_BYTES = 8 };

static uint64_t read_le64(const char *p)
{
    uint64_t v = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

static enum st header_of(const char *path, struct sv file, struct sv *header, struct err *e)
{
    if (file.n < LENGTH_BYTES)
        return err_at(e, ST_INPUT, path, 0, 0,
                      "not a safetensors file: %zu bytes are less than the %d of its length field",
                      file.n, LENGTH_BYTES);
    uint64_t n = read_le64(file.p);
    if (n > SAFETENSORS_MAX_HEADER_BYTES)
        return err_at(e, ST_INPUT, path, 0, 0,
                      "not a safetensors file: a header of %llu bytes is over the limit of %d",
                      (unsigned long long)n, SAFETENSORS_MAX_HEADER_BYTES);
    if (n > file.n - LENGTH_BYTES)
        return err_at(e, ST_INPUT, path, 0, 0,
                      "truncated: the header has %llu bytes, only %zu follow the length field",
                      (unsigned long long)n, file.n - LENGTH_BYTES);
    *header = (struct sv){file.p + LENGTH_BYTES, (size_t)n};
    return ST_OK;
}

static enum st read_shape(const struct node *desc, struct tensor *t, struct err *e)
{
    struct node *shape;
    TRY(node_get(desc, "shape", NODE_LIST, &shape, e));
    if (shape->n > TENSOR_MAX_DIMS)
        return node_err(shape, ST_INPUT, e, "tensor '%s': %u dimensions, at most %d are supported",
                        t->name, shape->n, TENSOR_MAX_DIMS);
    int64_t bytes = (int64_t)dtype_bytes(t->dtype);
    bool empty = false;
    for (uint32_t i = 0; i < shape->n; i++) {
        const struct node *d = shape->items[i];
        if (d->kind != NODE_INT || d->i < 0)
            return node_err(d, ST_INPUT, e, "tensor '%s': a dimension is a non-negative integer",
                            t->name);
        t->dims[i] = d->i;
        empty |= d->i == 0;
        if (d->i != 0 && __builtin_mul_overflow(bytes, d->i, &bytes))
            return node_err(d, ST_INPUT, e, "tensor '%s': its size in bytes does not fit 63 bits",
                            t->name);
    }
    t->n_dims = (int)shape->n;
    t->bytes = empty ? 0 : (size_t)bytes;
    return ST_OK;
}

static enum st read_offsets(const struct node *desc, struct sv data, struct tensor *t,
                            struct arena *a, struct err *e)
{
    struct node *offsets;
    TRY(node_get(desc, "data_offsets", NODE_LIST, &offsets, e));
    const struct node *const *o = (const struct node *const *)offsets->items;
    if (offsets->n != 2 || o[0]->kind != NODE_INT || o[1]->kind != NODE_INT || o[0]->i < 0 ||
        o[1]->i < o[0]->i)
        return node_err(offsets, ST_INPUT, e,
                        "tensor '%s': data_offsets are two integers, begin <= end", t->name);
    size_t begin = (size_t)o[0]->i, end = (size_t)o[1]->i;
    if (end > data.n)
        return node_err(offsets, ST_INPUT, e,
                        "tensor '%s': data ends at byte %zu, the file holds %zu bytes of data",
                        t->name, end, data.n);
    if (end - begin != t->bytes)
        return node_err(offsets, ST_INPUT, e,
                        "tensor '%s': %s %s takes %zu bytes, data_offsets give %zu", t->name,
                        dtype_name(t->dtype), tensor_shape(a, t), t->bytes, end - begin);
    t->data = data.p + begin;
    return ST_OK;
}

static enum st read_tensor(struct arena *a, const struct node_pair *pair, struct sv data,
                           struct tensor *t, struct err *e)
{
    *t = (struct tensor){.name = arena_strn(a, pair->key.p, pair->key.n)};
    if (memchr(t->name, 0, pair->key.n))
        return node_err(pair->value, ST_INPUT, e, "a tensor's name holds a NUL character");
    if (pair->value->kind != NODE_MAP)
        return node_err(pair->value, ST_INPUT, e, "tensor '%s': expected a map, got %s", t->name,
                        node_kind_name(pair->value->kind));
    const char *dtype;
    TRY(node_get_str(pair->value, "dtype", &dtype, e));
    if (!dtype_from_name(sv_of(dtype), &t->dtype))
        return node_err(node_find(pair->value, "dtype"), ST_INPUT, e,
                        "tensor '%s': dtype '%.40s' is not supported", t->name, dtype);
    TRY(read_shape(pair->value, t, e));
    return read_offsets(pair->value, data, t, a, e);
}

static int by_place(const void *va, const void *vb)
{
    const struct tensor *a = va, *b = vb;
    if (a->data != b->data)
        return (const char *)a->data < (const char *)b->data ? -1 : 1;
    if (a->bytes != b->bytes) /* empty ones first, so that they overlap nothing */
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static enum st check_cover(const char *path, struct sv data, const struct tensor *t, size_t n,
                           struct err *e)
{
    const char *at = data.p;
    for (size_t i = 0; i < n; i++) {
        const char *begin = t[i].data;
        if (begin < at)
            return err_at(e, ST_INPUT, path, 0, 0, "the data of tensor '%s' overlaps that of '%s'",
                          t[i].name, t[i - 1].name);
        if (begin > at)
            return err_at(e, ST_INPUT, path, 0, 0,
                          "%zu bytes before tensor '%s' belong to no tensor", (size_t)(begin - at),
                          t[i].name);
        at = begin + t[i].bytes;
    }
    if (at != data.p + data.n)
        return err_at(e, ST_INPUT, path, 0, 0, "%zu bytes at the end belong to no tensor",
                      (size_t)(data.p + data.n - at));
    return ST_OK;
}

enum st safetensors_parse(struct arena *a, const char *path, struct sv file, struct tensor **out,
                          size_t *n, struct err *e)
{
    struct sv header;
    struct node *root;
    const struct json_limits limits = {.max_depth = 8, .max_bytes = SAFETENSORS_MAX_HEADER_BYTES};
    TRY(header_of(path, file, &header, e));
    TRY(json_parse(a, path, header, &limits, &root, e));
    if (root->kind != NODE_MAP)
        return node_err(root, ST_INPUT, e, "the header is %s, not a map",
                        node_kind_name(root->kind));
    struct sv data = {header.p + header.n, file.n - LENGTH_BYTES - header.n};
    struct tensor *t = arena_array(a, struct tensor, root->n);
    size_t count = 0;
    for (uint32_t i = 0; i < root->n; i++)
        if (!sv_eq(root->pairs[i].key, "__metadata__"))
            TRY(read_tensor(a, &root->pairs[i], data, &t[count++], e));
    if (count)
        qsort(t, count, sizeof *t, by_place);
    TRY(check_cover(path, data, t, count, e));
    *out = t;
    *n = count;
    return ST_OK;
}

void safetensors_header(struct buf *out, const struct node *metadata, const struct tensor *tensors,
                        size_t n)
{
    size_t start = out->n, at = 0;
    buf_add(out, "\0\0\0\0\0\0\0\0", LENGTH_BYTES);
    buf_puts(out, "{\"__metadata__\":{\"format\":\"pt\"");
    for (uint32_t i = 0; metadata && i < metadata->n; i++) {
        buf_putc(out, ',');
        json_quote(out, metadata->pairs[i].key);
        buf_putc(out, ':');
        json_quote(out, metadata->pairs[i].value->s);
    }
    buf_putc(out, '}');
    for (size_t i = 0; i < n; i++) {
        const struct tensor *t = &tensors[i];
        size_t bytes = (size_t)tensor_elements(t) * dtype_bytes(t->dtype);
        buf_putc(out, ',');
        json_quote(out, sv_of(t->name));
        buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(t->dtype));
        for (int d = 0; d < t->n_dims; d++)
            buf_printf(out, "%s%lld", d ? "," : "", (long long)t->dims[d]);
        buf_printf(out, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    buf_putc(out, '}');
    while ((out->n - start) % LENGTH_BYTES != 0)
        buf_putc(out, ' ');
    uint64_t length = out->n - start - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++)
        out->p[start + (size_t)i] = (char)(length >> (8 * i));
}
