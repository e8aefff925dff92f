/* What orders the accesses of a kernel, place by place: its cases have no race, and have one as
 * soon as one of the barriers, fences or waits of its source is not counted. So the cases reach
 * what each of them is for, and one that a change takes away is found. */
#include <fcntl.h>
#include <unistd.h>

#include "support/gpu_emulator/check_row.h"

/* Cases of a kernel; how many of its places order nothing in them that nothing else orders. */
struct row {
    const char *name, *dtype;
    int sms, every;
    double most_bytes;
    int spare;
};

static const struct row rows[] = {
    {"norm", "bf16", H200_SMS, 37, 2e5, 0},
    /* the first of block_max: one of the loop over keys is in front of it */
    {"attention_any", "f32", H200_SMS, 7, 3e5, 1},
    {"attention_any", "bf16", H200_SMS, 7, 3e5, 1},
    {"attention_decode", "bf16", H200_SMS, 29, 2e6, 0},
    {"attention_prefill", "bf16", H200_SMS, 13, 1e6, 0},
    {"group", "bf16", H200_SMS, 3, 1e5, 0},
    {"experts_few", "bf16", H200_SMS, 7, 5e5, 0},
    {"experts_many", "bf16", H200_SMS, 7, 1e6, 0},
    {"matmul_one", "bf16", 3, 13, 1e6, 0},
    {"matmul_few", "bf16", 3, 101, 1e6, 0},
    /* that behind the norm's weights: float16 has another, for the rows' factors */
    {"matmul_few", "f16", 3, 101, 1e6, 1},
    {"matmul_few", "f32", 3, 101, 1e6, 0},
    {"matmul_some_gated", "bf16", 3, 101, 1e6, 0},
    /* the fences: what they order are atomics, which are no races with each other */
    {"argmax", "bf16", H200_SMS, 5, 2e6, 2},
    /* those behind the reading of `found`: a block_scan comes before it is written again */
    {"sample", "bf16", H200_SMS, 5, 3e5, 2},
    /* one has lanes converge in front of a shuffle, one ends copies before the block ends */
    {"decode_step", "bf16", 5, 13, 2e7, 2},
    {"decode_step", "f16", 5, 13, 2e7, 2},
};

static int check(const struct row *r)
{
    struct dev g = {.name = "emulator", .arch = 90, .sms = r->sms};
    return check_all(&g, &(struct check_scope){.only = r->name,
                                               .dtype = r->dtype,
                                               .every = r->every,
                                               .most_bytes = r->most_bytes});
}

/* Its failures are wanted: they are not shown. */
static long races_without(const struct row *r, const char *place)
{
    const long before = emulator_races();
    const int null = open("/dev/null", O_WRONLY), out = dup(1), err = dup(2);
    fflush(NULL);
    dup2(null, 1);
    dup2(null, 2);
    emulator_without(place);
    check(r);
    emulator_without(NULL);
    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
    close(null);
    close(out);
    close(err);
    return emulator_races() - before;
}

static void each_place_is_needed(void **state)
{
    (void)state;
    if (!emulator_finds_races()) {
        print_message("skipped: races, in a build with a sanitizer\n");
        skip();
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const char *place;
        char spare[512] = "";
        int n = 0;
        emulator_forget_order_places();
        assert_int_equal(check(r), 0);
        for (int j = 0; (place = emulator_order_place(j)); j++) {
            const long races = races_without(r, place);
            printf("%-18s %-4s without %-24s races in %ld cases\n", r->name, r->dtype, place,
                   races);
            if (races > 0)
                continue;
            snprintf(spare + strlen(spare), sizeof spare - strlen(spare), " %s", place);
            n++;
        }
        if (n != r->spare)
            fail_msg(
                "%s_%s: %d places seem needless, not %d:%s; a case that needs them is missing, "
                "they are, or rows[] has to say why they stand there",
                r->name, r->dtype, n, r->spare, spare);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(each_place_is_needed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
