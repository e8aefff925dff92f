/* Files and folders: whole reads with a limit, atomic writes, paths that stay inside a folder.
 *
 * Created files and folders get the permissions that the umask leaves. */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/str.h"

/* The whole regular file. More than max_bytes is ST_INPUT. out->p is NUL-terminated. Reads at most
 * 64 KiB of a file that reports size 0, as those of /proc do. */
enum st fs_read(struct arena *a, const char *path, size_t max_bytes, struct sv *out, struct err *e);

/* A read-only mapping of a regular file; size 0 gives p == NULL. A file that becomes shorter while
 * it is mapped ends the process with its name (base/map_guard.h). */
struct fs_map {
    const char *p;
    size_t n;
};
enum st fs_map(const char *path, struct fs_map *out, struct err *e);
void fs_unmap(struct fs_map *m);

/* A new file for writing beside path, under a temporary name that nothing had, neither a file nor a
 * link; the caller renames it to path. Its descriptor, or -1 and the error. */
int fs_create_temp(struct arena *a, const char *path, const char **temp, struct err *e);

/* Opens a file of ours that may be there from an earlier process, to append to it, or makes it. A
 * link is refused: in a folder that others can write it is not ours to say where it leads. */
enum st fs_open_append(const char *path, FILE **f, struct err *e);

/* Write the bytes under a temporary name beside path, fsync, rename: path is old or new, never
 * half. */
enum st fs_write_atomic(const char *path, const void *p, size_t n, struct err *e);

enum st fs_mkdirs(const char *path, struct err *e); /* with parents; existing is fine */
bool fs_exists(const char *path);
bool fs_is_dir(const char *path);
enum st fs_remove_tree(const char *path, struct err *e); /* never follows links; absent is fine */
enum st fs_sync_dir(const char *path, struct err *e);

/* Refuses with ST_IO before anything is written: "PATH needs 3.3 GiB of disk space, and 1.2 GiB are
 * free there". */
enum st fs_need_space(const char *path, int64_t bytes, struct err *e);

/* Names in a folder, sorted bytewise, without "." and ".."; *n names. */
enum st fs_list(struct arena *a, const char *path, const char ***names, size_t *n, struct err *e);

char *fs_join(struct arena *a, const char *dir,
              const char *name);                 /* "dir/name"; absolute name wins */
const char *fs_base(const char *path);           /* after the last '/' */
char *fs_dir(struct arena *a, const char *path); /* before it, "." if none */
char *fs_self_dir(struct arena *a);              /* folder of this executable */

/* A file name found inside an input (a safetensors index, a manifest): refused with ST_INPUT when
 * it is empty, absolute, has a ".." part, a control character, or names a link out of dir. */
enum st fs_join_inside(struct arena *a, const char *dir, const char *name, char **path,
                       struct err *e);

#endif
