#include "model/structure_bytes.h"

#include <string.h>

#include "model/describe_layers.h"
#include "model/families/family.h"
#include "support/models.h"
#include "text/json.h"

static const char *layers_text(struct test *t, const struct structure *s)
{
    struct buf b = {0};
    describe_layers(t->a, s, &b);
    for (int64_t i = 0; i < s->layers; i++)
        buf_printf(&b, "%d/%d ", s->attention_of[i], s->mlp_of[i]);
    for (int32_t i = 0; i < s->n_attentions; i++)
        for (int32_t k = 0; k < s->attention[i].weights.n; k++)
            buf_printf(&b, "%s ", s->attention[i].weights.w[k].module);
    for (int32_t i = 0; i < s->n_mlps; i++)
        for (int32_t k = 0; k < s->mlp[i].weights.n; k++)
            buf_printf(&b, "%s ", s->mlp[i].weights.w[k].module);
    buf_printf(&b, "%s %s %s %s", s->name, s->family, s->act, s->uncomputed ? s->uncomputed : "-");
    for (int32_t i = 0; i < s->n_ropes; i++)
        buf_printf(&b, " %s %g", s->ropes[i].name ? s->ropes[i].name : "-", s->ropes[i].theta);
    const char *text = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return text;
}

static void every_family_comes_back(void **state)
{
    struct test *t = *state;
    struct golden_family f = {0};
    int n = 0;
    while (golden_family_next(t, &f)) {
        struct structure s, back;
        struct err e = {0};
        struct buf bytes = {0};
        if (family_read(t->a, f.name, f.config, NULL, &s, &e) != ST_OK)
            continue;
        structure_write(&s, &bytes);
        struct sv left = {bytes.p, bytes.n};
        assert_true(structure_read(t->a, &left, &back));
        memset(bytes.p, 0, bytes.n); /* nothing of it is borrowed */
        buf_free(&bytes);
        assert_int_equal(left.n, 0);
        assert_string_equal(layers_text(t, &s), layers_text(t, &back));
        n++;
    }
    assert_true(n >= 180);
}

static void what_is_cut_or_changed_is_refused(void **state)
{
    struct test *t = *state;
    static const char json[] =
        "{\"model_type\": \"gpt_oss\", \"vocab_size\": 1000, \"hidden_size\": 64,"
        " \"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
        " \"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 8,"
        " \"num_local_experts\": 4, \"num_experts_per_tok\": 2}";
    struct node *config;
    struct structure s, back;
    struct buf bytes = {0};
    assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
    assert_ok(family_read(t->a, "test", config, NULL, &s, &t->e), t);
    structure_write(&s, &bytes);
    for (size_t n = 0; n < bytes.n; n += n < sizeof s ? 1013 : 1) {
        struct sv left = {bytes.p, n};
        assert_false(structure_read(t->a, &left, &back));
    }
    for (size_t i = 0; i < 2; i++) { /* a kind that there is not, kinds that no structure has */
        struct structure bad = s;
        struct sv left;
        if (i == 0)
            bad.n_attentions = 1;
        else
            bad.n_mlps = STRUCTURE_MLPS + 1;
        memcpy(bytes.p, &bad, sizeof bad);
        left = (struct sv){bytes.p, bytes.n};
        assert_false(structure_read(t->a, &left, &back));
    }
    buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_family_comes_back),
        TEST(what_is_cut_or_changed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
