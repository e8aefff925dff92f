/* Classes: operations of a region that are alike. Launches of one function with the same grid,
 * block, dynamic shared memory and attributes; copies of as many bytes in one direction; sets of as
 * many bytes. Their order is that of their first operation. */
#ifndef REPLAY_CLASSES_H
#define REPLAY_CLASSES_H

#include "replay/load.h"
#include "replay/reach.h"

struct replay_class {
    size_t number;       /* in the list of all */
    const char *name;    /* as load_name */
    const char *mangled; /* NULL for copies and sets */
    int tier;            /* 1 copies and sets, 2 library products, 3 others */
    uint32_t *ops;       /* [n], rising */
    size_t n;
    size_t sets;    /* with which they are repeated (reach.h), of all together */
    uint64_t bytes; /* of a copy or set; 0 for kernels */
    uint32_t grid[3], block[3], shared_bytes;
    double app_s; /* mean on the GPU in the program; NAN = not known */
};

struct replay_classes {
    struct replay_class *p;
    size_t n;
    uint32_t *of;            /* [n_ops] class of an operation; CAPSULE_NONE = waits and the like */
    struct reach_sets *with; /* [n_ops] sets with which an operation is repeated */
    double app_s;            /* of all operations; NAN = not known of each */
};

void replay_classes_find(const struct load *l, struct replay_classes *out);

/* Those that a user names: digits are the number of a class in this order, from 0; anything else is
 * an extended regular expression (regex(7)) that matches a part of the name, as it is shown or as
 * the linker has it. chosen [n] has all for no words. ST_USAGE: no such number, a word that is no
 * regular expression or matches none. */
enum st replay_classes_choose(const struct replay_class *classes, size_t n,
                              const char *const *words, size_t n_words, bool *chosen,
                              struct err *e);

#endif
