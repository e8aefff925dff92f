#include "profile/read/bundle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "support/support.h"

/* A bundle of closed-form times for a model of two layers, ms per layer. */
static const struct model tiny = {.name = "tiny",
                                  .family = MODEL_LLAMA,
                                  .act = ACT_SILU_GATED,
                                  .layers = 2,
                                  .hidden = 64,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .intermediate = 128,
                                  .vocab = 512,
                                  .max_positions = 4096};

static const char *const mlp_ops[] = {"emb",         "input_layernorm", "attn_pre_proj",
                                      "attn_rope",   "attn_post_proj",  "post_attention_layernorm",
                                      "mlp_up_proj", "mlp_act",         "mlp_down_proj",
                                      "add",         "final_layernorm", "lm_head",
                                      "sample"};
enum { MLP_OPS = sizeof mlp_ops / sizeof *mlp_ops };

static double token_ms(int i, double t)
{
    return 0.01 * (i + 1) + 0.001 * t;
}
static double decode_ms(double b, double kv)
{
    return 0.02 + 0.001 * b + 1e-5 * b * kv;
}
static double prefill_ms(double c, double kv)
{
    return 0.03 + 0.002 * c + 1e-6 * (c * kv + c * (c + 1) / 2);
}
static double host_ms(double b)
{
    return 0.5 + 0.01 * b; /* the sum of five terms below */
}

struct fixture {
    struct arena *a;
    struct tmp tmp;
    struct bundle_key key;
    struct bundle *b;
    struct err e;
    char compute[300], host[300];
};

static void put(const char *dir, const char *name, const struct buf *text)
{
    struct err e = {0};
    char path[400];
    assert_ok(fs_mkdirs(dir, &e), &e);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(fs_write_atomic(path, text->p ? text->p : "", text->n, &e), &e);
}

static void put_str(const char *dir, const char *name, const char *text)
{
    struct buf b = {0};
    buf_puts(&b, text);
    put(dir, name, &b);
    buf_free(&b);
}

static void put_mlp(const struct fixture *f)
{
    struct buf b = {0};
    for (int i = 0; i < MLP_OPS; i++)
        buf_printf(&b, "time_stats.%s.mean,time_stats.%s.median,", mlp_ops[i], mlp_ops[i]);
    buf_puts(&b, "n_head,n_kv_head,n_embd,n_expanded_embd,vocab_size,use_gated_mlp,num_tokens,"
                 "num_tensor_parallel_workers\n");
    const int tokens[] = {1, 2, 4, 8, 16, 64, 256, 1024};
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
        for (int tp = 1; tp <= 2; tp++) {
            for (int i = 0; i < MLP_OPS; i++)
                buf_printf(&b, "99,%.17g,", token_ms(i, tokens[t]) / tp);
            buf_printf(&b, "4,2,64,128,512,True,%d,%d\n", tokens[t], tp);
        }
    put(f->compute, "mlp.csv", &b);
    buf_free(&b);
}

static const char attention_header[] =
    "time_stats.attn_kv_cache_save.median,time_stats.attn_prefill.median,"
    "time_stats.attn_decode.median,n_embd,n_q_head,n_kv_head,block_size,"
    "num_tensor_parallel_workers,max_model_len,batch_size,prefill_chunk_size,kv_cache_size,"
    "is_prefill,attention_backend\n";

static void put_attention(const struct fixture *f)
{
    struct buf b = {0};
    buf_puts(&b, attention_header);
    for (int n = 1; n <= 32; n *= 2)
        for (int kv = 16; kv <= 1024; kv *= 4)
            buf_printf(&b, "%.17g,,%.17g,64,4,2,16,1,1024,%d,0,%d,False,X\n", 0.001 * n,
                       decode_ms(n, kv), n, kv);
    for (int c = 16; c <= 1024; c *= 2)
        for (int kv = 0; kv + c <= 1024; kv += c)
            buf_printf(&b, "%.17g,%.17g,,64,4,2,16,1,1024,1,%d,%d,True,X\n", 0.001 * c,
                       prefill_ms(c, kv), c, kv);
    put(f->compute, "attention.csv", &b);
    buf_free(&b);
}

