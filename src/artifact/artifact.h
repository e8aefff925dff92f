/* Artifacts: directories that are complete or absent, each with a meta file that identifies it.
 *
 * Writing: artifact_begin makes a hidden partial folder beside the final one, files are written
 * into it, artifact_commit writes the meta file last, syncs and renames. A process killed at any
 * moment leaves only a ".partial-..." folder, which no reader accepts. artifact_abandon (SIGINT)
 * keeps the data under the final name, without a meta file and with the reason in incomplete.json:
 * it can be inspected, and readers refuse it.
 *
 * Reading: artifact_open checks the meta file and its type before anything else.
 *
 * Permissions are what the umask leaves. */
#ifndef ARTIFACT_ARTIFACT_H
#define ARTIFACT_ARTIFACT_H

#include "base/contention.h"
#include "base/fs.h"
#include "base/partial.h"
#include "text/fields.h"

struct artifact {
    struct arena *a;
    const char *final_dir;  /* as given by out= */
    struct partial partial; /* where files are written until commit; path NULL afterwards */
    const char *meta_name;  /* "run_meta.json", ... */
    int64_t started_wall_ns;
};

/* final_dir must not exist: ST_USAGE "out: DIR already exists" with the hint to choose another out=
 * (or, when it is incomplete, to remove it). Parents are created. The partial folder
 * (base/partial.h) is a new one: folders left by killed processes are never touched. */
enum st artifact_begin(struct arena *a, const char *final_dir, const char *meta_name,
                       struct artifact *out, struct err *e);

/* Path of a file inside the folder being built. */
char *artifact_path(struct arena *a, const struct artifact *art, const char *name);

/* The tree as JSON, indented by two. */
enum st artifact_write_json(const struct artifact *art, const char *name, const struct node *n,
                            struct err *e);

/* Create a file for writing; artifact_close_file flushes, syncs and reports a full disk. */
enum st artifact_create_file(const struct artifact *art, const char *name, FILE **f, struct err *e);
enum st artifact_close_file(const struct artifact *art, const char *name, FILE **f, struct err *e);
/* Both, around these bytes. */
enum st artifact_write(const struct artifact *art, const char *name, const struct buf *bytes,
                       struct err *e);

/* Sets schema_version of meta, which otherwise is 1: programs that know no version as new refuse
 * the artifact. For contents that they would read wrongly. */
void artifact_need_schema(struct arena *a, struct node *meta, int64_t version);

/* Adds schema_version to meta (a map; NULL = an empty one), writes it, renames the folder into
 * place. On failure the partial folder is still there: artifact_abandon or artifact_discard it. */
enum st artifact_commit(struct artifact *art, struct node *meta, struct err *e);
/* See above. `why` as "interrupted by SIGINT". */
enum st artifact_abandon(struct artifact *art, const char *why, struct err *e);
/* Removes the partial folder; quiet. Does nothing after commit or abandon. */
void artifact_discard(struct artifact *art);

/* Open a finished artifact: *meta is its meta tree. Refusals, each ST_INPUT and naming dir: does
 * not exist; is a partial folder; has no <meta_name> ("is incomplete: ..."); is another kind of
 * artifact; schema_version is not ours. type, checked against "run_type", is one type, several
 * joined by '|' ("real|vidur"), or NULL (not checked). */
enum st artifact_open(struct arena *a, const char *dir, const char *meta_name, const char *type,
                      struct node **meta, struct err *e);

/* Refuses a folder that is still being written, or whose writer was killed. Part of artifact_open;
 * for folders of other kinds that twinfer makes in the same way. */
enum st artifact_refuse_partial(const char *dir, struct err *e);

/* True for schema_version "v1", a text: written by the system that twinfer replaces. Same files and
 * columns except as listed in docs/formats.md; readers accept both. */
bool artifact_is_foreign_v1(const struct node *meta);

/* ---- run_meta.json ----------------------------------------------------------------------- */

/* Where the configuration was composed from; NULL = null. */
struct hydra {
    const char *config_path, *config_name;
};
extern const struct fields hydra_fields;

struct run_meta {
    const char *run_id, *run_type; /* types: docs/formats.md */
    const char *model, *hardware_id, *device;
    int64_t started_wall_ns, ended_wall_ns;
    const struct node *params; /* map or NULL: the composed configuration */
    struct hydra hydra;
    const struct node *extra; /* map or NULL: per-type members (backend, workload_dir, counters) */
};

/* The meta tree: the members above, `env` (a whitelist; names that look like secrets never pass),
 * `host`, `tool` and `working_directory_git`. Never fails; takes at most 2 s when git does not
 * answer. */
struct node *run_meta_node(struct arena *a, const struct run_meta *m);

/* The repository of the working directory, which may hold the user's configurations and scripts.
 * The commit twinfer was built from is in artifact_tool. */
struct git_facts {
    const char *commit; /* 40 or 64 hex digits; NULL = unknown */
    bool known_dirty;   /* `dirty` is known */
    bool dirty;         /* tracked files differ from the commit */
};
struct git_facts artifact_git(struct arena *a);

/* Single members of the meta tree, for the meta files of workloads and bundles. */
/* {commit, dirty}; null outside a repository or without git */
struct node *artifact_working_directory_git(struct arena *a);
struct node *artifact_env(struct arena *a);  /* whitelisted variables that are set */
struct node *artifact_host(struct arena *a); /* cpu, cores, l2_cache_bytes, l3_cache_bytes,
                                                memory_bytes, kernel, nvidia_driver, libc */
struct node *artifact_tool(struct arena *a); /* version, commit, dirty (base/build.h), compiler */
struct node *artifact_time(struct arena *a, int64_t wall_ns); /* ISO 8601 text */

/* config.yaml (the composed configuration as text that reads back) and overrides.yaml into the
 * folder being built. */
enum st run_snapshot(const struct artifact *art, const char *config_yaml,
                     const char *const *overrides, size_t n, struct err *e);

/* {waiting, stolen}: how contended the machine was (base/contention.h); null = unknown. In the meta
 * of real runs and bundles as "contention", in that of simulated runs as "profile_contention". */
extern const struct fields contention_fields;
/* NAN in both where the meta has none. */
struct contention contention_of(const struct node *meta, const char *key);

#endif
