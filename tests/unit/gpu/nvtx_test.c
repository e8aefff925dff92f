/* Ranges as a tool hears them; a process has one tool, so each case is a process of its own. */
#include "gpu/nvtx.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "engine/cuda/batch_range.h"
#include "support/support.h"

static const char *tool(struct test *t)
{
    return fs_join(t->a, getenv("TWINFER_FAKES"), "libnvtx_tool.so");
}

/* A batch of two chunks and three decode rows, one of decode rows alone, one of a chunk. */
static void run_batches(void)
{
    const struct chunk chunks[] = {{.slot = 0, .start = 0, .tokens = 10},
                                   {.slot = 1, .start = 100, .tokens = 4}};
    const struct batch b[] = {{.chunks = chunks,
                               .n_chunks = 2,
                               .n_decodes = 3,
                               .prefill_tokens = 14,
                               .decode_kv_tokens = 70},
                              {.n_decodes = 2, .decode_kv_tokens = 33},
                              {.chunks = chunks, .n_chunks = 1, .prefill_tokens = 10}};
    cuda_batch_range_open();
    for (int i = 0; i < 3; i++) {
        cuda_batch_range_begin(&b[i]);
        cuda_batch_range_end();
    }
}

/* What the tool hears of them; NULL: nobody listens. */
static const char *heard(struct test *t, const char *path, const char *mode)
{
    const char *out = fs_join(t->a, test_dir(t), "heard");
    const pid_t child = fork();
    int status;
    if (child == 0) {
        if (path)
            setenv("NVTX_INJECTION64_PATH", path, 1);
        else
            unsetenv("NVTX_INJECTION64_PATH");
        setenv("NVTX_TOOL", mode, 1);
        run_batches();
        if (!gpu_ranges_heard())
            _exit(2);
        FILE *f = fopen(out, "w");
        const char *text = dlsym(dlopen(path, RTLD_NOW), "nvtx_tool_heard");
        _exit(!f || fputs(text, f) < 0 || fclose(f) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        return NULL;
    assert_int_equal(WEXITSTATUS(status), 0);
    return test_read(t, out);
}

static void a_batch_says_what_is_in_it(void **state)
{
    struct test *t = *state;
    assert_string_equal(
        heard(t, tool(t), ""),
        "schema\n"
        /* 10 tokens see 55 keys, 4 tokens after 100 see 410 */
        "push step prefill_tokens=14 prefills=2 context=100 chunk_context=465 decode=3 kv=70\n"
        "push mixed\npop\npop\n"
        "push step prefill_tokens=0 prefills=0 context=0 chunk_context=0 decode=2 kv=33\n"
        "push decode\npop\npop\n"
        "push step prefill_tokens=10 prefills=1 context=0 chunk_context=55 decode=0 kv=0\n"
        "push prefill\npop\npop\n");
}

static void a_tool_without_payloads_hears_names(void **state)
{
    struct test *t = *state;
    const char *names = "push step\npush mixed\npop\npop\npush step\npush decode\npop\npop\n"
                        "push step\npush prefill\npop\npop\n";
    assert_string_equal(heard(t, tool(t), "no payloads"), names);
    assert_string_equal(heard(t, tool(t), "payloads"), names);
}

static void nobody_may_listen(void **state)
{
    struct test *t = *state;
    assert_null(heard(t, NULL, ""));
    assert_null(heard(t, "", ""));
    assert_null(heard(t, "/nothing/there.so", ""));
    assert_null(heard(t, tool(t), "declines"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_batch_says_what_is_in_it),
                                       TEST(a_tool_without_payloads_hears_names),
                                       TEST(nobody_may_listen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
