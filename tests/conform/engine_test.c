/* Every row of the table of engines: what commands, --help and the option table rely on. What its
 * executor does is asked by executor_test. */
#include <string.h>

#include "base/fs.h"
#include "config/config.h"
#include "engine/registry.h"
#include "support/support.h"

static void rows_are_whole(void **state)
{
    struct test *t = *state;
    for (const struct engine *x = engine_registry; x->name; x++) {
        const bool executes = x->drive == ENGINE_EXECUTES, program = x->drive == ENGINE_PROGRAM;
        const char *file = arena_printf(t->a, TW_SOURCE_DIR "/configs/engine/%s.yaml", x->name);
        assert_true(fs_exists(file));
        assert_ptr_equal(engine_find(x->name), x);
        assert_true(x == engine_registry || strcmp(x[-1].name, x->name) < 0);
        assert_non_null(x->help);
        assert_true(x->commands != 0);
        assert_int_equal(x->open != NULL, executes);
        assert_int_equal(x->plan != NULL, executes);
        assert_int_equal(x->devices != 0, executes);
        assert_int_equal(x->dtypes != 0, executes);
        if (x->commands & CMD_PROFILE)
            assert_true(program || (executes && x->needs & ENGINE_WEIGHTS));
        if (x->commands & CMD_CAPACITY && !(x->needs & ENGINE_PREDICTOR))
            assert_true(x->commands & CMD_BENCH); /* which its probes run */
    }
}

/* A plan keeps the blocks that were asked for, has room for a request otherwise, and chooses a type
 * of its row. */
static void plans_have_room(void **state)
{
    struct test *t = *state;
    static const char *const devices[] = {"cpu", "cuda"};
    struct model m;
    assert_ok(model_load(t->a, TW_SOURCE_DIR "/tests/golden/models/qwen3", &m, &t->e), t);
    for (const struct engine *x = engine_registry; x->name; x++)
        for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
            const struct engine_settings p = {.device = devices[d]};
            struct memory_facts f = {.model = &m,
                                     .tp = 1,
                                     .pp = 1,
                                     .block_size = 16,
                                     .request_tokens = 100,
                                     .batch_cap = 3,
                                     .num_blocks = 5,
                                     .cache_bytes = 1 << 30};
            struct engine_plan plan;
            if (!(x->devices & engine_device(devices[d])))
                continue;
            assert_ok(x->plan(&p, &f, &plan, &t->e), t);
            assert_int_equal(plan.memory.num_blocks, 5);
            assert_true(x->dtypes & 1U << plan.dtype);
            f.num_blocks = 0;
            assert_ok(x->plan(&p, &f, &plan, &t->e), t);
            assert_true(plan.memory.num_blocks >= 7);
            assert_true(plan.memory.max_batch >= 1);
        }
}

/* True: the command takes the setting beside that engine. */
static bool is_taken(struct test *t, enum command command, const char *engine, const char *word)
{
    const char *const words[] = {arena_printf(t->a, "engine.kind='%s'", engine), word};
    const struct config_args args = {.command = command,
                                     .config_name = "empty",
                                     .config_dir = test_dir(t),
                                     .overrides = words,
                                     .n_overrides = 2};
    struct config c;
    assert_ok(config_load(t->a, &args, &c, &t->e), t);
    const enum st st = config_check_read(&c, &t->e);
    t->e = (struct err){0};
    return st == ST_OK;
}

/* Conditions of option rows ask what engines can do: they agree with the table. */
static void settings_follow_the_row(void **state)
{
    struct test *t = *state;
    test_write(t, "empty.yaml", "");
    for (const struct engine *x = engine_registry; x->name; x++) {
        const bool executes = x->drive == ENGINE_EXECUTES, program = x->drive == ENGINE_PROGRAM,
                   server = x->drive == ENGINE_SERVER, predicts = x->needs & ENGINE_PREDICTOR;
        const struct {
            const char *word; /* of a setting that is read when: */
            bool read;
        } rules[] = {{"scheduler.batch_cap=8", executes},
                     {"scheduler.block_size=32", executes},
                     {"model.weights=random:1", program || x->needs & ENGINE_WEIGHTS},
                     {"predictor.kind=bundle", predicts},
                     {"sim.host_overhead=false", predicts},
                     {"url=http://127.0.0.1:1", server},
                     {"client.retries=1", server},
                     {"worker.prompt=ids", program},
                     {"engine.dtype=float16", executes && x->devices & ENGINE_ON_CUDA},
                     {"output.perfetto=true", !server}};
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            for (enum command c = 0; c < N_COMMANDS; c++) {
                const char *key = arena_strn(t->a, rules[i].word, strcspn(rules[i].word, "="));
                const struct option *o = option_find(key);
                if (!(x->commands & o->commands & command_bit(c)) ||
                    (c == COMMAND_SERVE && option_is_below(key, "output"))) /* wants out= */
                    continue;
                if (is_taken(t, c, x->name, rules[i].word) != rules[i].read)
                    fail_msg("%s engine.kind=%s %s: taken is not %d", command_name(c), x->name,
                             rules[i].word, rules[i].read);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(rows_are_whole), TEST(plans_have_room),
                                       TEST(settings_follow_the_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
