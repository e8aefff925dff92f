/* The guest library inside a program on a fake driver and a fake CUPTI (tests/fakes). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "inject/spool_file.h"

static const char *guest_library, *fakes_dir; /* from the command line */

struct traced {
    int status; /* as waitpid gives it */
    const char *out, *err;
    size_t n; /* spools */
    struct spool_file *spools[8];
};

/* Which CUPTI (folder of tests/fakes), FAKE_CUPTI's words, the settings' lines, the steps. */
struct how {
    const char *fakes, *script, *settings, *steps;
    bool no_settings;  /* TWINFER_TRACE is not set */
    bool not_injected; /* neither the driver nor NVTX loads the library */
};

static void start(struct test *t, const struct how *h)
{
    const char *fakes = h->fakes ? h->fakes : "good";
    setenv("LD_LIBRARY_PATH", arena_printf(t->a, "%s/%s:%s/good", fakes_dir, fakes, fakes_dir), 1);
    setenv("CUDA_INJECTION64_PATH", guest_library, 1);
    setenv("NVTX_INJECTION64_PATH", guest_library, 1);
    if (h->not_injected) {
        unsetenv("CUDA_INJECTION64_PATH");
        unsetenv("NVTX_INJECTION64_PATH");
    }
    setenv("FAKE_CUPTI", h->script ? h->script : "", 1);
    if (h->no_settings)
        unsetenv("TWINFER_TRACE");
    else
        setenv("TWINFER_TRACE", test_path(t, "settings.txt"), 1);
    execl("/bin/sh", "sh", "-c",
          arena_printf(t->a, "exec '%s/fake_app' %s >'%s' 2>'%s'", fakes_dir, h->steps,
                       test_path(t, "out"), test_path(t, "err")),
          (char *)NULL);
    _exit(126);
}

static struct traced *trace(struct test *t, struct how h)
{
    struct traced *r = arena_one(t->a, struct traced);
    const char *dir = test_path(t, "spools");
    assert_ok(fs_mkdirs(dir, &t->e), t);
    test_write(t, "settings.txt",
               arena_printf(t->a, "dir=%s\n%s", dir, h.settings ? h.settings : ""));
    pid_t child = fork();
    if (child == 0)
        start(t, &h);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &r->status, 0), child);
    r->out = test_read(t, test_path(t, "out"));
    r->err = test_read(t, test_path(t, "err"));
    const char **names;
    size_t n;
    assert_ok(fs_list(t->a, dir, &names, &n, &t->e), t);
    for (size_t i = 0; i < n && i < 8; i++)
        r->spools[r->n++] = spool_file(t, fs_join(t->a, dir, names[i]));
    return r;
}

/* The only spool of a program that ended well. */
static struct spool_file *one(struct test *t, struct how h)
{
    struct traced *r = trace(t, h);
    if (r->status != 0 || r->err[0])
        print_message("status %x, stderr: %s\n", (unsigned)r->status, r->err);
    assert_int_equal(r->status, 0);
    assert_int_equal(r->n, 1);
    assert_int_equal(r->spools[0]->n[SPOOL_END], 1);
    assert_int_equal(r->spools[0]->whole_bytes, r->spools[0]->bytes);
    return r->spools[0];
}

static size_t ranges(const struct spool_file *f, const char *text)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n[SPOOL_RANGES]; i++)
        n += strcmp(spool_text(f, spool_records(f, SPOOL_RANGES, spool_range)[i].text), text) == 0;
    return n;
}

static const struct spool_range *range(const struct spool_file *f, const char *text)
{
    for (size_t i = 0; i < f->n[SPOOL_RANGES]; i++) {
        const struct spool_range *r = &spool_records(f, SPOOL_RANGES, spool_range)[i];
        if (strcmp(spool_text(f, r->text), text) == 0)
            return r;
    }
    fail_msg("no range %s", text);
    return NULL;
}

/* ---- what is recorded ---- */

