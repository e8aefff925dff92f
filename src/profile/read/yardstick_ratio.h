/* Did the machine change between two measurements? Reads what profile/yardstick.h wrote. */
#ifndef PROFILE_READ_YARDSTICK_RATIO_H
#define PROFILE_READ_YARDSTICK_RATIO_H

#include "text/node.h"

/* Time now / time then over the points both have, geometric mean; NAN when they share none, or one
 * is NULL. */
double yardstick_ratio(const struct node *now, const struct node *then);

/* A change by more than this is told, and misses it explains are not judged. */
#define YARDSTICK_TOO_MUCH 0.03

#endif
