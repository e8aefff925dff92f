/* The guest library captures a region of tests/fakes/capture_app: argv[1] is the library, argv[2]
 * the folder of fakes. The capsule is read as the recorder left it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "capsule/capsule.h"
#include "gpu/abi/cuda.h"
#include "support/support.h"

static const char *library, *fakes;

enum { WORDS = 512 * 8 * 4, GRID = 4, BYTES = GRID * WORDS * 4 };

/* Runs the program, the N-th step captured; what it left in the test's folder. */
static void run_app(struct test *t, int occurrence, const char *const *steps, const char *more)
{
    const char *settings = test_write(
        t, "settings",
        arena_printf(t->a, "dir=%s\nrange=step\ncapture=%d\n%s", test_dir(t), occurrence, more));
    const char *env[] = {arena_printf(t->a, "LD_LIBRARY_PATH=%s/gpu:%s/good", fakes, fakes),
                         arena_printf(t->a, "CUDA_INJECTION64_PATH=%s", library),
                         arena_printf(t->a, "NVTX_INJECTION64_PATH=%s", library),
                         arena_printf(t->a, "TWINFER_TRACE=%s", settings), NULL};
    const char *argv[8] = {fs_join(t->a, fakes, "capture_app")};
    for (int i = 0; steps && steps[i]; i++)
        argv[i + 1] = steps[i];
    struct process p;
    struct process_params params = {.argv = argv, .env = env};
    assert_int_equal(process_start(&p, &params), 0);
    process_reap(&p, true);
    assert_true(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 0);
}
#define STEPS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static const char *folder_of(struct test *t)
{
    const char **names;
    size_t n;
    assert_ok(fs_list(t->a, test_dir(t), &names, &n, &t->e), t);
    for (size_t i = 0; i < n; i++)
        if (strstr(names[i], CAPSULE_RECORDED_SUFFIX))
            return fs_join(t->a, test_dir(t), names[i]);
    fail_msg("no process left a capsule");
    return NULL;
}

static struct capsule captured(struct test *t)
{
    struct capsule c;
    assert_ok(capsule_open_recorded(t->a, folder_of(t), &c, &t->e), t);
    return c;
}

static void assert_refused(struct test *t, const char *why)
{
    const char *dir = folder_of(t);
    assert_false(fs_exists(fs_join(t->a, dir, CAPSULE_FILE)));
    const char *text = test_read(t, fs_join(t->a, dir, CAPSULE_REFUSED));
    if (strncmp(text, why, strlen(why)) != 0)
        fail_msg("refused otherwise: %s", text);
}

static struct sv name_of(const struct capsule *c, size_t op)
{
    const struct capsule_launch *l = &c->launches[c->ops[op].item];
    return capsule_text(c, c->functions[l->function].name);
}

static uint64_t word(const struct capsule *c, struct capsule_span s, size_t at)
{
    uint64_t v;
    memcpy(&v, capsule_text(c, s).p + at, sizeof v);
    return v;
}

/* That memory, which may lie in several pieces. */
static const uint32_t *content(struct test *t, const struct capsule *c, bool after, uint64_t at,
                               size_t bytes)
{
    struct capsule_memory_reader *r;
    const struct capsule_page *v = after ? c->after : c->pages;
    char *out = arena_alloc(t->a, bytes), *piece = mem_alloc(CAPSULE_PAGE_BYTES);
    size_t found = 0;
    assert_ok(capsule_memory_open(c, after, &r, &t->e), t);
    for (size_t i = 0; i < (after ? c->n_after : c->n_pages); i++) {
        uint64_t from = v[i].address > at ? v[i].address : at;
        uint64_t end = v[i].address + v[i].bytes, to = end < at + bytes ? end : at + bytes;
        if (from >= to)
            continue;
        assert_ok(capsule_memory_read(r, &v[i], piece, &t->e), t);
        memcpy(out + (from - at), piece + (from - v[i].address), to - from);
        found += to - from;
    }
    capsule_memory_close(&r);
    mem_free(piece);
    assert_int_equal(found, bytes);
    return (const uint32_t *)(const void *)out;
}

