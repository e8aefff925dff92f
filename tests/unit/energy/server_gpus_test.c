/* Which GPUs are a server's? On the fake GPUs, with a procfs made here: the server is process 20,
 * its worker 22; 30 is somebody else; 1 started both. */
#include "energy/server_gpus.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static void write_process(struct test *t, int pid, const char *name, int parent)
{
    const char *dir = arena_printf(t->a, "%s/proc/%d", test_dir(t), pid);
    const char *stat = arena_printf(
        t->a, "%d (%s) S %d 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 5 1 2\n", pid, name, parent);
    assert_ok(fs_mkdirs(dir, &t->e), t);
    assert_ok(fs_write_atomic(fs_join(t->a, dir, "stat"), stat, strlen(stat), &t->e), t);
    assert_ok(fs_write_atomic(fs_join(t->a, dir, "comm"), name, strlen(name), &t->e), t);
}

static struct server_gpus_params params_of(struct test *t, const char *namespace)
{
    const char *proc = arena_printf(t->a, "%s/proc", test_dir(t));
    const char *ns = arena_printf(t->a, "%s/self/ns", proc), *link = fs_join(t->a, ns, "pid");
    write_process(t, 1, "init", 0);
    write_process(t, 20, "vllm", 1);
    write_process(t, 22, "VLLM::Worker", 20);
    write_process(t, 30, "train.py", 1);
    assert_ok(fs_mkdirs(ns, &t->e), t);
    unlink(link);
    assert_int_equal(symlink(namespace, link), 0);
    return (struct server_gpus_params){.pid = 20, .proc = proc, .interval_s = 0.02};
}

#define FIRST "pid:[4026531836]"
#define BELOW "pid:[4026532447]"

static void a_servers_gpus_are_those_of_its_processes(void **state)
{
    static const struct {
        const char *script;
        size_t n;
        int gpus[2];
    } rows[] = {
        {"pid0=20", 1, {0}},
        {"devices=3;pid0=30;pid1=22", 1, {1}},
        {"devices=3;pid0=20;pid2=22", 2, {0, 2}},
        {"devices=2;pid1=20;processes=1", 1, {1}},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct server_gpus_params p = params_of(t, FIRST);
        struct server_gpus *s;
        size_t n;
        fake_gpu_play(rows[i].script);
        assert_ok(server_gpus_open(t->a, &p, &s, &t->e), t);
        const struct board *boards = server_gpus_boards(s, &n);
        assert_int_equal(n, rows[i].n);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(boards[k].gpu, rows[i].gpus[k]);
        assert_false(server_gpus_contained(s));
        server_gpus_close(&s);
        assert_null(s);
    }
}

static void a_board_has_the_uuid_of_its_index(void **state)
{
    struct test *t = *state;
    const struct server_gpus_params p = params_of(t, BELOW);
    struct server_gpus *s;
    size_t n;
    fake_gpu_play("devices=2;pid1=22");
    assert_ok(server_gpus_open(t->a, &p, &s, &t->e), t);
    const struct board *b = server_gpus_boards(s, &n);
    assert_string_equal(b->uuid, "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1");
    assert_string_equal(b->name, "Fake GPU 1");
    assert_true(server_gpus_contained(s));
    server_gpus_close(&s);
}

static void what_is_no_server_on_a_gpu_is_refused(void **state)
{
    static const struct {
        const char *script, *namespace;
        enum st st;
        const char *text;
    } rows[] = {
        {"devices=2;pid0=30", FIRST, ST_DEVICE,
         "NVML lists neither process 20 nor a descendant of it on any GPU (processes of the "
         "server: "
         "2, GPUs: 2, processes that NVML lists: 1)\n"
         "hint: the pid of the process that was started, when the server is up"},
        {"", BELOW, ST_DEVICE,
         "NVML lists neither process 20 nor a descendant of it on any GPU (processes of the "
         "server: "
         "2, GPUs: 1, processes that NVML lists: 0)\n"
         "hint: run twinfer where the server's pids are the host's: on the host, or in a "
         "container started with --pid=host"},
        {"processes=1", BELOW, ST_DEVICE,
         "NVML lists pid 4000000000, which is not in /proc here, and none of process 20 and its "
         "descendants: its pids are those of another namespace\n"
         "hint: run twinfer where the server's pids are the host's: on the host, or in a "
         "container started with --pid=host"},
        {"pid0=20;fail nvmlDeviceGetComputeRunningProcesses_v3 1+ 3", FIRST, ST_DEVICE,
         "NVML does not list the processes that compute on a GPU\n"
         "hint: run twinfer where the server's pids are the host's: on the host, or in a "
         "container started with --pid=host"},
    };
    struct test *t = *state;
    struct server_gpus *s;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct server_gpus_params p = params_of(t, rows[i].namespace);
        fake_gpu_play(rows[i].script);
        err_clear(&t->e);
        assert_err(server_gpus_open(t->a, &p, &s, &t->e), rows[i].st, t, rows[i].text);
        server_gpus_close(&s);
    }
    struct server_gpus_params p = params_of(t, FIRST);
    p.pid = 21;
    err_clear(&t->e);
    assert_err(server_gpus_open(t->a, &p, &s, &t->e), ST_INPUT, t, "there is no process 21");
    server_gpus_close(&s);
}

