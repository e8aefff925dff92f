/* Files of a calibration. calibration.json and request_overheads.json are of profile/read; beside
 * them bundle_meta.json has, under "calibration", what the fit said of all its parameters, spread
 * and overheads included: that is what a later fit takes as its prior. */
#ifndef CALIBRATE_CALIBRATION_FILES_H
#define CALIBRATE_CALIBRATION_FILES_H

#include "calibrate/calibrate.h"

/* Theta and covariance of the one bundle below root; what it does not have is the prior's. ST_INPUT
 * where there is none, or several. */
enum st files_read_fit(struct arena *a, const char *root, const struct theta_prior *prior,
                       struct calibrate_fit *out, struct err *e);

/* The fit for bundle_meta.json, and for people. */
struct node *files_fit_node(struct arena *a, const struct calibrate_input *in,
                            const struct calibrate_fit *fit);

#endif
