#include "profile/read/overheads.h"

#include "base/fs.h"
#include "text/json.h"

const struct request_overheads request_overheads_server = {
    .front_s = 1.25e-3,
    .first_token_s = 4.75e-3,
    .prompt_token_s = 2e-6,
    .completion_s = 1e-3,
    .stream_s = 25e-6,
    .source = "prior of an OpenAI-style server, not measured",
};

static const double MOST_S = 3600;

static const struct field rows[] = {
    FIELD(struct request_overheads, front_s, .max = MOST_S, .optional = true),
    FIELD(struct request_overheads, first_token_s, .max = MOST_S),
    FIELD(struct request_overheads, prompt_token_s, .max = MOST_S, .optional = true),
    FIELD(struct request_overheads, completion_s, .max = MOST_S, .optional = true),
    FIELD(struct request_overheads, stream_s, .max = MOST_S, .optional = true),
    FIELD(struct request_overheads, source, .optional = true),
};
const struct fields request_overheads_fields = FIELDS(struct request_overheads, rows);

enum st request_overheads_load(struct arena *a, const char *path, struct request_overheads **out,
                               struct err *e)
{
    struct node *map;
    *out = NULL;
    if (!fs_exists(path))
        return ST_OK;
    struct request_overheads *o = arena_one(a, struct request_overheads);
    TRY(json_load(a, path, NULL, &map, e));
    TRY(fields_read(a, &request_overheads_fields, map, o, e));
    if (!(o->front_s >= 0)) /* left out */
        o->front_s = 0;
    if (!(o->prompt_token_s >= 0))
        o->prompt_token_s = 0;
    if (!(o->completion_s >= 0))
        o->completion_s = 0;
    if (!(o->stream_s >= 0))
        o->stream_s = 0;
    *out = o;
    return ST_OK;
}
