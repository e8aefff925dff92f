#include "unit/config/fixture.h"

#include <dirent.h>

#include "base/fs.h"
#include "config/compose.h"
#include "config/interpolate.h"
#include "text/json.h"

/* ---- Hydra's own answers ------------------------------------------------------------------ */

#define HYDRA TW_SOURCE_DIR "/tests/golden/config/hydra/"

/* Equal but for the order of keys. */
static bool same(const struct node *x, const struct node *y)
{
    if (x->kind != y->kind)
        return false;
    switch (x->kind) {
    case NODE_NULL:
        return true;
    case NODE_BOOL:
        return x->b == y->b;
    case NODE_INT:
        return x->i == y->i;
    case NODE_FLOAT:
        return memcmp(&x->f, &y->f, sizeof x->f) == 0;
    case NODE_STR:
        return x->s.n == y->s.n && memcmp(x->s.p, y->s.p, x->s.n) == 0;
    case NODE_LIST:
        for (uint32_t i = 0; i < x->n && x->n == y->n; i++)
            if (!same(x->items[i], y->items[i]))
                return false;
        return x->n == y->n;
    case NODE_MAP:
        for (uint32_t i = 0; i < x->n && x->n == y->n; i++) {
            const struct node *other =
                node_find(y, x->pairs[i].key.p); /* keys here have no NUL inside */
            if (!other || !same(x->pairs[i].value, other))
                return false;
        }
        return x->n == y->n;
    }
    return false;
}

static enum st compose_here(struct test *t, const char *primary, const char **typed, size_t n,
                            struct node **root)
{
    struct sources sources;
    struct override *overrides = arena_array(t->a, struct override, n);
    TRY(sources_init(t->a, &sources, HYDRA "conf", NULL, &t->e));
    for (size_t i = 0; i < n; i++)
        TRY(override_parse(t->a, typed[i], &overrides[i], &t->e));
    struct compose_args args = {.sources = &sources,
                                .command = COMMAND_DOCTOR,
                                .primary = primary,
                                .overrides = overrides,
                                .n_overrides = n};
    struct composed c;
    TRY(compose(t->a, &args, &c, &t->e));
    *root = c.root;
    return config_interpolate(t->a, c.root, &t->e);
}

/* Hydra knows no option table: what only our defaults brought is not compared. */
static void drop_defaults(struct node *root, const struct node *want)
{
    if (!node_find(want, "json"))
        node_remove(root, SV("json"));
    if (!node_find(want, "log"))
        node_remove(root, SV("log"));
    node_remove(root, SV("doctor")); /* the command that composes has defaults of its own */
}

static bool as_hydra(struct test *t, char *line, const struct node *expected)
{
    const char *words[16];
    size_t n = 0;
    for (char *p = line; p; n++) {
        char *bar = strchr(p, '|');
        struct sv word = sv_trim((struct sv){p, bar ? (size_t)(bar - p) : strlen(p)});
        words[n] = arena_strn(t->a, word.p, word.n);
        p = bar ? bar + 1 : NULL;
    }
    const struct node *want = node_find(expected, words[0]);
    assert_non_null(want);
    struct node *got = NULL;
    enum st st = compose_here(t, words[1], words + 2, n - 2, &got);
    if (want->kind == NODE_NULL) {
        if (st == ST_OK)
            print_error("%s: no error\n", words[0]);
        return st == ST_USAGE;
    }
    if (st != ST_OK) {
        print_error("%s: ", words[0]);
        err_print(&t->e, "error", stderr);
        return false;
    }
    drop_defaults(got, want);
    if (same(got, want))
        return true;
    struct buf b = {0};
    yaml_write(&b, got);
    buf_puts(&b, "---- Hydra:\n");
    yaml_write(&b, want);
    fprintf(stderr, "%s: differs\n%s", words[0], buf_str(&b));
    buf_free(&b);
    return false;
}

static void composition_is_hydras(void **state)
{
    struct test *t = *state;
    struct sv cases, text;
    struct node *expected;
    assert_ok(fs_read(t->a, HYDRA "cases.txt", 1 << 20, &cases, &t->e), t);
    assert_ok(fs_read(t->a, HYDRA "expected.json", 1 << 20, &text, &t->e), t);
    assert_ok(json_parse(t->a, "expected.json", text, NULL, &expected, &t->e), t);
    size_t n = 0, bad = 0;
    char *all = arena_strn(t->a, cases.p, cases.n);
    for (char *line = all, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (*line == '#')
            continue;
        n++;
        bad += !as_hydra(t, line, expected);
    }
    assert_int_equal(n, expected->n);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(composition_is_hydras),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
