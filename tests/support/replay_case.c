#include "support/replay_case.h"

#include <string.h>

#include "gpu/abi/cuda.h"

#define KIB 1024u
enum { BLOCK = 64 * KIB, A_BYTES = 1024 * KIB, ROW = 64, COUNTER = 1024 };

/* Memory of the region; each part begins on a 2 MiB page of its own. */
enum { A, B, S, HOST, BORN, PARTS }; /* by address */
static const uint64_t usual[PARTS] = {REPLAY_CASE_BASE, REPLAY_CASE_BASE + (2 << 20),
                                      REPLAY_CASE_BASE + (4 << 20), REPLAY_CASE_BASE + (40 << 20),
                                      REPLAY_CASE_BASE + (64 << 20)};
static const uint32_t part_bytes[PARTS] = {A_BYTES, BLOCK, 4 * KIB, 4 * KIB, 4 * KIB};
#define TABLE (REPLAY_CASE_BASE + (UINT64_C(1) << 33))

struct maker {
    struct arena *a;
    uint64_t base[PARTS];
    struct capsule c;
    struct capsule_facts facts;
    struct capsule_module modules[1];
    struct capsule_function functions[5];
    struct capsule_param params[6];
    struct capsule_global globals[1];
    struct capsule_allocation allocations[PARTS];
    struct capsule_stream streams[2];
    struct capsule_op ops[REPLAY_CASE_OPS + 3];
    struct capsule_edge edges[4];
    struct capsule_launch launches[9];
    struct capsule_attribute attributes[1];
    struct capsule_copy copies[3];
    struct capsule_set sets[2];
    struct capsule_page pages[PARTS], after[PARTS];
    struct buf bytes;
    struct sv image;
    unsigned char *before[PARTS], *behind[PARTS]; /* contents */
    uint32_t table[BLOCK / 4];
    size_t n_ops, n_launches, n_copies, n_sets;
};

enum function { WRITE, READ, NOTHING, ODD, TILES };

static struct capsule_span add(struct maker *m, const void *p, size_t n)
{
    const struct capsule_span s = {m->bytes.n, n};
    buf_add(&m->bytes, p, n);
    return s;
}

static void add_function(struct maker *m, enum function f, const char *name, uint32_t first,
                         uint32_t n, uint32_t bytes)
{
    m->functions[f] = (struct capsule_function){.name = add(m, name, strlen(name)),
                                                .first_param = first,
                                                .n_params = n,
                                                .params_bytes = bytes,
                                                .shared_carveout = -1};
}

static struct capsule_op *add_op(struct maker *m, uint32_t kind, uint32_t item, uint32_t stream)
{
    struct capsule_op *op = &m->ops[m->n_ops];
    const int64_t start_ns = (int64_t)m->n_ops * 20000;
    *op = (struct capsule_op){.kind = kind,
                              .item = item,
                              .stream = stream,
                              .range = CAPSULE_NONE,
                              .call_ns = start_ns,
                              .return_ns = start_ns + 1000,
                              .start_ns = start_ns + 2000,
                              .end_ns = start_ns + 12000};
    m->n_ops++;
    return op;
}

static struct capsule_op *add_launch(struct maker *m, enum function f, uint32_t blocks,
                                     uint64_t first, uint64_t second, uint32_t stream)
{
    const uint32_t bytes = m->functions[f].params_bytes;
    unsigned char params[16];
    memcpy(params, &first, 8);
    memcpy(params + 8, &second, 8);
    m->launches[m->n_launches] = (struct capsule_launch){.function = f,
                                                         .grid = {blocks, 1, 1},
                                                         .block = {512, 1, 1},
                                                         .params = add(m, params, bytes)};
    return add_op(m, CAPSULE_LAUNCH, (uint32_t)m->n_launches++, stream);
}

static void add_copy(struct maker *m, struct capsule_copy c, uint32_t stream)
{
    c.depth = 1;
    m->copies[m->n_copies] = c;
    add_op(m, CAPSULE_COPY, (uint32_t)m->n_copies++, stream);
}

