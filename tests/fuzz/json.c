/* The event reader gives the same events whether the bytes come at once or in pieces, and the tree
 * reader agrees with it. The first byte picks the size of the pieces. */
#include "fuzz.h"

#include "base/hash.h"
#include "text/json.h"

struct outcome {
    uint64_t hash; /* of all events, texts and places */
    enum json_event last;
    struct err e;
};

static void mix(struct outcome *o, const void *p, size_t n)
{
    o->hash = o->hash * UINT64_C(0x100000001b3) ^ hash_bytes(p, n);
}

static void mix_event(struct outcome *o, const struct json_reader *r, enum json_event ev)
{
    uint32_t place[2];
    json_place(r, &place[0], &place[1]);
    mix(o, &ev, sizeof ev);
    mix(o, place, sizeof place);
    if (ev == JSON_STRING || ev == JSON_KEY) {
        struct sv s = json_text(r);
        REQUIRE(str_utf8_valid(s.p, s.n) == s.n);
        mix(o, s.p, s.n);
    }
    double f = json_double(r);
    if (ev == JSON_INT || ev == JSON_FLOAT)
        mix(o, &f, sizeof f);
}

static struct outcome read_in_pieces(struct sv text, size_t piece)
{
    struct json_reader *r = json_reader_new("fuzz", NULL);
    struct outcome o = {0};
    char *held = NULL;
    size_t at = 0;
    for (;;) {
        o.last = json_next(r, &o.e);
        if (o.last == JSON_END || o.last == JSON_ERROR)
            break;
        if (o.last != JSON_MORE) {
            mix_event(&o, r, o.last);
            continue;
        }
        size_t n = text.n - at < piece ? text.n - at : piece;
        if (n == 0) {
            json_finish(r);
            continue;
        }
        mem_free(held); /* every piece in memory of its own: nothing may look back */
        held = mem_alloc(n);
        for (size_t i = 0; i < n; i++)
            held[i] = text.p[at + i];
        json_feed(r, held, n);
        at += n;
    }
    mem_free(held);
    json_reader_free(&r);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct sv text = {(const char *)data + 1, size - 1};
    struct outcome whole = read_in_pieces(text, text.n + 1);
    struct outcome pieces = read_in_pieces(text, 1 + data[0] % 16);
    REQUIRE(whole.last == pieces.last && whole.hash == pieces.hash);
    if (whole.last == JSON_ERROR)
        REQUIRE(sv_eq(sv_of(err_cause(&whole.e, 0)), err_cause(&pieces.e, 0)));
    struct arena *a = arena_new();
    struct node *n;
    struct err e = {0};
    if (json_parse(a, "fuzz", text, NULL, &n, &e) == ST_OK)
        REQUIRE(whole.last == JSON_END);
    else
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    arena_free(&a);
    return 0;
}