static void put_host(const struct fixture *f, bool with_prefill)
{
    struct buf b = {0};
    buf_printf(&b,
               "schedule_median,sampler_e2e_median,prepare_inputs_e2e_median,"
               "process_model_outputs_median,ray_comm_time_mean,model_name,batch_size,"
               "tensor_parallel_degree%s\n",
               with_prefill ? ",prefill_iteration_host_median" : "");
    for (int n = 1; n <= 64; n *= 2)
        for (int tp = 1; tp <= 2; tp++) {
            buf_printf(&b, "0.1,0.2,0.1,%.17g,0.05,org/tiny,%d,%d", 0.05 + 0.01 * n, n, tp);
            buf_puts(&b, with_prefill ? ",2\n" : "\n");
        }
    put(f->host, "cpu_overheads.csv", &b);
    buf_free(&b);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->a = arena_new();
    f->tmp = tmp_new();
    f->key = (struct bundle_key){.root = f->tmp.dir,
                                 .hardware = "cpu",
                                 .model_name = "org/tiny",
                                 .model = &tiny,
                                 .tp = 1,
                                 .block_size = 16};
    snprintf(f->compute, sizeof f->compute, "%s/data/profiling/compute/cpu/org/tiny", f->tmp.dir);
    snprintf(f->host, sizeof f->host, "%s/data/profiling/cpu_overhead/cpu/org/tiny", f->tmp.dir);
    put_mlp(f);
    put_attention(f);
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

static void load(struct fixture *f)
{
    assert_ok(bundle_load(f->a, &f->key, &f->b, &f->e), &f->e);
}

/* The text with @ replaced by the compute folder. */
static void fails(struct fixture *f, const char *text)
{
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    struct buf want = {0};
    for (; *text; text++)
        if (*text == '@')
            buf_puts(&want, f->compute);
        else
            buf_putc(&want, *text);
    assert_cause(&f->e, buf_str(&want));
    buf_free(&want);
    err_clear(&f->e);
}

#define relative(got, want) assert_near((got) / (want), 1, 1e-9)

static void sums_of_operators_follow_the_closed_forms(void **state)
{
    struct fixture *f = *state;
    load(f);
    assert_null(bundle_missing(f->b));
    assert_null(bundle_meta(f->b));
    assert_false(bundle_has_host(f->b));
    assert_string_equal(bundle_dir(f->b), f->compute);
    for (int t = 1; t <= 1024; t += 7) {
        double ms = token_ms(0, t) + 2 * 0.001 * t; /* emb once; kv save twice */
        for (int i = 1; i <= 9; i++)
            ms += 2 * token_ms(i, t);
        relative(predict_tokens_s(f->b, t), ms / 1e3);
        ms = token_ms(10, t) + token_ms(11, t) + token_ms(12, t);
        relative(predict_rows_s(f->b, t), ms / 1e3);
    }
    assert_true(predict_tokens_s(f->b, 0) == 0 && predict_rows_s(f->b, 0) == 0);
    for (int n = 1; n <= 32; n += 3)
        for (int kv = 16; kv <= 1024; kv += 55)
            relative(predict_decode_s(f->b, n, (int64_t)n * kv), 2 * decode_ms(n, kv) / 1e3);
    /* unequal lengths: their mean, which need not be a whole number */
    relative(predict_decode_s(f->b, 4, 4 * 100 + 2), 2 * decode_ms(4, 100.5) / 1e3);
    assert_true(predict_decode_s(f->b, 0, 0) == 0);
    for (int c = 16; c <= 512; c += 31)
        for (int kv = 0; kv + c <= 900; kv += 77)
            relative(predict_prefill_s(f->b, kv, c), 2 * prefill_ms(c, kv) / 1e3);
    assert_int_equal(bundle_extrapolations(f->b), 0);
}

/* Lengths 100, 100, 100 and 900: mean 300. Time linear in the keys: the mean stands for them. */
static void unequal_lengths_cost_their_sum(void **state)
{
    struct fixture *f = *state;
    load(f);
    double want = 2 * decode_ms(4, 300) / 1e3;
    relative(predict_decode_mixed_s(f->b, 4, 1200, 900), want);
    relative(predict_decode_mixed_s(f->b, 4, 1200, 300), want);
    relative(predict_decode_mixed_s(f->b, 4, 1200, 0), want); /* not told */
    assert_true(predict_decode_mixed_s(f->b, 0, 0, 0) == 0);
    assert_int_equal(bundle_lookups(f->b), 3);
    assert_int_equal(bundle_extrapolations(f->b), 0);
}

/* 32 rows after 1000 tokens each: 1e-5 ms a key read, 1e-6 ms a score, two layers. */
static void verifying_reads_keys_once_or_computes_scores(void **state)
{
    struct fixture *f = *state;
    load(f);
    relative(predict_verify_s(f->b, 32, 32000, 1000, 0, NULL), 2 * decode_ms(32, 1000) / 1e3);
    relative(predict_verify_s(f->b, 32, 32000, 1000, 3, NULL), 2 * decode_ms(32, 1003) / 1e3);
    /* 16 queries: 16 x 1000 + 136 scores a row take longer than 1015 keys */
    assert_true(1e-6 * 32 * 16136 > decode_ms(32, 1015));
    relative(predict_verify_s(f->b, 32, 32000, 1000, 15, NULL), 2 * 1e-6 * 32 * 16136 / 1e3);
    assert_true(predict_verify_s(f->b, 0, 0, 0, 3, NULL) == 0);
    assert_int_equal(bundle_lookups(f->b), 3);
    assert_int_equal(bundle_extrapolations(f->b), 0);
}

/* A kernel that gives each sequence a core of its own: a + b kv, however many there are. Then the
 * longest alone sets the time. */
static double parallel_ms(double kv)
{
    return 0.01 + 1e-4 * kv;
}

static void a_batch_takes_at_least_what_its_longest_takes(void **state)
{
    struct fixture *f = *state;
    struct buf b = {0};
    buf_puts(&b, attention_header);
    for (int n = 1; n <= 8; n *= 2)
        for (int kv = 0; kv <= 1024; kv += 64)
            buf_printf(&b, "0,,%.17g,64,4,2,16,1,1024,%d,0,%d,False,X\n", parallel_ms(kv), n, kv);
    buf_puts(&b, "1,1,,64,4,2,16,1,1024,1,64,0,True,X\n"); /* a bundle has prefills too */
    put(f->compute, "attention.csv", &b);
    buf_free(&b);
    load(f);
    relative(predict_decode_mixed_s(f->b, 4, 1200, 300), 2 * parallel_ms(300) / 1e3);
    relative(predict_decode_mixed_s(f->b, 4, 1200, 900), 2 * parallel_ms(900) / 1e3);
}

/* In tiles of 128 keys, equal lengths stand at one place of their tile, unequal ones all over it:
 * on average half a tile more than their keys, whatever the mean. */
static void unequal_lengths_are_averaged_over_a_tile(void **state)
{
    struct fixture *f = *state;
    struct buf b = {0};
    buf_puts(&b, attention_header);
    for (int n = 1; n <= 64; n *= 2)
        for (int kv = 0; kv < 2048; kv += 32)
            buf_printf(&b, "0,,%.17g,64,4,2,16,1,1024,%d,0,%d,False,X\n",
                       1e-5 * n * 128 * ceil((kv + 1) / 128.0), n, kv);
    buf_puts(&b, "1,1,,64,4,2,16,1,1024,1,64,0,True,X\n"); /* a bundle has prefills too */
    put(f->compute, "attention.csv", &b);
    buf_free(&b);
    load(f);
    for (int mean = 300; mean < 800; mean += 16) {
        double keys = 128 * ceil((mean + 1) / 128.0), s = predict_decode_s(f->b, 32, 32 * mean);
        relative(s, 2 * 1e-8 * 32 * keys);
        s = predict_decode_mixed_s(f->b, 32, 32 * mean, mean + 64);
        if (fabs(s / (2 * 1e-8 * 32 * (mean + 64.5)) - 1) > 16.0 / mean) /* an eighth of a tile */
            fail_msg("mean %d: %g", mean, s);
    }
}

static void one_operator_at_a_time_gives_the_same(void **state)
{
    struct fixture *f = *state;
    load(f);
    struct op_list ops;
    model_ops(&tiny, &ops);
    /* 3 decode rows over 100 tokens each and two chunks of 64 after 128 */
    struct op_load load = {.tokens = 3 + 128,
                           .rows = 5,
                           .seqs = 3,
                           .kv_tokens = 3 * 101,
                           .kv_tokens_prefill = 2 * 64 * 128,
                           .chunk_sq = 2 * 64 * 65 / 2,
                           .kv_read_tokens = 2 * 192};
    double sum = 0;
    for (int i = 0; i < ops.n; i++)
        sum += bundle_op_s(f->b, &ops.ops[i], &load);
    double want = predict_tokens_s(f->b, 131) + predict_rows_s(f->b, 5) +
                  predict_decode_s(f->b, 3, 300) + 2 * predict_prefill_s(f->b, 128, 64);
    relative(sum, want);
    assert_int_equal(bundle_extrapolations(f->b), 0);
    struct op_load none = {0};
    for (int i = 0; i < ops.n; i++)
        assert_true(bundle_op_s(f->b, &ops.ops[i], &none) == 0);
}

static void outside_the_grid_grows_with_the_work_and_is_counted(void **state)
{
    struct fixture *f = *state;
    load(f);
    double edge = predict_tokens_s(f->b, 1024);
    assert_int_equal(bundle_extrapolations(f->b), 0);
    relative(predict_tokens_s(f->b, 4096), 4 * edge);
    assert_int_equal(bundle_extrapolations(f->b), 1);
    relative(predict_decode_s(f->b, 128, 128 * 4000), 2 * decode_ms(128, 4000) / 1e3);
    relative(predict_prefill_s(f->b, 8000, 64), 2 * prefill_ms(64, 8000) / 1e3);
    assert_int_equal(bundle_extrapolations(f->b), 3);
}

/* Vidur's terms vary independently: 3 and 4 around 10 and 15. How many there were is not told. */
static void vidurs_host_terms_have_a_spread(void **state)
{
    struct fixture *f = *state;
    struct bundle_uncertainty d;
    struct buf b = {0};
    buf_puts(&b, "schedule_mean,schedule_std,schedule_median,sampler_e2e_mean,sampler_e2e_std,"
                 "sampler_e2e_median,prepare_inputs_e2e_mean,prepare_inputs_e2e_std,"
                 "prepare_inputs_e2e_median,process_model_outputs_mean,process_model_outputs_std,"
                 "process_model_outputs_median,ray_comm_time_mean,model_name,batch_size,"
                 "tensor_parallel_degree\n");
    for (int n = 1; n <= 8; n *= 2)
        buf_printf(&b, "10,3,10,15,4,15,0,0,0,0,0,0,0,org/tiny,%d,1\n", n);
    put(f->host, "cpu_overheads.csv", &b);
    buf_free(&b);
    load(f);
    bundle_uncertainty(f->b, &d);
    assert_near(d.host_cv, 5.0 / 25, 1e-12);
    assert_near(d.place[PART_HOST] + d.shift[PART_HOST], 0, 1e-12); /* the same at every size */
    put_host(f, false);
    load(f);
    bundle_uncertainty(f->b, &d);
    assert_near(d.host_cv, 0, 0); /* a file without them */
}

static void host_time_by_batch_size(void **state)
{
    struct fixture *f = *state;
    put_host(f, false);
    load(f);
    assert_true(bundle_has_host(f->b));
    relative(bundle_host_s(f->b, 1, false), host_ms(1) / 1e3);
    relative(bundle_host_s(f->b, 24, true), host_ms(24) / 1e3);
    assert_int_equal(bundle_extrapolations(f->b), 0);
    relative(bundle_host_s(f->b, 100, false), host_ms(64) / 1e3);
    assert_int_equal(bundle_extrapolations(f->b), 1);
    put_host(f, true);
    load(f);
    relative(bundle_host_s(f->b, 24, false), host_ms(24) / 1e3);
    relative(bundle_host_s(f->b, 24, true), 2e-3);
    f->key.network_device = "other";
    assert_ok(fs_mkdirs(fs_join(f->a, f->tmp.dir, "data/profiling/network/other"), &f->e), &f->e);
    load(f); /* a device without host times */
    assert_false(bundle_has_host(f->b));
    assert_true(bundle_host_s(f->b, 4, false) == 0);
}

static void missing_rows_name_the_nearest(void **state)
{
    struct fixture *f = *state;
    f->key.tp = 8;
    fails(f, "@/mlp.csv: no rows for n_head 4, n_kv_head 2, n_embd 64, n_expanded_embd 128, "
             "use_gated_mlp True, num_tensor_parallel_workers 8, vocab_size 512; the nearest rows "
             "have num_tensor_parallel_workers 2");
    f->key.tp = 2;
    fails(f, "@/attention.csv: no rows for n_embd 64, n_q_head 4, n_kv_head 2, block_size 16, "
             "num_tensor_parallel_workers 2; the nearest rows have num_tensor_parallel_workers 1");
    f->key.tp = 1;
    f->key.block_size = 32;
    fails(f, "@/attention.csv: no rows for n_embd 64, n_q_head 4, n_kv_head 2, block_size 32, "
             "num_tensor_parallel_workers 1; the nearest rows have block_size 16");
    f->key.block_size = 16;
    struct model other = tiny;
    other.act = ACT_GELU_TANH;
    other.hidden = 128;
    f->key.model = &other;
    fails(f, "@/mlp.csv: no rows for n_head 4, n_kv_head 2, n_embd 128, n_expanded_embd 128, "
             "use_gated_mlp False, num_tensor_parallel_workers 1, vocab_size 512; the nearest rows "
             "have n_embd 64, use_gated_mlp True");
}

/* Vidur's folders carry the model's name on the hub; a bundle under our own name comes first. */
static void the_name_on_the_hub_will_do(void **state)
{
    struct fixture *f = *state;
    put_host(f, false);
    f->key.model_name = "tiny";
    f->key.hub_name = "org/tiny";
    load(f);
    assert_string_equal(bundle_dir(f->b), f->compute);
    relative(bundle_host_s(f->b, 1, false), host_ms(1) / 1e3);
    char own[400];
    struct err e = {0};
    snprintf(own, sizeof own, "%s/data/profiling/compute/cpu/tiny", f->tmp.dir);
    assert_ok(fs_mkdirs(own, &e), &e);
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "cpu/tiny/mlp.csv"));
}

