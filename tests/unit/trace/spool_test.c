#include "trace/spool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "support/support.h"

/* The blocks of a file, checked as a reader must; `n` whole ones. */
struct blocks {
    struct sv file;
    const struct spool_block *at[4096];
    size_t n, end; /* end: offset behind the last whole block */
};

static struct blocks *blocks(struct test *t, const char *path)
{
    struct blocks *b = arena_one(t->a, struct blocks);
    assert_ok(fs_read(t->a, path, 64u << 20, &b->file, &t->e), t);
    assert_true(b->file.n >= sizeof(struct spool_header));
    const struct spool_header *h = (const void *)b->file.p;
    assert_memory_equal(h->magic, SPOOL_MAGIC, 8);
    assert_int_equal(h->version, SPOOL_VERSION);
    assert_int_equal(h->pid, getpid());
    b->end = h->header_bytes;
    while (b->n < 4096 && b->end + sizeof(struct spool_block) <= b->file.n) {
        const struct spool_block *k = (const void *)(b->file.p + b->end);
        assert_int_equal(k->magic, SPOOL_BLOCK_MAGIC);
        assert_int_equal(k->sequence, b->n);
        if (b->end + sizeof *k + k->bytes > b->file.n)
            break;
        uint64_t sum = trace_spool_checksum(0, k, offsetof(struct spool_block, checksum));
        assert_true(trace_spool_checksum(sum, k + 1, k->bytes) == k->checksum);
        b->at[b->n++] = k;
        b->end += sizeof *k + k->bytes;
    }
    return b;
}

static void what_is_added_stands_in_the_file(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "a.spool");
    struct spool_writer w;
    assert_int_equal(trace_spool_open(&w, path), 0);
    assert_true(trace_spool_add(&w, SPOOL_KERNELS,
                                &(struct spool_kernel){.start_ns = 5, .end_ns = 9, .shape = 1}));
    assert_true(trace_spool_add_string(&w, 7, "gemm", 4));
    assert_true(trace_spool_add(&w, SPOOL_SHAPES, &(struct spool_shape){.id = 1, .name = 7}));
    assert_int_equal(trace_spool_close(&w), 0);

    struct blocks *b = blocks(t, path);
    assert_int_equal(b->end, b->file.n);
    const int order[] = {SPOOL_STRINGS, SPOOL_SHAPES, SPOOL_KERNELS, SPOOL_END};
    assert_int_equal(b->n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(b->at[i]->kind, order[i]);
    const struct spool_string *s = (const void *)(b->at[0] + 1);
    assert_int_equal(s->id, 7);
    assert_int_equal(s->bytes, 4);
    assert_memory_equal(s + 1, "gemm\0\0\0\0", 8);
    const struct spool_kernel *k = (const void *)(b->at[2] + 1);
    assert_int_equal(k->end_ns, 9);
    const struct spool_end *end = (const void *)(b->at[3] + 1);
    assert_int_equal(end->kernels, 1);
    assert_int_equal(end->dropped, 0);
}

static void definitions_go_before_the_events_that_use_them(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "a.spool");
    struct spool_writer w;
    assert_int_equal(trace_spool_open(&w, path), 0);
    for (uint32_t i = 1; i <= 5000; i++) { /* each kernel has a shape of its own */
        trace_spool_add(&w, SPOOL_SHAPES, &(struct spool_shape){.id = i});
        trace_spool_add(&w, SPOOL_KERNELS, &(struct spool_kernel){.shape = i});
    }
    assert_int_equal(trace_spool_close(&w), 0);
    struct blocks *b = blocks(t, path);
    uint32_t defined = 0, used = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct spool_shape *s = (const void *)(b->at[i] + 1);
        const struct spool_kernel *k = (const void *)(b->at[i] + 1);
        if (b->at[i]->kind == SPOOL_SHAPES)
            defined = s[b->at[i]->count - 1].id;
        if (b->at[i]->kind == SPOOL_KERNELS) {
            used += b->at[i]->count;
            assert_true(k[b->at[i]->count - 1].shape <= defined);
        }
    }
    assert_int_equal(used, 5000);
}

static void a_kernel_with_its_launch_takes_under_64_bytes(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "a.spool");
    struct spool_writer w;
    mode_t before = umask(027);
    assert_int_equal(trace_spool_open(&w, path), 0);
    umask(before);
    enum { N = 100000 };
    for (uint32_t i = 0; i < N; i++) {
        trace_spool_add(&w, SPOOL_KERNELS, &(struct spool_kernel){.correlation = i});
        trace_spool_add(&w, SPOOL_LAUNCHES, &(struct spool_launch){.correlation = i});
    }
    assert_int_equal(trace_spool_close(&w), 0);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_true(s.st_size < N * 57);
    assert_int_equal(s.st_mode & 0777, 0640);
}

