#ifndef SUPPORT_FAKE_KERNELS_H
#define SUPPORT_FAKE_KERNELS_H

#include "base/str.h"

/* kernels.json of that trace, as `twinfer kernels` writes it; against: NULL, or the trace before.
 */
enum st fake_kernels(struct arena *a, const char *trace, const char *against, struct buf *json,
                     struct err *e);

#endif