static void every_kind_of_work_is_recorded(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init kernels=10 ops=2"});
    assert_int_equal(f->n[SPOOL_KERNELS], 16);  /* 10, and 3 graph nodes twice */
    assert_int_equal(f->n[SPOOL_LAUNCHES], 16); /* 10 + 2 * (copy, set, graph) */
    assert_int_equal(f->n[SPOOL_COPIES], 2);
    assert_int_equal(f->n[SPOOL_SETS], 2);
    assert_int_equal(f->n[SPOOL_SYNCS], 2);
    assert_int_equal(f->n[SPOOL_GRAPHS], 0);
    assert_int_equal(f->n[SPOOL_APIS], 0);
    assert_int_equal(f->n[SPOOL_DEVICES], 2);
    assert_int_equal(f->n[SPOOL_PROCESS], 1);
    assert_int_equal(f->n[SPOOL_WINDOWS], 1);
    assert_int_equal(f->n[SPOOL_DROPS], 0);
    assert_int_equal(f->n[SPOOL_NOTES], 0);

    const struct spool_process *p = spool_records(f, SPOOL_PROCESS, spool_process);
    assert_non_null(strstr(spool_text(f, p->command), "fake_app init kernels=10 ops=2"));
    assert_int_equal(p->cupti_version, 130001);
    assert_int_equal(p->driver_version, 13000);
    assert_int_equal(p->rank, -1);
    const struct spool_device *d = spool_records(f, SPOOL_DEVICES, spool_device);
    assert_string_equal(spool_text(f, d[1].name), "Fake GPU 1");
    assert_int_equal(d[1].sms, 132);

    const struct spool_kernel *k = spool_records(f, SPOOL_KERNELS, spool_kernel);
    const struct spool_shape *s = spool_records(f, SPOOL_SHAPES, spool_shape);
    assert_int_equal(f->n[SPOOL_SHAPES], 3);
    assert_string_equal(spool_text(f, s[k[0].shape - 1].name), "_Z4gemmPfS_S_");
    assert_int_equal(s[k[0].shape - 1].grid[0], 8);
    assert_int_equal(s[k[0].shape - 1].registers, 40);
    assert_int_equal(k[0].end_ns - k[0].start_ns, 1500);
    assert_int_equal(k[0].shape, k[2].shape);
    assert_int_equal(k[15].graph_node, 102);
    assert_int_equal(s[k[15].shape - 1].graph, 5);
    const struct spool_launch *l = spool_records(f, SPOOL_LAUNCHES, spool_launch);
    assert_int_equal(l[0].correlation, k[0].correlation);
    assert_int_equal(l[0].cbid, 307);
    assert_true(l[0].start_ns <= l[0].end_ns);
    assert_true(f->header.start_ns <= l[0].start_ns);
    const struct spool_copy *c = spool_records(f, SPOOL_COPIES, spool_copy);
    assert_int_equal(c[0].bytes, 4096);
    assert_int_equal(c[0].copy_kind, 1);
}

static void ranges_of_every_domain_are_recorded(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init decode=4 domain=3"});
    assert_int_equal(ranges(f, "decode"), 4);
    assert_int_equal(ranges(f, "generate"), 1);
    assert_int_equal(ranges(f, "decode_all"), 2);
    const struct spool_range *g = range(f, "generate"), *d = range(f, "decode");
    assert_int_equal(g->depth, 0);
    assert_int_equal(d->depth, 1);
    assert_int_equal(d->kind, SPOOL_PUSH_POP);
    assert_true(g->start_ns <= d->start_ns && d->end_ns <= g->end_ns);
    const struct spool_range *a = range(f, "decode_all"), *m = range(f, "here");
    assert_string_equal(spool_text(f, a->domain), "LLM");
    assert_int_equal(a->payload, 3);
    assert_int_equal(m->kind, SPOOL_MARK);
    assert_int_equal(m->start_ns, m->end_ns);
    assert_int_equal(m->domain, 0);
}

static void payloads_of_the_extension_come_with_their_ranges(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init payload=4096 decode=1"});
    const struct spool_range *init = range(f, "ncclCommInitRankConfig");
    const struct spool_range *all = range(f, "ncclAllReduce"), *m = range(f, "marked");
    const struct spool_range *started = range(f, "started"), *g = range(f, "generate");
    assert_string_equal(spool_text(f, init->domain), "NCCL");
    assert_true(init->end_ns != SPOOL_OPEN_NS && init->end_ns <= all->start_ns);
    static const char values[] =
        "\"NCCL communicator ID\":77,\"Message size [\\\"bytes\\\"]\":4096,"
        "\"Reduction operation\":2,\"Share\":0.25}";
    assert_string_equal(spool_text(f, init->values), arena_printf(t->a, "{\"rank\":-3,%s", values));
    assert_string_equal(spool_text(f, all->values), arena_printf(t->a, "{%s", values));
    assert_int_equal(all->payload_type, 0);
    assert_string_equal(spool_text(f, started->values),
                        "{\"rank\":-3,\"value\":9.9999999999999995e-08}");
    assert_int_equal(started->kind, SPOOL_START_END);
    assert_int_equal(m->kind, SPOOL_MARK);
    assert_string_equal(spool_text(f, m->values), "{\"rank\":-3}");
    assert_int_equal(g->values, 0);
    assert_int_equal(f->n[SPOOL_RANGES], 7); /* and a mark without a word */
}

static void graphs_may_be_recorded_whole(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.settings = "graphs=graph\n", .steps = "init ops=5"});
    assert_int_equal(f->n[SPOOL_KERNELS], 0);
    assert_int_equal(f->n[SPOOL_GRAPHS], 5);
    assert_int_equal(spool_records(f, SPOOL_GRAPHS, spool_graph)[0].graph, 5);
}

/* Whatever switches recording on and off over CUDA graphs that exist, the program lives, and what
 * is recorded is what the windows hold. Graphs 1 and 2 are instantiated by their first launch. */
