#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/bench.h"
#include "engine/cpu/stream.h"

enum { PROMPT = 32, REQUESTS = 8, OUTPUT = 16 };

static void print_spread(const char *what, struct spread s, double scale, const char *unit)
{
    printf("%-28s %9.2f %s  (quartiles %.2f .. %.2f)\n", what, s.median * scale, unit,
           s.low * scale, s.high * scale);
}

/* Steps and passes alternate, so both see the same weather; the ratio is that of each pair. */
int bench_floor(const struct options *o)
{
    const struct model m = bench_model(o->gib);
    const double bytes = bench_matrix_bytes(&m);
    double *decode_s = mem_alloc(3 * (size_t)o->rounds * sizeof *decode_s);
    double *stream_s = decode_s + o->rounds, *ratio = stream_s + o->rounds;
    struct err e = {0};
    struct stream *stream;
    struct drive *d = drive_open(&m, o, 1, PROMPT + o->rounds + 1, PROMPT);
    if (stream_open(o->threads, (size_t)bytes, &stream, &e) != ST_OK) {
        err_print(&e, "engine_bench", stderr);
        return err_exit_code(e.st);
    }
    printf("%lld layers, %.2f GiB of matrices, last-level cache %.2f GiB\n", (long long)m.layers,
           bytes / (double)(1 << 30), bench_last_level_gib());
    drive_step(d, 0, 1, 0, 0);
    drive_step(d, 0, 0, 0, 1);
    stream_pass_s(stream);
    for (int i = 0; i < o->rounds; i++) {
        decode_s[i] = drive_step(d, 0, 0, 0, 1);
        stream_s[i] = stream_pass_s(stream);
        ratio[i] = decode_s[i] / stream_s[i];
    }
    print_spread("decode step, batch 1", spread_of(decode_s, o->rounds), 1e3, "ms");
    print_spread("streaming the same bytes", spread_of(stream_s, o->rounds), 1e3, "ms");
    printf("%-28s %9.2f GB/s\n", "that is", bytes / spread_of(stream_s, o->rounds).median / 1e9);
    print_spread("decode / streaming", spread_of(ratio, o->rounds), 1, "x (limit 1.5)");
    stream_close(&stream);
    drive_close(&d);
    mem_free(decode_s);
    return 0;
}

static double one_after_another_s(struct drive *d)
{
    double s = 0;
    drive_restart(d);
    for (int i = 0; i < REQUESTS; i++) {
        s += drive_step(d, i, i + 1, 0, 0);
        for (int t = 1; t < OUTPUT; t++)
            s += drive_step(d, 0, 0, i, i + 1);
    }
    return s;
}

/* All arrive at once: each prompt joins the decodes of those before it. */
static double together_s(struct drive *d)
{
    double s = 0;
    drive_restart(d);
    for (int i = 0; i < REQUESTS; i++)
        s += drive_step(d, i, i + 1, 0, i);
    for (int t = 1; t < OUTPUT; t++) /* request i has had REQUESTS - 1 - i decodes */
        s += drive_step(d, 0, 0, t < OUTPUT - REQUESTS + 1 ? 0 : t - (OUTPUT - REQUESTS), REQUESTS);
    return s;
}

int bench_batching(const struct options *o)
{
    const struct model m = bench_model(o->gib);
    const int rounds = o->rounds < 5 ? o->rounds : 5;
    struct drive *d = drive_open(&m, o, REQUESTS, PROMPT + 2 * OUTPUT, PROMPT);
    double one[5], all[5], gain[5];
    drive_step(d, 0, REQUESTS, 0, 0);
    for (int i = 0; i < rounds; i++) {
        one[i] = REQUESTS * OUTPUT / one_after_another_s(d);
        all[i] = REQUESTS * OUTPUT / together_s(d);
        gain[i] = all[i] / one[i];
    }
    printf("%d requests of %d + %d tokens\n", REQUESTS, PROMPT, OUTPUT);
    print_spread("one after another", spread_of(one, rounds), 1, "tokens/s");
    print_spread("together", spread_of(all, rounds), 1, "tokens/s");
    print_spread("gain", spread_of(gain, rounds), 1, "x (limit 2.5)");
    drive_close(&d);
    return 0;
}
