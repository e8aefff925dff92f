#include <stdlib.h>

#include "workload/jsonl.h"
#include "workload/make.h"

enum { MAX_LINE_BYTES = 64 << 20 };

bool workload_has_hash_ids(const struct workload *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->requests[i].hash_ids)
            return true;
    return false;
}

int64_t hash_ids_pieces(const struct workload_request *q, int64_t hash_tokens)
{
    return (q->num_prefill_tokens + hash_tokens - 1) / hash_tokens;
}

enum st hash_ids_write(const struct artifact *art, const struct workload *w, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, HASH_IDS_NAME, &f, e));
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        if (!q->hash_ids)
            continue;
        fprintf(f, "{\"request_id\": %lld, \"hash_tokens\": %lld, \"hash_ids\": [",
                (long long)q->request_id, (long long)q->hash_tokens);
        for (int64_t k = 0; k < hash_ids_pieces(q, q->hash_tokens); k++)
            fprintf(f, "%s%lld", k ? ", " : "", (long long)q->hash_ids[k]);
        fputs("]}\n", f);
    }
    return artifact_close_file(art, HASH_IDS_NAME, &f, e);
}

struct hash_place {
    int64_t id;
    size_t index;
};

static int by_id(const void *pa, const void *pb)
{
    const struct hash_place *a = pa, *b = pb;
    return a->id < b->id ? -1 : a->id > b->id;
}

static struct hash_place *sorted_places(const struct workload *w)
{
    struct hash_place *places = mem_alloc(w->n * sizeof *places);
    for (size_t i = 0; i < w->n; i++)
        places[i] = (struct hash_place){w->requests[i].request_id, i};
    qsort(places, w->n, sizeof *places, by_id);
    return places;
}

static enum st read_line(struct arena *a, const struct node *line, struct workload *w,
                         const struct hash_place *places, struct err *e)
{
    int64_t id, tokens;
    struct node *list;
    TRY(node_get_int(line, "request_id", 0, INT64_MAX, &id, e));
    TRY(node_get_int(line, "hash_tokens", 1, INT32_MAX, &tokens, e));
    TRY(node_get(line, "hash_ids", NODE_LIST, &list, e));
    const struct hash_place *at =
        bsearch(&(struct hash_place){id, 0}, places, w->n, sizeof *places, by_id);
    struct workload_request *q = at ? &w->requests[at->index] : NULL;
    if (!q || q->hash_ids)
        return node_err(node_find(line, "request_id"), ST_INPUT, e, "request_id: %lld %s",
                        (long long)id, q ? "comes twice" : "is not in the workload");
    if (list->n != hash_ids_pieces(q, tokens))
        return node_err(list, ST_INPUT, e,
                        "hash_ids: %u ids for a prompt of %lld tokens, expected %lld", list->n,
                        (long long)q->num_prefill_tokens, (long long)hash_ids_pieces(q, tokens));
    int64_t *ids = arena_array(a, int64_t, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->items[i]->kind != NODE_INT || list->items[i]->i < 0)
            return node_err(list->items[i], ST_INPUT, e,
                            "hash_ids: expected an integer, 0 or more");
        ids[i] = list->items[i]->i;
    }
    q->hash_ids = ids;
    q->hash_tokens = tokens;
    return ST_OK;
}

enum st hash_ids_load(struct arena *a, const char *path, struct workload *w, struct err *e)
{
    struct jsonl j;
    struct node *line;
    struct hash_place *places = sorted_places(w);
    enum st st = jsonl_open(&j, path, MAX_LINE_BYTES, e);
    while (st == ST_OK && (st = jsonl_next(&j, &line, e)) == ST_OK)
        st = read_line(a, line, w, places, e);
    jsonl_close(&j);
    mem_free(places);
    return st == ST_END ? ST_OK : st;
}
