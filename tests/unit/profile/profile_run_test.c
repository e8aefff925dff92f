#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "profile/read/bundle.h"
#include "profile/read/power_cap.h"
#include "profile/read/reference_ratio.h"
#include "serve/memory.h"
#include "support/support.h"
#include "support/timed_executor.h"
#include "text/json.h"

static const struct model qwen = {.name = "tiny",
                                  .family = MODEL_QWEN3,
                                  .act = ACT_SILU_GATED,
                                  .qk_norm = true,
                                  .layers = 3,
                                  .hidden = 64,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 32,
                                  .intermediate = 128,
                                  .vocab = 500,
                                  .max_positions = 512};

struct fixture {
    struct arena *a;
    struct tmp tmp;
    struct serve_clock clock;
    struct timed_executor t;
    struct profile_params p;
    volatile sig_atomic_t stop;
    struct err e;
    char compute[320], host[320], partial[320];
    int64_t stop_at;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->a = arena_new();
    f->tmp = tmp_new();
    f->clock = clock_virtual();
    f->t.model = &qwen;
    f->p = (struct profile_params){.root = f->tmp.dir,
                                   .hardware = "bench",
                                   .model_name = "org/tiny",
                                   .device = "cpu",
                                   .settings = "threads=1",
                                   .model = &qwen,
                                   .block_size = 16,
                                   .num_blocks = 400,
                                   .max_tokens = 256,
                                   .max_batch = 16,
                                   .max_kv = 300,
                                   .samples = 4,
                                   .warmup = 1,
                                   .tp = 1,
                                   .seed = 1,
                                   .clock = &f->clock};
    snprintf(f->compute, sizeof f->compute, "%s/data/profiling/compute/bench/org/tiny", f->tmp.dir);
    snprintf(f->host, sizeof f->host,
             "%s/data/profiling/cpu_overhead/bench/org/tiny/cpu_overheads.csv", f->tmp.dir);
    snprintf(f->partial, sizeof f->partial, "%s/.partial/bench/org/tiny", f->tmp.dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    tmp_free(&f->tmp);
    arena_free(&f->a);
    free(f);
    return 0;
}

static enum st run(struct fixture *f)
{
    const char *dir = NULL;
    f->clock = clock_virtual();
    err_clear(&f->e);
    enum st st = profile_run(f->a, &f->p, timed_executor(&f->t), &f->stop, &dir, &f->e);
    if (st == ST_OK)
        assert_string_equal(dir, f->compute);
    return st;
}

static struct bundle *load(struct fixture *f)
{
    struct bundle_key key = {.root = f->tmp.dir,
                             .hardware = "bench",
                             .model_name = "org/tiny",
                             .model = &qwen,
                             .tp = 1,
                             .block_size = 16};
    struct bundle *b;
    assert_ok(bundle_load(f->a, &key, &b, &f->e), &f->e);
    return b;
}

static const char *file(struct fixture *f, const char *dir, const char *name)
{
    struct sv text;
    assert_ok(fs_read(f->a, fs_join(f->a, dir, name), 1 << 24, &text, &f->e), &f->e);
    return text.p;
}

static void sweep(struct fixture *f)
{
    assert_ok(fs_remove_tree(f->compute, &f->e), &f->e);
    assert_ok(fs_remove_tree(f->host, &f->e), &f->e);
}

#define relative(got, want)  assert_near((got) / (want), 1, 1e-6)
#define host_near(got, want) assert_near(got, want, 2e-9) /* rows hold whole ns */

static double tokens_s(int64_t t, bool rows)
{
    struct op_list ops;
    model_ops(&qwen, &ops);
    double s = 0;
    for (int i = 0; i < ops.n; i++)
        if (ops.ops[i].axis == (rows ? AXIS_ROWS : AXIS_TOKENS))
            s += timed_flat_s(ops.ops[i].row, t) * ops.ops[i].repeat;
    return s;
}

static void what_is_measured_is_predicted(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    struct bundle *b = load(f);
    assert_null(bundle_missing(b));
    for (int64_t t = 1; t <= 256; t += 5)
        relative(predict_tokens_s(b, t), tokens_s(t, false));
    for (int64_t r = 1; r <= 16; r++)
        relative(predict_rows_s(b, r), tokens_s(r, true));
    for (int64_t n = 1; n <= 16; n++)
        for (int64_t kv = 1; kv < 300; kv += 13)
            relative(predict_decode_s(b, n, n * kv), 3 * timed_decode_s(n, n * kv));
    for (int64_t c = 1; c <= 256; c += 11)
        for (int64_t kv = 0; kv + c <= 200; kv += 17)
            relative(predict_prefill_s(b, kv, c), 3 * timed_prefill_s(c, kv));
    for (int64_t n = 1; n <= 16; n++) {
        host_near(bundle_host_s(b, n, false), timed_host_s(n, false));
        host_near(bundle_host_s(b, n, true), timed_host_s(n, true));
    }
    relative(bundle_decode_scale(b, 4, 0), 1);
    relative(bundle_prompt_scale(b, 100, false), 1);
    double wake_device_s, wake_host_s; /* an engine that does not mind pauses */
    assert_true(bundle_wake_iterations(b) > 0);
    bundle_wake_s(b, 0.5, 0, &wake_device_s, &wake_host_s);
    assert_near(wake_device_s + wake_host_s, 0, 1e-9);
    assert_int_equal(bundle_extrapolations(b), 0);
    for (int k = 0; k < OP_KINDS; k++)
        assert_true(!bundle_has(b, (enum op_kind)k) || bundle_row_error(b, k) < 1e-6);
    assert_false(fs_exists(f->partial));
    const char *mlp = file(f, f->compute, "mlp.csv");
    assert_ptr_equal(strstr(mlp, "time_stats.emb.min,time_stats.emb.max,"), mlp);
}

static double every_fourth_doubled(int64_t pass)
{
    return pass % 4 == 3 ? 2 : 1;
}

/* Medians hide the slow quarter; the scale brings back what an iteration takes on average. */
static void skewed_times_are_predicted_by_their_mean(void **state)
{
    struct fixture *f = *state;
    f->t.factor = every_fourth_doubled;
    f->p.samples = 12;
    assert_ok(run(f), &f->e);
    struct bundle *b = load(f);
    assert_near(bundle_decode_scale(b, 16, 0), 1.25, 0.1);
    assert_near(bundle_prompt_scale(b, 128, false), 1.25, 0.2);
}

static double every_hundredth_stalls(int64_t pass)
{
    return pass % 100 == 99 ? 8 : 1;
}

/* What is beyond three times the prediction counts too, if not class by class. */
static void stalls_are_a_part_of_the_mean(void **state)
{
    struct fixture *f = *state;
    f->t.factor = every_hundredth_stalls;
    f->p.samples = 12;
    assert_ok(run(f), &f->e);
    struct bundle *b = load(f);
    assert_near(bundle_decode_scale(b, 2, 0), 1.07, 0.03);
    assert_near(bundle_decode_scale(b, 16, 0), 1.07, 0.04);
}

/* What the first passes after a prompt take longer is told apart from what trains take, and prompts
 * beside decodes from those alone. */
static double slow_after_prompts(const struct batch *b)
{
    if (b->n_chunks > 0)
        return b->n_decodes > 0 ? 1.3 : 1;
    return b->train == 1 ? 2 : b->train == 2 || b->train == 3 ? 1.5 : 1;
}

static void neighbours_in_the_caches_are_told_apart(void **state)
{
    struct fixture *f = *state;
    f->t.batch_factor = slow_after_prompts;
    assert_ok(run(f), &f->e);
    struct bundle *b = load(f);
    for (int64_t n = 1; n <= 16; n++) {
        assert_near(bundle_decode_scale(b, n, 1), 2, 1e-6);
        assert_near(bundle_decode_scale(b, n, 2), 1.5, 1e-6);
        assert_near(bundle_decode_scale(b, n, 3), 1.5, 1e-6);
        assert_near(bundle_decode_scale(b, n, 4), 1, 1e-6);
    }
    for (int64_t tokens = 10; tokens <= 200; tokens += 19) {
        assert_near(bundle_prompt_scale(b, tokens, true) / bundle_prompt_scale(b, tokens, false),
                    1.3, 1e-6);
    }
}

static struct node *meta_of(struct fixture *f)
{
    struct node *meta;
    assert_ok(artifact_open(f->a, f->compute, "bundle_meta.json", "vidur_profile", &meta, &f->e),
              &f->e);
    return meta;
}

static double half_as_fast(const struct batch *b)
{
    (void)b;
    return 2;
}

/* A machine that becomes half as fast between the first session and two more: medians go over, and
 * the calibration run says how far its rounds are apart. */
static void a_bundle_is_extended(void **state)
{
    struct fixture *f = *state;
    f->p.extend = true; /* nothing there yet: a first session */
    assert_ok(run(f), &f->e);
    struct node *meta = meta_of(f);
    const int64_t samples = node_path(meta, "grid.samples")->i;
    assert_int_equal(node_path(meta, "sessions")->n, 1);
    f->t.batch_factor = half_as_fast;
    assert_ok(run(f), &f->e);
    assert_ok(run(f), &f->e);
    meta = meta_of(f);
    assert_int_equal(node_path(meta, "sessions")->n, 3);
    assert_int_equal(node_path(meta, "grid.samples")->i, 3 * samples);
    assert_int_equal(node_path(meta, "grid.samples_per_point_min")->i, 12);
    const struct node *first = node_path(meta, "sessions")->items[0];
    const struct node *last = node_path(meta, "sessions")->items[2];
    assert_near(reference_ratio(node_find(last, "yardstick"), node_find(first, "yardstick")), 2,
                1e-6);
    const struct node *scale = node_path(meta, "iteration.decode")->items[0];
    assert_int_equal(node_find(scale, "rounds")->i % 3, 0);
    assert_true(node_find(scale, "drift")->f > 0.3);
    struct bundle *b = load(f);
    relative(predict_tokens_s(b, 100), 2 * tokens_s(100, false));
    relative(predict_decode_s(b, 9, 9 * 250), 2 * 3 * timed_decode_s(9, 9 * 250));
    assert_true(fs_exists(fs_join(f->a, f->compute, "samples.txt")));
    assert_false(fs_exists(f->partial));
}

/* The grid and the host stay as they were measured; the factors follow the machine. */
static void the_calibration_run_alone_is_extended(void **state)
{
    struct fixture *f = *state;
    char want[400];
    f->p.extend = f->p.calibration_only = true;
    assert_int_equal(run(f), ST_USAGE);
    snprintf(want, sizeof want, "profile.measure=calibration: there is no bundle %s to extend",
             f->compute);
    assert_cause(&f->e, want);
    f->p.calibration_only = false;
    assert_ok(run(f), &f->e);
    struct node *meta = meta_of(f);
    const int64_t samples = node_path(meta, "grid.samples")->i,
                  level = node_path(meta, "grid.decode_level")->i,
                  hosts = node_path(meta, "host.samples")->i,
                  rounds = node_find(node_path(meta, "iteration.decode")->items[0], "rounds")->i;
    f->t.batch_factor = half_as_fast;
    f->p.calibration_only = true;
    assert_ok(run(f), &f->e);
    meta = meta_of(f);
    assert_int_equal(node_path(meta, "sessions")->n, 2);
    assert_int_equal(node_path(meta, "grid.samples")->i, samples);
    assert_int_equal(node_path(meta, "grid.decode_level")->i, level);
    assert_int_equal(node_path(meta, "host.samples")->i, hosts);
    assert_int_equal(node_find(node_path(meta, "iteration.decode")->items[0], "rounds")->i,
                     2 * rounds);
    struct bundle *b = load(f);
    relative(predict_tokens_s(b, 100), tokens_s(100, false));
    assert_near(bundle_decode_scale(b, 16, 9), 1.5, 1e-3); /* the mean of both */
}

/* Trains in the samples of a device that is held to 1.2 times a prompt's time, where the session's
 * own batches never were: the bundle says so, and its factors are of what the state leaves. */
static void trains_become_the_power_cap(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    struct bundle *b = load(f);
    assert_null(bundle_power_cap(b));
    assert_null(node_find(meta_of(f), "power_cap"));
    assert_near(bundle_prompt_scale(b, 100, false), 1, 1e-6);
    const double pass_s =
        predict_tokens_s(b, 128) + predict_rows_s(b, 1) + predict_prefill_s(b, 0, 128);
    struct buf text = {0};
    buf_puts(&text, file(f, f->compute, "samples.txt"));
    double at_s = 0;
    for (int i = 0; at_s < 0.35; i++) {
        const double took_s = (at_s < 0.03 ? 1 : 1.2) * pass_s;
        buf_printf(&text, "t 0 1 128 %.17g %.17g\n", at_s, took_s);
        at_s += took_s;
    }
    for (int i = 0; i < 40; i++)
        buf_printf(&text, "t 1 0 4 %g %.17g\n", 0.01 * i, i < 5 ? 0.0011 : 0.001);
    buf_puts(&text, "u 1\n");
    const char *samples = fs_join(f->a, f->compute, "samples.txt");
    assert_ok(fs_write_atomic(samples, text.p, text.n, &f->e), &f->e);
    buf_free(&text);
    f->p.extend = true;
    assert_ok(run(f), &f->e);
    const struct node *said = node_find(meta_of(f), "power_cap"), *row;
    assert_true(node_find(said, "held")->b);
    assert_near(node_find(said, "decode_ratio")->f, 1.1, 1e-9);
    assert_int_equal(node_find(said, "rows")->n, 1);
    row = node_find(said, "rows")->items[0];
    assert_near(node_find(row, "sustained_s")->f / node_find(row, "rested_s")->f, 1.2, 1e-9);
    b = load(f);
    const struct power_cap_factors factors =
        power_cap_factors(bundle_power_cap(b), &(struct power_cap_batch){128, true, 0});
    assert_near(factors.rested, 1, 0.01); /* a little of the fall is in the rested time */
    assert_near(factors.sustained, 1.2, 1e-6);
    /* the calibration run's prompts are few among decodes, and took what prompts after rest take */
    assert_near(bundle_prompt_scale(b, 100, false), 1, 0.01);
}

static void what_cannot_be_extended_is_refused(void **state)
{
    struct fixture *f = *state;
    char want[400];
    assert_ok(run(f), &f->e);
    const char *mlp = file(f, f->compute, "mlp.csv");
    f->p.extend = true;
    f->p.settings = "threads=2";
    assert_int_equal(run(f), ST_USAGE);
    snprintf(want, sizeof want, "%s was measured with another model, grid, device or setting",
             f->compute);
    assert_cause(&f->e, want);
    f->p.settings = "threads=1";
    assert_int_equal(remove(fs_join(f->a, f->compute, "samples.txt")), 0);
    assert_int_equal(run(f), ST_USAGE);
    snprintf(want, sizeof want, "%s has no samples.txt: it cannot be extended", f->compute);
    assert_cause(&f->e, want);
    assert_string_equal(file(f, f->compute, "mlp.csv"), mlp);
    assert_false(fs_exists(f->partial));
}

static void interrupt(void *self, int64_t pass);

/* The bundle stays as it was until the session is whole. */
static void an_interrupted_extension_goes_on(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    const char *mlp = file(f, f->compute, "mlp.csv");
    f->p.extend = true;
    f->t.at_pass = interrupt;
    f->t.at_pass_self = f;
    f->stop_at = f->t.passes + f->t.passes / 3;
    assert_int_equal(run(f), ST_INTERRUPTED);
    assert_string_equal(file(f, f->compute, "mlp.csv"), mlp);
    f->stop = 0;
    f->stop_at = -1;
    assert_ok(run(f), &f->e);
    assert_int_equal(node_path(meta_of(f), "sessions")->n, 2);
    assert_int_equal(node_path(meta_of(f), "grid.samples_per_point_min")->i, 8);
    assert_false(fs_exists(f->partial));
}

static void names_of_columns_and_meta(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    const char *attention = file(f, f->compute, "attention.csv");
    assert_non_null(strstr(attention,
                           "time_stats.attn_output_reshape.std,n_embd,n_q_head,n_kv_head,"
                           "block_size,num_tensor_parallel_workers,max_model_len,batch_size,"
                           "prefill_chunk_size,kv_cache_size,is_prefill,attention_backend,"
                           "time_stats.attn_kv_cache_save.n,time_stats.attn_prefill.n,"
                           "time_stats.attn_decode.n,head_dim,method\n"));
    assert_non_null(strstr(attention, "64,4,2,16,1,300,16,0,299,False,twinfer,"));
    struct node *meta;
    assert_ok(artifact_open(f->a, f->compute, "bundle_meta.json", "vidur_profile", &meta, &f->e),
              &f->e);
    assert_int_equal(node_path(meta, "operators.lm_head.samples")->i,
                     node_path(meta, "grid.samples")->i);
    assert_int_equal(node_path(meta, "grid.samples_per_point_min")->i, 4);
    assert_string_equal(node_path(meta, "settings")->s.p, "threads=1");
    const char *host = file(f, fs_dir(f->a, f->host), "cpu_overheads.csv");
    assert_ptr_equal(strstr(host, "schedule_mean,schedule_median,sampler_e2e_mean,"
                                  "sampler_e2e_median,prepare_inputs_e2e_mean,"),
                     host);
}

static void equal_runs_give_equal_bytes(void **state)
{
    struct fixture *f = *state;
    f->t.factor = every_fourth_doubled;
    assert_ok(run(f), &f->e);
    const char *mlp = file(f, f->compute, "mlp.csv");
    const char *attention = file(f, f->compute, "attention.csv");
    const char *host = file(f, fs_dir(f->a, f->host), "cpu_overheads.csv");
    sweep(f);
    f->t = (struct timed_executor){.model = &qwen, .factor = every_fourth_doubled};
    assert_ok(run(f), &f->e);
    assert_string_equal(file(f, f->compute, "mlp.csv"), mlp);
    assert_string_equal(file(f, f->compute, "attention.csv"), attention);
    assert_string_equal(file(f, fs_dir(f->a, f->host), "cpu_overheads.csv"), host);
}

static void an_existing_bundle_is_refused_before_measuring(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    int64_t passes = f->t.passes;
    char want[400];
    assert_int_equal(profile_check_place(f->a, &f->p, &f->e), ST_USAGE);
    assert_int_equal(run(f), ST_USAGE);
    snprintf(want, sizeof want, "%s already exists", f->compute);
    assert_cause(&f->e, want);
    assert_string_equal(err_hint_text(&f->e), "a bundle is never overwritten: remove it, choose "
                                              "another hardware.id= or profile.root=, or "
                                              "measure more into it with profile.extend=true");
    assert_ok(fs_remove_tree(f->compute, &f->e), &f->e);
    assert_int_equal(run(f), ST_USAGE); /* another bundle may own the host file */
    snprintf(want, sizeof want, "%s already exists", f->host);
    assert_cause(&f->e, want);
    assert_int_equal(f->t.passes, passes);
    assert_false(fs_exists(f->partial));
}

/* Killed after the bundle was in place and before the journal was gone: what is left must not
 * become another bundle when the first is removed. */
static void a_published_journal_is_cleared_away(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    assert_ok(fs_mkdirs(f->partial, &f->e), &f->e);
    const char *journal = fs_join(f->a, f->partial, "journal.txt");
    assert_ok(fs_write_atomic(journal, "x\ns 1\np\n", 8, &f->e), &f->e);
    assert_int_equal(run(f), ST_USAGE);
    assert_false(fs_exists(f->partial));
}

static void interrupt(void *self, int64_t pass)
{
    struct fixture *f = self;
    if (pass == f->stop_at)
        f->stop = 1;
}

static void an_interrupted_run_goes_on(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    const char *attention = file(f, f->compute, "attention.csv");
    int64_t whole = f->t.passes;
    sweep(f);

    f->t = (struct timed_executor){.model = &qwen, .at_pass = interrupt, .at_pass_self = f};
    f->stop_at = whole / 3;
    assert_int_equal(run(f), ST_INTERRUPTED);
    char want[400];
    snprintf(want, sizeof want, "they are kept in %s; the same command goes on from there",
             f->partial);
    assert_string_equal(err_hint_text(&f->e), want);
    assert_false(fs_exists(f->compute));
    assert_false(fs_exists(f->host));
    int64_t first = f->t.passes;
    f->stop = 0;
    f->stop_at = -1;
    assert_ok(run(f), &f->e);
    /* warming up, calibrating and pausing are done again; the grid is not */
    assert_in_range(f->t.passes - first, 1, whole - first / 4);
    assert_string_equal(file(f, f->compute, "attention.csv"), attention);
    assert_false(fs_exists(f->partial));
}

static void stopping_while_host_time_is_measured_keeps_the_grid(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    int64_t whole = f->t.passes;
    sweep(f);
    f->t = (struct timed_executor){.model = &qwen, .at_pass = interrupt, .at_pass_self = f};
    f->stop_at = whole - 10;
    assert_int_equal(run(f), ST_INTERRUPTED);
    int64_t first = f->t.passes;
    f->stop = 0;
    f->stop_at = -1;
    assert_ok(run(f), &f->e);
    assert_in_range(f->t.passes - first, 1, 2 * whole / 3); /* the calibration run is done again */
    host_near(bundle_host_s(load(f), 16, true), timed_host_s(16, true));
}

static void die(void *self, int64_t pass)
{
    const struct fixture *f = self;
    if (pass == f->stop_at)
        kill(getpid(), SIGKILL);
}

static void a_killed_run_goes_on(void **state)
{
    struct fixture *f = *state;
    f->stop_at = 200;
    pid_t pid = fork();
    if (pid == 0) {
        f->t.at_pass = die;
        f->t.at_pass_self = f;
        run(f);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_false(fs_exists(f->compute));
    assert_ok(run(f), &f->e);
    relative(predict_tokens_s(load(f), 100), tokens_s(100, false));
}

static void a_torn_journal_loses_its_last_line(void **state)
{
    struct fixture *f = *state;
    f->t.at_pass = interrupt;
    f->t.at_pass_self = f;
    f->stop_at = 100;
    assert_int_equal(run(f), ST_INTERRUPTED);
    const char *path = fs_join(f->a, f->partial, "journal.txt");
    FILE *j = fopen(path, "a");
    fputs("s 3 0.1 0.", j);
    fclose(j);
    f->stop = 0;
    assert_ok(run(f), &f->e);
    relative(predict_tokens_s(load(f), 100), tokens_s(100, false));
}

/* Samples of other settings are worth nothing here. */
static void another_grid_or_setting_starts_anew(void **state)
{
    struct fixture *f = *state;
    f->t.at_pass = interrupt;
    f->t.at_pass_self = f;
    f->stop_at = 150;
    assert_int_equal(run(f), ST_INTERRUPTED);
    int64_t before = f->t.passes;
    f->stop = 0;
    f->stop_at = -1;
    f->p.settings = "threads=2";
    assert_ok(run(f), &f->e);
    int64_t anew = f->t.passes - before;
    sweep(f);
    before = f->t.passes;
    assert_ok(run(f), &f->e);
    assert_int_equal(f->t.passes - before, anew);
}

static void a_time_budget_thins_the_grid(void **state)
{
    struct fixture *f = *state;
    f->p.samples = 60;
    assert_ok(run(f), &f->e);
    double full = f->t.device_s;
    sweep(f);
    f->t = (struct timed_executor){.model = &qwen};
    f->p.time_budget_s = full / 80;
    assert_ok(run(f), &f->e);
    assert_true(f->t.device_s < 1.6 * f->p.time_budget_s);
    struct node *meta;
    assert_ok(artifact_open(f->a, f->compute, "bundle_meta.json", NULL, &meta, &f->e), &f->e);
    assert_true(node_path(meta, "grid.prompt_level")->i < 2);
    assert_true(node_path(meta, "grid.samples_per_point_min")->i >= 1);
    struct bundle *b = load(f);
    relative(predict_tokens_s(b, 200), tokens_s(200, false));
    relative(predict_decode_s(b, 9, 9 * 250), 3 * timed_decode_s(9, 9 * 250));
}

/* A model so large that the coarsest grid is beyond the budget: what is dearest is left out, before
 * it is measured. */
static void a_small_budget_leaves_out_what_is_dearest(void **state)
{
    struct fixture *f = *state;
    assert_ok(run(f), &f->e);
    double full = f->t.device_s;
    sweep(f);
    f->t = (struct timed_executor){.model = &qwen};
    f->p.time_budget_s = full / 400;
    assert_ok(run(f), &f->e);
    const struct node *meta = meta_of(f);
    assert_int_equal(node_path(meta, "grid.prompt_level")->i, 0);
    assert_true(node_path(meta, "grid.points_over_budget")->i > 0);
    struct bundle *b = load(f);
    relative(predict_tokens_s(b, 4), tokens_s(4, false));
    predict_tokens_s(b, 256);
    assert_true(bundle_extrapolations(b) > 0);
}

static void what_cannot_be_profiled_is_refused_and_nothing_written(void **state)
{
    struct fixture *f = *state;
    f->t.no_op_times = true;
    assert_int_equal(run(f), ST_DEVICE);
    assert_cause(&f->e, "executor timed gives no operator times");
    f->t.no_op_times = false;
    f->p.model_name = "../up";
    assert_int_equal(run(f), ST_USAGE);
    assert_cause(&f->e, "model.name: '../up' cannot be the name of a folder of the bundle");
    f->p.model_name = "org/tiny";
    f->p.hardware = NULL;
    assert_int_equal(run(f), ST_USAGE);
    assert_cause(&f->e, "hardware.id: '' cannot be the name of a folder of the bundle");
    assert_int_equal(profile_check_place(f->a, &f->p, &f->e), ST_USAGE);
    assert_cause(&f->e, "hardware.id: '' cannot be the name of a folder of the bundle");
    f->p.hardware = "bench";
    assert_ok(profile_check_place(f->a, &f->p, &f->e), &f->e);
    const char *root = f->p.root;
    f->p.root = fs_join(f->a, root, "not/yet/there");
    assert_ok(profile_check_place(f->a, &f->p, &f->e), &f->e);
    f->p.root = "/proc/self/no";
    assert_int_equal(profile_check_place(f->a, &f->p, &f->e), ST_IO);
    f->p.root = root;
    f->p.calibration_only = true;
    assert_int_equal(profile_check_place(f->a, &f->p, &f->e), ST_USAGE);
    f->p.calibration_only = false;
    f->p.num_blocks = 0;
    assert_int_equal(run(f), ST_USAGE);
    assert_cause(&f->e, "the KV cache of 0 blocks holds no point of the grid");
    const char **names;
    size_t n;
    assert_ok(fs_list(f->a, f->tmp.dir, &names, &n, &f->e), &f->e);
    assert_int_equal(n, 0);
}

static void the_null_executor_measures_the_loop_only(void **state)
{
    struct fixture *f = *state;
    const char *dir;
    struct executor ex = null_executor(0, &f->clock);
    assert_int_equal(profile_run(f->a, &f->p, ex, NULL, &dir, &f->e), ST_DEVICE);
    assert_cause(&f->e, "executor null gives no operator times");
    ex.ops->close(ex.self);
}

static void blocks_for_the_grid(void **state)
{
    struct fixture *f = *state;
    const struct grid_limits l = profile_limits(&f->p);
    const struct memory_facts facts = {.model = &qwen,
                                       .block_size = l.block_size,
                                       .request_tokens = l.max_kv,
                                       .batch_cap = l.max_batch,
                                       .cache_bytes = INT64_C(1) << 40};
    struct memory_plan plan;
    memory_plan_host(&facts, 4, &plan);
    assert_int_equal(plan.num_blocks, 19 * 16); /* 300 tokens each */
}

int main(void)
{
#define with_root(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        with_root(what_is_measured_is_predicted),
        with_root(skewed_times_are_predicted_by_their_mean),
        with_root(stalls_are_a_part_of_the_mean),
        with_root(neighbours_in_the_caches_are_told_apart),
        with_root(a_bundle_is_extended),
        with_root(trains_become_the_power_cap),
        with_root(the_calibration_run_alone_is_extended),
        with_root(what_cannot_be_extended_is_refused),
        with_root(an_interrupted_extension_goes_on),
        with_root(a_small_budget_leaves_out_what_is_dearest),
        with_root(names_of_columns_and_meta),
        with_root(equal_runs_give_equal_bytes),
        with_root(an_existing_bundle_is_refused_before_measuring),
        with_root(a_published_journal_is_cleared_away),
        with_root(an_interrupted_run_goes_on),
        with_root(stopping_while_host_time_is_measured_keeps_the_grid),
        with_root(a_killed_run_goes_on),
        with_root(a_torn_journal_loses_its_last_line),
        with_root(another_grid_or_setting_starts_anew),
        with_root(a_time_budget_thins_the_grid),
        with_root(what_cannot_be_profiled_is_refused_and_nothing_written),
        with_root(the_null_executor_measures_the_loop_only),
        with_root(blocks_for_the_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
