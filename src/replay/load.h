/* A capsule on a GPU: memory at the captured addresses, code, variables, parameters.
 *
 * load_open maps memory, loads the modules that launches and variables need, sets the attributes of
 * functions again, and makes parameters that point into variables of modules point to where those
 * lie now. load_restore then gives all memory and all variables the contents they had when the
 * region began. From then on operations can be issued (issue.h).
 *
 * Threads: as struct gpu. */
#ifndef REPLAY_LOAD_H
#define REPLAY_LOAD_H

#include "capsule/capsule.h"
#include "gpu/device.h"
#include "replay/place.h"

struct load {
    struct arena *a;
    const struct capsule *c; /* borrowed, as all below it */
    struct place place;
    struct gpu g;
    CUstream stream;
    CUmodule *modules;            /* [n_modules], NULL = not needed */
    CUfunction *functions;        /* [n_functions] */
    CUdeviceptr *globals;         /* [n_globals] where they are now */
    const char **names;           /* [n_functions] for people */
    const unsigned char **params; /* [n_launches] */
    /* page-locked memory: what copies from the host read, and where copies to memory of the program
     * that was not captured go */
    unsigned char *host;
    uint64_t host_bytes;
    uint64_t *source_at; /* [n_copies] in host */
    uint64_t sink_at;
    size_t reserved, mapped, mapped_host, registered; /* spans of place, so far */
    unsigned char *page;                              /* page-locked, of CAPSULE_PAGE_BYTES */
    bool as_it_is;    /* load_reset does nothing: the memory is as it is meant */
    CUdeviceptr kept; /* contents of what the region changes; 0 = not kept */
};

/* ST_DEVICE: no GPU; one whose capability or memory does not do, with what was found and what is
 * needed; addresses that are taken. ST_INPUT: contents that are damaged. place: held already, or
 * not (then addresses are free by luck). On failure *out is closed. */
enum st load_open(struct arena *a, const struct capsule *c, struct place *place, int gpu,
                  struct load *out, struct err *e);
void load_close(struct load *l); /* zeroed is fine */

/* All memory as it was when the region began; memory that was allocated later is filled with
 * `fill`.
 */
enum st load_restore(struct load *l, unsigned char fill, struct err *e);
/* After load_restore: keeps a copy on the device of what the region changes, so that load_reset can
 * bring it back at once. Where memory does not suffice load_reset restores all. */
enum st load_keep(struct load *l, struct err *e);
enum st load_reset(struct load *l, struct err *e);
/* Of load_reset what a stream can do by itself: memory of the device that is kept. */
enum st load_again(struct load *l, CUstream stream, struct err *e);

/* Contents of captured memory now, device or host. */
enum st load_read(struct load *l, uint64_t at, void *to, size_t bytes, struct err *e);
/* Several stretches at once, one after the other in page-locked memory: read, and written. */
enum st load_gather(struct load *l, const struct place_span *s, size_t n, unsigned char *to,
                    struct err *e);
enum st load_scatter(struct load *l, const struct place_span *s, size_t n,
                     const unsigned char *from, struct err *e);

/* "void gemm<...>(...)", "Memcpy HtoD", "Memset": of operation i. */
const char *load_name(const struct load *l, size_t op);

#endif
