#include "engine/cpu/ready.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/support.h"

enum { PARTS = 6, BLOCKS = 600, BLOCK_FLOATS = 2048 }; /* a block of a part is two pages */
enum { STEP = 32 };                                    /* blocks made ready at a time */

static struct ready_params params(const struct pages *p, int64_t first)
{
    return (struct ready_params){.base = p->base,
                                 .parts = PARTS,
                                 .part_floats = (int64_t)BLOCKS * BLOCK_FLOATS,
                                 .block_floats = BLOCK_FLOATS,
                                 .first = first,
                                 .blocks = BLOCKS};
}

/* Pages of a block of a part that are there. */
static int resident(const struct pages *p, int part, int64_t block)
{
    unsigned char in[2];
    char *at = (char *)((float *)p->base + ((int64_t)part * BLOCKS + block) * BLOCK_FLOATS);
    assert_int_equal(mincore(at, sizeof(float) * BLOCK_FLOATS, in), 0);
    return (in[0] & 1) + (in[1] & 1);
}

/* Until block `n` is ready; false after 10 s. */
static bool waited(const struct ready *r, int64_t n)
{
    for (int i = 0; i < 10000 && ready_blocks(r) < n; i++)
        usleep(1000);
    return ready_blocks(r) >= n;
}

static struct pages some_pages(struct test *t)
{
    struct pages p = {0};
    assert_ok(pages_alloc(&p, (size_t)PARTS * BLOCKS * BLOCK_FLOATS, "test", &t->e), t);
    madvise(p.base, p.bytes, MADV_NOHUGEPAGE); /* so that pages come one by one */
    return p;
}

static void all_blocks_are_made_ready_and_keep_what_is_in_them(void **state)
{
    struct test *t = *state;
    struct pages p = some_pages(t);
    struct ready_params rp = params(&p, 10);
    float *half = (float *)p.base + (int64_t)3 * BLOCKS * BLOCK_FLOATS + 300 * BLOCK_FLOATS + 7;
    *half = 0.5f;
    assert_int_equal(resident(&p, 3, 301), 0);
    struct ready *r = ready_begin(&rp);
    if (!r) {
        print_message("skipped: this kernel has no MADV_POPULATE_WRITE\n");
        skip();
    }
    assert_true(waited(r, BLOCKS));
    for (int part = 0; part < PARTS; part++)
        for (int64_t b = 10; b < BLOCKS; b++)
            assert_int_equal(resident(&p, part, b), 2);
    assert_true(*half == 0.5f);
    assert_int_equal(resident(&p, 0, 0), 0); /* those before are the caller's */
    ready_end(&r);
    assert_null(r);
    pages_free(&p);
}

/* A busy engine is left alone, but for blocks that it comes near to. */
static void a_busy_engine_is_waited_for(void **state)
{
    struct test *t = *state;
    struct pages p = some_pages(t);
    struct ready_params rp = params(&p, 0);
    rp.busy = true;
    struct ready *r = ready_begin(&rp);
    if (!r) {
        print_message("skipped: this kernel has no MADV_POPULATE_WRITE\n");
        skip();
    }
    assert_true(waited(r, 3 * STEP)); /* no block is in use: 0 + 2 steps are near it */
    usleep(20000);
    assert_int_equal(ready_blocks(r), 3 * STEP);
    ready_in_use(r, 100);
    assert_true(waited(r, 6 * STEP));
    usleep(20000);
    assert_int_equal(ready_blocks(r), 6 * STEP); /* the step that begins at 160, before 164 */
    assert_int_equal(resident(&p, PARTS - 1, 6 * STEP), 0);
    ready_busy(r, false);
    assert_true(waited(r, 7 * STEP));
    ready_end(&r); /* in the middle */
    pages_free(&p);
}

static void nothing_to_do_is_nobody(void **state)
{
    struct test *t = *state;
    struct pages p = some_pages(t);
    struct ready_params rp = params(&p, BLOCKS);
    struct ready *r = ready_begin(&rp);
    assert_null(r);
    ready_busy(r, true);
    ready_in_use(r, 3);
    ready_end(&r);
    pages_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_blocks_are_made_ready_and_keep_what_is_in_them),
        TEST(a_busy_engine_is_waited_for),
        TEST(nothing_to_do_is_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
