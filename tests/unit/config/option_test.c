#include "config/option.h"

#include <math.h>

#include "config/bind.h"
#include "config/option_help.h"
#include "unit/config/fixture.h"

static size_t size_of(enum option_type type)
{
    static const size_t sizes[] = {
        [OPT_BOOL] = sizeof(bool),         [OPT_INT] = sizeof(int64_t),
        [OPT_DOUBLE] = sizeof(double),     [OPT_STR] = sizeof(char *),
        [OPT_ENUM] = sizeof(int),          [OPT_LIST] = sizeof(struct texts),
        [OPT_MAP] = sizeof(struct node *),
    };
    return sizes[type];
}

/* Rows and fields belong together one to one: no overlap, and no field without a row. */
static void the_rows_cover_the_plan(void **state)
{
    (void)state;
    unsigned char used[sizeof(struct plan)] = {0};
    size_t covered = 0;
    for (struct option_iter it = {0}; option_next(&it);) {
        const struct option *o = it.o;
        for (size_t k = 0; k < size_of(o->type); k++) {
            if (used[it.offset + k])
                fail_msg("%s shares its field", o->key);
            used[it.offset + k] = 1;
        }
        covered += size_of(o->type);
    }
    /* a stage's struct may have fields that are no settings */
    for (size_t i = 0; i < option_table.n; i++)
        if (option_table.places[i].size < sizeof used)
            memset(used + option_table.places[i].offset, 1, option_table.places[i].size);
    /* holes of up to 7 bytes are padding; a forgotten field would leave 8, or 4 beside an int */
    size_t hole = 0;
    for (size_t i = 0; i < sizeof used; i++) {
        hole = used[i] ? 0 : hole + 1;
        if (hole == 8)
            fail_msg("no row for the field at offset %zu", i - 7);
    }
    assert_true(covered <= sizeof(struct plan));
}

static void every_row_is_whole(void **state)
{
    struct test *t = *state;
    for (struct option_iter it = {0}; option_next(&it);) {
        const struct option *o = it.o;
        assert_ptr_equal(option_find(o->key), o); /* keys are unique */
        assert_true(o->commands != 0 && o->help && *o->help);
        assert_true(o->help[strlen(o->help) - 1] != '.');
        assert_false(option_is_section(o->key) && o->type != OPT_MAP);
        if (o->type == OPT_ENUM)
            assert_true(o->allowed && o->def);
        assert_true(o->min <= o->max);
    }
    /* every default is a value its own row allows */
    struct plan plan;
    struct node *empty = node_new(t->a, NODE_MAP);
    assert_ok(config_bind(t->a, empty, CMD_ANY, &plan, &t->e), t);
    assert_int_equal(plan.serve.block_size, 16);
    assert_int_equal(plan.workload.make.arrival_kind, ARRIVAL_POISSON);
}

static void the_nearest_keys_come_first(void **state)
{
    (void)state;
    const char *out[3];
    bool close;
    assert_int_equal(option_nearest("num_request", CMD_ANY, out, 3, &close), 1);
    assert_string_equal(out[0], "workload.num_requests");
    assert_true(close);
    option_nearest("scheduler.blocksize", CMD_ANY, out, 3, &close);
    assert_string_equal(out[0], "scheduler.block_size");
    option_nearest("no_key_looks_like_this_one", CMD_ANY, out, 3, &close);
    assert_false(close);
}

static void free_form_maps_are_known(void **state)
{
    (void)state;
    assert_string_equal(option_map_of("model.config.hidden_size")->key, "model.config");
    assert_null(option_map_of("model.config"));
    assert_null(option_map_of("model.configure.x"));
    assert_true(option_is_section("model"));
    assert_true(option_is_section("workload.arrival"));
    assert_false(option_is_section("model.name"));
    assert_false(option_is_section("mod"));
}

/* Of each command; `./do docs` writes the pages. */
static void help_is_as_documented(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    for (enum command c = 0; c < N_COMMANDS; c++) {
        const char *page = arena_printf(t->a, TW_SOURCE_DIR "/docs/cli/%s.md", command_name(c));
        buf_clear(&b);
        option_help(&b, command_bit(c));
        for (const char *line = b.p, *end; (end = strchr(line, '\n')); line = end + 1)
            assert_true(end - line <= 100);
        if (!strstr(test_read(t, page), arena_printf(t->a, "\nsettings:\n%s```\n", b.p)))
            fail_msg("%s differs; ./do docs rewrites it", page);
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_rows_cover_the_plan),     TEST(every_row_is_whole),
        TEST(the_nearest_keys_come_first), TEST(free_form_maps_are_known),
        TEST(help_is_as_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
