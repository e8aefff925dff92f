/* Notes of a fit, for people. */
#ifndef CALIBRATE_TELL_H
#define CALIBRATE_TELL_H

#include "calibrate/calibrate.h"

void tell_note(struct arena *a, struct calibrate_fit *f, const char *text);
/* What the data said: the names of parameters that stayed as uncertain as they were, and of pairs
 * of which only a combination is known. Sets told. */
void tell_what_data_said(struct arena *a, const struct theta_prior *prior, struct calibrate_fit *f);
/* Parameters that the data moved far from the prior: they stand for something that the model does
 * not have. After tell_what_data_said. */
void tell_far(struct arena *a, struct calibrate_fit *f);

/* What a run's server counted of first tokens outside the engine (metrics/server_metrics.h) beside
 * what the fit has there: front_s, first_token_s, and prompt_token_s and stream_s at the stage's
 * means. It is shown and not fitted. Of its parts, the server's front and what is outside the
 * server, the fit knows only the sum; and requests that come together wait longer for front_s, so
 * that the fit's is a lower bound. NULL: the run has no such counts. */
const char *tell_outside(struct arena *a, const struct observed *run,
                         const struct observed_stage *s, const struct theta *t);

/* Whether its requests found the server idle more often than not: less than one ran in the mean.
 * False where the latencies are not known. */
bool tell_is_idle(const struct observed_stage *s);
/* What is known of predictions of `whose` first tokens at an idle server, where no such stage was
 * fitted. */
const char *tell_idle(struct arena *a, const char *whose);

#endif
