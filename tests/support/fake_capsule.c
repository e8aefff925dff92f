#include "support/fake_capsule.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capsule/file.h"
#include "support/support.h"

#define MIB   (UINT64_C(1) << 20)
#define BASE  (FAKE_CAPSULE_BASE_MIB * MIB)
#define IMAGE "fake image\nadd_one\nscale\n"

unsigned char fake_capsule_byte(uint64_t address, bool after)
{
    if (address >= BASE + 2 * MIB && address < BASE + 4 * MIB)
        return after ? 7 : 0; /* a page of zeros */
    return (unsigned char)(address * 2654435761u >> 20 ^ (after ? 0x55 : 0));
}

static struct capsule_span put(struct fake_capsule *f, const void *p, size_t n)
{
    struct capsule_span s = {f->c.n_bytes, n};
    assert_true(n <= sizeof f->bytes - f->c.n_bytes);
    memcpy(f->bytes + f->c.n_bytes, p, n);
    f->c.n_bytes += n;
    return s;
}

static struct capsule_span text(struct fake_capsule *f, const char *s)
{
    return put(f, s, strlen(s));
}

static struct capsule_page piece(uint64_t at, uint64_t bytes)
{
    return (struct capsule_page){.address = at, .bytes = (uint32_t)bytes, .file_bytes = bytes};
}

static struct capsule_op op(enum capsule_op_kind kind, uint32_t item)
{
    return (struct capsule_op){.kind = kind,
                               .item = item,
                               .range = CAPSULE_NONE,
                               .start_ns = CAPSULE_NO_TIME,
                               .end_ns = CAPSULE_NO_TIME};
}

static void make_memory(struct fake_capsule *f)
{
    f->allocations[0] =
        (struct capsule_allocation){BASE, FAKE_CAPSULE_MIB * MIB, CAPSULE_DEVICE, 0};
    f->allocations[1] = (struct capsule_allocation){BASE + 6 * MIB, 100, CAPSULE_POOL, 0};
    f->allocations[2] =
        (struct capsule_allocation){BASE + 8 * MIB, MIB, CAPSULE_DEVICE, CAPSULE_BORN};
    f->allocations[3] = (struct capsule_allocation){BASE + 64 * MIB, 4096, CAPSULE_PINNED, 0};
    f->pages[0] = piece(BASE, 2 * MIB);
    f->pages[1] = piece(BASE + 2 * MIB, 2 * MIB);
    f->pages[2] = piece(BASE + 4 * MIB, MIB);
    f->pages[3] = piece(BASE + 6 * MIB, 100);
    f->pages[4] = piece(BASE + 64 * MIB, 4096);
    f->after[0] = piece(BASE + 2 * MIB, 2 * MIB);
    f->after[1] = piece(BASE + 8 * MIB, MIB);
}

static void make_code(struct fake_capsule *f)
{
    static const float one = 1;
    f->functions[0] = (struct capsule_function){
        .name = text(f, "add_one"), .n_params = 2, .params_bytes = 12, .shared_carveout = -1};
    f->functions[1] = (struct capsule_function){.name = text(f, "scale"),
                                                .first_param = 2,
                                                .n_params = 1,
                                                .params_bytes = 8,
                                                .dynamic_shared = 64 << 10,
                                                .shared_carveout = -1};
    f->params[0] = (struct capsule_param){0, 8};
    f->params[1] = (struct capsule_param){8, 4};
    f->params[2] = (struct capsule_param){0, 8};
    f->globals[0] = (struct capsule_global){
        .name = text(f, "factor"), .value = put(f, &one, sizeof one), .address = BASE + 32 * MIB};
}

