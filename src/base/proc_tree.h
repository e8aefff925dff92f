/* A process and all its descendants, by /proc.
 *
 *     struct proc_tree *t;
 *     proc_tree_open(NULL, 4242, &t, e);
 *     ... proc_tree_walk(t) ... proc_tree_whose(t, 4250) ...
 *     proc_tree_close(&t);
 *
 * A descendant is a process whose chain of parents leads to the root. One that was seen stays a
 * descendant when its parent ends and another process adopts it. A process is known by its pid and
 * its start time, so a pid that is used again is another process. A process whose parent ended
 * between two walks is not found.
 *
 * Pids are those of the procfs that is read: of this process's pid namespace. For one thread. */
#ifndef BASE_PROC_TREE_H
#define BASE_PROC_TREE_H

#include "base/err.h"
#include "base/str.h"

struct proc_tree;

/* proc: the procfs; NULL = /proc. Walks once. ST_INPUT: there is no process of that pid, or it has
 * ended and nobody waited for it; this process is the root or a descendant of it, so that whatever
 * it starts would be, too. Close in any case. */
enum st proc_tree_open(const char *proc, int64_t root, struct proc_tree **out, struct err *e);
void proc_tree_walk(struct proc_tree *t); /* looks again; without a procfs nothing is there */
int64_t proc_tree_size(const struct proc_tree *t); /* processes of the tree at the last walk */
void proc_tree_close(struct proc_tree **t);        /* NULL is fine */

enum proc_whose {
    PROC_OF_TREE,
    PROC_OTHER,
    PROC_ABSENT /* not in this procfs: ended, of another pid namespace, or hidden from this user */
};
/* At the last walk. */
enum proc_whose proc_tree_whose(const struct proc_tree *t, int64_t pid);
/* Its name (comm) as the system has it now; "" = unknown. */
void proc_tree_name(const struct proc_tree *t, int64_t pid, char out[64]);

/* Whether this process is in a pid namespace below the system's first one, as in a container. */
bool proc_is_contained(const char *proc);

/* What /proc/PID/stat says. */
struct proc_stat {
    int64_t pid, parent;
    char state;
    uint64_t start; /* in clock ticks since boot */
};
bool proc_stat_parse(struct sv text, struct proc_stat *out);

#endif