/* The second step: a set, a launch, a copy of host memory, a packed launch, a copy back. */
static void a_region_holds_what_the_program_did(void **state)
{
    struct test *t = *state;
    run_app(t, 2, NULL, "");
    struct capsule c = captured(t);
    static const uint32_t kinds[] = {CAPSULE_SET,    CAPSULE_LAUNCH, CAPSULE_COPY,
                                     CAPSULE_LAUNCH, CAPSULE_COPY,   CAPSULE_SYNC};
    assert_int_equal(c.n_ops, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(c.ops[i].kind, kinds[i]);
    assert_sv(capsule_text(&c, c.facts->region), "step#2");
    assert_sv(capsule_text(&c, c.facts->gpu), "Fake GPU 0");
    assert_true(c.facts->occurrence == 2 && c.facts->major == 9 && c.facts->wall_ns > 0);

    assert_sv(name_of(&c, 1), "roof_write");
    const struct capsule_launch *write = &c.launches[c.ops[1].item];
    assert_true(write->grid[0] == GRID && write->block[0] == 512 && write->params.bytes == 12);
    const uint64_t values = word(&c, write->params, 0);
    assert_int_equal((uint32_t)c.bytes[write->params.at + 8], 3); /* 2 + step */

    const struct capsule_copy *in = &c.copies[c.ops[2].item];
    assert_true(in->to == values + 64 && in->to_place == CAPSULE_ON_DEVICE &&
                in->from_place == CAPSULE_ON_HOST);
    const uint32_t input[4] = {1, 17, 4, 9}; /* as it was at the call */
    assert_memory_equal(capsule_text(&c, in->source).p, input, sizeof input);

    assert_sv(name_of(&c, 3), "roof_read");
    const struct capsule_launch *read = &c.launches[c.ops[3].item];
    assert_int_equal(word(&c, read->params, 0), values);
    const uint64_t sums = word(&c, read->params, 8);
    assert_int_equal(read->n_attributes, 1);
    assert_int_equal(c.attributes[read->first_attribute].id, 6);
    assert_int_equal(c.sets[c.ops[0].item].to, sums);
    assert_int_equal(c.copies[c.ops[4].item].to_place, CAPSULE_IN_PINNED);
    struct sv image;
    assert_ok(capsule_image(t->a, &c, 0, &image, &t->e), t);
    assert_memory_equal(image.p, "fake image\nroof_read\n", 20);

    /* Memory before is what the first step left, after what the second did. */
    const uint32_t *before = content(t, &c, false, values, BYTES);
    const uint32_t *after = content(t, &c, true, values, BYTES);
    for (uint32_t i = 0; i < GRID * WORDS; i++) {
        bool copied = i >= 16 && i < 20;
        assert_int_equal(before[i], copied ? (i == 16 ? 0 : input[i - 16]) : i * 2);
        assert_int_equal(after[i], copied ? input[i - 16] : i * 3);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        sum += after[i];
    assert_int_equal(content(t, &c, true, sums, 4)[0], sum);
    capsule_close(&c);
}

static void a_graph_is_its_nodes(void **state)
{
    struct test *t = *state;
    run_app(t, 1, STEPS("graph"), "");
    struct capsule c = captured(t);
    assert_int_equal(c.facts->n_graphs, 1);
    size_t first = 0;
    while (first < c.n_ops && c.ops[first].graph == 0)
        first++;
    static const uint32_t kinds[] = {CAPSULE_LAUNCH, CAPSULE_COPY, CAPSULE_LAUNCH, CAPSULE_SET};
    for (size_t i = 0; i < 4; i++) {
        const struct capsule_op *o = &c.ops[first + i];
        assert_true(o->graph == 1 && o->kind == kinds[i] && o->n_edges == (i > 0));
        if (i > 0)
            assert_int_equal(c.edges[o->first_edge].op, first + i - 1);
    }
    assert_int_equal(c.ops[first + 4].graph, 0);
    assert_sv(name_of(&c, first), "roof_write");
    assert_int_equal(c.sets[c.ops[first + 3].item].width, 10);
    capsule_close(&c);
}

static void streams_wait_for_each_other(void **state)
{
    struct test *t = *state;
    run_app(t, 1, STEPS("streams"), "");
    struct capsule c = captured(t);
    assert_int_equal(c.n_streams, 2);
    assert_int_equal(c.streams[1].flags, CAPSULE_STREAM_NON_BLOCKING);
    assert_int_equal(c.ops[3].kind, CAPSULE_WAIT);
    assert_int_equal(c.ops[3].item, 2); /* the copy before the event */
    assert_true(c.ops[3].stream != c.ops[2].stream && c.ops[4].stream == c.ops[3].stream);
    capsule_close(&c);
}

/* The caching allocator grows: memory that is born in the region, and gone at its end. */
static void memory_may_come_and_go(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("allocates"), "");
    struct capsule c = captured(t);
    size_t born = 0;
    for (size_t i = 0; i < c.n_allocations; i++)
        if (c.allocations[i].flags) {
            assert_int_equal(c.allocations[i].flags, CAPSULE_BORN | CAPSULE_GONE);
            assert_int_equal(c.allocations[i].bytes, BYTES);
            born++;
        }
    assert_int_equal(born, 1);
    assert_int_equal(c.n_launches, 3);
    capsule_close(&c);
}

static void what_cannot_be_captured_is_refused_by_name(void **state)
{
    struct test *t = *state;
    run_app(t, 1, STEPS("managed"), "");
    assert_refused(t, "not captured: managed memory (cuMemAllocManaged), at 0x");
}

static void memory_that_was_not_seen_is_refused(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("unseen"), "");
    assert_refused(t, "kernel roof_write: parameter 0 points to memory that was not seen being "
                      "allocated, at 0x");
}

