/* Models by their name on the Hugging Face hub, in the cache that its clients keep on this machine.
 * Nothing is downloaded: a name that is not there is refused with the command that gets it.
 *
 *     ORG/NAME            the commit of refs/main; without that file the only snapshot there is
 *     ORG/NAME@REVISION   a branch, a tag, or a commit
 *
 * The cache's layout is that of huggingface_hub 1.x ("Understand caching" in its documentation):
 *
 *     models--ORG--NAME/refs/REVISION          the commit, as text
 *     models--ORG--NAME/snapshots/COMMIT/...   files, links to ../../blobs
 *
 * The cache is the first of these variables that is set: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
 * HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub; else ~/.cache/huggingface/hub. */
#ifndef MODEL_HUB_H
#define MODEL_HUB_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

struct hub_snapshot {
    const char *name;   /* ORG/NAME */
    const char *commit; /* its folder below snapshots */
    const char *dir;    /* with a config.json that can be read */
    bool bare;          /* config.json is the only file in it: what a side file would say of formats
                           is not known */
};

/* "ORG/NAME" or "ORG/NAME@REVISION", in the letters that the hub allows. */
bool hub_is_name(const char *text);
/* ST_INPUT: the model, its revision or its config.json is not in the cache, or revision is not said
 * and several snapshots are there. */
enum st hub_find(struct arena *a, const char *text, struct hub_snapshot *out, struct err *e);

#endif
