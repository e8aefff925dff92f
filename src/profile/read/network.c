#include "profile/read/network.h"

#include "base/vec.h"
#include "profile/read/filter.h"

static const double MAX_MS = 1e9;

/* Devices per node, a property of the file. */
static enum st node_devices(const char *path, int64_t *devices, struct err *e)
{
    struct csv_reader *r = NULL;
    int column;
    TRY(csv_open(&r, path, e));
    enum st st = csv_require(r, "max_devices_per_node", &column, e);
    if (st == ST_OK)
        st = csv_next(r, e);
    if (st == ST_OK)
        st = csv_int(r, column, 1, INT32_MAX, devices, e);
    else if (st == ST_END)
        st = err_set(e, ST_INPUT, "%s has no rows", path);
    csv_close(&r);
    return st;
}

struct network_points {
    struct surface_point *p;
    size_t n, cap;
};

static enum st read_rows(struct csv_reader *r, struct filter *f, const char *op, int64_t hidden,
                         struct network_points *to, struct err *e)
{
    char name[64];
    int size, median;
    snprintf(name, sizeof name, "time_stats.%s.median", op);
    TRY(csv_require(r, "size", &size, e));
    TRY(csv_require(r, name, &median, e));
    TRY(filter_bind(f, r, e));
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        bool match;
        int64_t bytes;
        double ms;
        TRY(filter_match(f, r, &match, e));
        if (!match)
            continue;
        TRY(csv_int(r, size, 1, INT64_MAX, &bytes, e));
        TRY(csv_double(r, median, 0, MAX_MS, &ms, e));
        vec_push(to, (struct surface_point){(double)bytes / 2 / (double)hidden, 0, ms / 1e3});
    }
    return st == ST_END ? ST_OK : st;
}

static enum st read_table(struct arena *a, const char *path, const char *op, int64_t workers,
                          int64_t per_node, int64_t hidden, struct op_table *out, struct err *e)
{
    struct csv_reader *r = NULL;
    TRY(csv_open(&r, path, e));
    struct filter f = {0};
    struct network_points points = {0};
    filter_add(&f, (struct filter_column){.name = "num_workers", .want = workers});
    filter_add(&f, (struct filter_column){.name = "devices_per_node", .want = per_node});
    enum st st = read_rows(r, &f, op, hidden, &points, e);
    csv_close(&r);
    if (st == ST_OK)
        st = filter_done(&f, path, e);
    if (st == ST_OK) {
        struct grid_set known = {0};
        op_table_build(a, AXIS_TOKENS, &known, arena_copy(a, points.p, points.n * sizeof *points.p),
                       (int64_t)points.n, out);
    }
    vec_free(&points);
    return st;
}

static enum st named(enum st st, const char *why, int64_t n, struct err *e)
{
    return st == ST_OK ? st : err_add(e, "%s=%lld needs the network's table", why, (long long)n);
}

enum st read_all_reduce(struct arena *a, const char *path, const struct network_key *key,
                        struct op_table *out, struct err *e)
{
    int64_t node;
    enum st st = node_devices(path, &node, e);
    if (st == ST_OK)
        st = read_table(a, path, "all_reduce", key->tp, key->tp < node ? key->tp : node,
                        key->hidden, out, e);
    return named(st, "parallel.tp", key->tp, e);
}

enum st read_send_recv(struct arena *a, const char *path, const struct network_key *key,
                       struct op_table *out, struct err *e)
{
    int64_t node;
    enum st st = node_devices(path, &node, e);
    if (st == ST_OK)
        st = read_table(a, path, "send_recv", 2, key->tp * key->pp > node ? 1 : 2, key->hidden, out,
                        e);
    return named(st, "parallel.pp", key->pp, e);
}

enum st read_all_to_all(struct arena *a, const char *path, const struct network_key *key,
                        struct op_table *out, struct err *e)
{
    int64_t node;
    enum st st = node_devices(path, &node, e);
    if (st == ST_OK)
        st = read_table(a, path, "all_to_all", key->ep, key->ep < node ? key->ep : node,
                        key->hidden, out, e);
    return named(st, "parallel.ep", key->ep, e);
}
