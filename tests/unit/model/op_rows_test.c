/* Rows and names of operators. */
#include "model/model.h"
#include "model/shard.h"
#include "support/models.h"

static const struct op *named(const struct op_list *l, const char *name)
{
    const struct op *found = NULL;
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->ops[i].name, name) == 0) {
            assert_null(found);
            found = &l->ops[i];
        }
    if (!found)
        fail_msg("no operator %s", name);
    return found;
}

static void check_unique(const struct op_list *l)
{
    for (int i = 0; i < l->n; i++) {
        assert_true(l->ops[i].row < l->rows);
        assert_ptr_equal(op_list_at(l, l->ops[i].row), &l->ops[i]);
        (void)named(l, l->ops[i].name);
    }
}

/* Where the time of an operator of a layer belongs. */
static int32_t row_in_layer(const struct model *m, int64_t layer, enum op_kind kind)
{
    struct model_steps steps;
    model_steps(m, &steps);
    const struct op_steps *s = model_layer_steps(&steps, m, layer);
    for (int i = 0; i < s->n; i++)
        if (s->kinds[i] == kind)
            return s->rows[i];
    fail_msg("layer %lld has no operator %s", (long long)layer, op_name(kind));
    return -1;
}

/* A model of one kind: rows are kinds, names those of old. */
static void layers_alike(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(
        t, "{\"model_type\": \"qwen3\", \"vocab_size\": 1000, \"hidden_size\": 64, "
           "\"intermediate_size\": 128, \"num_hidden_layers\": 3, \"num_attention_heads\": 4}");
    struct op_list l;
    model_ops(&m, &l);
    op_list_add_gap(&l);
    assert_false(m.layered);
    assert_int_equal(l.rows, OP_KINDS);
    for (int i = 0; i < l.n; i++) {
        assert_int_equal(l.ops[i].row, l.ops[i].kind);
        assert_string_equal(l.ops[i].name, op_name(l.ops[i].kind));
    }
    check_unique(&l);
    assert_int_equal(row_in_layer(&m, 2, OP_ATTN_DECODE), OP_ATTN_DECODE);
}

/* Windows first, as gpt-oss has them: the first kind keeps the plain names. */
static void kinds_of_attention(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(
        t, "{\"model_type\": \"gpt_oss\", \"vocab_size\": 1000, \"hidden_size\": 64, "
           "\"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
           "\"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 8, "
           "\"num_local_experts\": 4, \"num_experts_per_tok\": 2}");
    struct op_list l, shard;
    model_ops(&m, &l);
    shard_ops(&m, 2, &shard);
    op_list_add_gap(&l);
    check_unique(&l);
    const struct op *window = named(&l, "attn_decode"), *full = named(&l, "attn_decode_full");
    assert_int_equal(m.structure->attention[window->part].window, 8);
    assert_int_equal(m.structure->attention[full->part].window, 0);
    assert_int_equal(window->row, OP_ATTN_DECODE);
    assert_true(full->row >= OP_KINDS);
    assert_int_equal(window->repeat + full->repeat, 4);
    assert_int_equal(op_list_row(&l, OP_ATTN_DECODE, full->part), full->row);
    assert_int_equal(op_list_row(&l, OP_ADD, full->part), OP_ADD);
    assert_int_equal(named(&l, "moe_up_proj")->row, OP_MOE_UP_PROJ); /* of one kind of MLP */
    for (int i = 0; i < shard.n; i++) {
        assert_int_equal(shard.ops[i].row, l.ops[i].row);
        assert_string_equal(shard.ops[i].name, l.ops[i].name);
    }
    for (int64_t layer = 0; layer < 4; layer++) {
        const bool is_full = m.structure->attention_of[layer] == full->part;
        assert_int_equal(row_in_layer(&m, layer, OP_ATTN_DECODE),
                         is_full ? full->row : window->row);
        assert_int_equal(row_in_layer(&m, layer, OP_MOE_UP_PROJ), OP_MOE_UP_PROJ);
    }
}

/* A dense layer before those of experts, which have an MLP beside them. */
static void kinds_of_mlp(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(
        t, "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 1000, \"hidden_size\": 64, "
           "\"intermediate_size\": 128, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
           "\"q_lora_rank\": 24, \"kv_lora_rank\": 32, \"qk_nope_head_dim\": 16, "
           "\"qk_rope_head_dim\": 8, \"v_head_dim\": 16, \"first_k_dense_replace\": 1, "
           "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, "
           "\"n_shared_experts\": 1}");
    struct op_list l;
    model_ops(&m, &l);
    check_unique(&l);
    assert_int_equal(named(&l, "mlp_up_proj")->repeat, 1);
    assert_int_equal(named(&l, "mlp_up_proj_experts")->repeat, 3);
    assert_int_equal(named(&l, "post_attention_layernorm_experts")->repeat, 3);
    assert_int_equal(named(&l, "moe_down_proj")->repeat, 3);
    assert_int_equal(named(&l, "attn_decode")->repeat, 4);
}

/* Several further kinds of one type. */
static void names_are_numbered(void **state)
{
    struct test *t = *state;
    struct structure s = {0};
    struct op_list l = {0};
    structure_init(&s, t->a, 4);
    for (int64_t i = 0; i < 4; i++) {
        const struct attention a = {.type = i == 1 ? ATTENTION_FULL : ATTENTION_WINDOW,
                                    .window = i == 1 ? 0 : 100 + i};
        assert_true(structure_set_layer(&s, i, &a, &(struct mlp){0}));
        l.ops[l.n++] = (struct op){.kind = OP_ROPE, .part = (int32_t)i};
    }
    op_list_number(&l, &s);
    assert_string_equal(l.ops[0].name, "attn_rope");
    assert_string_equal(l.ops[1].name, "attn_rope_full");
    assert_string_equal(l.ops[2].name, "attn_rope_window");
    assert_string_equal(l.ops[3].name, "attn_rope_window_2");
    assert_int_equal(l.ops[3].row, OP_KINDS + 2);
    assert_int_equal(l.rows, OP_KINDS + 3);
}

/* Of all configurations whose parameters are checked elsewhere. */
static void every_family(void **state)
{
    struct test *t = *state;
    struct golden_family f = {0};
    int models = 0, too_many = 0;
    int32_t most = 0;
    while (golden_family_next(t, &f)) {
        struct model m;
        struct err ignored = {0};
        if (model_from_config(t->a, "test", f.config, &m, &ignored) != ST_OK)
            continue;
        struct op_list l;
        model_ops(&m, &l);
        check_unique(&l);
        most = l.rows > most ? l.rows : most;
        too_many += model_check_rows(&m, OP_ROWS, &ignored) != ST_OK;
        models++;
    }
    print_message("%d models, up to %d rows, %d with too many for tables\n", models, most,
                  too_many);
    assert_true(models > 100 && too_many == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_alike),       TEST(kinds_of_attention), TEST(kinds_of_mlp),
        TEST(names_are_numbered), TEST(every_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
