/* The GPUs on which a server's own processes compute, and who else computes there meanwhile.
 *
 *     server_gpus_open(a, &(struct server_gpus_params){.pid = 4242}, &s, e);
 *     boards = server_gpus_boards(s, &n);          // read the power of each
 *     server_gpus_begin(s);  ... the load ...  seen = server_gpus_end(a, s);
 *     server_gpus_close(&s);
 *
 * Processes are the server's when they are its process or descend from it (base/proc_tree.h); the
 * tree is walked again at every look, since servers restart their workers. GPUs count as NVML and
 * nvidia-smi count them, whatever CUDA_VISIBLE_DEVICES says.
 *
 * A look, twice a second, asks NVML for the processes of every GPU. One that is not the server's
 * counts when two looks in a row see it: NVML still lists one that has just ended, and one that has
 * just started may not be in the walk. The same holds for a look that fails.
 *
 * NVML's pids may be those of another pid namespace, in a container for instance. Such a pid is not
 * in /proc here and never counts as the server's. A driver that leaves out the processes of other
 * namespaces hides strangers on the GPU: `contained` says that this could be. */
#ifndef ENERGY_SERVER_GPUS_H
#define ENERGY_SERVER_GPUS_H

#include "energy/board.h"

struct server_gpus;

struct server_gpus_params {
    int64_t pid;       /* of the server's process, as /proc here names it */
    const char *proc;  /* the procfs; NULL = /proc */
    double interval_s; /* between two looks; 0 = 0.5 */
};

/* ST_INPUT: no such process, or one that started twinfer itself. ST_DEVICE: no NVML; it does not
 * list processes; it lists none of the server's, and why that may be. Close in any case. */
enum st server_gpus_open(struct arena *a, const struct server_gpus_params *p,
                         struct server_gpus **out, struct err *e);
void server_gpus_close(struct server_gpus **s); /* ends the looks; NULL is fine */

/* Those on which the server's processes computed when it was opened, [*n], at least one. */
const struct board *server_gpus_boards(const struct server_gpus *s, size_t *n);
bool server_gpus_contained(const struct server_gpus *s);

struct server_gpus_seen {
    int64_t processes; /* most of the server's that one look found on its GPUs */
    int strangers;     /* others that two looks in a row found on its GPUs; each counts once */
    const char *why;   /* the power of the boards is not the server's, or not all of it, or nobody
                        * could look: "1 other process computed on GPU 0: python3 (pid 4250)";
                        * NULL = it is */
};
void server_gpus_begin(struct server_gpus *s);    /* the first look, and a thread for the others */
int server_gpus_strangers(struct server_gpus *s); /* so far */
struct server_gpus_seen server_gpus_end(struct arena *a, struct server_gpus *s);

#endif
