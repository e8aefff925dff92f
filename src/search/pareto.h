/* Pareto fronts: points that no other point dominates. */
#ifndef SEARCH_PARETO_H
#define SEARCH_PARETO_H

#include <stdbool.h>
#include <stddef.h>

enum { PARETO_MAX = 3 };

/* on[i] = no j has every v[j][k] >= v[i][k] and one of them greater; of equal ones the first is on.
 * More is better: give costs with a minus. A point with a NAN is never on the front and dominates
 * none. dims <= PARETO_MAX. */
void pareto_front(const double (*v)[PARETO_MAX], size_t n, int dims, bool *on);

#endif
