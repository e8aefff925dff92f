/* What is stored, in words and as a tree. */
#include <string.h>

#include "model/stored.h"

static const struct {
    const char *word, *modules; /* starts of modules; NULL = the others */
} groups[] = {
    {"experts", "mlp.experts."}, {"shared experts", "mlp.shared_experts."},
    {"attention", "self_attn."}, {"linear attention", "linear_attn."},
    {"mamba", "mamba."},         {"MLP", "mlp."},
    {"LM head", "lm_head"},
};
enum { GROUPS = sizeof groups / sizeof *groups };

static int group_of(const struct stored_part *p)
{
    for (int i = 0; i < GROUPS; i++)
        if (strncmp(p->w->module, groups[i].modules, strlen(groups[i].modules)) == 0)
            return i;
    return GROUPS;
}

/* Formats of one name are one here. */
static int32_t first_of_name(const struct stored *s, int32_t f)
{
    for (int32_t i = 0; i < f; i++)
        if (strcmp(s->formats[i].name, s->formats[f].name) == 0)
            return i;
    return f;
}

/* "fp8 attention and MLP" */
static void put_format(struct buf *b, const struct stored *s, int32_t f, const bool has[GROUPS + 1])
{
    int n = 0, last = -1;
    for (int g = 0; g <= GROUPS; g++)
        if (has[g])
            last = g;
    if (last < 0)
        return;
    buf_printf(b, "%s%s ", b->n ? ", " : "", s->formats[f].name);
    for (int g = 0; g <= GROUPS; g++) {
        if (!has[g])
            continue;
        buf_printf(b, "%s%s",
                   n == 0      ? ""
                   : g == last ? " and "
                               : ", ",
                   g < GROUPS ? groups[g].word : "others");
        n++;
    }
}

const char *stored_words(struct arena *a, const struct stored *s)
{
    bool has[STORED_FORMATS][GROUPS + 1] = {{0}};
    struct buf b = {0};
    for (int32_t i = 0; i < s->n_parts; i++)
        for (int32_t f = 1; f < s->n_formats; f++)
            if (s->parts[i].copies[f] > 0)
                has[first_of_name(s, f)][group_of(&s->parts[i])] = true;
    for (int32_t f = 1; f < s->n_formats; f++)
        put_format(&b, s, f, has[f]);
    buf_printf(&b, "%s%s%s", b.n ? ", " : "", s->formats[0].name, b.n ? " rest" : "");
    const char *text = arena_str(a, buf_str(&b));
    buf_free(&b);
    return text;
}

static struct node *part_node(struct arena *a, const struct stored *s, const struct stored_part *p)
{
    static const char *const of[] = {
        [STORED_ATTENTION] = "attention", [STORED_MLP] = "mlp", [STORED_OUTSIDE] = "outside"};
    struct node *n = node_new(a, NODE_MAP), *formats = node_new(a, NODE_MAP);
    for (int32_t f = 0; f < s->n_formats; f++) {
        const char *name = s->formats[f].name;
        const struct node *before = node_find(formats, name);
        if (p->layers[f] > 0)
            node_put(a, formats, name, node_int(a, p->layers[f] + (before ? before->i : 0)));
    }
    node_put(a, n, "of", node_str(a, of[p->of]));
    node_put(a, n, "kind", node_int(a, p->kind));
    node_put(a, n, "module", node_str(a, p->w->module));
    node_put(a, n, "elements", node_int(a, p->elements));
    node_put(a, n, "bytes", node_int(a, (int64_t)p->bytes));
    node_put(a, n, "element_bytes", node_float(a, stored_element_bytes(p)));
    node_put(a, n, "formats", formats);
    return n;
}

struct node *stored_node(struct arena *a, const struct stored *s)
{
    struct node *list = node_new(a, NODE_LIST);
    for (int32_t i = 0; i < s->n_parts; i++)
        node_push(a, list, part_node(a, s, &s->parts[i]));
    return list;
}
