#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "artifact/artifact.h"
#include "base/clock.h"
#include "support/support.h"
#include "text/json.h"
#include "text/yaml.h"

static char *slurp(struct arena *a, const char *path)
{
    struct err e = {0};
    struct sv text;
    assert_ok(fs_read(a, path, 1 << 20, &text, &e), &e);
    return arena_strn(a, text.p, text.n);
}

static void whitelists_the_environment(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    setenv("OMP_NUM_THREADS", "3", 1);
    setenv("TWINFER_LOG_X", "debug", 1);
    setenv("TWINFER_API_KEY", "sk-123", 1);
    setenv("NCCL_AUTH_TOKEN", "sk-456", 1);
    setenv("CUDA_VISIBLE_DEVICES_X", "no prefix", 1);
    setenv("HOME_TEST", "x", 1);
    struct node *env = artifact_env(a);
    assert_string_equal(node_find(env, "OMP_NUM_THREADS")->s.p, "3");
    assert_string_equal(node_find(env, "TWINFER_LOG_X")->s.p, "debug");
    assert_null(node_find(env, "TWINFER_API_KEY"));
    assert_null(node_find(env, "NCCL_AUTH_TOKEN"));
    assert_null(node_find(env, "CUDA_VISIBLE_DEVICES_X"));
    assert_null(node_find(env, "HOME_TEST"));
    unsetenv("TWINFER_API_KEY");
    unsetenv("NCCL_AUTH_TOKEN");
    arena_free(&a);
}

/* A `git` of ours, first on PATH, that prints what the test says. */
struct fake_git {
    struct tmp tmp;
    char *path;
};

static struct fake_git fake_git(const char *script)
{
    struct fake_git g = {.tmp = tmp_new(), .path = strdup(getenv("PATH"))};
    const char *file = tmp_file(&g.tmp, "git", script, strlen(script));
    assert_int_equal(chmod(file, 0700), 0);
    char path[4096];
    snprintf(path, sizeof path, "%s:%s", g.tmp.dir, g.path);
    setenv("PATH", path, 1);
    return g;
}

static void fake_git_free(struct fake_git *g)
{
    setenv("PATH", g->path, 1);
    free(g->path);
    tmp_free(&g->tmp);
}

#define OID "0123456789abcdef0123456789abcdef01234567"

static const struct git_case {
    const char *script, *commit;
    bool known_dirty, dirty;
} git_cases[] = {
    {"#!/bin/sh\necho '# branch.oid " OID "'\necho '# branch.head main'\n", OID, true, false},
    {"#!/bin/sh\necho '# branch.oid " OID "'\necho '1 .M N... 100644 100644 100644 x x a.c'\n", OID,
     true, true},
    {"#!/bin/sh\necho '# branch.oid (initial)'\n", NULL, false, false},
    {"#!/bin/sh\necho 'fatal: not a repository' >&2\nexit 128\n", NULL, false, false},
    {"#!/bin/sh\necho '# branch.oid " OID "'\nkill -9 $$\n", NULL, false, false},
    {"#!/bin/sh\necho '# branch.oid " OID "'\nyes '1 .M x'\n", OID, true, true},
    {"#!/bin/sh\n[ \"$GIT_OPTIONAL_LOCKS\" = 0 ] && echo '# branch.oid " OID "'\n", OID, true,
     false},
};

static void asks_git_within_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof git_cases / sizeof *git_cases; i++) {
        const struct git_case *c = &git_cases[i];
        struct arena *a = arena_new();
        struct fake_git g = fake_git(c->script);
        struct git_facts facts = artifact_git(a);
        fake_git_free(&g);
        if (c->commit)
            assert_string_equal(facts.commit, c->commit);
        else
            assert_null(facts.commit);
        assert_int_equal(facts.known_dirty, c->known_dirty);
        assert_int_equal(facts.dirty, c->dirty);
        arena_free(&a);
    }
}

static void a_git_that_hangs_or_is_missing_is_no_git(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct fake_git g = fake_git("#!/bin/sh\necho '# branch.oid " OID "'\nexec sleep 30\n");
    assert_null(artifact_git(a).commit);
    fake_git_free(&g);
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/nowhere", 1);
    assert_null(artifact_git(a).commit);
    setenv("PATH", path, 1);
    free(path);
    arena_free(&a);
}