static void missing_folders_say_what_is_there(void **state)
{
    struct fixture *f = *state;
    char want[600];
    put_host(f, true);
    f->key.network_device = "nvlink";
    load(f); /* a group's name: the bundle has host times of its hardware */
    relative(bundle_host_s(f->b, 24, false), host_ms(24) / 1e3);
    f->key.network_chosen = true;
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    snprintf(want, sizeof want,
             "network_device: %s/data/profiling has no folder nvlink, neither in cpu_overhead nor "
             "in network",
             f->tmp.dir);
    assert_cause(&f->e, want);
    assert_string_equal(err_hint_text(&f->e), "there are: cpu");
    err_clear(&f->e);
    f->key.network_device = NULL;
    f->key.model_name = "llama";
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    snprintf(want, sizeof want,
             "no profiling bundle of model llama for hardware cpu: "
             "%s/data/profiling/compute/cpu/llama is not a folder",
             f->tmp.dir);
    assert_cause(&f->e, want);
    snprintf(want, sizeof want, "%s/data/profiling/compute/cpu has the models org/tiny",
             f->tmp.dir);
    assert_string_equal(err_hint_text(&f->e), want);
    err_clear(&f->e);
    f->key.hardware = "h200";
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    snprintf(want, sizeof want, "%s/data/profiling/compute has the hardware cpu", f->tmp.dir);
    assert_string_equal(err_hint_text(&f->e), want);
    err_clear(&f->e);
    f->key.root = "/nonexistent";
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_string_equal(err_hint_text(&f->e), "profile.root=/nonexistent holds no bundles; "
                                              "`twinfer profile` makes one, "
                                              "predictor=roofline needs none");
}