static void switches_over_graphs_that_exist_do_no_harm(void **state)
{
    static const struct {
        const char *settings, *steps;
        size_t graphs, kernels;
    } rows[] = {
        {"profiler=1\n", "init graph=1 profiler=1 graph=1 graph=2 profiler=0 graph=1", 2, 0},
        {"profiler=1\n", "init graph=1 sleep=400 graph=2 profiler=1 graph=2 kernels=4", 1, 4},
        {"range=decode\n", "init graph=1 decode=3 graph=1 sleep=400 graph=2 decode=1", 0, 8},
        {"range=outer\n", "init graph=1 open graph=1 graph=2", 2, 0},
        {"delay_ms=400\n", "init graph=1 sleep=500 graph=1", 1, 0},
        {"", "init graph=1 pause graph=1 graph=2 resume graph=1 graph=2 kernels=2", 3, 2},
        {"", "init pause graph=1 graph=1 resume graph=1 pause resume graph=1", 2, 0},
        {"launches=0\n", "init graph=1 pause graph=2 resume graph=2", 2, 0},
        {"kernels=0\n", "init graph=1 kernels=3", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *inner;
        assert_int_equal(test_setup(&inner), 0);
        struct test *t = inner;
        const char *settings = arena_printf(t->a, "%sgraphs=graph\nflush_ms=1\n", rows[i].settings);
        struct spool_file *f = one(t, (struct how){.settings = settings, .steps = rows[i].steps});
        if (f->n[SPOOL_GRAPHS] != rows[i].graphs || f->n[SPOOL_KERNELS] != rows[i].kernels)
            print_message("%s%s\n", rows[i].settings, rows[i].steps);
        assert_int_equal(f->n[SPOOL_GRAPHS], rows[i].graphs);
        assert_int_equal(f->n[SPOOL_KERNELS], rows[i].kernels);
        assert_int_equal(f->n[SPOOL_NOTES], 0);
        assert_int_equal(f->n[SPOOL_DROPS], 0);
        test_teardown(&inner);
    }
    (void)state;
}

/* CUDA runs, and graphs may exist: then kernel by kernel, and it is said. */
static void too_late_for_whole_graphs_records_their_kernels(void **state)
{
    struct test *t = *state;
    setenv("LATE_INJECTION", guest_library, 1);
    struct traced *r = trace(t, (struct how){.settings = "graphs=graph\n",
                                             .steps = "init graph=1 attach graph=1 graph=2",
                                             .not_injected = true});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "attached: 1\n");
    assert_int_equal(r->n, 1);
    struct spool_file *f = r->spools[0];
    assert_int_equal(f->n[SPOOL_GRAPHS], 0);
    assert_int_equal(f->n[SPOOL_KERNELS], 6);
    assert_int_equal(f->n[SPOOL_NOTES], 1);
    assert_string_equal(
        spool_text(f, spool_records(f, SPOOL_NOTES, spool_note)->text),
        "CUDA graphs are recorded kernel by kernel: graphs=graph must be set before the first of "
        "them, and recording began when the program ran already");
}

static void loaded_before_cuda_it_records_whole_graphs(void **state)
{
    struct test *t = *state;
    setenv("LATE_INJECTION", guest_library, 1);
    struct traced *r = trace(t, (struct how){.settings = "graphs=graph\n",
                                             .steps = "attach init graph=1 graph=1",
                                             .not_injected = true});
    assert_int_equal(r->status, 0);
    assert_int_equal(r->spools[0]->n[SPOOL_GRAPHS], 2);
    assert_int_equal(r->spools[0]->n[SPOOL_NOTES], 0);
}

static void whole_graphs_keep_cupti_over_a_pause(void **state)
{
    struct test *t = *state;
    struct traced *r =
        trace(t, (struct how){.settings = "graphs=graph\n",
                              .steps = "init kernels=1 pause graph=1 resume graph=1"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "paused: 1 subscribers, kernels 0\n"
                                "resumed: 1, 1 subscribers, kernels 1\n");
    assert_int_equal(r->spools[0]->n[SPOOL_GRAPHS], 1);
}

static void the_level_of_graphs_stays(void **state)
{
    struct test *t = *state;
    struct traced *r =
        trace(t, (struct how){.steps = "init graph=1 level=1 graph=1 level=0 pause level=1 graph=2 "
                                       "resume graph=2 graph=1"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "graphs: 0\ngraphs: 1\npaused: 0 subscribers, kernels 0\n"
                                "graphs: 0\nresumed: 1, 1 subscribers, kernels 1\n");
    assert_int_equal(r->spools[0]->n[SPOOL_GRAPHS], 0);
    assert_int_equal(r->spools[0]->n[SPOOL_KERNELS], 12);
}

static void a_buffer_of_another_profiler_is_left_alone(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init kernels=2 pause resume foreign "
                                                        "kernels=3"});
    assert_int_equal(f->n[SPOOL_KERNELS], 5);
    assert_int_equal(f->n[SPOOL_DROPS], 0);
}

static void api_calls_are_recorded_on_request(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.settings = "api=runtime\n", .steps = "init kernels=4"});
    assert_int_equal(f->n[SPOOL_APIS], 4);
    const struct spool_api *a = spool_records(f, SPOOL_APIS, spool_api);
    assert_string_equal(spool_text(f, a->name), "cudaLaunchKernel");
    assert_int_equal(a->domain, 2);
}

static void threads_have_records_of_their_own(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init threads=200 threads=200"});
    assert_int_equal(f->n[SPOOL_KERNELS], 1600);
    assert_int_equal(f->n[SPOOL_LAUNCHES], 1600);
    assert_int_equal(ranges(f, "thread"), 1600);
    assert_int_equal(f->n[SPOOL_THREADS], 8);
    assert_int_equal(f->n[SPOOL_DROPS], 0);
}

/* ---- gates ---- */

