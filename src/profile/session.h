/* One session of measuring, between opening the journal and writing the bundle. Private to
 * profile/.
 *
 * Every measurement is appended to the journal at once: an interruption leaves it, and the bundle
 * is made from it. */
#ifndef PROFILE_SESSION_H
#define PROFILE_SESSION_H

#include "base/log.h"
#include "profile/drive.h"
#include "profile/journal.h"
#include "profile/profile.h"
#include "profile/reference.h"

struct session {
    struct arena *a;
    const struct profile_params *p;
    struct executor ex;
    const volatile sig_atomic_t *stop;
    struct grid_limits limits;
    struct point_list points;
    struct journal journal;
    struct drive *drive;
    struct reference reference;
    struct progress progress;
    bool extends;  /* earlier sessions chose the levels */
    double used_s; /* of the budget */
    int level[POINT_GROUPS];
    double group_s[POINT_GROUPS], calibration_s, host_s, wake_s; /* parts of used_s */
    int64_t rejected; /* samples of this session: the device was disturbed */
    int64_t left_out; /* points of level 0 that the budget could not hold */
};

bool session_stopped(const struct session *s);
/* ST_INTERRUPTED, with a hint how to resume. */
enum st session_interrupted(const struct session *s, struct err *e);
/* Books used time of the budget. */
void session_used(struct session *s, double *part, double spent_s);

/* ---- sample.c: the points of the grid ---- */

/* Runs passes over the cheapest points until they settle. */
enum st sample_warm_up(struct session *s, struct err *e);
/* A first visit of each point, level by level as far as the budget goes; with calibration_only just
 * the levels that earlier sessions reached. */
enum st sample_levels(struct session *s, struct err *e);
/* One more visit for each point that has fewer than `round` in this session, and for which samples
 * and budget allow one. *visited: their number. */
enum st sample_round(struct session *s, int64_t round, int64_t *visited, struct err *e);
/* Seconds of a decode batch of up to that many sequences with short caches, undisturbed; before any
 * point is measured, of the runs for host time; 0 = unknown. */
double sample_decode_s(const struct session *s, int64_t batch);
/* And of a token of the shortest prompt with so many tokens that was measured. */
double sample_prompt_token_s(const struct session *s, int64_t tokens);

#endif