static void a_host_function_is_left_out(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("host"), "");
    struct capsule c = captured(t);
    assert_int_equal(c.n_launches, 2); /* it gives the GPU nothing to do */
    capsule_close(&c);
}

/* What it writes the GPU may read there. */
static void a_host_function_beside_page_locked_memory_is_refused(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("host", "reached"), "");
    assert_refused(t, "not captured: a function of the host (cuLaunchHostFunc) beside kernels that "
                      "reach page-locked memory\n");
}

static void a_stream_capture_under_way_is_refused(void **state)
{
    struct test *t = *state;
    run_app(t, 1, STEPS("captures"), "");
    assert_refused(t, "a stream is in capture when the region begins\n");
}

static struct sv image_of(struct test *t, const struct capsule *c, size_t op)
{
    struct sv image;
    const struct capsule_launch *l = &c->launches[c->ops[op].item];
    assert_ok(capsule_image(t->a, c, c->functions[l->function].module, &image, &t->e), t);
    return image;
}

/* CUkernel handles, of which cuFuncGetName fails; code that is loaded when it is used first. */
static void kernels_of_libraries_have_their_image(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("library"), "");
    struct capsule c = captured(t);
    assert_sv(name_of(&c, 1), "roof_write");
    assert_non_null(strstr(image_of(t, &c, 1).p, "of a library"));
    capsule_close(&c);
}

/* A module in the place of one that was unloaded has its handle, and other code. */
static void a_handle_that_comes_again_is_another_module(void **state)
{
    struct test *t = *state;
    run_app(t, 3, STEPS("reload"), "");
    struct capsule c = captured(t);
    assert_non_null(strstr(image_of(t, &c, 1).p, "of step 2"));
    capsule_close(&c);
}

static void a_limit_may_be_raised_between_launches(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("limits"), "");
    struct capsule c = captured(t);
    assert_int_equal(c.functions[c.launches[c.ops[1].item].function].dynamic_shared, 90000);
    capsule_close(&c);
}

/* The program fills page-locked memory while the region runs: of it only what the GPU wrote is the
 * region's, unless kernels have a pointer into it. */
static void page_locked_memory_is_the_programs_too(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("pinned"), "");
    struct capsule c = captured(t);
    uint64_t host = 0;
    for (size_t i = 0; i < c.n_after; i++)
        for (size_t k = 0; k < c.n_allocations; k++)
            if (c.allocations[k].memory == CAPSULE_PINNED &&
                c.after[i].address >= c.allocations[k].address &&
                c.after[i].address - c.allocations[k].address < c.allocations[k].bytes)
                host += c.after[i].bytes;
    assert_int_equal(host, 64 + GRID * 4); /* both copies to it */
    capsule_close(&c);
}

static void a_kernel_may_write_all_of_what_it_reaches(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("reached"), "");
    struct capsule c = captured(t);
    uint64_t reached = 0; /* in pieces, where a page ends inside */
    for (size_t i = 0; i < c.n_after; i++)
        for (size_t k = 0; k < c.n_allocations; k++)
            if (c.allocations[k].memory == CAPSULE_PINNED && c.allocations[k].bytes == BYTES &&
                c.after[i].address >= c.allocations[k].address &&
                c.after[i].address - c.allocations[k].address < BYTES)
                reached += c.after[i].bytes;
    assert_int_equal(reached, BYTES);
    capsule_close(&c);
}

