/* Reading a config.json: values by one of several names, and which keys were read.
 *
 * Errors stick: after the first one values are 1, flags false, and the reader of a family goes on
 * without looking; reading_done has the error. A key that nobody read, that is not known to leave
 * shapes as they are, and that says something (not null, false, 0, or empty) is refused there by
 * name: it may be what makes the model another one.
 *
 * names: "hidden_size|n_embd": the first that is there and not null. Where none is there, null
 * included, integers and flags are those of the model's class, if it has them; else the fallback
 * counts. */
#ifndef MODEL_FAMILIES_READING_H
#define MODEL_FAMILIES_READING_H

#include "model/structure.h"
#include "text/node.h"

enum { READ_REQUIRED = -1 }; /* as a fallback */

/* Every product of these limits that is formed later (parameters, bytes and FLOPs of a token) stays
 * below 2^62. */
enum {
    MAX_EXPERTS = 1 << 14,
    MAX_LAYERS = 1 << 12,
    MAX_WIDTH = 1 << 20,
    MAX_HEADS = 1 << 14,
    MAX_HEAD_DIM = 1 << 13,
    MAX_INTERMEDIATE = 1 << 23,
    MAX_VOCAB = 1 << 23,
    MAX_POSITIONS = 1 << 30,
};

struct family;

struct reading {
    struct arena *a;
    const struct node *c; /* the map that is read */
    bool *used;           /* [c->n] pairs */
    const struct family *family;
    const char *sizes; /* of its class: family_class_sizes */
    struct structure *s;
    enum st st;
    struct err *e;
};

void reading_init(struct reading *r, struct arena *a, const struct node *c,
                  const struct family *family, struct structure *s, struct err *e);

/* NULL = none of them, or null. */
const struct node *read_node(struct reading *r, const char *names);
bool read_has(struct reading *r, const char *names);
/* One of them is there, be it null: a class's own size does not count then. */
bool read_stands(const struct reading *r, const char *names);
/* One of them is there and not null, or the class has it. */
bool read_knows(struct reading *r, const char *names);
/* Marks them as read: their value does not matter to this family. */
void read_ignore(struct reading *r, const char *names);

int64_t read_int(struct reading *r, const char *names, int64_t min, int64_t max, int64_t fallback);
double read_double(struct reading *r, const char *names, double min, double max, double fallback);
bool read_flag(struct reading *r, const char *names, bool fallback);
/* A string; fallback where there is none. */
const char *read_word(struct reading *r, const char *names, const char *fallback);
/* Refuses any other value than `want`. */
void read_only(struct reading *r, const char *names, const char *want);

/* An entry a layer: whether list element i (of `names`, a list of numbers or of layer ids) is set.
 * NULL where there is no such list. */
const bool *read_layer_flags(struct reading *r, const char *names); /* [1, 0, 0, 1, ...] */
const bool *read_layer_ids(struct reading *r, const char *names, int64_t first); /* [3, 7, ...] */
/* Words of each layer, as "layer_types". NULL where there is no such list. */
const char *const *read_layer_words(struct reading *r, const char *names);
/* Integers of each layer. */
const int64_t *read_layer_ints(struct reading *r, const char *names, int64_t max);

/* Of one layer: per_layer_config{"05": {"head_dim": 512}}. */
int64_t read_of_layer(struct reading *r, int64_t layer, const char *key, int64_t fallback);

/* Keeps the first error; at NULL: at the map. */
void reading_fail(struct reading *r, const struct node *at, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* ST_OK, the error, or that of a key that nobody read. */
enum st reading_done(struct reading *r);

#endif