/* ---- what the region does, in C -------------------------------------------------------------- */

static void write_words(unsigned char *to, uint32_t blocks, uint32_t factor)
{
    for (uint32_t i = 0; i < blocks * BLOCK / 4; i++) {
        const uint32_t v = i * factor;
        memcpy(to + 4 * (size_t)i, &v, 4);
    }
}

static void sum_words(const void *from, unsigned char *to)
{
    uint32_t sum = 0, v;
    for (uint32_t i = 0; i < BLOCK / 4; i++) {
        memcpy(&v, (const char *)from + 4 * (size_t)i, 4);
        sum += v;
    }
    memcpy(to, &sum, 4);
}

static void carry_out(struct maker *m, const char payload[16])
{
    unsigned char **x = m->behind;
    memcpy(x[A] + 256 * KIB, payload, 16);
    write_words(x[A], 2, 3);
    sum_words(x[A], x[S]);
    sum_words(x[A] + BLOCK, x[S] + 4);
    for (int i = 0; i < 100; i++)
        memcpy(x[BORN] + 4 * i, "\x2a\0\0\0", 4);
    sum_words(m->table, x[S] + 8);
    memcpy(x[HOST], x[S], 64);
    write_words(x[B], 1, 5);
    sum_words(x[B], x[S] + 128);
    sum_words(x[B], x[S] + 132);
    for (size_t y = 0; y < 4; y++)
        memcpy(x[A] + 512 * KIB + y * 32, x[A] + 256 * KIB + y * ROW, 16);
}

/* ---- the capsule ----------------------------------------------------------------------------- */

static void make_memory(struct maker *m)
{
    static const uint32_t kinds[PARTS] = {CAPSULE_DEVICE, CAPSULE_POOL, CAPSULE_VIRTUAL,
                                          CAPSULE_PINNED, CAPSULE_DEVICE};
    for (int i = 0; i < PARTS; i++) {
        m->allocations[i] = (struct capsule_allocation){m->base[i], part_bytes[i], kinds[i],
                                                        i == BORN ? CAPSULE_BORN : 0};
        m->before[i] = arena_alloc(m->a, part_bytes[i]);
        for (uint32_t k = 0; k < part_bytes[i]; k++)
            m->before[i][k] = i == S ? 0 : (unsigned char)(k * 7 + (uint32_t)i);
        m->behind[i] = arena_copy(m->a, m->before[i], part_bytes[i]);
        const struct capsule_page page = {.address = m->base[i], .bytes = part_bytes[i]};
        if (i != BORN)
            m->pages[m->c.n_pages++] = page;
        m->after[i] = page;
    }
    for (uint32_t i = 0; i < BLOCK / 4; i++)
        m->table[i] = i ^ 0x1234567;
}

static void make_code(struct maker *m, int faults, struct sv image)
{
    const char *ours =
        faults & REPLAY_CASE_UNKNOWN
            ? "fake image\nroof_write\nroof_nothing\nodd_write\n=table 65536\n"
            : "fake image\nroof_write\nroof_read\nroof_nothing\nodd_write\ndraw_tiles\n"
              "=table 65536\n";
    m->image = image.n ? image : sv_of(ours);
    m->modules[0].bytes = m->image.n;
    m->params[0] = m->params[2] = (struct capsule_param){0, 8};
    m->params[1] = (struct capsule_param){8, 4};
    m->params[3] = (struct capsule_param){8, 8};
    m->params[4] = m->params[0];
    m->params[5] = m->params[1];
    add_function(m, WRITE, "roof_write", 0, 2, 12);
    add_function(m, READ, "roof_read", 2, 2, 16);
    add_function(m, NOTHING, "roof_nothing", 0, 0, 0);
    add_function(m, ODD, "odd_write", 0, 1, 8);
    add_function(m, TILES, "draw_tiles", 4, 2, 12);
    m->globals[0] = (struct capsule_global){
        .name = add(m, "table", 5), .value = add(m, m->table, BLOCK), .address = TABLE};
}

