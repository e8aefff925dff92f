#include "artifact/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "artifact/run.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "support/support.h"
#include "workload/workload.h"

struct fixture {
    struct tmp tmp;
    struct arena *a;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->tmp = tmp_new();
    f->a = arena_new();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    arena_free(&f->a);
    tmp_free(&f->tmp);
    free(f);
    return 0;
}

static char *in_tmp(struct fixture *f, const char *name)
{
    return fs_join(f->a, f->tmp.dir, name);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static struct artifact begin(struct fixture *f, const char *name)
{
    struct artifact art;
    assert_ok(artifact_begin(f->a, in_tmp(f, name), "run_meta.json", &art, &f->e), &f->e);
    return art;
}

static void check_hint(const struct err *e, const char *text)
{
    assert_non_null(err_hint_text(e));
    assert_string_equal(err_hint_text(e), text);
}

static void commits_whole_directories(void **state)
{
    struct fixture *f = *state;
    mode_t before = umask(027);
    struct artifact art = begin(f, "runs/real/r1//");
    assert_string_equal(art.final_dir, in_tmp(f, "runs/real/r1"));
    FILE *file;
    assert_ok(artifact_create_file(&art, "data.csv", &file, &f->e), &f->e);
    fputs("x\n1\n", file);
    assert_ok(artifact_close_file(&art, "data.csv", &file, &f->e), &f->e);
    assert_null(file);
    assert_false(fs_exists(art.final_dir));
    struct node *meta = node_new(f->a, NODE_MAP), *back;
    node_set(f->a, meta, SV("run_type"), node_str(f->a, "real"));
    assert_ok(artifact_commit(&art, meta, &f->e), &f->e);
    umask(before);

    assert_ok(artifact_open(f->a, art.final_dir, "run_meta.json", "real", &back, &f->e), &f->e);
    assert_int_equal(node_find(back, "schema_version")->i, 1);
    struct stat s;
    assert_int_equal(stat(art.final_dir, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0750);
    const char *const files[] = {"run_meta.json", "data.csv"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stat(fs_join(f->a, art.final_dir, files[i]), &s), 0);
        assert_int_equal(s.st_mode & 0777, 0640);
    }
    const char **names;
    size_t n;
    assert_ok(fs_list(f->a, in_tmp(f, "runs/real"), &names, &n, &f->e), &f->e);
    assert_int_equal(n, 1); /* no partial folder is left */
}

static void refuses_what_is_in_the_way(void **state)
{
    struct fixture *f = *state;
    struct artifact art = begin(f, "done"), other;
    assert_ok(artifact_commit(&art, NULL, &f->e), &f->e);
    const char *done = in_tmp(f, "done");
    assert_int_equal(artifact_begin(f->a, done, "run_meta.json", &other, &f->e), ST_USAGE);
    assert_cause(&f->e, arena_printf(f->a, "out: %s already exists", done));
    check_hint(
        &f->e,
        "choose another out=; for a further run of the same job bench and simulate take repeat=");

    const char *bare = in_tmp(f, "bare");
    mkdir(bare, 0700);
    assert_int_equal(artifact_begin(f->a, bare, "run_meta.json", &other, &f->e), ST_USAGE);
    assert_cause(&f->e, arena_printf(f->a, "out: %s already exists", bare));
    check_hint(&f->e, "it holds no run_meta.json: choose another out=, or remove it");

    const char *file = in_tmp(f, "file");
    write_file(file, "");
    assert_int_equal(artifact_begin(f->a, file, "run_meta.json", &other, &f->e), ST_USAGE);
    assert_cause(&f->e, arena_printf(f->a, "out: %s already exists and is not a folder", file));
    check_hint(&f->e, "choose another out=, or remove the file");

    const char *link = in_tmp(f, "link");
    assert_int_equal(symlink("nowhere", link), 0);
    assert_int_equal(artifact_begin(f->a, link, "run_meta.json", &other, &f->e), ST_USAGE);
    assert_cause(&f->e, arena_printf(f->a, "out: %s already exists and is a symbolic link", link));
    check_hint(&f->e, "choose another out=, or remove the link");

    assert_int_equal(artifact_begin(f->a, "..", "run_meta.json", &other, &f->e), ST_USAGE);
    assert_cause(&f->e, "out: '..' is not the name of a new folder");
    assert_int_equal(artifact_begin(f->a, "x/.partial-1", "run_meta.json", &other, &f->e),
                     ST_USAGE);
    assert_cause(&f->e,
                 "out: x/.partial-1: names that begin with .partial- mark unfinished folders");

    assert_int_equal(artifact_begin(f->a, in_tmp(f, "file/x"), "run_meta.json", &other, &f->e),
                     ST_IO);
    assert_cause(&f->e, arena_printf(f->a, "cannot create folder %s: a file is in the way", file));
    check_hint(&f->e, "choose a writable place with out=");
}

/* Root may write everywhere, except into folders of the kernel's. */
static void unwritable_parent_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct artifact art;
    assert_int_equal(artifact_begin(f->a, "/proc/self/r1", "run_meta.json", &art, &f->e), ST_IO);
    assert_non_null(strstr(err_cause(&f->e, 0), "cannot create folder /proc/self/.partial-r1-"));
    check_hint(&f->e, "choose a writable place with out=");
}