static void a_killed_writer_leaves_what_was_flushed(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "a.spool");
    struct spool_writer w;
    assert_int_equal(trace_spool_open(&w, path), 0);
    trace_spool_add(&w, SPOOL_KERNELS, &(struct spool_kernel){.start_ns = 1});
    assert_true(trace_spool_flush(&w));
    trace_spool_add(&w, SPOOL_KERNELS, &(struct spool_kernel){.start_ns = 2});
    trace_spool_abandon(&w);
    struct blocks *b = blocks(t, path);
    assert_int_equal(b->n, 1);
    assert_int_equal(b->at[0]->count, 1);
}

/* RLIMIT_FSIZE stands in for a full disk: the kernel writes what fits, then refuses. */
static void a_full_disk_leaves_whole_blocks(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "a.spool");
    struct spool_writer w;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(trace_spool_open(&w, path), 0);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint64_t given = 0;
    for (uint32_t i = 0; i < 10000; i++, given++)
        trace_spool_add(&w, SPOOL_KERNELS, &(struct spool_kernel){.start_ns = i});
    bool ok = trace_spool_flush(&w);
    int error = trace_spool_close(&w);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_false(ok);
    assert_int_equal(error, EFBIG);
    struct blocks *b = blocks(t, path);
    assert_int_equal(b->end, b->file.n);
    uint64_t kept = 0;
    for (size_t i = 0; i < b->n; i++)
        kept += b->at[i]->kind == SPOOL_KERNELS ? b->at[i]->count : 0;
    assert_int_equal(kept, 2048);
    assert_int_equal(w.lost, given - kept);
    assert_int_equal(b->at[b->n - 2]->kind, SPOOL_DROPS); /* small enough to fit */
    struct spool_drop drop;
    memcpy(&drop, b->at[b->n - 2] + 1, sizeof drop);
    assert_int_equal(drop.source, SPOOL_FROM_DISK);
    assert_int_equal(drop.count, w.lost);
    assert_int_equal(b->at[b->n - 1]->kind, SPOOL_END);
}

static void a_long_string_is_cut(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "a.spool");
    struct spool_writer w;
    assert_int_equal(trace_spool_open(&w, path), 0);
    char *text = arena_alloc(t->a, 100000);
    memset(text, 'x', 100000);
    assert_true(trace_spool_add_string(&w, 1, text, 100000));
    assert_true(trace_spool_add_string(&w, 2, "", 0));
    assert_int_equal(trace_spool_close(&w), 0);
    struct blocks *b = blocks(t, path);
    const struct spool_string *s = (const void *)(b->at[0] + 1);
    assert_int_equal(b->at[0]->count, 2);
    assert_int_equal(s->bytes, SPOOL_STRING_MAX_BYTES);
    assert_memory_equal((const char *)(s + 1) + SPOOL_STRING_MAX_BYTES - 4, "x...", 4);
}

static void an_existing_file_stays(void **state)
{
    struct test *t = *state;
    const char *path = test_write(t, "a.spool", "old");
    struct spool_writer w;
    assert_int_equal(trace_spool_open(&w, path), EEXIST);
    assert_string_equal(test_read(t, path), "old");
    assert_false(trace_spool_add(&w, SPOOL_KERNELS, &(struct spool_kernel){0}));
}

static void kinds_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(trace_spool_kind_name(SPOOL_KERNELS), "kernels");
    assert_int_equal(trace_spool_record_bytes(SPOOL_KERNELS), 32);
    assert_int_equal(trace_spool_record_bytes(SPOOL_STRINGS), 0);
    assert_null(trace_spool_kind_name(0));
    assert_null(trace_spool_kind_name(SPOOL_KINDS));
    assert_int_equal(trace_spool_record_bytes(-1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_added_stands_in_the_file),
        TEST(definitions_go_before_the_events_that_use_them),
        TEST(a_kernel_with_its_launch_takes_under_64_bytes),
        TEST(a_killed_writer_leaves_what_was_flushed),
        TEST(a_full_disk_leaves_whole_blocks),
        TEST(a_long_string_is_cut),
        TEST(an_existing_file_stays),
        TEST(kinds_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
