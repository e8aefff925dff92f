/* tests/golden/bundle, a profile of the tiny model on a CPU, with its model. */
#ifndef SUPPORT_GOLDEN_BUNDLE_H
#define SUPPORT_GOLDEN_BUNDLE_H

#include "profile/read/bundle.h"
#include "support/support.h"

/* Lives in the test's arena; the tests' working directory is the repository. */
struct bundle *golden_bundle(struct test *t, struct model *m);

#endif