static void make_graph(struct maker *m, int faults)
{
    struct capsule_op *nodes[4];
    nodes[0] = add_launch(m, WRITE, 1, m->base[B], 5, 1);
    nodes[1] = add_launch(m, READ, 1, m->base[B], m->base[S] + 128, 1);
    nodes[2] = add_launch(m, READ, 1, m->base[B], m->base[S] + 132, 1);
    nodes[3] = faults & REPLAY_CASE_ODD ? add_launch(m, ODD, 1, m->base[B], 0, 1)
                                        : add_launch(m, NOTHING, 1, 0, 0, 1);
    m->edges[0].op = m->edges[1].op = 8;
    m->edges[2].op = 9;
    m->edges[3].op = 10;
    if (faults & REPLAY_CASE_PLAIN)
        return;
    for (int i = 0; i < 4; i++)
        nodes[i]->graph = 1;
    nodes[1]->n_edges = nodes[2]->n_edges = 1;
    nodes[2]->first_edge = 1;
    nodes[3]->first_edge = 2;
    nodes[3]->n_edges = 2;
}

static void make_work(struct maker *m, int faults, const char payload[16])
{
    add_copy(m,
             (struct capsule_copy){.to = m->base[A] + 256 * KIB,
                                   .width = 16,
                                   .height = 1,
                                   .to_place = CAPSULE_ON_DEVICE,
                                   .from_place = CAPSULE_ON_HOST,
                                   .source = add(m, payload, 16)},
             0);
    add_launch(m, WRITE, 2, m->base[A], 3, 0);
    add_op(m, CAPSULE_WAIT, 1, 1);
    add_launch(m, READ, 2, m->base[A], m->base[S], 1);
    m->launches[m->n_launches - 1].n_attributes = 1;
    m->attributes[0] =
        (struct capsule_attribute){CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 0, {1}};
    m->sets[m->n_sets++] = (struct capsule_set){
        .to = m->base[BORN], .width = 100, .height = 1, .value = 42, .unit_bytes = 4};
    add_op(m, CAPSULE_SET, 0, 1);
    add_op(m, CAPSULE_SYNC, CAPSULE_NONE, 0);
    add_launch(m, READ, 1, faults & REPLAY_CASE_ASTRAY ? 0x1000 : TABLE, m->base[S] + 8, 0);
    add_copy(m,
             (struct capsule_copy){.to = m->base[HOST],
                                   .from = m->base[S],
                                   .width = 64,
                                   .height = 1,
                                   .to_place = CAPSULE_IN_PINNED,
                                   .from_place = CAPSULE_ON_DEVICE},
             0);
    make_graph(m, faults);
    add_copy(m,
             (struct capsule_copy){.to = m->base[A] + 512 * KIB,
                                   .from = m->base[A] + 256 * KIB,
                                   .width = 16,
                                   .height = 4,
                                   .to_pitch = 32,
                                   .from_pitch = ROW,
                                   .to_place = CAPSULE_ON_DEVICE,
                                   .from_place = CAPSULE_ON_DEVICE},
             1);
    m->streams[0].flags = m->streams[1].flags = CAPSULE_STREAM_NON_BLOCKING;
}

/* The counter is a word of S, the first of 250 that the set clears and nothing else writes. */
static void make_tiles(struct maker *m, int faults)
{
    const uint64_t counter = m->base[S] + COUNTER;
    m->sets[m->n_sets++] =
        (struct capsule_set){.to = counter, .width = 250, .height = 1, .unit_bytes = 4};
    add_op(m, CAPSULE_SET, 1, 1);
    if (faults & REPLAY_CASE_APART)
        add_launch(m, NOTHING, 1, 0, 0, 1);
    add_launch(m, TILES, 2, counter, REPLAY_CASE_DRAWN, 1);
    const uint32_t drawn = REPLAY_CASE_DRAWN - 2;
    memcpy(m->behind[S] + COUNTER, &drawn, 4);
}

