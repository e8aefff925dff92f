#include <math.h>

#include "unit/config/fixture.h"

/* "hardware/h100.yaml" -> "h100"; NULL for files of other groups and for the host's processor. */
static const char *gpu_group(struct test *t, const char *path)
{
    static const char folder[] = "hardware/";
    if (strncmp(path, folder, strlen(folder)) != 0 || strcmp(path, "hardware/cpu.yaml") == 0)
        return NULL;
    return arena_strn(t->a, path + strlen(folder), strlen(path) - strlen(folder) - strlen(".yaml"));
}

#define assert_known(group, field)                   \
    do {                                             \
        if (!(c.plan->hardware.field > 0))           \
            fail_msg("%s has no %s", group, #field); \
    } while (0)

/* What no device is without. Types that a GPU does not compute in stay unset. */
static void every_gpu_says_what_it_has(void **state)
{
    struct test *t = *state;
    int n = 0;
    for (const struct embed_file *f = embed_cmd; f->path; f++) {
        const char *group = gpu_group(t, f->path);
        if (!group)
            continue;
        struct config c =
            fixture_good(t, ARGS(SIMULATE, embed_cmd, arena_printf(t->a, "hardware=%s", group)));
        assert_string_equal(c.plan->hardware.id, group);
        assert_known(group, memory_gb);
        assert_known(group, reserved_gb);
        assert_known(group, dram_gb_per_s);
        assert_known(group, peak_tflops.fp32);
        assert_known(group, peak_tflops.fp16);
        assert_known(group, link_gb_per_s);
        assert_known(group, pcie_gb_per_s);
        assert_known(group, sms);
        n++;
    }
    assert_true(n >= 20);
}

/* Figures of neighbouring types and links stand in proportions that a slip of the pen breaks. */
static void figures_agree_with_each_other(void **state)
{
    struct test *t = *state;
    for (const struct embed_file *f = embed_cmd; f->path; f++) {
        const char *group = gpu_group(t, f->path);
        if (!group)
            continue;
        struct config c =
            fixture_good(t, ARGS(SIMULATE, embed_cmd, arena_printf(t->a, "hardware=%s", group)));
        const double fp32 = c.plan->hardware.peak_tflops.fp32,
                     tf32 = c.plan->hardware.peak_tflops.tf32,
                     bf16 = c.plan->hardware.peak_tflops.bf16,
                     fp16 = c.plan->hardware.peak_tflops.fp16,
                     fp8 = c.plan->hardware.peak_tflops.fp8, fp4 = c.plan->hardware.peak_tflops.fp4;
        bool ok = fp16 > fp32 && (bf16 == 0 || bf16 == fp16) &&
                  (tf32 == 0 || fabs(tf32 / fp16 - 0.5) < 0.01) &&
                  (fp8 == 0 || fabs(fp8 / fp16 - 2) < 0.05) && (fp4 == 0 || fp4 >= 2 * fp8 - 1);
        if (!ok)
            fail_msg("%s: rates of fp32 %g, tf32 %g, bf16 %g, fp16 %g, fp8 %g, fp4 %g", group, fp32,
                     tf32, bf16, fp16, fp8, fp4);
        if (c.plan->hardware.reserved_gb > 0.02 * c.plan->hardware.memory_gb + 0.2)
            fail_msg("%s: the driver keeps %g of %g GiB", group, c.plan->hardware.reserved_gb,
                     c.plan->hardware.memory_gb);
        if (c.plan->hardware.link_gb_per_s < c.plan->hardware.pcie_gb_per_s)
            fail_msg("%s: its link is slower than PCIe", group);
        /* Where a link joins few, or nodes are stated, each step outward is slower. */
        if (c.plan->hardware.node_gb_per_s > 0 &&
            (c.plan->hardware.gpus_per_node < 2 ||
             c.plan->hardware.node_gb_per_s > c.plan->hardware.link_gb_per_s))
            fail_msg("%s: its nodes", group);
        if (c.plan->hardware.link_gpus == 1)
            fail_msg("%s: its link joins one", group);
        /* FLOP of one SM in a cycle, fp32: 128 or 256, at 1.1 to 3 GHz */
        const double flop = fp32 * 1e12 / (double)c.plan->hardware.sms;
        if (flop < 128 * 1.1e9 || flop > 256 * 3e9)
            fail_msg("%s: %g FLOP/s an SM", group, flop);
    }
}

/* A comment of each file says where its figures come from. */
static void every_gpu_names_its_sources(void **state)
{
    struct test *t = *state;
    for (const struct embed_file *f = embed_cmd; f->path; f++) {
        const char *group = gpu_group(t, f->path);
        if (!group)
            continue;
        const char *text = arena_strn(t->a, f->bytes, f->size);
        if (!strstr(text, "# Rates") || !strstr(text, " SMs:") || !strstr(text, " Memory:") ||
            (!strstr(text, "datasheet") && !strstr(text, "whitepaper") &&
             !strstr(text, "overview") && !strstr(text, "brief")))
            fail_msg("%s names no source", group);
    }
}

static void peaks_are_refused_where_times_are_measured(void **state)
{
    struct test *t = *state;
    struct config c = fixture_good(t, ARGS(SIMULATE, embed_cmd, "hardware=h100",
                                           "hardware.peak_tflops.bf16=900", "predictor=bundle"));
    assert_true(c.plan->hardware.peak_tflops.bf16 == 900);
    assert_err(config_check_read(&c, &t->e), ST_USAGE, t,
               "command line: simulate does not use hardware.peak_tflops.bf16 with "
               "predictor.kind=bundle\n"
               "hint: leave it out, or choose another predictor.kind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_gpu_says_what_it_has),
        TEST(figures_agree_with_each_other),
        TEST(every_gpu_names_its_sources),
        TEST(peaks_are_refused_where_times_are_measured),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