/* Somebody else finishes the same directory first: theirs stays, ours stays partial. */
static void the_second_writer_loses(void **state)
{
    struct fixture *f = *state;
    struct artifact one = begin(f, "r"), two = begin(f, "r");
    assert_string_not_equal(one.partial.path, two.partial.path);
    assert_ok(artifact_commit(&one, NULL, &f->e), &f->e);
    assert_int_equal(artifact_commit(&two, NULL, &f->e), ST_USAGE);
    assert_cause(&f->e, arena_printf(f->a, "out: %s already exists", in_tmp(f, "r")));
    assert_true(fs_is_dir(two.partial.path));
    artifact_discard(&two);
    const char **names;
    size_t n;
    assert_ok(fs_list(f->a, f->tmp.dir, &names, &n, &f->e), &f->e);
    assert_int_equal(n, 1);
}

static void abandoned_directories_are_refused(void **state)
{
    struct fixture *f = *state;
    struct artifact art = begin(f, "r"), again;
    write_file(artifact_path(f->a, &art, "data.csv"), "x\n");
    write_file(artifact_path(f->a, &art, "run_meta.json"), "{\"schema_version\": 1}");
    assert_ok(artifact_abandon(&art, "interrupted by SIGINT", &f->e), &f->e);
    const char *dir = in_tmp(f, "r");
    assert_true(fs_exists(fs_join(f->a, dir, "data.csv")));
    struct node *meta;
    assert_int_equal(artifact_open(f->a, dir, "run_meta.json", NULL, &meta, &f->e), ST_INPUT);
    assert_cause(&f->e, arena_printf(f->a, "%s is incomplete: interrupted by SIGINT", dir));
    check_hint(&f->e, "its files may be looked at, but no later stage takes them: run it again");
    assert_int_equal(artifact_begin(f->a, dir, "run_meta.json", &again, &f->e), ST_USAGE);
    check_hint(&f->e, "it is incomplete (incomplete.json says why): remove it, or choose another "
                      "out=");
}

/* One row per way in which a folder is no finished run. %s is the folder. */
static const struct refusal {
    const char *name, *file, *text, *type, *error;
} refusals[] = {
    {"empty", NULL, NULL, NULL, "%s is incomplete: it has no run_meta.json"},
    {"workload", "workload_meta.json", "{}", NULL,
     "%s is a workload, not a run: it has workload_meta.json and no run_meta.json"},
    {"not json", "run_meta.json", "{", NULL,
     "%s/run_meta.json:1:2: the text ends where a key or '}' was expected"},
    {"no map", "run_meta.json", "[]", NULL, "%s/run_meta.json:1:1: expected a map, got a list"},
    {"no schema", "run_meta.json", "{}", NULL, "%s/run_meta.json:1:1: schema_version: missing"},
    {"schema 0", "run_meta.json", "{\"schema_version\": 0}", NULL,
     "%s/run_meta.json:1:20: schema_version: 0 is below the minimum 1"},
    {"schema 2", "run_meta.json", "{\"schema_version\": 2}", NULL,
     "%s/run_meta.json:1:20: schema_version: 2 is newer than 1, the newest this program knows"},
    {"schema v2", "run_meta.json", "{\"schema_version\": \"v2\"}", NULL,
     "%s/run_meta.json:1:20: schema_version: expected an integer, got a string"},
    {"no type", "run_meta.json", "{\"schema_version\": 1}", "real",
     "%s/run_meta.json:1:1: run_type: missing"},
    {"other type", "run_meta.json", "{\"schema_version\": 1, \"run_type\": \"trace\"}",
     "real|vidur", "%s is a run of type 'trace', expected real or vidur"},
    {"part of a type", "run_meta.json", "{\"schema_version\": 1, \"run_type\": \"rea\"}", "real",
     "%s is a run of type 'rea', expected real"},
};

