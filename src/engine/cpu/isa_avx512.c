#define KERNELS_SET   kernels_avx512
#define KERNELS_NAME  "avx512"
#define KERNELS_LANES 16
#define KERNELS_ROWS  14
#include "engine/cpu/kernels.inc.h"
