/* Any bytes, cut at three bytes 1e, as a profiling bundle's mlp.csv, attention.csv,
 * cpu_overheads.csv and bundle_meta.json: an error that names the file, or times that are finite
 * and not negative. */
#include <math.h>

#include "folder.h"
#include "profile/read/bundle.h"
#include "profile/read/power_cap.h"

static const struct model model = {.family = MODEL_QWEN3,
                                   .name = "m",
                                   .act = ACT_SILU_GATED,
                                   .qk_norm = true,
                                   .layers = 2,
                                   .hidden = 8,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 4,
                                   .intermediate = 16,
                                   .vocab = 32,
                                   .max_positions = 512};
static const char *const files[] = {"data/profiling/compute/h/m/mlp.csv",
                                    "data/profiling/compute/h/m/attention.csv",
                                    "data/profiling/cpu_overhead/h/m/cpu_overheads.csv",
                                    "data/profiling/compute/h/m/bundle_meta.json"};

static void put_files(struct arena *a, const uint8_t *p, size_t n)
{
    struct err e = {0};
    REQUIRE(fs_mkdirs(fs_join(a, folder(), "data/profiling/compute/h/m"), &e) == ST_OK);
    REQUIRE(fs_mkdirs(fs_join(a, folder(), "data/profiling/cpu_overhead/h/m"), &e) == ST_OK);
    for (int i = 0; i < 4; i++) {
        const uint8_t *cut = n && i < 3 ? memchr(p, 0x1e, n) : NULL;
        const size_t part = cut ? (size_t)(cut - p) : n;
        if (i < 2 || part > 0)
            folder_put(a, files[i], p, part);
        else
            fs_remove_tree(fs_join(a, folder(), files[i]), &e);
        p += part + (cut != NULL);
        n -= part + (cut != NULL);
    }
}

static void sound(double s)
{
    REQUIRE(isfinite(s) && s >= 0);
}

/* Batches one after the other, whatever the limit does. */
static void heat(const struct power_cap *c, int64_t tokens, struct power_cap_state *clock)
{
    const struct power_cap_batch x = {
        .tokens = tokens, .chunks = tokens % 2, .decode_share = (double)(tokens % 3) / 2};
    const struct power_cap_factors f = power_cap_factors(c, &x);
    sound(power_cap_run(c, &f, 1e-3 * (double)tokens, 1e-4, clock));
    power_cap_rest(c, 1e-3 * (double)(tokens % 7), clock);
    REQUIRE(clock->held >= 0 && clock->held <= 1 && isfinite(clock->excess));
}

static void ask(const struct bundle *b)
{
    static const int64_t sizes[] = {0, 1, 3, 17, 400, 100000};
    struct power_cap_state clock = {.held = 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && bundle_power_cap(b); i++)
        heat(bundle_power_cap(b), sizes[i], &clock);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t n = sizes[i];
        sound(predict_tokens_s(b, n));
        sound(predict_rows_s(b, n));
        sound(bundle_host_s(b, n + 1, i % 2));
        sound(bundle_prompt_scale(b, n + 1, i % 2));
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            sound(predict_prefill_s(b, sizes[k], n + 1));
            sound(predict_decode_s(b, n + 1, (n + 1) * sizes[k]));
            sound(predict_decode_beside_s(b, n + 1, (n + 1) * sizes[k], 2 * sizes[k], 0, NULL));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct bundle *b;
    put_files(a, data, size);
    const struct bundle_key key = {.root = folder(),
                                   .hardware = "h",
                                   .model_name = "m",
                                   .model = &model,
                                   .tp = 1,
                                   .block_size = 16};
    if (bundle_load(a, &key, &b, &e) == ST_OK)
        ask(b);
    else
        REQUIRE(strstr(err_cause(&e, 0), "m/") || strstr(err_cause(&e, 0), "bundle"));
    err_clear(&e);
    arena_free(&a);
    return 0;
}