static void a_range_opens_the_gate(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.settings = "range=decode@*\n",
                                               .steps = "init kernels=7 decode=5 kernels=9"});
    assert_int_equal(f->n[SPOOL_KERNELS], 10);
    assert_int_equal(f->n[SPOOL_LAUNCHES], 10);
    assert_int_equal(f->n[SPOOL_WINDOWS], 5);
    assert_int_equal(ranges(f, "decode"), 5);
    assert_int_equal(ranges(f, "generate"), 1); /* it is around them */
    const struct spool_window *w = spool_records(f, SPOOL_WINDOWS, spool_window);
    assert_int_equal(w[0].why_start, SPOOL_WHY_RANGE);
    assert_true(w[0].end_ns <= w[1].start_ns);
}

static void a_pattern_names_range_and_domain(void **state)
{
    static const struct {
        const char *settings;
        size_t kernels;
    } rows[] = {
        {"range=decode_all@LLM\n", 3}, {"range=decode_all\n", 0},
        {"range=*@LLM\n", 3},          {"range=dec*_*@*\n", 3},
        {"range=decode\n", 4},         {"range=decode,decode_all@L*\n", 7},
        {"range=generate\n", 6},       {"range=other@*\n", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *inner;
        assert_int_equal(test_setup(&inner), 0);
        struct spool_file *f = one(
            inner, (struct how){.settings = rows[i].settings, .steps = "init decode=2 domain=3"});
        if (f->n[SPOOL_KERNELS] != rows[i].kernels)
            print_message("%s", rows[i].settings);
        assert_int_equal(f->n[SPOOL_KERNELS], rows[i].kernels);
        test_teardown(&inner);
    }
    (void)state;
}

static void the_profiler_calls_open_the_gate(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.settings = "profiler=1\n",
                            .steps = "init kernels=3 profiler=1 kernels=4 profiler=0 kernels=5 "
                                     "profiler=1 kernels=1"});
    assert_int_equal(f->n[SPOOL_KERNELS], 5);
    assert_int_equal(f->n[SPOOL_WINDOWS], 2);
    assert_int_equal(spool_records(f, SPOOL_WINDOWS, spool_window)[0].why_start,
                     SPOOL_WHY_PROFILER);
}

static void time_opens_and_closes_the_gate(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.settings = "delay_ms=0\nduration_ms=2000\n",
                                               .steps = "init kernels=4 sleep=2000 kernels=6"});
    assert_int_equal(f->n[SPOOL_KERNELS], 4);
    assert_int_equal(spool_records(f, SPOOL_WINDOWS, spool_window)[0].why_end, SPOOL_WHY_TIME);
}

static void nothing_before_the_delay(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.settings = "delay_ms=100000\n", .steps = "init kernels=4 decode=2"});
    assert_int_equal(f->n[SPOOL_KERNELS], 0);
    assert_int_equal(f->n[SPOOL_RANGES], 0);
}

