#include "config/command.h"

#include "cmd/commands.h"
#include "unit/config/fixture.h"

/* Number, name, bit, row and primary file of a command belong together. */
static void every_command_is_whole(void **state)
{
    struct test *t = *state;
    for (enum command c = 0; c < N_COMMANDS; c++) {
        assert_int_equal(cmd_table[c]->id, c);
        assert_true(*cmd_table[c]->summary && *cmd_table[c]->about && cmd_table[c]->run);
        assert_int_equal(command_bit(c) & CMD_ANY, command_bit(c));
        struct config_args args = {.command = c, .embedded = embed_cmd};
        struct config config = fixture_good(t, args);
        assert_string_equal(config.config_name, command_name(c));
    }
    assert_null(cmd_table[N_COMMANDS]);
}

static void a_set_has_names(void **state)
{
    (void)state;
    struct buf b = {0};
    command_names(&b, CMD_DOCTOR | CMD_BENCH);
    assert_string_equal(b.p, "bench, doctor");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(every_command_is_whole), TEST(a_set_has_names)};
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