static void make_work(struct fake_capsule *f)
{
    static const unsigned char payload[16] = "sixteen bytes..";
    const uint64_t at = BASE + 4096, n = 25;
    const uint32_t count = 25;
    unsigned char params[12];
    memcpy(params, &at, 8);
    memcpy(params + 8, &count, 4);
    struct capsule_span first = put(f, params, 12), second = put(f, &at, 8);
    for (int i = 0; i < 3; i++)
        f->launches[i] = (struct capsule_launch){.function = i == 1,
                                                 .grid = {2, 1, 1},
                                                 .block = {32, 1, 1},
                                                 .params = i == 1 ? second : first};
    f->launches[0].n_attributes = 1;
    f->attributes[0] = (struct capsule_attribute){.id = 6, .value = {1}};
    f->copies[0] = (struct capsule_copy){.to = at,
                                         .from = 0x1000,
                                         .width = 16,
                                         .height = 1,
                                         .depth = 1,
                                         .to_place = CAPSULE_ON_DEVICE,
                                         .from_place = CAPSULE_ON_HOST,
                                         .source = put(f, payload, 16)};
    f->copies[1] = (struct capsule_copy){.to = BASE + 64 * MIB,
                                         .from = at,
                                         .width = n,
                                         .height = 2,
                                         .depth = 1,
                                         .to_pitch = 32,
                                         .from_pitch = 64,
                                         .to_place = CAPSULE_IN_PINNED,
                                         .from_place = CAPSULE_ON_DEVICE};
    f->sets[0] =
        (struct capsule_set){.to = BASE + 6 * MIB, .width = n, .height = 1, .unit_bytes = 4};
    /* a set; a copy, a launch; another stream waits for them; a graph of two; back; the end */
    f->ops[0] = op(CAPSULE_SET, 0);
    f->ops[1] = op(CAPSULE_COPY, 0);
    f->ops[2] = op(CAPSULE_LAUNCH, 0);
    f->ops[3] = op(CAPSULE_WAIT, 2);
    f->ops[3].stream = 1;
    f->ops[4] = op(CAPSULE_LAUNCH, 1);
    f->ops[5] = op(CAPSULE_EMPTY, CAPSULE_NONE);
    f->ops[6] = op(CAPSULE_LAUNCH, 2);
    for (int i = 4; i < 7; i++) {
        f->ops[i].stream = 1;
        f->ops[i].graph = 1;
        f->ops[i].n_edges = i > 4;
        f->ops[i].first_edge = i == 6;
        f->ops[i].graph_node = 100 + (uint64_t)i;
    }
    f->edges[0].op = 4;
    f->edges[1].op = 5;
    f->ops[7] = op(CAPSULE_COPY, 1);
    f->ops[7].stream = 1;
    f->ops[7].range = 0;
    f->ops[8] = op(CAPSULE_SYNC, CAPSULE_NONE);
    f->streams[0].flags = CAPSULE_STREAM_LEGACY;
    f->streams[1].flags = CAPSULE_STREAM_NON_BLOCKING;
    f->ranges[0] = (struct capsule_range){text(f, "sample"), text(f, ""), 5, 9, 1, 1};
    f->walls[0] =
        (struct capsule_wall){.occurrence = 1, .wall_ns = 4000, .busy_ns = 900, .kernels = 3};
    f->walls[1] =
        (struct capsule_wall){.occurrence = 2, .captured = 1, .wall_ns = 9000, .busy_ns = 950};
}

static void make_facts(struct fake_capsule *f)
{
    f->facts = (struct capsule_facts){.region = text(f, "decode#2"),
                                      .command = text(f, "python3 generate.py"),
                                      .host = text(f, "box"),
                                      .gpu = text(f, "Fake GPU 0"),
                                      .pid = 123,
                                      .major = 9,
                                      .sms = 4,
                                      .driver_version = 13000,
                                      .cupti_version = 130001,
                                      .occurrence = 2,
                                      .memory_bytes = 256 * MIB,
                                      .l2_bytes = MIB,
                                      .start_ns = 1000000,
                                      .start_wall_ns = INT64_C(1700000000000000000),
                                      .wall_ns = 9000,
                                      .snapshot_ns = 1000,
                                      .live_bytes = FAKE_CAPSULE_MIB * MIB + 100 + 4096,
                                      .n_graphs = 1};
}