#define MLP_HEAD                                                                             \
    "time_stats.attn_pre_proj.median,n_head,n_kv_head,n_embd,n_expanded_embd,use_gated_mlp," \
    "num_tokens,num_tensor_parallel_workers\n"

static void malformed_files_are_named_errors(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {MLP_HEAD, "@/mlp.csv has no rows"},
        {MLP_HEAD "x,4,2,64,128,True,1,1\n",
         "@/mlp.csv:2:1: time_stats.attn_pre_proj.median: expected a number, got 'x'"},
        {MLP_HEAD "0.1,4,2,64,128,yes,1,1\n",
         "@/mlp.csv:2:6: use_gated_mlp: expected True or False, got 'yes'"},
        {MLP_HEAD "-1,4,2,64,128,True,1,1\n",
         "@/mlp.csv:2:1: time_stats.attn_pre_proj.median: -1 is below the minimum 0"},
        {MLP_HEAD "1,4,2,64,128,True,0,1\n", "@/mlp.csv:2:7: num_tokens: 0 is below the minimum 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_str(f->compute, "mlp.csv", cases[i].text);
        fails(f, cases[i].error);
    }
}

static void required_columns_are_asked_for(void **state)
{
    struct fixture *f = *state;
    put_str(f->compute, "mlp.csv", "num_tokens,n_head\n1,4\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "time_stats.attn_pre_proj.median"));
    err_clear(&f->e);
    put_mlp(f);
    put_str(f->compute, "attention.csv", "prefill_chunk_size,kv_cache_size\n1,4\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "batch_size"));
}

static void half_of_attention_is_no_bundle(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *row, *error;
    } cases[] = {
        {"1,,0.5,64,4,2,16,1,1024,1,0,64,False,X\n",
         "@/attention.csv: no row of prefill chunks: time_stats.attn_prefill.median is empty in "
         "all"},
        {"1,0.5,,64,4,2,16,1,1024,1,64,0,True,X\n",
         "@/attention.csv: no row of decodes: time_stats.attn_decode.median is empty in all"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        buf_puts(&b, attention_header);
        buf_puts(&b, cases[i].row);
        put(f->compute, "attention.csv", &b);
        buf_free(&b);
        fails(f, cases[i].error);
    }
}

/* Vidur's files have no lm_head, final norm and sampler, and any vocabulary will do. */
static void absent_operators_are_listed_and_cost_nothing(void **state)
{
    struct fixture *f = *state;
    put_str(f->compute, "mlp.csv",
            "time_stats.attn_pre_proj.median,time_stats.add.median,vocab_size,n_head,n_kv_head,"
            "n_embd,n_expanded_embd,use_gated_mlp,num_tokens,num_tensor_parallel_workers\n"
            "1,,32768,4,2,64,128,True,1,1\n3,0.5,32768,4,2,64,128,True,3.0,1\n");
    load(f);
    assert_true(bundle_has(f->b, OP_ATTN_PRE_PROJ));
    assert_false(bundle_has(f->b, OP_LM_HEAD));
    assert_string_equal(bundle_missing(f->b),
                        "emb, input_layernorm, attn_rope, attn_post_proj, "
                        "post_attention_layernorm, mlp_up_proj, mlp_act, mlp_down_proj, "
                        "final_layernorm, lm_head, sample");
    assert_true(predict_rows_s(f->b, 8) == 0);
    struct op_list ops;
    model_ops(&tiny, &ops);
    struct op_load load = {.tokens = 2};
    for (int i = 0; i < ops.n; i++)
        if (ops.ops[i].kind == OP_ATTN_PRE_PROJ)
            relative(bundle_op_s(f->b, &ops.ops[i], &load), 2 * 2e-3);
}

static void waking_up_is_interpolated_over_the_pause(void **state)
{
    struct fixture *f = *state;
    double device, host;
    load(f);
    assert_int_equal(bundle_wake_iterations(f->b), 0);
    bundle_wake_s(f->b, 1, 0, &device, &host);
    assert_true(device == 0 && host == 0);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"operators\": {}, \"wake\": {\"pause_s\": [0.1, 1.1], "
            "\"device_s\": [[2, 1], [4, 1]], \"host_s\": [[0.5, 0], [1, 0]]}}\n");
    load(f);
    assert_int_equal(bundle_wake_iterations(f->b), 2);
    bundle_wake_s(f->b, 0.6, 0, &device, &host);
    assert_near(device, 3, 1e-12);
    assert_near(host, 0.75, 1e-12);
    bundle_wake_s(f->b, 0.05, 0, &device, &host); /* down to 0 at no pause */
    assert_near(device, 1, 1e-12);
    bundle_wake_s(f->b, 100, 1, &device, &host); /* flat above the longest */
    assert_near(device, 1, 1e-12);
    bundle_wake_s(f->b, 1, 2, &device, &host); /* past what was measured */
    assert_near(device, 0, 0);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"operators\": {}, \"wake\": {\"pause_s\": [0.1, 1.1], "
            "\"device_s\": [[2, 1], [4]], \"host_s\": [[0.5, 0], [1, 0]]}}\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "device_s: expected a list of 2 numbers"));
    err_clear(&f->e);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"operators\": {}, \"wake\": {\"pause_s\": [0.1], "
            "\"device_s\": [[2, 1], [4, 1]], \"host_s\": [[0.5, 0]]}}\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "do not fit together"));
    err_clear(&f->e);
}

static void our_meta_brings_errors_and_scales(void **state)
{
    struct fixture *f = *state;
    put_host(f, true);
    load(f);
    assert_true(bundle_decode_scale(f->b, 8, 0) == 1);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"iteration\": {\"decode\": [{\"x\": 1, \"factor\": "
            "1}, {\"x\": 16, \"factor\": 2}], \"prompt\": [{\"x\": 32, \"factor\": 2}]},"
            "\"host\": {\"scale\": 3, \"prefill_scale\": 4}, \"operators\": {\"attn_decode\": "
            "{\"loo_error\": 0.02}, \"lm_head\": {\"loo_error\": null}, \"warp_drive\": {}}}\n");
    load(f);
    assert_non_null(bundle_meta(f->b));
    assert_true(bundle_row_error(f->b, OP_ATTN_DECODE) == 0.02);
    assert_true(bundle_row_error(f->b, OP_LM_HEAD) < 0);
    assert_true(bundle_decode_scale(f->b, 1, 0) == 1);
    assert_true(bundle_decode_scale(f->b, 4, 0) == 1.5); /* half way in log2 */
    assert_true(bundle_decode_scale(f->b, 64, 0) == 2);
    assert_true(bundle_prompt_scale(f->b, 7, false) == 2);
    assert_true(bundle_prompt_scale(f->b, 7, true) == 2); /* of before those were told apart */
    for (int64_t train = 0; train < 6; train++) /* a bundle of before trains were told apart */
        assert_true(bundle_decode_scale(f->b, 4, train) == 1.5);
    relative(bundle_host_s(f->b, 8, false), 3 * host_ms(8) / 1e3);
    relative(bundle_host_s(f->b, 8, true), 4 * 2e-3);
    relative(predict_decode_s(f->b, 4, 400), 2 * decode_ms(4, 100) / 1e3);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"iteration\": {\"decode\": [{\"x\": 1, "
            "\"factor\": 0}]}, \"operators\": {}}\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "bundle_meta.json:1:"));
    err_clear(&f->e);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"iteration\": {\"decode\": [{\"x\": 4, \"factor\": 1}, "
            "{\"x\": 4, \"factor\": 1}]}, \"operators\": {}}\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "decode: x must ascend"));
    err_clear(&f->e);
    put_str(f->compute, "bundle_meta.json", "{\"schema_version\": 1}\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "operators"));
}

static void neighbours_in_the_caches_have_factors_of_their_own(void **state)
{
    struct fixture *f = *state;
    put_str(
        f->compute, "bundle_meta.json",
        "{\"schema_version\": 1, \"iteration\": {\"prompt\": [{\"x\": 8, \"factor\": 5}], "
        "\"prompt_mixed\": [{\"x\": 8, \"factor\": 6}], \"decode\": [{\"x\": 1, \"factor\": 1}, "
        "{\"x\": 16, \"factor\": 2}], \"decode_first\": [{\"x\": 1, \"factor\": 4}], "
        "\"decode_second\": [{\"x\": 1, \"factor\": 2}, {\"x\": 4, \"factor\": 3}]}, "
        "\"operators\": {}}\n");
    load(f);
    assert_true(bundle_prompt_scale(f->b, 9, false) == 5 &&
                bundle_prompt_scale(f->b, 9, true) == 6);
    assert_true(bundle_decode_scale(f->b, 4, 0) == 1.5); /* not told */
    assert_true(bundle_decode_scale(f->b, 4, 1) == 4);
    assert_true(bundle_decode_scale(f->b, 4, 2) == 3);
    assert_true(bundle_decode_scale(f->b, 2, 3) == 2.5);
    assert_true(bundle_decode_scale(f->b, 4, 4) == 1.5);
    assert_true(bundle_decode_scale(f->b, 4, 1000) == 1.5);
    assert_true(bundle_decode_scale(f->b, 4, 0) == 1.5);
}

static void decode_attention_beside_prompts_has_times_of_its_own(void **state)
{
    struct fixture *f = *state;
    load(f);
    assert_true(predict_decode_beside_s(f->b, 4, 400, 100, 0, NULL) ==
                predict_verify_s(f->b, 4, 400, 100, 0, NULL));
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"iteration\": {\"decode_beside\": {\"per_key_s\": 1e-6, "
            "\"per_row_s\": 1e-3, \"batches\": 90}}, \"operators\": {}}\n");
    load(f);
    relative(predict_decode_beside_s(f->b, 4, 400, 100, 0, NULL), 4e-3 + 400e-6);
    relative(predict_decode_beside_s(f->b, 4, 400, 100, 3, NULL), 4e-3 + 412e-6); /* 12 drafts */
    assert_true(predict_decode_beside_s(f->b, 0, 0, 0, 0, NULL) == 0);
    relative(predict_verify_s(f->b, 4, 400, 100, 0, NULL), decode_ms(4, 100) / 1e3 * 2);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"iteration\": {\"decode_beside\": {\"per_key_s\": -1, "
            "\"per_row_s\": 1e-3, \"batches\": 90}}, \"operators\": {}}\n");
    assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&f->e, 0), "per_key_s"));
}

