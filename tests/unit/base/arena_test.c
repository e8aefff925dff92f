#include "support/support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void memory_is_zeroed_aligned_and_apart(void **state)
{
    struct test *t = *state;
    unsigned char *p[2000];
    for (size_t i = 0; i < 2000; i++) {
        size_t n = i * 7 % 300;
        p[i] = arena_alloc(t->a, n);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(p[i][k], 0);
        memset(p[i], (int)(i % 255) + 1, n);
    }
    for (size_t i = 0; i < 2000; i++)
        for (size_t k = 0; k < i * 7 % 300; k++)
            assert_int_equal(p[i][k], i % 255 + 1);
}

static void reset_gives_zeroed_memory_again(void **state)
{
    struct test *t = *state;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 100; i++) {
            char *p = arena_alloc(t->a, 1000);
            for (int k = 0; k < 1000; k++)
                assert_int_equal(p[k], 0);
            memset(p, 0xff, 1000);
        }
        assert_int_equal(arena_used(t->a), 100 * 1008);
        arena_reset(t->a);
        assert_int_equal(arena_used(t->a), 0);
    }
}

static void large_blocks(void **state)
{
    struct test *t = *state;
    char *p = arena_alloc(t->a, (size_t)40 << 20);
    p[((size_t)40 << 20) - 1] = 1;
    char *q = arena_alloc(t->a, 16);
    q[0] = 1;
    assert_true(q >= p + ((size_t)40 << 20) || q + 16 <= p);
}

static void copies(void **state)
{
    struct test *t = *state;
    assert_string_equal(arena_str(t->a, "abc"), "abc");
    assert_string_equal(arena_strn(t->a, "abcdef", 3), "abc");
    assert_string_equal(arena_strn(t->a, NULL, 0), "");
    assert_memory_equal(arena_copy(t->a, "a\0b", 3), "a\0b", 3);
    assert_non_null(arena_copy(t->a, NULL, 0));
    assert_string_equal(arena_printf(t->a, "%s-%05d", "x", 42), "x-00042");
    int *v = arena_array(t->a, int, 1000);
    assert_int_equal(v[999], 0);
}

static void freeing_clears_the_handle(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    arena_free(&a);
    assert_null(a);
    arena_free(&a);
    arena_free(NULL);
    arena_reset((a = arena_new()));
    arena_free(&a);
}

static void a_size_that_overflows_ends_as_a_full_disk_does(void **state)
{
    struct test *t = *state;
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        volatile size_t n = SIZE_MAX / 4;
        arena_alloc_n(t->a, n, 8);
        _Exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), err_exit_code(ST_IO)); /* no bug of ours */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_is_zeroed_aligned_and_apart),
        TEST(reset_gives_zeroed_memory_again),
        TEST(large_blocks),
        TEST(copies),
        TEST(freeing_clears_the_handle),
        TEST(a_size_that_overflows_ends_as_a_full_disk_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