static void readers_refuse_by_name(void **state)
{
    struct fixture *f = *state;
    struct node *meta;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        char *dir = in_tmp(f, r->name);
        assert_int_equal(mkdir(dir, 0700), 0);
        if (r->file)
            write_file(fs_join(f->a, dir, r->file), r->text);
        assert_int_equal(artifact_open(f->a, dir, "run_meta.json", r->type, &meta, &f->e),
                         ST_INPUT);
        struct buf want = {0};
        buf_puts(&want, dir);
        buf_puts(&want, r->error + 2); /* after "%s" */
        assert_cause(&f->e, buf_str(&want));
        buf_free(&want);
    }
    assert_int_equal(artifact_open(f->a, "/nowhere/r", "run_meta.json", NULL, &meta, &f->e),
                     ST_INPUT);
    assert_cause(&f->e, "/nowhere/r does not exist");
    assert_int_equal(artifact_open(f->a, "", "run_meta.json", NULL, &meta, &f->e), ST_INPUT);
    assert_cause(&f->e, "the name of a folder is empty");
    assert_int_equal(artifact_open(f->a, "/dev/null", "run_meta.json", NULL, &meta, &f->e),
                     ST_INPUT);
    assert_cause(&f->e, "/dev/null is not a folder");
}

/* A partial folder is one by its name, even with a meta file, and however it is reached. */
static void partial_folders_are_refused(void **state)
{
    struct fixture *f = *state;
    struct node *meta;
    struct artifact art = begin(f, "r");
    write_file(artifact_path(f->a, &art, "run_meta.json"), "{\"schema_version\": 1}");
    const char *link = in_tmp(f, "link");
    assert_int_equal(symlink(art.partial.path, link), 0);
    const char *const ways[] = {art.partial.path, link, arena_printf(f->a, "%s/", art.partial.path),
                                arena_printf(f->a, "%s/.", link)};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(artifact_open(f->a, ways[i], "run_meta.json", NULL, &meta, &f->e),
                         ST_INPUT);
        assert_cause(&f->e, arena_printf(f->a,
                                         "%s is an unfinished folder: its writer was killed or "
                                         "still runs",
                                         ways[i]));
        check_hint(
            &f->e,
            "run that stage again; twinfer doctor says whether something still writes to it");
    }
}

/* ---- kill -9 ----------------------------------------------------------------------------- */

/* Writes runs and a workload over and over until killed. */
_Noreturn static void write_for_ever(const char *dir)
{
    struct err e = {0};
    for (int i = 0;; i++) {
        struct arena *a = arena_new();
        struct artifact art;
        struct run_writer *w;
        artifact_begin(a, arena_printf(a, "%s/r%d", dir, i), "run_meta.json", &art, &e);
        run_writer_open(&art, true, true, &w, &e);
        for (int64_t k = 0; k < 200; k++) {
            run_write_request(w, &(struct run_request){.request_id = k,
                                                       .first_token_ns = RUN_NONE,
                                                       .completion_ns = RUN_NONE,
                                                       .num_decode_tokens = 1});
            run_write_token(w, &(struct run_token){.request_id = k});
        }
        run_writer_close(&w, &e);
        struct node *meta = node_new(a, NODE_MAP);
        node_set(a, meta, SV("run_type"), node_str(a, "real"));
        artifact_commit(&art, meta, &e);
        struct workload_request requests[200] = {0};
        for (int64_t k = 0; k < 200; k++)
            requests[k] = (struct workload_request){
                .request_id = k, .num_prefill_tokens = 1, .num_decode_tokens = 1};
        struct workload load = {.requests = requests, .n = 200};
        artifact_begin(a, arena_printf(a, "%s/w%d", dir, i), WORKLOAD_META, &art, &e);
        workload_write(&art, &load, NULL, 0, NULL, &e);
        artifact_commit(&art, workload_meta_node(a, &(struct workload_meta){0}), &e);
        arena_free(&a);
        if (e.st != ST_OK)
            _exit(1);
    }
}

/* Whatever a reader accepts is whole; whatever is not whole is refused. */
static int count_whole(struct fixture *f, const char *dir)
{
    const char **names;
    size_t n;
    int whole = 0;
    assert_ok(fs_list(f->a, dir, &names, &n, &f->e), &f->e);
    for (size_t i = 0; i < n; i++) {
        char *path = fs_join(f->a, dir, names[i]);
        struct run run;
        struct workload w;
        bool partial = names[i][0] == '.';
        bool is_run = run_load(f->a, path, NULL, &run, &f->e) == ST_OK;
        bool is_workload = workload_load(f->a, path, &w, &f->e) == ST_OK;
        assert_int_equal(is_run || is_workload, !partial);
        if (is_run)
            assert_true(run.n_requests == 200 && run.n_tokens == 200);
        if (is_workload)
            assert_int_equal(w.n, 200);
        whole += is_run || is_workload;
    }
    return whole;
}