static void who_else_computes_there_is_named(void **state)
{
    static const struct {
        const char *begin, *then;
        int strangers;
        int64_t processes;
        const char *why;
    } rows[] = {
        {"pid0=20", NULL, 0, 1, NULL},
        {"devices=2;pid0=20;pid1=22", NULL, 0, 2, NULL},
        {"devices=2;pid0=20;pid1=30", NULL, 0, 1, NULL}, /* on another GPU */
        {"pid0=20;also0=30", NULL, 1, 1, "1 other process computed on GPU 0: train.py (pid 30)"},
        {"pid0=20;processes=1", NULL, 1, 1,
         "1 other process computed on GPU 0: pid 4000000000, which is not in /proc here"},
        {"pid0=20;processes=2", NULL, 2, 1,
         "2 other processes computed on GPU 0: pid 4000000000, which is not in /proc here and "
         "others"},
        {"devices=2;pid0=20;pid1=22;processes=1", NULL, 1, 2,
         "1 other process computed on the server's GPUs: pid 4000000000, which is not in /proc "
         "here"},
        {"pid0=20", "pid0=20;also0=30", 1, 1,
         "1 other process computed on GPU 0: train.py (pid 30)"},
        {"devices=2;pid0=20", "devices=2;pid0=20;pid1=22", 0, 1,
         "the server computed on GPU 1, too, whose power was not read"},
        {"pid0=20", "pid0=20;fail nvmlDeviceGetComputeRunningProcesses_v3 1+ 3", 0, 1,
         "NVML did not say who computed on GPU 0"},
        {"pid0=20", "pid0=24", 0, 1, NULL}, /* a worker that started meanwhile */
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct server_gpus_params p = params_of(t, FIRST);
        struct server_gpus *s;
        fake_gpu_play(rows[i].begin);
        assert_ok(server_gpus_open(t->a, &p, &s, &t->e), t);
        server_gpus_begin(s);
        if (rows[i].then)
            fake_gpu_play(rows[i].then);
        write_process(t, 24, "VLLM::Worker", 20);
        const struct server_gpus_seen seen = server_gpus_end(t->a, s);
        if (rows[i].why)
            assert_string_equal(seen.why, rows[i].why);
        else
            assert_null(seen.why);
        assert_int_equal(seen.strangers, rows[i].strangers);
        assert_int_equal(seen.processes, rows[i].processes);
        server_gpus_close(&s);
        assert_ok(fs_remove_tree(arena_printf(t->a, "%s/24", p.proc), &t->e), t);
    }
}

/* Seen by the thread alone: it is gone when the end looks. */
static void a_stranger_counts_that_came_and_went(void **state)
{
    struct test *t = *state;
    const struct server_gpus_params p = params_of(t, FIRST);
    struct server_gpus *s;
    fake_gpu_play("pid0=20");
    assert_ok(server_gpus_open(t->a, &p, &s, &t->e), t);
    server_gpus_begin(s);
    fake_gpu_play("pid0=20;also0=30");
    while (server_gpus_strangers(s) == 0)
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
    fake_gpu_play("pid0=20");
    const struct server_gpus_seen seen = server_gpus_end(t->a, s);
    assert_int_equal(seen.strangers, 1);
    assert_string_equal(seen.why, "1 other process computed on GPU 0: train.py (pid 30)");
    server_gpus_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_servers_gpus_are_those_of_its_processes), TEST(a_board_has_the_uuid_of_its_index),
        TEST(what_is_no_server_on_a_gpu_is_refused),     TEST(who_else_computes_there_is_named),
        TEST(a_stranger_counts_that_came_and_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