static void a_program_may_pause_and_resume(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(
        t,
        (struct how){.steps = "init kernels=2 decode=1 pause kernels=4 decode=3 resume kernels=5"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "paused: 0 subscribers, kernels 0\n"
                                "resumed: 1, 1 subscribers, kernels 1\n");
    assert_int_equal(r->spools[0]->n[SPOOL_KERNELS], 10);
    assert_int_equal(ranges(r->spools[0], "decode"), 1);
    assert_int_equal(r->spools[0]->n[SPOOL_WINDOWS], 2);
}

/* ---- ends of processes ---- */

static void a_killed_process_leaves_what_was_flushed(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(t, (struct how){.settings = "flush_ms=1\n",
                                             .steps = "init open kernels=5 sleep=50 flush "
                                                      "kernels=3 kill=9"});
    assert_true(WIFSIGNALED(r->status));
    struct spool_file *f = r->spools[0];
    assert_int_equal(f->n[SPOOL_END], 0);
    assert_true(f->n[SPOOL_KERNELS] >= 5);
    assert_int_equal(range(f, "outer")->end_ns == SPOOL_OPEN_NS, 1);
}

/* flush_ms is too long for what follows the last batch of a server: it is written soon after, also
 * when the recorder has rested before, and the header says how old that is. */
static void the_last_work_of_a_killed_process_is_there(void **state)
{
    struct test *t = *state;
    struct traced *r =
        trace(t, (struct how){.settings = "flush_ms=2500\n",
                              .steps = "init flush kernels=5 sleep=2200 kernels=3 sleep=1000 "
                                       "kill=9"});
    assert_true(WIFSIGNALED(r->status));
    const struct spool_file *f = r->spools[0];
    assert_int_equal(f->n[SPOOL_KERNELS], 8);
    assert_int_equal(f->n[SPOOL_END], 0);
    assert_true(f->header.flushed_ns > f->header.start_ns);
    assert_true(f->header.alive_ns >= f->header.flushed_ns);
}

static void without_exit_handlers_the_flushed_part_is_there(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(t, (struct how){.steps = "init kernels=5 flush _exit=7"});
    assert_int_equal(WEXITSTATUS(r->status), 7);
    assert_int_equal(r->spools[0]->n[SPOOL_KERNELS], 5);
    assert_int_equal(r->spools[0]->n[SPOOL_END], 0);
}

static void a_child_after_fork_has_a_file_of_its_own(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(t, (struct how){.steps = "init decode=1 fork=1 kernels=4"});
    assert_int_equal(r->status, 0);
    assert_int_equal(r->n, 2);
    bool first = r->spools[0]->n[SPOOL_KERNELS] > 0;
    struct spool_file *parent = r->spools[first ? 0 : 1], *child = r->spools[first ? 1 : 0];
    assert_int_equal(parent->n[SPOOL_KERNELS], 7);
    assert_int_equal(ranges(parent, "child"), 0);
    assert_int_equal(child->n[SPOOL_KERNELS], 0);
    assert_int_equal(ranges(child, "child"), 1);
    assert_int_equal(ranges(child, "decode"), 0);
    assert_int_equal(child->n[SPOOL_END], 1);
    assert_int_equal(child->header.parent_pid, parent->header.pid);
}

static void a_program_that_execs_gets_a_second_file(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(t, (struct how){.steps = "init kernels=2 flush exec"});
    assert_int_equal(r->status, 0);
    assert_int_equal(r->n, 2);
    assert_int_equal(r->spools[0]->header.pid, r->spools[1]->header.pid);
    assert_int_equal(r->spools[0]->n[SPOOL_KERNELS] + r->spools[1]->n[SPOOL_KERNELS], 7);
}

static void a_full_disk_stops_the_recording_not_the_program(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(t, (struct how){.steps = "init kernels=10 flush disk=200000 "
                                                      "kernels=9000 flush kernels=10 say=42"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "42\n");
    assert_non_null(strstr(r->err, "stopped: cannot write the spool: errno 27"));
    struct spool_file *f = r->spools[0];
    assert_int_equal(f->bytes, f->whole_bytes);
    assert_true(f->n[SPOOL_KERNELS] >= 10 && f->n[SPOOL_KERNELS] < 9000);
    assert_int_equal(f->n[SPOOL_END], 1); /* the little that it takes to say so did fit */
    assert_true(spool_dropped(f, SPOOL_FROM_DISK) > 0);
}

/* ---- what may go wrong with CUPTI ---- */

static void an_old_cupti_with_a_clock_that_steps(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.fakes = "old",
                            .script = "version=14",
                            .steps = "init kernels=5 flush step=3600000 flush kernels=5 flush"});
    assert_true(spool_noted(f, "GPU times are shifted from CUPTI's clock"));
    assert_int_equal(f->n[SPOOL_KERNELS], 10);
    const struct spool_kernel *k = spool_records(f, SPOOL_KERNELS, spool_kernel);
    const struct spool_end *end = spool_records(f, SPOOL_END, spool_end);
    for (size_t i = 0; i < 10; i++) { /* a wrong hour would show */
        assert_true(k[i].start_ns > f->header.start_ns - 1000000000);
        assert_true(k[i].end_ns < end->at_ns + 1000000000);
    }
}

/* The step lies between the last two looks at the clocks, either way. */
static void a_clock_that_has_just_stepped(void **state)
{
    static const char *const steps[] = {
        "init kernels=5 flush step=3600000 kernels=5 flush",
        "init kernels=5 flush step=-3600000 kernels=5 flush",
    };
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        void *inner;
        assert_int_equal(test_setup(&inner), 0);
        struct spool_file *f = one(inner, (struct how){.fakes = "old",
                                                       .script = "version=14",
                                                       .settings = "flush_ms=100000\n",
                                                       .steps = steps[i]});
        assert_int_equal(f->n[SPOOL_KERNELS], 10);
        const struct spool_kernel *k = spool_records(f, SPOOL_KERNELS, spool_kernel);
        const struct spool_end *end = spool_records(f, SPOOL_END, spool_end);
        for (size_t j = 0; j < 10; j++) {
            assert_true(k[j].start_ns > f->header.start_ns - 1000000000);
            assert_true(k[j].end_ns < end->at_ns + 1000000000);
        }
        test_teardown(&inner);
    }
}

static void a_clock_that_comes_late(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.script = "lateclock",
                            .steps = "init flush kernels=5 ops=1 flush clock kernels=5 flush"});
    assert_true(spool_noted(f, "first GPU times were shifted from the wall clock"));
    assert_int_equal(f->n[SPOOL_KERNELS], 13);
    const struct spool_kernel *k = spool_records(f, SPOOL_KERNELS, spool_kernel);
    const struct spool_end *end = spool_records(f, SPOOL_END, spool_end);
    for (size_t i = 0; i < 13; i++) {
        assert_true(k[i].start_ns > f->header.start_ns - 1000000000);
        assert_true(k[i].end_ns < end->at_ns + 1000000000);
    }
    const struct spool_clock *c = spool_records(f, SPOOL_CLOCKS, spool_clock);
    bool ours = false;
    for (size_t i = 0; i < f->n[SPOOL_CLOCKS]; i++) {
        assert_true(c[i].cupti_ns == 0 || llabs(c[i].cupti_ns - c[i].at_ns) < 1000000000);
        ours |= c[i].cupti_ns != 0;
    }
    assert_true(ours);
}

/* Records grew with CUDA 11.1, 11.2, 11.6, 11.8, 12.0, 12.4, 12.8 and 13.0. What an older one lacks
 * is the begin of the next record, and must not be taken for its fields. */