/* A graph copies what earlier work of its stream puts into page-locked memory. */
static void the_source_of_a_graphs_copy_is_waited_for(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("graph", "written_source"), "");
    struct capsule c = captured(t);
    const struct capsule_copy *in = NULL;
    for (size_t i = 0; i < c.n_copies; i++)
        if (c.copies[i].from_place == CAPSULE_IN_PINNED)
            in = &c.copies[i];
    assert_non_null(in);
    assert_int_equal(in->source.bytes, 4096);
    uint32_t source[1024];
    memcpy(source, capsule_text(&c, in->source).p, sizeof source);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(source[16 + i], i * 3); /* what the region's first launch wrote */
    capsule_close(&c);
}

static void code_that_cannot_be_told_apart_is_refused(void **state)
{
    struct test *t = *state;
    run_app(t, 1, STEPS("alike"), "");
    assert_refused(t, "not captured: kernel roof_write is in several modules, with different code, "
                      "whose loading was not seen apart\n");
}

/* Of a module whose kernels the region does not launch. */
static void constants_of_another_module_are_found(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("constants"), "");
    struct capsule c = captured(t);
    assert_int_equal(c.n_globals, 1);
    assert_sv(capsule_text(&c, c.globals[0].name), "weights");
    assert_int_equal(c.globals[0].value.bytes, BYTES);
    assert_int_equal(word(&c, c.launches[2].params, 0), c.globals[0].address);
    capsule_close(&c);
}

/* Names of kernels have no limit; a refusal quotes the begin of one. */
static void a_kernels_name_may_be_long(void **state)
{
    enum { LENGTH = 13 + 5000 * 4 + 7 };
    struct test *t = *state;
    run_app(t, 2, STEPS("mangled"), "");
    struct capsule c = captured(t);
    const struct sv name = name_of(&c, 3);
    assert_int_equal(name.n, LENGTH);
    assert_memory_equal(name.p, "_Z9roof_readILi1ELi1E", 21);
    assert_memory_equal(name.p + LENGTH - 11, "Li1EEvPKjPj", 11);
    capsule_close(&c);
}

static void a_refusal_quotes_what_it_can(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("mangled", "unseen"), "");
    const char *said = test_read(t, fs_join(t->a, folder_of(t), CAPSULE_REFUSED));
    assert_memory_equal(said, "kernel _Z10roof_writeILi1E", 26);
    assert_non_null(
        strstr(said, "...: parameter 0 points to memory that was not seen being allocated, at 0x"));
    assert_null(strstr(said, "(null)"));
    assert_in_range(strlen(said), 100, 400);
}

static void what_is_younger_is_refused(void **state)
{
    struct test *t = *state;
    run_app(t, 2, STEPS("future"), "");
    assert_refused(t, "not captured: cuFutureLaunch, which is younger than this recorder\n");
}

static void a_region_that_does_not_come_leaves_nothing(void **state)
{
    struct test *t = *state;
    const char **names;
    size_t n;
    run_app(t, 9, NULL, "");
    assert_ok(fs_list(t->a, test_dir(t), &names, &n, &t->e), t);
    for (size_t i = 0; i < n; i++)
        assert_null(strstr(names[i], CAPSULE_RECORDED_SUFFIX));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_region_holds_what_the_program_did),
        TEST(a_graph_is_its_nodes),
        TEST(streams_wait_for_each_other),
        TEST(memory_may_come_and_go),
        TEST(what_cannot_be_captured_is_refused_by_name),
        TEST(memory_that_was_not_seen_is_refused),
        TEST(a_host_function_is_left_out),
        TEST(a_host_function_beside_page_locked_memory_is_refused),
        TEST(a_stream_capture_under_way_is_refused),
        TEST(kernels_of_libraries_have_their_image),
        TEST(a_handle_that_comes_again_is_another_module),
        TEST(a_limit_may_be_raised_between_launches),
        TEST(page_locked_memory_is_the_programs_too),
        TEST(a_kernel_may_write_all_of_what_it_reaches),
        TEST(the_source_of_a_graphs_copy_is_waited_for),
        TEST(code_that_cannot_be_told_apart_is_refused),
        TEST(constants_of_another_module_are_found),
        TEST(a_kernels_name_may_be_long),
        TEST(a_refusal_quotes_what_it_can),
        TEST(what_is_younger_is_refused),
        TEST(a_region_that_does_not_come_leaves_nothing),
    };
    if (argc < 3)
        return 2;
    library = argv[1];
    fakes = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