static void run_meta_has_all_keys_sorted(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct node *extra = node_new(a, NODE_MAP), *params = node_new(a, NODE_MAP);
    node_set(a, extra, SV("workload_dir"), node_str(a, "runs/workloads/w"));
    node_set(a, params, SV("seed"), node_int(a, 7));
    const struct run_meta m = {.run_id = "r_1",
                               .run_type = "vidur",
                               .model = "tiny",
                               .hardware_id = "h200",
                               .device = "cpu",
                               .started_wall_ns = 0,
                               .ended_wall_ns = NS_PER_S,
                               .params = params,
                               .hydra = {"configs", "simulate"},
                               .extra = extra};
    struct node *n = run_meta_node(a, &m);
    struct buf text = {0};
    json_write(&text, n, 2, true);
    static const char *const keys[] = {"ended_at",
                                       "env",
                                       "hardware",
                                       "host",
                                       "hydra",
                                       "model",
                                       "params",
                                       "run_id",
                                       "run_type",
                                       "schema_version",
                                       "started_at",
                                       "tool",
                                       "working_directory_git",
                                       "workload_dir"};
    const size_t n_keys = sizeof keys / sizeof *keys;
    assert_int_equal(n->n, n_keys);
    const char *at = buf_str(&text);
    for (size_t i = 0; i < n_keys; i++) { /* sorted in the text */
        at = strstr(at, arena_printf(a, "\n  \"%s\": ", keys[i]));
        assert_non_null(at);
    }
    assert_string_equal(node_find(n, "ended_at")->s.p, "1970-01-01T00:00:01.000Z");
    assert_string_equal(node_path(n, "hardware.hardware_id")->s.p, "h200");
    assert_string_equal(node_path(n, "hardware.device")->s.p, "cpu");
    assert_string_equal(node_path(n, "hydra.config_path")->s.p, "configs");
    assert_string_equal(node_path(n, "hydra.config_name")->s.p, "simulate");
    assert_int_equal(node_path(n, "params.seed")->i, 7);
    assert_int_equal(node_find(n, "schema_version")->i, 1);
    assert_true(node_path(n, "host.cores")->i >= 1);
    assert_true(node_path(n, "host.memory_bytes")->i > 1 << 20);
    const struct node *cache = node_path(n, "host.l3_cache_bytes");
    assert_true(cache->kind == NODE_NULL || (cache->kind == NODE_INT && cache->i > 0));
    assert_int_equal(strncmp(node_path(n, "host.libc")->s.p, "glibc 2.", 8), 0);
    assert_int_equal(strncmp(node_path(n, "host.kernel")->s.p, "Linux ", 6), 0);
    assert_non_null(node_path(n, "host.cpu"));
    assert_string_equal(node_path(n, "tool.version")->s.p, TW_VERSION);
    assert_non_null(node_path(n, "tool.compiler"));
    assert_int_equal(node_path(n, "tool.commit")->kind, NODE_NULL); /* tests do not know theirs */
    assert_int_equal(node_path(n, "tool.dirty")->kind, NODE_NULL);
    assert_non_null(node_path(n, "working_directory_git.commit"));
    assert_non_null(node_path(n, "working_directory_git.dirty"));
    buf_free(&text);

    n = run_meta_node(a, &(struct run_meta){0}); /* unknown is null, not empty text */
    assert_int_equal(node_find(n, "model")->kind, NODE_NULL);
    assert_int_equal(node_path(n, "hardware.device")->kind, NODE_NULL);
    arena_free(&a);
}

static void snapshots_the_configuration(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct tmp tmp = tmp_new();
    struct err e = {0};
    struct artifact art;
    struct node *back;
    const char *config = "seed: 7\nmodel:\n  name: tiny\n";
    assert_ok(artifact_begin(a, fs_join(a, tmp.dir, "r"), "run_meta.json", &art, &e), &e);
    const char *const overrides[] = {"seed=7", "model=tiny"};
    assert_ok(run_snapshot(&art, config, overrides, 2, &e), &e);
    assert_ok(artifact_commit(&art, NULL, &e), &e);
    assert_ok(yaml_load(a, fs_join(a, art.final_dir, "config.yaml"), &back, &e), &e);
    assert_int_equal(node_path(back, "seed")->i, 7);
    assert_string_equal(node_path(back, "model.name")->s.p, "tiny");
    assert_string_equal(slurp(a, fs_join(a, art.final_dir, "overrides.yaml")),
                        "- seed=7\n- model=tiny\n");
    tmp_free(&tmp);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whitelists_the_environment),
        cmocka_unit_test(asks_git_within_bounds),
        cmocka_unit_test(a_git_that_hangs_or_is_missing_is_no_git),
        cmocka_unit_test(run_meta_has_all_keys_sorted),
        cmocka_unit_test(snapshots_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
