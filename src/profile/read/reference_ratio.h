/* Change of the machine's speed between two measurements, from the nodes of profile/reference.h. */
#ifndef PROFILE_READ_REFERENCE_RATIO_H
#define PROFILE_READ_REFERENCE_RATIO_H

#include "text/node.h"

/* Time now / time then over the points both have, geometric mean; NAN when they share none, or one
 * is NULL. */
double reference_ratio(const struct node *now, const struct node *then);

/* A larger change is reported, and misses that it explains are not judged. */
#define REFERENCE_TOO_MUCH 0.03

#endif
