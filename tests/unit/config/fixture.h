/* Configurations of a few files inside the test, away from ./configs. */
#ifndef UNIT_CONFIG_FIXTURE_H
#define UNIT_CONFIG_FIXTURE_H

#include "support/support.h"

#include <unistd.h>

#include "config/config.h"
#include "job/plan.h"

/* FILES({"bench.yaml", "seed: 1\n"}, ...): a table as embed.h has it. */
struct fixture_file {
    const char *path, *text;
};
#define FILES(...) fixture_table(t, (const struct fixture_file[]){__VA_ARGS__, {0}})

static inline const struct embed_file *fixture_table(struct test *t, const struct fixture_file *f)
{
    size_t n = 0;
    while (f[n].path)
        n++;
    struct embed_file *out = arena_array(t->a, struct embed_file, n + 1);
    for (size_t i = 0; i < n; i++)
        out[i] = (struct embed_file){f[i].path, f[i].text, strlen(f[i].text)};
    return out;
}

/* ARGS(BENCH, files, "seed=1", "model=x") */
#define ARGS(command_, files, ...)             \
    fixture_args(t, COMMAND_##command_, files, \
                 (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static inline struct config_args fixture_args(struct test *t, enum command command,
                                              const struct embed_file *files,
                                              const char *const *overrides)
{
    size_t n = 0;
    while (overrides[n])
        n++;
    return (struct config_args){.command = command,
                                .embedded = files,
                                .overrides =
                                    arena_copy(t->a, overrides, (n + 1) * sizeof *overrides),
                                .n_overrides = n};
}

static inline enum st fixture_load(struct test *t, struct config_args args, struct config *out)
{
    return config_load(t->a, &args, out, &t->e);
}

/* The loaded configuration, which must be good. */
static inline struct config fixture_good(struct test *t, struct config_args args)
{
    struct config c;
    assert_ok(fixture_load(t, args, &c), t);
    return c;
}

#define assert_load_err(args, text)                                \
    do {                                                           \
        struct config c_;                                          \
        assert_err(fixture_load(t, args, &c_), ST_USAGE, t, text); \
    } while (0)
#define assert_input_err(args, text)                               \
    do {                                                           \
        struct config c_;                                          \
        assert_err(fixture_load(t, args, &c_), ST_INPUT, t, text); \
    } while (0)

/* The YAML of the node at a dotted key of the composed tree. */
#include "text/yaml.h"
static inline const char *fixture_yaml(struct test *t, const struct config *c, const char *key)
{
    struct buf b = {0};
    const struct node *n = node_path(c->tree, key);
    if (n)
        yaml_write(&b, n);
    const char *s = n ? arena_str(t->a, buf_str(&b)) : "(not set)";
    buf_free(&b);
    return s;
}

/* Nothing of the folder the tests are run in is to be found. */
static inline int fixture_leave(void **state)
{
    (void)state;
    return chdir("/proc");
}

#endif
