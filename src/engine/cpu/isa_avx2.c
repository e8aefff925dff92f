#define KERNELS_SET   kernels_avx2
#define KERNELS_NAME  "avx2"
#define KERNELS_LANES 8
#define KERNELS_ROWS  6
#include "engine/cpu/kernels.inc.h"
