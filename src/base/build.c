#include "base/build.h"

/* Stands alone in its file: the linker leaves it out where the program brings its own. */
const char build_commit[] = "";
