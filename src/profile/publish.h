/* From a session's journal to the bundle: which sessions count, the factors that the calibration
 * run gives, then the files, in place of those of an extended bundle. */
#ifndef PROFILE_PUBLISH_H
#define PROFILE_PUBLISH_H

#include "profile/session.h"

/* Writes compute tables to `dir` and host time to the file `host`; the journal goes with that. An
 * error leaves the bundle that was there. */
enum st session_publish(struct session *s, const char *dir, const char *host, struct err *e);

#endif