static void check_holds_points_out(void **state)
{
    struct fixture *f = *state;
    load(f);
    struct bundle_check *c;
    int n;
    bundle_check(f->a, f->b, 0, &c, &n);
    struct op_list ops;
    model_ops(&tiny, &ops);
    assert_int_equal(n, ops.n);
    for (int i = 0; i < n; i++) {
        const struct holdout *h = &c[i].error;
        assert_true(h->tested > 0 && h->tested < c[i].points && h->extrapolated == 0);
        assert_true(h->max < 1e-9);
    }
}

/* J beside ms: 2 J a token for one operator, 0.5 J a cached token of attention. */
static void energy_columns_are_read_beside_the_times(void **state)
{
    struct fixture *f = *state;
    load(f);
    assert_false(bundle_has_energy(f->b));
    assert_null(bundle_energy_missing(f->b)); /* it has none at all */
    put_str(f->compute, "mlp.csv",
            "time_stats.attn_pre_proj.median,energy_stats.attn_pre_proj.median_j,"
            "energy_stats.lm_head.median_j,n_head,n_kv_head,n_embd,n_expanded_embd,use_gated_mlp,"
            "num_tokens,num_tensor_parallel_workers\n"
            "1,2,7,4,2,64,128,True,1,1\n3,20,,4,2,64,128,True,10,1\n");
    struct buf b = {0};
    buf_puts(&b, "time_stats.attn_prefill.median,time_stats.attn_decode.median,"
                 "energy_stats.attn_decode.median_j,n_embd,n_q_head,n_kv_head,block_size,"
                 "num_tensor_parallel_workers,batch_size,prefill_chunk_size,kv_cache_size\n");
    for (int n = 1; n <= 4; n++)
        for (int kv = 100; kv <= 400; kv += 100)
            buf_printf(&b, ",1,%g,64,4,2,16,1,%d,0,%d\n", 0.5 * n * kv + 1, n, kv);
    buf_puts(&b, "1,,,64,4,2,16,1,1,8,0\n");
    put(f->compute, "attention.csv", &b);
    buf_free(&b);
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"operators\": {}, \"energy\": {\"idle_w\": 75}}\n");
    load(f);
    assert_false(bundle_has_energy(f->b)); /* prompts take time, and nobody knows what energy */
    assert_string_equal(bundle_energy_missing(f->b),
                        "the bundle has times of attn_prefill, but no energy: twinfer profile "
                        "profile.energy=true measures it");
    assert_near(bundle_idle_w(f->b), 75, 0);
    relative(predict_tokens_j(f->b, 5), 2 * 2 * 5); /* two layers */
    relative(predict_rows_j(f->b, 1), 7);
    relative(predict_decode_j(f->b, 3, 3 * 250, NULL), 2 * (0.5 * 750 + 1));
    assert_true(predict_prefill_j(f->b, 0, 8) == 0 && predict_tokens_j(f->b, 0) == 0);
    assert_int_equal(bundle_lookups(f->b), 0);
    struct bundle_factors factors = {.decode = 1, .prompt = 1};
    for (int k = 0; k < BUNDLE_PARTS; k++)
        factors.part[k] = 2;
    const struct bundle *slower = bundle_perturbed(f->a, f->b, &factors);
    relative(predict_tokens_j(slower, 5), 2 * 2 * 5); /* times are uncertain, energy is not */
    relative(predict_tokens_j(f->b, 5), 2 * 2 * 5);
}