void fake_capsule_make(struct fake_capsule *f)
{
    memset(f, 0, sizeof *f);
    make_memory(f);
    make_code(f);
    make_work(f);
    make_facts(f);
    f->modules[0] = (struct capsule_module){strlen(IMAGE), capsule_hash(IMAGE, strlen(IMAGE))};
    f->c.facts = &f->facts;
    f->c.bytes = f->bytes;
#define ARRAY(name)      \
    f->c.name = f->name; \
    f->c.n_##name = sizeof f->name / sizeof *f->name;
    ARRAY(functions)
    ARRAY(params)
    ARRAY(globals)
    ARRAY(allocations)
    ARRAY(streams)
    ARRAY(ops)
    ARRAY(edges)
    ARRAY(launches)
    ARRAY(attributes)
    ARRAY(copies)
    ARRAY(sets)
    ARRAY(pages)
    ARRAY(after)
    ARRAY(ranges)
    ARRAY(walls)
    ARRAY(modules)
#undef ARRAY
}

static void fill(const struct capsule_page *p, bool after, unsigned char *to)
{
    for (uint32_t i = 0; i < p->bytes; i++)
        to[i] = fake_capsule_byte(p->address + i, after);
}

static enum st page(void *user, bool after, const struct capsule_page *p, void *to, struct err *e)
{
    (void)user, (void)e;
    fill(p, after, to);
    return ST_OK;
}

static enum st image(void *user, size_t module, struct sv *out, struct err *e)
{
    (void)user, (void)e;
    assert_int_equal(module, 0);
    *out = SV(IMAGE);
    return ST_OK;
}

struct capsule_source fake_capsule_source(struct fake_capsule *f)
{
    return (struct capsule_source){.page = page, .image = image, .user = f};
}

void fake_capsule_put_launches(const struct fake_capsule *f, const char *path)
{
    const struct capsule *c = &f->c;
    const struct capsule_part parts[CAPSULE_KINDS] = {
        [CAPSULE_BYTES] = {c->bytes, c->n_bytes},
        [CAPSULE_FACTS] = {c->facts, 1},
#define PART(KIND, name) [CAPSULE_##KIND] = {c->name, c->n_##name}
        PART(MODULES, modules),
        PART(FUNCTIONS, functions),
        PART(PARAMS, params),
        PART(GLOBALS, globals),
        PART(ALLOCATIONS, allocations),
        PART(STREAMS, streams),
        PART(OPS, ops),
        PART(EDGES, edges),
        PART(LAUNCHES, launches),
        PART(ATTRIBUTES, attributes),
        PART(COPIES, copies),
        PART(SETS, sets),
        PART(PAGES, pages),
        PART(AFTER, after),
        PART(RANGES, ranges),
        PART(WALLS, walls),
#undef PART
    };
    unlink(path);
    assert_int_equal(capsule_file_write(path, parts), 0);
}

static void put_raw(struct capsule_page *pages, size_t n, bool after, const char *path)
{
    unsigned char *bytes = mem_alloc(CAPSULE_PAGE_BYTES);
    FILE *file = fopen(path, "wb");
    uint64_t at = 0;
    assert_non_null(file);
    for (size_t i = 0; i < n; i++) {
        struct capsule_page *p = &pages[i];
        fill(p, after, bytes);
        p->hash = capsule_hash(bytes, p->bytes);
        p->flags = capsule_is_zero(bytes, p->bytes) ? CAPSULE_ZERO : 0;
        p->file_bytes = p->flags ? 0 : p->bytes;
        p->at = at;
        at += p->file_bytes;
        assert_int_equal(fwrite(bytes, 1, p->file_bytes, file), p->file_bytes);
    }
    assert_int_equal(fclose(file), 0);
    mem_free(bytes);
}

void fake_capsule_record(const struct fake_capsule *from, const char *dir)
{
    struct fake_capsule f = *from;
    struct arena *a = arena_new();
    f.c.pages = f.pages;
    f.c.after = f.after;
    put_raw(f.pages, f.c.n_pages, false, fs_join(a, dir, CAPSULE_MEMORY_RAW));
    put_raw(f.after, f.c.n_after, true, fs_join(a, dir, CAPSULE_CHANGED_RAW));
    assert_int_equal(mkdir(fs_join(a, dir, CAPSULE_IMAGES), 0777), 0);
    FILE *file = fopen(fs_join(a, dir, CAPSULE_IMAGES "/0000.cubin"), "wb");
    assert_non_null(file);
    fputs(IMAGE, file);
    assert_int_equal(fclose(file), 0);
    fake_capsule_put_launches(&f, fs_join(a, dir, CAPSULE_FILE));
    arena_free(&a);
}
