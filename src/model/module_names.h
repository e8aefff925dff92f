/* Names of modules in the lists of quantised checkpoints: which entry of such a list speaks of a
 * projection of a structure (model/structure.h).
 *
 * Files name the same matrix differently: "model.layers.3.mlp.experts.7.up_proj",
 * "model.language_model.layers.3.block_sparse_moe.experts.7.w3", "layers.3.ffn.experts". A
 * projection is known here by all the names that it may have below its layer; what stands before
 * "layers" is dropped where it is the text part of a model ("model", "language_model", "backbone").
 *
 * An entry is one of
 *
 *     a name       matches where its components stand together in the projection's name: the whole,
 *                  an ancestor ("layers.3.mlp"), or a part ("gate", "self_attn"). "mlp.gate" does
 *                  not match "mlp.gate_proj". With the number of an expert it speaks of that one.
 *     a wildcard   * ? [..], of the whole name or of an ancestor; * spans dots
 *     a pattern    "re:..." or what only a regular expression may contain: from the start of the
 *                  name, as Python's re.match. One that says what a name must not have, (?!..),
 *                  is held against the projection's own name alone
 *
 * Of names the longest counts, then wildcards and patterns in their order. */
#ifndef MODEL_MODULE_NAMES_H
#define MODEL_MODULE_NAMES_H

#include "text/node.h"

enum { MODULE_TAILS = 128, MODULE_VALUES = 32 };

/* Names below the layer, "#" in place of an expert's number. */
struct module_names {
    const char *tail[MODULE_TAILS];
    int32_t n;
};
/* module: projection.module of that family. */
void module_names_of(struct arena *a, const char *family, const char *module,
                     struct module_names *out);

struct module_rules;
struct module_rules *module_rules_new(void);
void module_rules_free(struct module_rules **r);
/* value: below MODULE_VALUES. `at`: the entry's place for errors: ST_INPUT for a pattern that is
 * not a regular expression. */
enum st module_rules_add(struct module_rules *r, const struct node *at, struct sv entry,
                         int32_t value, struct err *e);
bool module_rules_empty(const struct module_rules *r);

struct module_match {
    int32_t value;                   /* of all copies but those counted below; -1 = no entry */
    int64_t numbered[MODULE_VALUES]; /* copies with an entry of their own */
};
/* layer -1: outside of the layers. */
void module_rules_find(const struct module_rules *r, const struct module_names *names,
                       int64_t layer, int64_t copies, struct module_match *out);

#endif