/* Energy is known when all that takes time has some, in batches without chunks too, and idle power
 * is. */
static void a_part_of_the_energy_is_no_energy(void **state)
{
    struct fixture *f = *state;
    static const char attention[] =
        "time_stats.attn_prefill.median,energy_stats.attn_prefill.median_j,"
        "time_stats.attn_decode.median,energy_stats.attn_decode.median_j,n_embd,n_q_head,"
        "n_kv_head,block_size,num_tensor_parallel_workers,batch_size,prefill_chunk_size,"
        "kv_cache_size\n1,2,,,64,4,2,16,1,1,8,0\n,,1,2,64,4,2,16,1,1,0,100\n";
    static const char mlp[] =
        "time_stats.attn_pre_proj.median,energy_stats.attn_pre_proj.median_j,"
        "time_stats.emb.median,energy_stats.emb.median_j,decode_stats.attn_pre_proj.median,"
        "decode_energy_stats.attn_pre_proj.median_j,decode_stats.emb.median,"
        "decode_energy_stats.emb.median_j,time_stats.lm_head.median,n_head,n_kv_head,n_embd,"
        "n_expanded_embd,vocab_size,use_gated_mlp,num_tokens,num_tensor_parallel_workers\n"
        "1,2,%s,1,2,%s,0,4,2,64,128,512,True,1,1\n";
    static const char idle[] =
        "{\"schema_version\": 1, \"operators\": {}, \"energy\": {\"idle_w\": 75}}\n";
    static const char no_idle[] =
        "{\"schema_version\": 1, \"operators\": {}, \"energy\": {\"idle_w\": null}}\n";
    static const struct {
        const char *both, *decode, *meta, *why; /* of the embedding: its time, its energy */
    } cases[] = {
        {"1,2", "1,2", idle, NULL},
        {"0,", "0,", idle, NULL}, /* it takes no time */
        {"1,", "1,2", idle, "the bundle has times of emb, but no energy: twinfer profile "},
        {"1,2", "1,", idle,
         "the bundle has times of emb in batches without chunks, but no energy: twinfer profile "},
        {"1,2", "1,2", no_idle, "the bundle does not say what idle devices draw (energy.idle_w "},
    };
    put_str(f->compute, "attention.csv", attention);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        buf_printf(&b, mlp, cases[i].both, cases[i].decode);
        put(f->compute, "mlp.csv", &b);
        buf_free(&b);
        put_str(f->compute, "bundle_meta.json", cases[i].meta);
        load(f);
        assert_true(bundle_has_energy(f->b) == !cases[i].why);
        if (cases[i].why)
            assert_ptr_equal(strstr(bundle_energy_missing(f->b), cases[i].why),
                             bundle_energy_missing(f->b));
        else
            assert_null(bundle_energy_missing(f->b));
    }
}

