/* Power over time: the samples of one GPU, or of one meter, and the energy of a window of them.
 *
 * Files that are read, by their header (energy/power_columns.h has all names and units):
 *
 *     timestamp,gpu,power_w         ours (with energy_j, the reading of an energy counter)
 *     time,sum                      a meter, or the sum of several GPUs
 *     timestamp, index, power.draw [W]    nvidia-smi --query-gpu=timestamp,index,power.draw
 *                                   --format=csv; also nounits, power.draw.instant
 *     #Date  Time  gpu  pwr         nvidia-smi dmon -o DT
 *     time,gpu0_power_w,gpu1_power_w    a column for each GPU
 *
 * energy/power_text.h brings them into one form, energy/power_gpus.h tells GPUs apart: a log of
 * several is read for the one that is asked for, and refused without. Times are those of
 * energy/stamp.h. Rows without power ("[N/A]", "ERR!", an empty cell) are counted, and left out
 * unless the counter ticked there; so is a last line without its end: its writer was killed in it.
 *
 * The energy of a window is integrated thus: power interpolated at both edges, trapezoids between
 * the samples; rows of one time are one sample, and between them power steps. A single sample in
 * the window: its power times the duration. None: no energy, however near the neighbours are.
 * Beyond the log's ends power is that of its end, and `outside_s` says for how long.
 *
 * Error: with samples every T and power P(t) that is smooth between its steps, a step of height H
 * costs at most H T / 2, whatever the length of the window. Where the log has the counter's
 * readings, counter_j is their difference: interpolated at the edges between the ticks of the
 * counter, each of which is seen up to T late. So a step at an edge costs up to a tick times its
 * height, and what goes on inside is exact. */
#ifndef ENERGY_POWER_LOG_H
#define ENERGY_POWER_LOG_H

#include "base/arena.h"
#include "base/str.h"

struct power_sample {
    int64_t ns;     /* see `zoned` */
    double power_w; /* NAN = unknown */
    double
        energy_j; /* counted since some moment, at a tick of the counter; NAN = none or unknown */
};

struct power_log {
    const struct power_sample *p; /* [n], in order of time */
    size_t n;
    bool zoned;           /* ns is since 1970 in UTC; else as the wall's clock counted */
    const char *source;   /* for messages */
    const char *what;     /* "GPU 0", "the sum of a meter" */
    int64_t gpu;          /* its number, 0 where the log has none */
    bool meter;           /* of no GPU */
    bool counted;         /* no column has numbers of GPUs: `what` says which it is */
    bool averaged;        /* known to be an average over about a second (nvidia-smi's power.draw) */
    bool doubtful;        /* names no GPU, and several could have written it (power_gpus_mixed) */
    int64_t missing;      /* rows without power */
    const char *no_power; /* what the first of them says instead; NULL = nothing */
    int64_t headers;      /* repeated ones that were left out */
    bool cut;             /* the last line was left out */
};

/* Of a log with one GPU alone that one, without asking for its number. */
enum { POWER_LOG_ONLY_GPU = -1 };

/* gpu: the rows with that number, where the log tells GPUs apart; POWER_LOG_ONLY_GPU. ST_INPUT: no
 * such file, an unknown header, a cell at its place, time that goes back, no row of that GPU, or
 * several GPUs and none asked for (they are named). */
enum st power_log_read(struct arena *a, const char *path, int64_t gpu, struct power_log *out,
                       struct err *e);
enum st power_log_parse(struct arena *a, const char *source, struct sv bytes, int64_t gpu,
                        struct power_log *out, struct err *e);

/* Forgets readings of the counter that repeat the one before: those between two ticks. */
void power_log_ticks(struct power_sample *p, size_t n);

/* The file of ours, or of a meter: times without a zone: those of a log in UTC so many seconds east
 * of it, those of any other as they are. Without any reading of the counter the column is left out.
 */
void power_log_write(FILE *f, const struct power_log *log, int64_t gpu, int64_t utc_offset_s);
/* The same of several GPUs, each log's `gpu`, in order of time; all in UTC, or none. */
void power_log_write_all(FILE *f, const struct power_log *logs, size_t n, int64_t utc_offset_s);
/* The same of one in UTC, with its zone. */
void power_log_write_zoned(FILE *f, const struct power_log *log, int64_t gpu);

enum energy_how {
    ENERGY_EXCLUDED,   /* no sample in the window */
    ENERGY_ONE_SAMPLE, /* power times duration */
    ENERGY_TRAPEZOIDS,
    ENERGY_HOWS
};
const char *energy_how_name(unsigned how); /* "excluded", "one sample", "trapezoids" */

struct energy {
    enum energy_how how;
    double joules;    /* NAN when excluded */
    double counter_j; /* of the counter; NAN = none */
    double duration_s;
    int64_t samples;      /* in the window, edges included, at different times */
    double low_w, high_w; /* of them; NAN = none */
    double outside_s;     /* of the window before the first or behind the last sample of the log */
    double longest_gap_s; /* between two samples that the integral rests on; 0 = none */
    double edge_j;        /* bound of the error at the edges, see below */
};
/* from_ns <= to_ns, of the log's kind.
 *
 * A sensor shows a step up to one update late, taken as 100 ms, an averaged one up to a second; a
 * log up to one of its samples. So a step of power at an edge may be on the wrong side of it for
 * half of that time on average: edge_j is the range of power around each edge (as far as that time
 * reaches) times half of it, for both edges together. 0 for a window inside a steady load. */
struct energy energy_of(const struct power_log *log, int64_t from_ns, int64_t to_ns);

/* Mean power of the window with its 95 % interval, by its samples, else by the counter. `half_w` is
 * half of the interval's width, from the readings of the sensor in the window (runs of equal
 * readings are one), their spread, and the correlation between neighbours; NAN for fewer than
 * three. Errors of the sensor that all readings share are not in it. */
struct power_mean {
    double mean_w, half_w;
    double spread_w;    /* standard deviation of the readings */
    double correlation; /* between neighbours, 0 to 0.95 */
    int64_t readings;
};
struct power_mean power_mean_of(const struct power_log *log, int64_t from_ns, int64_t to_ns);

#endif
