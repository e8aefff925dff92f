/* Finished measurements on disk, so that an interrupted profile goes on where it stopped.
 *
 * <root>/.partial/<hardware>/<model>/journal.txt, appended line by line:
 *     twinfer-profile-journal 1 <sha256 of what the measurements depend on>
 *     n <wall clock, s>                                   a session begins
 *     s <point> <one time per operator row, s>            a sample; point = index in the grid
 *     v <point> <s>                                       a visit of the point is over: its cost
 *     h <batch> <chunks> <host s> <executor host s> <device s> [<launch s> <answer s>]
 *                                                         an iteration of the serving loop
 *     b <batch>                                           a run of the serving loop is complete
 *     r <numbers>                                         a batch of the calibration run
 *     q <s>                                               a calibration round is complete
 *     w <numbers>                                         a request after a pause (wake.h)
 *     y <point> <s>                                       a reference pass (reference.h)
 *     t, m <train> <prompts> <tokens> <s> <s>             a pass of a train (power_cap.h)
 *     u <s>                                               trains of the power cap are complete
 *     e, i <numbers>                                      power of a loop, idle power (power.h)
 *     c <s> <waiting> <stolen> [<pressure>]               a session is over: its contention
 *     p                                                   publishing has begun
 *
 * A last line without its newline is dropped; so are iterations and batches of an incomplete run.
 *
 * A bundle keeps its journal as samples.txt, so that it can be extended. */
#ifndef PROFILE_JOURNAL_H
#define PROFILE_JOURNAL_H

#include <stdio.h>

#include "base/vec.h"
#include "model/model.h"

struct sample {
    double op_s[OP_ROWS];
    int session; /* from 1; 0 = before the first "n" */
};

struct host_sample {
    int64_t batch;     /* sequences */
    int64_t chunks;    /* those of them with a prefill chunk */
    double host_s;     /* beyond operators */
    double executor_s; /* part of host_s inside the executor */
    double device_s;   /* in operators */
    /* Of executors with several batches in flight, of which host_s is prepare_s + launch_s of the
     * completion; 0 = not told. */
    double launch_s, answer_s;
    int session;
};

/* A line of the kinds n, r, q, w, y, t, m, u, e, i, c: its letter, and the range of its numbers. */
struct journal_row {
    char kind;
    int n;
    size_t first;
};

/* Numbers of a sample stand in an order of their own, which outlives enum op_kind: kinds as they
 * came to be, then further rows (model.h). Sets of rows are numbers with a bit for each place in
 * that order, which are exact up to JOURNAL_ROWS rows. Zeros at a sample's end may be left out. */
enum { JOURNAL_ROWS = 53 };
uint64_t journal_bits(uint64_t rows);    /* of a set with a bit for each row */
uint64_t journal_rows_of(uint64_t bits); /* back */

/* Work of the present session at a point. */
struct journal_point {
    int64_t visits, samples;
    double spent_s;
};

struct journal {
    const char *dir, *path;
    FILE *f;
    int64_t n_points;
    VEC(struct sample) * samples; /* [n_points] */
    VEC(struct host_sample) host;
    VEC(int64_t) runs; /* batch of each complete run of the serving loop */
    VEC(struct journal_row) rows;
    VEC(double) numbers;               /* of the rows */
    struct journal_point *now;         /* [n_points] */
    int session;                       /* the present one */
    size_t session_runs, session_rows; /* counts when the present session began */
    bool publishing;
    int64_t resumed; /* samples found on disk */
};

/* Opens or creates the journal. One made for another key is emptied, with a log line. ST_USAGE when
 * another process has it open. */
enum st journal_open(struct arena *a, const char *dir, const char *key, int64_t n_points,
                     struct journal *j, struct err *e);
enum st journal_sample(struct journal *j, int64_t point, const double op_s[OP_ROWS], struct err *e);
/* Appends the iterations of one run of the serving loop, all or none. */
enum st journal_host_run(struct journal *j, int64_t batch, const struct host_sample *h, size_t n,
                         struct err *e);
/* A visit of the point is over. */
enum st journal_visit(struct journal *j, int64_t point, double spent_s, struct err *e);
/* A line of one of the kinds n, r, q, w, y, t, m, u, e, i, c; at most JOURNAL_NUMBERS numbers. "n"
 * begins a session. */
enum { JOURNAL_NUMBERS = 512 };
enum st journal_row(struct journal *j, char kind, const double *v, int n, struct err *e);
/* Row i of that kind, counted from row *at, which moves past it; NULL: no more. */
const double *journal_next(const struct journal *j, char kind, size_t *at, int *n);
/* Their number. */
int journal_rows(const struct journal *j, char kind);
/* Drops that session's measurements from memory where another session has the same ones; the file
 * keeps them, and rows n, c, e, i, t, m and u stay: power does not depend on who else wants the
 * cores.
 */
void journal_leave_out(struct journal *j, int session);
enum st journal_publish(struct journal *j, struct err *e);
void journal_close(struct journal *j);
/* The lines of a whole journal without those of publishing. */
enum st journal_text(struct arena *a, const char *path, struct sv *out, struct err *e);
/* Whether the journal in dir, if any, ends with the start of publishing: obsolete once the bundle
 * is in place. */
bool journal_published(struct arena *a, const char *dir);
/* Removes the folder, and those above it up to .partial when they are empty. */
enum st journal_remove(const char *dir, struct err *e);

#endif
