#define KERNELS_SET   kernels_portable
#define KERNELS_NAME  "portable"
#define KERNELS_LANES 4
#define KERNELS_ROWS  6
#include "engine/cpu/kernels.inc.h"