/* Of a GPU: batches without chunks have times of their own, there is a gap, host work is hidden. */
static void a_gpus_decode_batches_have_their_own_times(void **state)
{
    struct fixture *f = *state;
    put_str(f->compute, "mlp.csv",
            "time_stats.attn_pre_proj.median,time_stats.lm_head.median,time_stats.gap.median,"
            "decode_stats.attn_pre_proj.median,decode_stats.lm_head.median,decode_stats.gap.median,"
            "decode_stats.warp.median,n_head,n_kv_head,n_embd,n_expanded_embd,vocab_size,"
            "use_gated_mlp,num_tokens,num_tensor_parallel_workers\n"
            "1,10,100,2,20,30,7,4,2,64,128,512,True,1,1\n"
            "3,30,100,6,60,30,7,4,2,64,128,512,True,3,1\n"
            "9,,100,,,,,4,2,64,128,512,True,9,1\n");
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"operators\": {\"gap\": {\"loo_error\": 0.5}}, \"serving\": "
            "{\"scheduler.async_scheduling\": \"overlap\"}, \"host\": {\"launch_share\": 0.25, "
            "\"prefill_launch_share\": 0.75, \"answer_s\": 1e-5}}\n");
    load(f);
    /* two layers, one gap, and the cache's appends, which stand in attention.csv: microseconds */
    assert_near(predict_tokens_s(f->b, 2), (2 * 2 + 100) / 1e3, 1e-4);
    assert_near(predict_tokens_s(f->b, 9), (2 * 9 + 100) / 1e3, 1e-4);
    relative(predict_rows_s(f->b, 2), 20 / 1e3);
    relative(predict_decode_tokens_s(f->b, 2), (2 * 4 + 30) / 1e3);
    relative(predict_decode_rows_s(f->b, 2), 40 / 1e3);
    assert_true(bundle_has(f->b, OP_GAP) && bundle_row_error(f->b, OP_GAP) == 0.5);
    assert_true(bundle_overlaps(f->b));
    relative(bundle_launch_s(f->b, 4, false), 1);
    relative(bundle_launch_s(f->b, 4, true), 3);
    relative(bundle_answer_s(f->b), 1e-5);
    struct together_sum chunks = {0};
    for (int i = 0; i < 4; i++)
        predict_prefill_add(f->b, 0, 0, 64, &chunks);
    assert_true(predict_prefills_s(f->b, 0, &chunks) == chunks.sum_s);
    struct bundle_factors factors = {.decode = 1, .prompt = 1};
    for (int k = 0; k < BUNDLE_PARTS; k++)
        factors.part[k] = 2;
    const struct bundle *slower = bundle_perturbed(f->a, f->b, &factors);
    relative(predict_decode_tokens_s(slower, 2), 2 * (2 * 4 + 30) / 1e3);
    relative(predict_decode_rows_s(slower, 2), 80 / 1e3);

    /* batches of equal prompts were measured: chunks go together, and four of these take that */
    put_str(f->compute, "bundle_meta.json",
            "{\"schema_version\": 1, \"operators\": {}, \"prompt_batches\": [{\"chunks\": 4, "
            "\"tokens\": 64, \"attn_prefill_s\": 4e-4}]}\n");
    load(f);
    chunks = (struct together_sum){0};
    for (int i = 0; i < 4; i++)
        predict_prefill_add(f->b, 0, 0, 64, &chunks);
    relative(predict_prefills_s(f->b, 0, &chunks), 2 * 4e-4);

    put_mlp(f); /* without these columns all batches are alike */
    put_str(f->compute, "bundle_meta.json", "{\"schema_version\": 1, \"operators\": {}}\n");
    load(f);
    chunks = (struct together_sum){0};
    for (int i = 0; i < 4; i++)
        predict_prefill_add(f->b, 0, 0, 64, &chunks);
    assert_true(predict_prefills_s(f->b, 0, &chunks) == chunks.sum_s);
    assert_true(predict_decode_tokens_s(f->b, 8) == predict_tokens_s(f->b, 8));
    assert_true(predict_decode_rows_s(f->b, 8) == predict_rows_s(f->b, 8));
    assert_false(bundle_overlaps(f->b) || bundle_has(f->b, OP_GAP));
}

