/* A quantisation scheme as a configuration states it: formats, and which modules have them. Its
 * manual is stored.h, which applies it to a structure. */
#ifndef MODEL_SCHEME_H
#define MODEL_SCHEME_H

#include "model/module_names.h"
#include "model/stored.h"

enum { SCHEME_PLAIN = 0 }; /* the format of the model's type */

struct scheme {
    struct stored_format formats[STORED_FORMATS];
    int32_t n_formats;
    struct module_rules *ignored; /* stay in the model's type; value 0 */
    struct module_rules *named;   /* value: their format */
    int32_t linear, experts;      /* of modules that no list names */
    bool modelopt;                /* its lists are ModelOpt's: hf_quant_config.json must agree */
    bool kv_stated;
    enum precision kv;
};

void scheme_init(struct scheme *s, enum precision dtype);
void scheme_free(struct scheme *s);

/* q: quantization_config, compression_config, or all of hf_quant_config.json; config: what it
 * stands in, for keys beside it, or NULL. */
enum st scheme_read(const struct node *q, const struct node *config, struct scheme *s,
                    struct err *e);

/* NULL where the key is not there, is null, or map is no map. */
const struct node *config_key(const struct node *map, const char *key);
bool config_word(const struct node *n, const char *word); /* in any case */

#endif
