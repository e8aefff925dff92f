/* Finished measurements on disk, so that an interrupted profile goes on where it stopped.
 *
 * <root>/.partial/<hardware>/<model>/journal.txt, appended line by line:
 *     twinfer-profile-journal 1 <sha256 of what the measurements depend on>
 *     s <point> <one time per operator kind, s>           a sample; point = index in the grid
 *     h <batch> <chunks> <host s> <executor host s> <device s>    an iteration of the serving loop
 *     b <batch>                                           a run of the serving loop is complete
 *     p                                                   publishing has begun
 * A last line without its newline is dropped; iterations of an incomplete run too. */
#ifndef PROFILE_JOURNAL_H
#define PROFILE_JOURNAL_H

#include <stdio.h>

#include "base/vec.h"
#include "model/model.h"

struct sample {
    double op_s[OP_KINDS];
};

struct host_sample {
    int64_t batch, chunks; /* sequences; of these prefill chunks */
    double host_s, executor_s,
        device_s; /* beyond operators; of it inside the executor; operators */
};

struct journal {
    const char *dir, *path;
    FILE *f;
    int64_t n_points;
    VEC(struct sample) * samples; /* [n_points] */
    VEC(struct host_sample) host;
    VEC(int64_t) runs; /* batch of each complete run of the serving loop */
    bool publishing;
    int64_t resumed; /* samples found on disk */
};

/* Opens or creates the journal. One that was made for another key is emptied, with a log line that
 * says so. ST_USAGE when another process has it open. */
enum st journal_open(struct arena *a, const char *dir, const char *key, int64_t n_points,
                     struct journal *j, struct err *e);
enum st journal_sample(struct journal *j, int64_t point, const double op_s[OP_KINDS],
                       struct err *e);
/* The iterations of one run of the serving loop, all or none. */
enum st journal_host_run(struct journal *j, int64_t batch, const struct host_sample *h, size_t n,
                         struct err *e);
enum st journal_publish(struct journal *j, struct err *e);
void journal_close(struct journal *j);
/* Whether the journal in dir, if there is one, ends with the begin of publishing: once the bundle
 * is in place it is of no more use. */
bool journal_published(struct arena *a, const char *dir);
/* Removes the folder, and those above it up to .partial when they are empty. */
enum st journal_remove(const char *dir, struct err *e);

#endif
