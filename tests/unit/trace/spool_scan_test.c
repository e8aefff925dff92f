/* Damage in a spool: what whole blocks hold is read, whoever reads, and the rest is counted. */
#include "trace/spool_scan.h"

#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/log.h"
#include "support/fake_spool.h"
#include "support/support.h"
#include "trace/trace.h"

enum { BLOCKS = 256 };

struct whole_file {
    const char *path;
    struct sv bytes;
    struct spool_block blocks[BLOCKS];
    size_t at[BLOCKS], n;
};

static struct whole_file *whole_file(struct test *t, int64_t steps)
{
    struct whole_file *f = arena_one(t->a, struct whole_file);
    f->path = test_path(t, "whole.spool");
    fake_spool_write(f->path, &(struct fake_spool){.steps = steps});
    assert_ok(fs_read(t->a, f->path, 64u << 20, &f->bytes, &t->e), t);
    for (size_t at = sizeof(struct spool_header); at < f->bytes.n; f->n++) {
        assert_true(f->n < BLOCKS);
        memcpy(&f->blocks[f->n], f->bytes.p + at, sizeof f->blocks[0]);
        f->at[f->n] = at;
        at += sizeof f->blocks[0] + f->blocks[f->n].bytes;
    }
    return f;
}

static const char *written(struct test *t, const char *name, const char *p, size_t n)
{
    const char *path = test_path(t, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(p, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

enum damage { BIT_OF_PAYLOAD, MAGIC, LENGTH, NOISE, DAMAGES };

static char *damaged(struct test *t, const struct whole_file *f, size_t from, size_t to,
                     enum damage how)
{
    char *copy = arena_copy(t->a, f->bytes.p, f->bytes.n);
    size_t end = to < f->n ? f->at[to] : f->bytes.n;
    if (how == BIT_OF_PAYLOAD)
        for (size_t i = from; i < to; i++)
            copy[f->at[i] + sizeof f->blocks[0] + 5] ^= 4;
    else if (how == MAGIC)
        for (size_t i = from; i < to; i++)
            copy[f->at[i]] ^= 1;
    else if (how == LENGTH)
        for (size_t i = from; i < to; i++)
            copy[f->at[i] + offsetof(struct spool_block, bytes)] ^= 8;
    else
        for (size_t i = f->at[from]; i < end; i++)
            copy[i] = (char)(i * 37 + i / 251);
    return copy;
}

/* Operations in the blocks from .. to - 1. */
static uint64_t operations(const struct whole_file *f, size_t from, size_t to)
{
    uint64_t n = 0;
    for (size_t i = from; i < to; i++) {
        int kind = f->blocks[i].kind;
        n += kind == SPOOL_KERNELS || kind == SPOOL_COPIES || kind == SPOOL_SETS
                 ? f->blocks[i].count
                 : 0;
    }
    return n;
}

static bool noted(const struct trace_dict *d, const char *text)
{
    for (uint32_t i = 0; i < d->n_notes; i++)
        if (strstr(d->notes[i].text, text))
            return true;
    return false;
}

static void check(struct test *t, const struct whole_file *f, size_t from, size_t to,
                  enum damage how)
{
    size_t end = to < f->n ? f->at[to] : f->bytes.n;
    const char *path = written(t, "damaged.spool", damaged(t, f, from, to, how), f->bytes.n);
    struct spool_facts facts;
    assert_ok(trace_spool_scan(t->a, path, &facts, &t->e), t);
    assert_int_equal(facts.skipped_blocks, to < f->n ? to - from : 0);
    assert_int_equal(facts.skipped_bytes, to < f->n ? end - f->at[from] : 0);
    assert_int_equal(facts.cut_bytes, to < f->n ? 0 : end - f->at[from]);
    assert_int_equal(facts.whole_bytes, f->bytes.n - (end - f->at[from]));
    assert_int_equal(facts.ended, to < f->n);
    assert_int_equal(facts.counts[SPOOL_KERNELS] + facts.counts[SPOOL_COPIES] +
                         facts.counts[SPOOL_SETS],
                     operations(f, 0, from) + operations(f, to, f->n));

    struct trace x;
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    assert_true(x.dict.incomplete);
    if (f->blocks[from].kind != SPOOL_SHAPES) /* without them kernels have no names */
        assert_int_equal(x.ops.n, operations(f, 0, from) + operations(f, to, f->n));
    size_t bytes = end - f->at[from];
    const char *says =
        to < f->n ? arena_printf(t->a, "%zu damaged blocks (%zu bytes, from byte %zu) were skipped",
                                 to - from, bytes, f->at[from])
                  : arena_printf(t->a, "cut or damaged at byte %zu: the %zu bytes from there",
                                 f->at[from], bytes);
    assert_true(noted(&x.dict, says));
    trace_free(&x);
}

static void a_damaged_block_costs_itself(void **state)
{
    struct test *t = *state;
    const struct whole_file *f = whole_file(t, 3000);
    assert_true(f->n > 12 && operations(f, 0, f->n) == 15000);
    for (int how = 0; how < DAMAGES; how++)
        for (size_t i = 0; i < f->n; i++)
            check(t, f, i, i + 1, (enum damage)how);
}

static void damaged_blocks_in_a_row_cost_themselves(void **state)
{
    struct test *t = *state;
    const struct whole_file *f = whole_file(t, 3000);
    for (int how = 0; how < DAMAGES; how++)
        for (size_t n = 2; n <= 4; n++)
            for (size_t i = 5; i + n <= f->n; i += 3)
                check(t, f, i, i + n, (enum damage)how);
}

static void two_places_are_both_skipped(void **state)
{
    struct test *t = *state;
    const struct whole_file *f = whole_file(t, 3000);
    struct whole_file twice = *f;
    size_t a = 5, b = 9;
    twice.bytes.p = damaged(t, f, a, a + 1, BIT_OF_PAYLOAD);
    const char *path = written(t, "damaged.spool", damaged(t, &twice, b, b + 1, MAGIC), f->bytes.n);
    struct spool_facts facts;
    assert_ok(trace_spool_scan(t->a, path, &facts, &t->e), t);
    assert_int_equal(facts.skipped_blocks, 2);
    struct trace x;
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    assert_int_equal(x.ops.n,
                     operations(f, 0, f->n) - operations(f, a, a + 1) - operations(f, b, b + 1));
    assert_true(noted(&x.dict, "2 damaged blocks"));
    trace_free(&x);
}

/* A block that bears a number from before, or from far behind, is not the next one. */
static void a_block_out_of_its_place_is_not_taken(void **state)
{
    struct test *t = *state;
    const struct whole_file *f = whole_file(t, 3000);
    size_t at = f->at[8];
    struct fs_map m;
    assert_ok(fs_map(f->path, &m, &t->e), t);
    assert_int_equal(trace_spool_find(&m, at, 8), at);
    assert_int_equal(trace_spool_find(&m, at + 1, 9), f->at[9]);
    assert_int_equal(trace_spool_find(&m, at, 7), at);       /* one of 32 bytes may be missing, */
    assert_int_equal(trace_spool_find(&m, at, 6), f->at[9]); /* two need more room */
    assert_int_equal(trace_spool_find(&m, at, 100), m.n);
    fs_unmap(&m);
}

/* Headers everywhere, each of the largest block: looking for one that is whole ends soon. */
static void a_file_made_to_be_slow_is_given_up(void **state)
{
    enum { BYTES = 8 << 20 };
    struct test *t = *state;
    char *p = arena_alloc(t->a, BYTES);
    memset(p, 0, BYTES);
    const struct whole_file *f = whole_file(t, 1);
    memcpy(p, f->bytes.p, sizeof(struct spool_header));
    struct spool_block b = {.magic = SPOOL_BLOCK_MAGIC,
                            .kind = SPOOL_STRINGS,
                            .bytes = SPOOL_BLOCK_MAX_BYTES,
                            .checksum = 1};
    for (size_t at = sizeof(struct spool_header); at + sizeof b <= BYTES; at += sizeof b)
        memcpy(p + at, &b, sizeof b);
    const char *path = written(t, "slow.spool", p, BYTES);
    struct spool_facts facts;
    assert_ok(trace_spool_scan(t->a, path, &facts, &t->e), t);
    assert_int_equal(facts.cut_bytes, BYTES - sizeof(struct spool_header));
}

/* A process that is killed as it makes its file leaves an empty one: the others are read. */
static void a_file_without_a_header_is_left_out(void **state)
{
    struct test *t = *state;
    const char *dir = test_path(t, "d");
    assert_int_equal(mkdir(dir, 0700), 0);
    fake_spool_write(test_path(t, "d/h-1.spool"), &(struct fake_spool){.steps = 2});
    written(t, "d/h-2.spool", "", 0);
    written(t, "d/a-3.spool", SPOOL_MAGIC, 8);
    struct trace x;
    assert_ok(trace_load(&x, dir, NULL, &t->e), t);
    assert_int_equal(x.ops.n, 10);
    assert_true(x.dict.incomplete);
    assert_true(noted(&x.dict, "a-3.spool: is left out: its process was killed as it made"));
    assert_true(noted(&x.dict, "h-2.spool: is left out: its process was killed as it made"));
    trace_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_damaged_block_costs_itself),       TEST(damaged_blocks_in_a_row_cost_themselves),
        TEST(two_places_are_both_skipped),        TEST(a_block_out_of_its_place_is_not_taken),
        TEST(a_file_made_to_be_slow_is_given_up), TEST(a_file_without_a_header_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