/* What Vidur publishes is read unchanged. */
static void vidurs_published_bundles_load(void **state)
{
    struct fixture *f = *state;
    f->key.root = "../shared/data/vidur";
    if (!fs_is_dir("../shared/data/vidur/data/profiling")) {
        print_message("skipped: ../shared/data/vidur is not here\n");
        skip();
    }
    static const struct {
        const char *name;
        int64_t layers, intermediate;
        double up_ms; /* mlp_up_proj, 4096 tokens, TP 2: mean of its two rows */
    } models[] = {
        {"codellama/CodeLlama-34b-Instruct-hf", 48, 22016, 6.19825},
        {"meta-llama/Llama-2-70b-hf", 80, 28672, 7.97675},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct model m = {.family = MODEL_LLAMA,
                          .act = ACT_SILU_GATED,
                          .layers = models[i].layers,
                          .hidden = 8192,
                          .heads = 64,
                          .kv_heads = 8,
                          .head_dim = 128,
                          .intermediate = models[i].intermediate,
                          .vocab = 32000};
        f->key.hardware = "a100";
        f->key.model_name = models[i].name;
        f->key.model = &m;
        f->key.tp = 2;
        load(f);
        struct op_list ops;
        model_ops(&m, &ops);
        struct op_load at = {.tokens = 4096};
        for (int j = 0; j < ops.n; j++)
            if (ops.ops[j].kind == OP_MLP_UP_PROJ)
                relative(bundle_op_s(f->b, &ops.ops[j], &at) * 1e3 / (double)m.layers,
                         models[i].up_ms);
        relative(predict_decode_s(f->b, 64, 64 * 4032) * 1e3 / (double)m.layers, 0.407);
        relative(predict_prefill_s(f->b, 2048, 2048) * 1e3 / (double)m.layers, 1.027);
        assert_int_equal(bundle_extrapolations(f->b), 0);
        assert_string_equal(bundle_missing(f->b), "attn_kv_cache_save, final_layernorm, sample");
        assert_string_equal(bundle_estimated(f->b), "lm_head (estimated from mlp_up_proj)");
        /* 32,000 outputs where mlp_up_proj has two for each of the intermediate ones */
        double up_s = models[i].up_ms / 1e3;
        relative(predict_rows_s(f->b, 4096), up_s * 32000 / (2 * (double)models[i].intermediate));
        f->key.tp = 4;
        assert_int_equal(bundle_load(f->a, &f->key, &f->b, &f->e), ST_INPUT);
        assert_non_null(
            strstr(err_cause(&f->e, 0), "; the nearest rows have num_tensor_parallel_workers 2"));
        err_clear(&f->e);
    }
}

/* Mean error of Vidur's random forest (scikit-learn 1.9, 250 trees, depth 32; 100 for attention,
 * 750 for all_reduce) on the same five folds of the same rows, in %. */
static void no_operator_is_worse_than_the_forest(void **state)
{
    struct fixture *f = *state;
    f->key.root = "../shared/data/vidur";
    if (!fs_is_dir("../shared/data/vidur/data/profiling")) {
        print_message("skipped: ../shared/data/vidur is not here\n");
        skip();
    }
    static const struct {
        const char *operator;
        double codellama, llama; /* all_reduce and send_recv: of the network alone */
    } forest[] = {
        {"emb", 2.76, 2.67},
        {"input_layernorm", 1.82, 1.54},
        {"attn_pre_proj", 2.37, 2.26},
        {"attn_rope", 2.04, 2.05},
        {"attn_prefill", 2.21, 2.21},
        {"attn_decode", 1.14, 1.14},
        {"attn_post_proj", 2.12, 2.12},
        {"post_attention_layernorm", 1.85, 1.66},
        {"mlp_up_proj", 2.24, 2.01},
        {"mlp_act", 1.71, 1.51},
        {"mlp_down_proj", 2.13, 2.20},
        {"add", 2.11, 2.09},
        {"all_reduce", 2.95, 2.95},
    };
    enum { OPERATORS = sizeof forest / sizeof *forest };
    struct model m = {.family = MODEL_LLAMA,
                      .act = ACT_SILU_GATED,
                      .hidden = 8192,
                      .heads = 64,
                      .kv_heads = 8,
                      .head_dim = 128,
                      .vocab = 32000};
    f->key.hardware = "a100";
    f->key.network_device = "a100_pairwise_nvlink";
    f->key.model = &m;
    f->key.tp = 2;
    f->key.pp = 1;
    for (int llama = 0; llama < 2; llama++) {
        m.layers = llama ? 80 : 48;
        m.intermediate = llama ? 28672 : 22016;
        f->key.model_name =
            llama ? "meta-llama/Llama-2-70b-hf" : "codellama/CodeLlama-34b-Instruct-hf";
        load(f);
        struct bundle_check *c;
        int n;
        bundle_check(f->a, f->b, 5, &c, &n);
        assert_int_equal(n, OPERATORS);
        for (int i = 0; i < n; i++) {
            double bound = llama ? forest[i].llama : forest[i].codellama;
            assert_string_equal(c[i].name, forest[i].operator);
            assert_int_equal(c[i].error.tested, c[i].points);
            if (c[i].error.mean * 100 > bound + 0.005)
                fail_msg("%s: %.2f %%, the forest has %.2f %%", c[i].name, c[i].error.mean * 100,
                         bound);
        }
    }
}

int main(void)
{
#define with_bundle(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        with_bundle(sums_of_operators_follow_the_closed_forms),
        with_bundle(unequal_lengths_cost_their_sum),
        with_bundle(verifying_reads_keys_once_or_computes_scores),
        with_bundle(a_batch_takes_at_least_what_its_longest_takes),
        with_bundle(unequal_lengths_are_averaged_over_a_tile),
        with_bundle(one_operator_at_a_time_gives_the_same),
        with_bundle(outside_the_grid_grows_with_the_work_and_is_counted),
        with_bundle(host_time_by_batch_size),
        with_bundle(vidurs_host_terms_have_a_spread),
        with_bundle(missing_rows_name_the_nearest),
        with_bundle(the_name_on_the_hub_will_do),
        with_bundle(missing_folders_say_what_is_there),
        with_bundle(malformed_files_are_named_errors),
        with_bundle(required_columns_are_asked_for),
        with_bundle(half_of_attention_is_no_bundle),
        with_bundle(absent_operators_are_listed_and_cost_nothing),
        with_bundle(waking_up_is_interpolated_over_the_pause),
        with_bundle(our_meta_brings_errors_and_scales),
        with_bundle(neighbours_in_the_caches_have_factors_of_their_own),
        with_bundle(decode_attention_beside_prompts_has_times_of_its_own),
        with_bundle(check_holds_points_out),
        with_bundle(energy_columns_are_read_beside_the_times),
        with_bundle(a_part_of_the_energy_is_no_energy),
        with_bundle(a_gpus_decode_batches_have_their_own_times),
        with_bundle(vidurs_published_bundles_load),
        with_bundle(no_operator_is_worse_than_the_forest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