static bool has_whole(struct fixture *f, const char *dir)
{
    const char **names;
    size_t n = 0;
    if (fs_is_dir(dir))
        assert_ok(fs_list(f->a, dir, &names, &n, &f->e), &f->e);
    for (size_t i = 0; i < n; i++)
        if (names[i][0] != '.')
            return true;
    return false;
}

static void a_killed_writer_leaves_nothing_acceptable(void **state)
{
    struct fixture *f = *state;
    struct rng rng = rng_stream(1, "artifact_test.kill");
    int whole = 0;
    for (int round = 0; round < 60; round++) {
        char *dir = arena_printf(f->a, "%s/k%d", f->tmp.dir, round);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_for_ever(dir);
        bool far = round % 4 == 3; /* it gets as far as one that is whole, on any machine */
        for (int ms = 0; far && ms < 60000 && !has_whole(f, dir); ms++)
            clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
        clock_sleep_until_ns(clock_mono_ns() + (int64_t)rng_below(&rng, 30000000));
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (fs_is_dir(dir))
            whole += count_whole(f, dir);
        assert_ok(fs_remove_tree(dir, &f->e), &f->e);
    }
    assert_true(whole > 0); /* the writer did reach the rename */
}

/* ---- full disk --------------------------------------------------------------------------- */

static void limit_files_to(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &r);
}

static void a_full_disk_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct artifact art = begin(f, "r");
    struct run_writer *w;
    FILE *file;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_ok(run_writer_open(&art, true, false, &w, &f->e), &f->e);
    assert_ok(artifact_create_file(&art, "data.csv", &file, &f->e), &f->e);
    limit_files_to(100000);
    for (int64_t k = 0; k < 200000; k++)
        run_write_token(w, &(struct run_token){.request_id = 0, .token_index = k});
    for (int k = 0; k < 200000; k++)
        fputc('x', file);
    enum st by_run = run_writer_close(&w, &f->e);
    struct err of_run = f->e;
    enum st by_file = artifact_close_file(&art, "data.csv", &file, &f->e);
    limit_files_to(10);
    struct err of_meta;
    struct node *meta = node_new(f->a, NODE_MAP);
    enum st by_meta = artifact_commit(&art, meta, &of_meta);
    limit_files_to(RLIM_INFINITY);
    signal(SIGXFSZ, before);

    assert_null(w);
    assert_null(file);
    assert_int_equal(by_run, ST_IO);
    assert_cause(&of_run, arena_printf(f->a, "cannot write %s/token_metrics.csv: File too large",
                                       art.partial.path));
    check_hint(&of_run, "a limit of this process on the size of files (ulimit -f)");
    assert_int_equal(by_file, ST_IO);
    assert_cause(&f->e,
                 arena_printf(f->a, "cannot write %s/data.csv: File too large", art.partial.path));
    check_hint(&f->e, "a limit of this process on the size of files (ulimit -f)");
    assert_int_equal(by_meta, ST_IO);
    assert_string_equal(err_cause(&of_meta, 0),
                        arena_printf(f->a, "cannot finish %s", art.final_dir));
    check_hint(&of_meta, "a limit of this process on the size of files (ulimit -f)");
    assert_false(fs_exists(art.final_dir));
    artifact_discard(&art);
}

/* python3 -c "import hashlib; print(hashlib.sha256(b'\x1f'.join([b'workload', b'qwen3', b'42']))
 * .hexdigest()[:10])" */
static void stable_ids_equal_hashlib(void **state)
{
    struct fixture *f = *state;
    const char *const parts[] = {"qwen3", "42"};
    assert_string_equal(hash_stable_id(f->a, "workload", parts, 2), "workload_d5e1a202dc");
    assert_string_equal(hash_stable_id(f->a, "workload", NULL, 0), "workload_7f6c7360bf");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(commits_whole_directories),         CASE(refuses_what_is_in_the_way),
        CASE(unwritable_parent_is_an_error),     CASE(the_second_writer_loses),
        CASE(abandoned_directories_are_refused), CASE(readers_refuse_by_name),
        CASE(partial_folders_are_refused),       CASE(a_killed_writer_leaves_nothing_acceptable),
        CASE(a_full_disk_is_an_error),           CASE(stable_ids_equal_hashlib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
