#include "replay/classes.h"

#include <math.h>
#include <regex.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "kernels/products.h"
#include "trace/trace.h"

/* The bytes by which operations are alike. */
static void key_of(const struct capsule *c, const struct capsule_op *op, struct buf *out)
{
    buf_clear(out);
    buf_add(out, &op->kind, sizeof op->kind);
    if (op->kind == CAPSULE_LAUNCH) {
        const struct capsule_launch *x = &c->launches[op->item];
        buf_add(out, &x->function, sizeof x->function);
        buf_add(out, x->grid, sizeof x->grid);
        buf_add(out, x->block, sizeof x->block);
        buf_add(out, &x->shared_bytes, sizeof x->shared_bytes);
        for (uint32_t i = 0; i < x->n_attributes; i++) {
            const struct capsule_attribute *t = &c->attributes[x->first_attribute + i];
            buf_add(out, &t->id, sizeof t->id);
            buf_add(out, t->value, sizeof t->value);
        }
    } else if (op->kind == CAPSULE_COPY) {
        const struct capsule_copy *x = &c->copies[op->item];
        buf_add(out, &x->to_place, sizeof x->to_place);
        buf_add(out, &x->from_place, sizeof x->from_place);
        buf_add(out, &x->width, sizeof x->width);
        buf_add(out, &x->height, sizeof x->height);
        buf_add(out, &x->depth, sizeof x->depth);
    } else {
        const struct capsule_set *x = &c->sets[op->item];
        buf_add(out, &x->width, sizeof x->width);
        buf_add(out, &x->height, sizeof x->height);
        buf_add(out, &x->unit_bytes, sizeof x->unit_bytes);
    }
}

static uint64_t bytes_of(const struct capsule *c, const struct capsule_op *op)
{
    if (op->kind == CAPSULE_COPY) {
        const struct capsule_copy *x = &c->copies[op->item];
        return x->width * x->height * x->depth;
    }
    const struct capsule_set *x = &c->sets[op->item];
    return x->width * x->height * x->unit_bytes;
}

static struct replay_class class_of(const struct load *l, size_t i)
{
    const struct capsule_op *op = &l->c->ops[i];
    struct replay_class k = {.name = load_name(l, i), .tier = 1};
    if (op->kind != CAPSULE_LAUNCH) {
        k.bytes = bytes_of(l->c, op);
        return k;
    }
    const struct capsule_launch *x = &l->c->launches[op->item];
    const struct sv name = capsule_text(l->c, l->c->functions[x->function].name);
    k.mangled = arena_strn(l->a, name.p, name.n);
    k.tier = kernels_tier(TRACE_KERNEL, k.name);
    memcpy(k.grid, x->grid, sizeof k.grid);
    memcpy(k.block, x->block, sizeof k.block);
    k.shared_bytes = x->shared_bytes;
    return k;
}

static double app_s(const struct capsule_op *op)
{
    const bool known = op->start_ns != CAPSULE_NO_TIME && op->end_ns != CAPSULE_NO_TIME &&
                       op->end_ns >= op->start_ns;
    return known ? (double)(op->end_ns - op->start_ns) / 1e9 : NAN;
}

void replay_classes_find(const struct load *l, struct replay_classes *out)
{
    const struct capsule *c = l->c;
    struct map known;
    struct buf key = {0};
    *out = (struct replay_classes){.p = arena_array(l->a, struct replay_class, c->n_ops),
                                   .of = arena_array(l->a, uint32_t, c->n_ops),
                                   .with = arena_array(l->a, struct reach_sets, c->n_ops)};
    map_init(&known, l->a);
    for (size_t i = 0; i < c->n_ops; i++) {
        const struct capsule_op *op = &c->ops[i];
        bool new;
        out->of[i] = CAPSULE_NONE;
        if (op->kind != CAPSULE_LAUNCH && op->kind != CAPSULE_COPY && op->kind != CAPSULE_SET)
            continue;
        key_of(c, op, &key);
        struct map_entry *entry = map_put(&known, key.p, key.n, &new);
        if (new) {
            entry->i = (int64_t)out->n;
            out->p[out->n] = class_of(l, i);
            out->p[out->n].number = out->n;
            out->n++;
        }
        out->of[i] = (uint32_t)entry->i;
        out->with[i] = reach_sets(l->a, c, i);
        out->p[entry->i].n++;
        out->p[entry->i].sets += out->with[i].n;
        out->p[entry->i].app_s += app_s(op);
        out->app_s += app_s(op);
    }
    for (size_t k = 0; k < out->n; k++) {
        struct replay_class *x = &out->p[k];
        x->app_s /= (double)x->n;
        x->ops = arena_array(l->a, uint32_t, x->n);
        x->n = 0;
    }
    for (size_t i = 0; i < c->n_ops; i++)
        if (out->of[i] != CAPSULE_NONE) {
            struct replay_class *x = &out->p[out->of[i]];
            x->ops[x->n++] = (uint32_t)i;
        }
    buf_free(&key);
}

/* ---- by name or number ----------------------------------------------------------------------- */

static enum st choose_matching(const struct replay_class *classes, size_t n, const char *word,
                               bool *chosen, struct err *e)
{
    regex_t re;
    char why[128];
    size_t found = 0;
    const int error = regcomp(&re, word, REG_EXTENDED | REG_NOSUB);
    if (error) {
        regerror(error, &re, why, sizeof why);
        return err_set(e, ST_USAGE, "replay.classes: '%s' is no regular expression: %s", word, why);
    }
    for (size_t i = 0; i < n; i++) {
        const struct replay_class *k = &classes[i];
        const bool hit = regexec(&re, k->name, 0, NULL, 0) == 0 ||
                         (k->mangled && regexec(&re, k->mangled, 0, NULL, 0) == 0);
        chosen[i] = chosen[i] || hit;
        found += hit;
    }
    regfree(&re);
    if (found > 0)
        return ST_OK;
    err_set(e, ST_USAGE, "replay.classes: no kind of operation has a name like '%s'", word);
    return err_hint(e, "isolated_kernels_timing.json of a replay has the names");
}

enum st replay_classes_choose(const struct replay_class *classes, size_t n,
                              const char *const *words, size_t n_words, bool *chosen, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        chosen[i] = n_words == 0;
    for (size_t w = 0; w < n_words; w++) {
        const size_t digits = strspn(words[w], "0123456789");
        int64_t number = 0;
        if (digits == 0 || words[w][digits]) {
            TRY(choose_matching(classes, n, words[w], chosen, e));
            continue;
        }
        if (!str_int64(sv_of(words[w]), &number) || (uint64_t)number >= n) {
            err_set(e, ST_USAGE, "replay.classes: there is no kind of operation with number %s",
                    words[w]);
            return err_hint(e,
                            "they count from 0 to %zu, as `class` of "
                            "isolated_kernels_timing.json",
                            n ? n - 1 : 0);
        }
        chosen[number] = true;
    }
    return ST_OK;
}