static void records_of_every_release_are_read(void **state)
{
    static const uint32_t versions[] = {13, 14, 15, 17, 18, 19, 22, 26, 28, 130000, 130200};
    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        const bool has_graph = versions[i] >= 14, has_cluster = versions[i] >= 18;
        void *inner;
        assert_int_equal(test_setup(&inner), 0);
        struct test *t = inner;
        struct spool_file *f =
            one(t, (struct how){.script = arena_printf(t->a, "version=%u", versions[i]),
                                .settings = "api=runtime\n",
                                .steps = "init kernels=4 ops=2"});
        assert_int_equal(f->n[SPOOL_NOTES], 0);
        assert_int_equal(f->n[SPOOL_KERNELS], 10);
        assert_int_equal(f->n[SPOOL_COPIES], 2);
        assert_int_equal(f->n[SPOOL_SETS], 2);
        assert_int_equal(f->n[SPOOL_SYNCS], 2);
        assert_int_equal(f->n[SPOOL_APIS], 4);
        const struct spool_shape *s = spool_records(f, SPOOL_SHAPES, spool_shape);
        assert_int_equal(f->n[SPOOL_SHAPES], 3);
        for (size_t j = 0; j < 3; j++) {
            bool node = strcmp(spool_text(f, s[j].name), "node") == 0;
            assert_int_equal(s[j].graph, node && has_graph ? 5 : 0);
            assert_int_equal(s[j].cluster[0], has_cluster ? 2 : 0);
            assert_int_equal(s[j].cluster[2], has_cluster ? 1 : 0);
            assert_int_equal(s[j].local_bytes, has_cluster ? 4096 : 1024);
        }
        const struct spool_kernel *k = spool_records(f, SPOOL_KERNELS, spool_kernel);
        for (size_t j = 0; j < 10; j++)
            assert_true(k[j].end_ns > k[j].start_ns && k[j].start_ns > f->header.start_ns);
        assert_int_equal(k[9].graph_node, 102);
        const struct spool_copy *c = spool_records(f, SPOOL_COPIES, spool_copy);
        const struct spool_set *m = spool_records(f, SPOOL_SETS, spool_set);
        assert_int_equal(c[1].bytes, 4096);
        assert_int_equal(c[1].graph, has_graph ? 6 : 0);
        assert_int_equal(m[1].bytes, 64);
        assert_int_equal(m[1].graph, has_graph ? 6 : 0);
        test_teardown(&inner);
    }
}

static void a_cupti_that_is_too_old_leaves_ranges(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.script = "version=12", .steps = "init decode=2"});
    assert_true(spool_noted(f, "no GPU records: CUPTI API version 12 is older than CUDA 11"));
    assert_int_equal(f->n[SPOOL_KERNELS], 0);
    assert_int_equal(ranges(f, "decode"), 2);
}

static void a_missing_function_is_named(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.fakes = "broken", .steps = "init decode=2"});
    assert_true(spool_noted(f, "no GPU records: CUPTI lacks cuptiActivityFlushAll"));
    assert_int_equal(ranges(f, "decode"), 2);
}

static void without_a_subscriber_kernels_are_recorded(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.script = "subscribe=39", .steps = "init kernels=6"});
    assert_true(spool_noted(f, "no launch times: cuptiSubscribe: "
                               "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"));
    assert_int_equal(f->n[SPOOL_KERNELS], 6);
    assert_int_equal(f->n[SPOOL_LAUNCHES], 0);
}

static void a_kind_that_is_refused_is_told(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.script = "enable=1:27", .steps = "init ops=2"});
    assert_true(spool_noted(f, "CUPTI records no copies: CUPTI_ERROR (27)"));
    assert_int_equal(f->n[SPOOL_COPIES], 0);
    assert_int_equal(f->n[SPOOL_SETS], 2);
}

static void records_without_a_buffer_are_counted(void **state)
{
    struct test *t = *state;
    struct traced *r =
        trace(t, (struct how){.settings = "buffers=2\nbuffer_kb=64\n", .steps = "init burst=1"});
    assert_int_equal(r->status, 0);
    struct spool_file *f = r->spools[0];
    uint64_t dropped = spool_dropped(f, SPOOL_FROM_CUPTI);
    assert_true(dropped > 0);
    assert_int_equal(f->n[SPOOL_KERNELS] + dropped, 1000000);
    assert_string_equal(r->out, arena_printf(t->a, "dropped %llu\n", (unsigned long long)dropped));
}

static void two_million_kernels_a_second_without_a_drop(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(t, (struct how){.steps = "init burst=2"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "dropped 0\n");
    struct spool_file *f = r->spools[0];
    assert_int_equal(f->n[SPOOL_KERNELS], 2000000);
    assert_int_equal(f->n[SPOOL_DROPS], 0);
    assert_true(f->bytes < 2000000 * (size_t)33);
}

static void events_that_find_no_room_are_counted(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.settings = "ring_events=64\nflush_ms=100000\n",
                                               .steps = "init kernels=200000"});
    assert_int_equal(f->n[SPOOL_LAUNCHES] + spool_dropped(f, SPOOL_FROM_THREAD), 200000);
    assert_int_equal(f->n[SPOOL_KERNELS], 200000);
}