/* As an application finds it that does the same again. */
static void make_still(struct maker *m, int faults)
{
    const uint32_t word = REPLAY_CASE_WORD;
    if (faults & REPLAY_CASE_ODD)
        memcpy(m->behind[B] + 4, &word, 4);
    for (int i = 0; i < PARTS; i++)
        memcpy(m->before[i], m->behind[i], part_bytes[i]);
    m->pages[m->c.n_pages++] = m->after[BORN];
    m->allocations[BORN].flags = 0;
    m->c.n_after = 0;
}

static void make_facts(struct maker *m)
{
    m->facts = (struct capsule_facts){.region = add(m, "decode#2", 8),
                                      .command = add(m, "generate", 8),
                                      .host = add(m, "box", 3),
                                      .gpu = add(m, "Fake GPU 0", 10),
                                      .major = 9,
                                      .sms = 4,
                                      .driver_version = 13000,
                                      .occurrence = 2,
                                      .wall_ns = 300000,
                                      .n_graphs = 1};
    m->facts.live_bytes = A_BYTES + BLOCK + 8 * KIB;
}

static enum st give_page(void *user, bool after, const struct capsule_page *p, void *to,
                         struct err *e)
{
    const struct maker *m = user;
    (void)e;
    for (int i = 0; i < PARTS; i++)
        if (m->base[i] == p->address)
            memcpy(to, after ? m->behind[i] : m->before[i], p->bytes);
    return ST_OK;
}

static enum st give_image(void *user, size_t module, struct sv *out, struct err *e)
{
    const struct maker *m = user;
    (void)module, (void)e;
    *out = m->image;
    return ST_OK;
}

static void take_arrays(struct maker *m)
{
    struct capsule *c = &m->c;
    c->facts = &m->facts;
    c->bytes = (const unsigned char *)m->bytes.p;
    c->n_bytes = m->bytes.n;
    c->pages = m->pages; /* n_pages: without memory that is born */
    c->sets = m->sets;
    c->n_sets = m->n_sets;
    c->launches = m->launches;
    c->n_launches = m->n_launches;
    c->ops = m->ops;
    c->n_ops = m->n_ops;
#define ARRAY(name)    \
    c->name = m->name; \
    c->n_##name = sizeof m->name / sizeof *m->name;
    ARRAY(modules)
    ARRAY(functions)
    ARRAY(params)
    ARRAY(globals)
    ARRAY(allocations)
    ARRAY(streams)
    ARRAY(edges)
    ARRAY(attributes)
    ARRAY(copies)
    ARRAY(after)
#undef ARRAY
}

enum st replay_case_write(const char *dir, int faults, struct sv image, struct err *e)
{
    static const char payload[16] = "fifteen letters";
    struct arena *a = arena_new();
    struct maker *m = arena_one(a, struct maker);
    const struct capsule_source from = {give_page, give_image, m};
    struct artifact art;
    m->a = a;
    memcpy(m->base, usual, sizeof usual);
    if (faults & REPLAY_CASE_NEAR)
        m->base[HOST] = REPLAY_CASE_BASE + (10 << 20);
    make_memory(m);
    make_code(m, faults, image);
    make_work(m, faults, payload);
    make_facts(m);
    carry_out(m, payload);
    if (faults & (REPLAY_CASE_TILES | REPLAY_CASE_APART))
        make_tiles(m, faults);
    if (faults & REPLAY_CASE_WRONG)
        for (int i = 100; i < 103; i++)
            m->behind[A][i] ^= 0x55;
    if (faults & REPLAY_CASE_PLAIN)
        m->facts.n_graphs = 0;
    take_arrays(m);
    if (faults & REPLAY_CASE_STILL)
        make_still(m, faults);
    enum st st = artifact_begin(a, dir, CAPSULE_MANIFEST, &art, e);
    if (st == ST_OK && (st = capsule_write(a, &m->c, &from, &art, NULL, e)) != ST_OK)
        artifact_discard(&art);
    buf_free(&m->bytes);
    arena_free(&a);
    return st;
}