static void drops_of_others_are_not_ours(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init kernels=2 pause lose=19 resume "
                                                        "kernels=3"});
    assert_int_equal(f->n[SPOOL_KERNELS], 5);
    assert_int_equal(f->n[SPOOL_DROPS], 0);
    assert_true(spool_noted(f, "CUPTI dropped 19 records before this recording"));
}

static void records_of_forgotten_windows_are_counted(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.settings = "range=decode@*\nflush_ms=100000\n",
                                               .steps = "init flush decode=20000"});
    assert_true(f->n[SPOOL_KERNELS] >= 2 * 16383);
    assert_true(spool_dropped(f, SPOOL_FROM_WINDOWS) > 0);
    assert_true(f->n[SPOOL_KERNELS] + spool_dropped(f, SPOOL_FROM_WINDOWS) >= 40000);
}

static void a_thread_that_ends_in_a_range_holds_no_gate(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.settings = "range=decode@*\n", .steps = "init abandon=3 kernels=10"});
    assert_int_equal(f->n[SPOOL_KERNELS], 3);
    assert_int_equal(ranges(f, "decode"), 1);
}

static void ends_without_a_start_do_not_fill_the_table(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init ends=5000 flush domain=1"});
    const struct spool_range *r = spool_records(f, SPOOL_RANGES, spool_range);
    size_t n = 0;
    for (size_t i = 0; i < f->n[SPOOL_RANGES]; i++)
        n += r[i].kind == SPOOL_START_END;
    assert_int_equal(n, 1);
    assert_int_equal(spool_dropped(f, SPOOL_FROM_THREAD), 0);
}

static void order_of_completion_does_not_matter(void **state)
{
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){
                   .script = "reverse", .settings = "range=decode@*\n", .steps = "init decode=20"});
    const struct spool_kernel *k = spool_records(f, SPOOL_KERNELS, spool_kernel);
    assert_int_equal(f->n[SPOOL_KERNELS], 40);
    size_t backwards = 0;
    for (size_t i = 1; i < 40; i++)
        backwards += k[i].start_ns < k[i - 1].start_ns;
    assert_true(backwards > 0);
}

static void work_without_times_is_counted(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.script = "nulltimes", .steps = "init kernels=100"});
    assert_int_equal(f->n[SPOOL_KERNELS] + spool_dropped(f, SPOOL_FROM_NO_TIMES), 100);
    assert_true(f->n[SPOOL_KERNELS] < 100);
}

static void copies_and_sets_without_times_are_counted(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(
        t, (struct how){.script = "nulltimes", .settings = "kernels=0\n", .steps = "init ops=4"});
    assert_int_equal(f->n[SPOOL_COPIES] + f->n[SPOOL_SETS], 0);
    assert_int_equal(spool_dropped(f, SPOOL_FROM_NO_TIMES), 8);
}

/* Whatever is dropped, a range that is told has its own end. */
static void drops_take_no_end_of_another_range(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.settings = "ring_events=64\nflush_ms=100000\n",
                                               .steps = "init decode=100000"});
    const struct spool_range *r = spool_records(f, SPOOL_RANGES, spool_range);
    const struct spool_range *outer = range(f, "generate");
    int64_t last_ns = 0;
    size_t n = 0;
    assert_true(spool_dropped(f, SPOOL_FROM_THREAD) > 0);
    for (size_t i = 0; i < f->n[SPOOL_RANGES]; i++) {
        if (r[i].end_ns == SPOOL_OPEN_NS || r[i].depth == 0)
            continue;
        assert_true(r[i].start_ns >= last_ns && r[i].end_ns <= outer->end_ns);
        last_ns = r[i].end_ns;
        n++;
    }
    assert_true(n > 0 && n < 100000);
}

static void ranges_beyond_the_deepest_are_counted(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init deep=600 decode=1"});
    assert_int_equal(ranges(f, "deep"), 512);
    assert_int_equal(spool_dropped(f, SPOOL_FROM_THREAD), 88);
    assert_int_equal(range(f, "decode")->depth, 1);
}

/* ---- programs that do not behave ---- */

static void a_program_that_closes_our_file_keeps_its_own(void **state)
{
    struct test *t = *state;
    /* no flush but those that are asked for: one beside the close would be a race of the program's
     */
    struct traced *r = trace(t, (struct how){.settings = "flush_ms=100000\n",
                                             .steps = "init kernels=5 flush close=16 kernels=7 "
                                                      "flush kernels=3 own=16"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->err, "");
    assert_string_equal(r->out, "16 files untouched\n");
    assert_int_equal(r->spools[0]->n[SPOOL_KERNELS], 15);
    assert_int_equal(r->spools[0]->n[SPOOL_END], 1);
}

static void a_raw_clone_leaves_the_recording_alone(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init kernels=5 rawfork kernels=7"});
    assert_int_equal(f->n[SPOOL_KERNELS], 12);
}

/* It would never end if the recorder's thread held it. */
static void a_program_that_ends_with_its_last_thread_ends(void **state)
{
#ifdef UNDER_TSAN
    print_message("skipped: ThreadSanitizer's own thread keeps such a program alive\n");
    (void)state;
    skip();
#else
    struct test *t = *state;
    struct spool_file *f =
        one(t, (struct how){.settings = "flush_ms=5\n", .steps = "init kernels=5 outlive=7"});
    assert_int_equal(f->n[SPOOL_KERNELS], 12);
#endif
}

static void quick_exit_closes_the_file(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.steps = "init kernels=5 quick=0"});
    assert_int_equal(f->n[SPOOL_KERNELS], 5);
}

static void settings_change_while_it_records(void **state)
{
    struct test *t = *state;
    struct traced *r =
        trace(t, (struct how){.steps = "init ops=2 configure=0 ops=3 kernels=1 pause "
                                       "resume configure=1 ops=1 configure=0 pause"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "configured: 1, kernels 1, copies 0, launches 0\n"
                                "paused: 0 subscribers, kernels 0\n"
                                "resumed: 1, 1 subscribers, kernels 1\n"
                                "configured: 1, kernels 1, copies 1, launches 1\n"
                                "configured: 1, kernels 1, copies 0, launches 0\n"
                                "paused: 0 subscribers, kernels 0\n");
    assert_int_equal(r->spools[0]->n[SPOOL_COPIES], 3);
    assert_int_equal(r->spools[0]->n[SPOOL_KERNELS], 19);
}

/* ---- settings ---- */

static void without_settings_nothing_happens(void **state)
{
    struct test *t = *state;
    struct traced *r =
        trace(t, (struct how){.no_settings = true, .steps = "init kernels=4 decode=1 say=1"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "1\n");
    assert_string_equal(r->err, "");
    assert_int_equal(r->n, 0);
}

static void a_setting_that_is_not_understood_is_told(void **state)
{
    struct test *t = *state;
    struct spool_file *f = one(t, (struct how){.settings = "graphs=nodes\n", .steps = "init"});
    assert_true(spool_noted(f, "setting not understood: graphs=nodes"));
}

static void a_folder_that_is_not_there_is_told(void **state)
{
    struct test *t = *state;
    struct traced *r = trace(
        t, (struct how){.settings = "dir=/nonexistent/folder\n", .steps = "init kernels=4 say=5"});
    assert_int_equal(r->status, 0);
    assert_string_equal(r->out, "5\n");
    assert_non_null(
        strstr(r->err, "is not recorded: cannot create a spool in /nonexistent/folder (errno 2)"));
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: guest_test LIBRARY FAKES\n");
        return 2;
    }
    guest_library = argv[1];
    fakes_dir = argv[2];
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_work_is_recorded),
        TEST(ranges_of_every_domain_are_recorded),
        TEST(payloads_of_the_extension_come_with_their_ranges),
        TEST(graphs_may_be_recorded_whole),
        TEST(switches_over_graphs_that_exist_do_no_harm),
        TEST(too_late_for_whole_graphs_records_their_kernels),
        TEST(loaded_before_cuda_it_records_whole_graphs),
        TEST(whole_graphs_keep_cupti_over_a_pause),
        TEST(the_level_of_graphs_stays),
        TEST(a_buffer_of_another_profiler_is_left_alone),
        TEST(api_calls_are_recorded_on_request),
        TEST(threads_have_records_of_their_own),
        TEST(a_range_opens_the_gate),
        TEST(a_pattern_names_range_and_domain),
        TEST(the_profiler_calls_open_the_gate),
        TEST(time_opens_and_closes_the_gate),
        TEST(nothing_before_the_delay),
        TEST(a_program_may_pause_and_resume),
        TEST(a_killed_process_leaves_what_was_flushed),
        TEST(the_last_work_of_a_killed_process_is_there),
        TEST(without_exit_handlers_the_flushed_part_is_there),
        TEST(a_child_after_fork_has_a_file_of_its_own),
        TEST(a_program_that_execs_gets_a_second_file),
        TEST(a_full_disk_stops_the_recording_not_the_program),
        TEST(an_old_cupti_with_a_clock_that_steps),
        TEST(a_clock_that_has_just_stepped),
        TEST(a_clock_that_comes_late),
        TEST(records_of_every_release_are_read),
        TEST(a_cupti_that_is_too_old_leaves_ranges),
        TEST(a_missing_function_is_named),
        TEST(without_a_subscriber_kernels_are_recorded),
        TEST(a_kind_that_is_refused_is_told),
        TEST(records_without_a_buffer_are_counted),
        TEST(two_million_kernels_a_second_without_a_drop),
        TEST(events_that_find_no_room_are_counted),
        TEST(drops_of_others_are_not_ours),
        TEST(records_of_forgotten_windows_are_counted),
        TEST(a_thread_that_ends_in_a_range_holds_no_gate),
        TEST(ends_without_a_start_do_not_fill_the_table),
        TEST(order_of_completion_does_not_matter),
        TEST(work_without_times_is_counted),
        TEST(copies_and_sets_without_times_are_counted),
        TEST(drops_take_no_end_of_another_range),
        TEST(ranges_beyond_the_deepest_are_counted),
        TEST(a_program_that_closes_our_file_keeps_its_own),
        TEST(a_raw_clone_leaves_the_recording_alone),
        TEST(a_program_that_ends_with_its_last_thread_ends),
        TEST(quick_exit_closes_the_file),
        TEST(settings_change_while_it_records),
        TEST(without_settings_nothing_happens),
        TEST(a_setting_that_is_not_understood_is_told),
        TEST(a_folder_that_is_not_there_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
