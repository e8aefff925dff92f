#include "support/support.h"

#include <math.h>

#include "text/fields.h"
#include "text/json.h"

enum colour { RED, GREEN, BLUE, COLOURS };

static const char *colour_name(enum colour c)
{
    static const char *const names[] = {"red", "green", "blue"};
    return names[c];
}

static const char *metric_key(unsigned i)
{
    return i == 0 ? "ttft" : i == 2 ? "e2e" : NULL;
}

struct probe {
    double rate;
    int64_t seed;
};

static const struct field probe_rows[] = {
    FIELD(struct probe, rate, .min = 0, .max = 1e300),
    FIELD(struct probe, seed, .optional = true, .otherwise = 7),
};
static const struct fields probe_fields = FIELDS(struct probe, probe_rows);

struct oper {
    const char *name;
    double error;
};
static const struct field oper_rows[] = {FIELD(struct oper, error, .optional = true)};
static const struct fields oper_fields = FIELDS(struct oper, oper_rows);

struct all {
    int32_t small;
    uint32_t count;
    int64_t big;
    size_t bytes;
    double mean_s;
    bool ok, has_part, has_group;
    const char *name;
    const struct node *tree;
    enum colour colour;
    double low, high;
    int64_t part_n, group_n;
    struct probe inner, inlined;
    struct probe *probes;
    size_t n_probes;
    const char *const *notes;
    size_t n_notes;
    struct oper *operators;
    size_t n_operators;
    double limits[3];
    struct probe metrics[3];
    struct doubles *rows;
    size_t n_rows;
};

static const struct field part_rows[] = {FIELD(struct all, part_n)};
static const struct fields part_fields = FIELDS(struct all, part_rows);
static const struct field group_rows[] = {FIELD(struct all, group_n)};
static const struct fields group_fields = FIELDS(struct all, group_rows);
static const struct field inlined_rows[] = {FIELD_AS(struct probe, rate, "inlined_rate")};
static const struct fields inlined_fields = FIELDS(struct probe, inlined_rows);

static struct node *doubled(struct arena *a, const void *record)
{
    return node_int(a, 2 * ((const struct all *)record)->big);
}

static const struct field all_rows[] = {
    FIELD(struct all, small, .min = -5, .max = 5),
    FIELD(struct all, count, .zero_is_null = true),
    FIELD(struct all, big),
    FIELD(struct all, bytes, .omit = true),
    FIELD_AS(struct all, mean_s, "mean", .optional = true),
    FIELD(struct all, ok),
    FIELD(struct all, name, .optional = true),
    FIELD(struct all, tree, .optional = true),
    FIELD_ENUM(struct all, colour, "colour", colour_name, COLOURS, .optional = true,
               .otherwise = COLOURS),
    FIELD_PAIR(struct all, low, high, "interval", .optional = true),
    FIELD_PART("part", &part_fields, FIELD_IF(struct all, has_part)),
    FIELD_PART(NULL, &group_fields, FIELD_IF(struct all, has_group)),
    FIELD_MAP(struct all, inner, "inner", &probe_fields),
    FIELD_MAP(struct all, inlined, NULL, &inlined_fields),
    FIELD_MAPS(struct all, probes, n_probes, "probes", &probe_fields),
    FIELD_LIST(struct all, notes, n_notes, "notes", .optional = true),
    FIELD_KEYED(struct all, operators, n_operators, "operators", &oper_fields, .optional = true),
    FIELD_NAMED(struct all, limits, "limits", metric_key, 3, .omit = true),
    FIELD_NAMED_MAPS(struct all, metrics, "metrics", metric_key, 3, &probe_fields,
                     .optional = true),
    FIELD_LIST(struct all, rows, n_rows, "rows", .omit = true),
    FIELD_MADE("twice", doubled),
};
static const struct fields all_fields =
    FIELDS(struct all, all_rows, .remedy = "run it again: its file was edited");

static const char full[] = "{\"big\":9007199254740993,\"bytes\":12,\"colour\":\"blue\","
                           "\"count\":3,\"group_n\":6,\"inlined_rate\":0.25,"
                           "\"inner\":{\"rate\":1.5,\"seed\":4},\"interval\":[1,2.5],"
                           "\"limits\":{\"ttft\":0.5},\"mean\":0.1,"
                           "\"metrics\":{\"e2e\":{\"rate\":2,\"seed\":0},"
                           "\"ttft\":{\"rate\":1,\"seed\":0}},\"name\":\"x\","
                           "\"notes\":[\"a\",\"b\"],\"ok\":true,"
                           "\"operators\":{\"add\":{\"error\":null},\"mlp\":{\"error\":0.5}},"
                           "\"part\":{\"part_n\":5},\"probes\":[{\"rate\":3,\"seed\":1}],"
                           "\"rows\":[[1,2],[]],\"small\":-2,\"tree\":{\"k\":[1]},"
                           "\"twice\":18014398509481986}";

static struct node *parse(struct test *t, const char *text)
{
    struct node *n;
    assert_ok(json_parse(t->a, "r.json", sv_of(text), NULL, &n, &t->e), t);
    return n;
}

static const char *text_of(struct test *t, const struct all *r)
{
    struct buf b = {0};
    json_write(&b, fields_node(t->a, &all_fields, r), 0, true);
    const char *text = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return text;
}

/* What was read is written with the same bytes: all kinds and shapes. */
static void a_record_goes_there_and_back(void **state)
{
    struct test *t = *state;
    struct all r;
    memset(&r, 0xa5, sizeof r);
    assert_ok(fields_read(t->a, &all_fields, parse(t, full), &r, &t->e), t);
    assert_string_equal(text_of(t, &r), full);
    assert_int_equal(r.big, INT64_C(9007199254740993));
    assert_int_equal(r.colour, BLUE);
    assert_true(r.has_part && r.has_group);
    assert_string_equal(r.operators[1].name, "mlp");
    assert_true(isnan(r.operators[0].error) && isnan(r.limits[2]) && isnan(r.metrics[1].rate));
    assert_int_equal(r.rows[0].n, 2);
}

static const char least[] = "{\"big\":0,\"inlined_rate\":0,\"inner\":{\"rate\":0},"
                            "\"ok\":false,\"probes\":[],\"small\":0}";

static void what_is_missing_is_unknown(void **state)
{
    struct test *t = *state;
    struct all r;
    memset(&r, 0xa5, sizeof r);
    assert_ok(fields_read(t->a, &all_fields, parse(t, least), &r, &t->e), t);
    assert_true(isnan(r.mean_s) && isnan(r.low) && isnan(r.high) && isnan(r.limits[0]));
    assert_true(r.count == 0 && r.bytes == 0 && r.colour == COLOURS && r.inner.seed == 7);
    assert_true(!r.name && !r.tree && r.n_notes == 0 && r.n_operators == 0 && r.n_rows == 0);
    assert_false(r.has_part || r.has_group);
    assert_string_equal(text_of(t, &r),
                        "{\"big\":0,\"colour\":null,\"count\":null,\"inlined_rate\":0,"
                        "\"inner\":{\"rate\":0,\"seed\":7},\"interval\":null,\"limits\":{},"
                        "\"mean\":null,\"metrics\":{\"e2e\":{\"rate\":null,\"seed\":7},"
                        "\"ttft\":{\"rate\":null,\"seed\":7}},\"name\":null,\"notes\":[],"
                        "\"ok\":false,\"operators\":{},\"part\":null,\"probes\":[],\"small\":0,"
                        "\"tree\":null,\"twice\":0}");
}

/* One member replaced or added. */
static struct node *with(struct test *t, const char *key, const char *value)
{
    struct node *map = parse(t, full);
    node_set(t->a, map, sv_of(key), parse(t, value));
    return map;
}

static void errors_name_the_path_and_the_remedy(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *key, *value, *error;
    } cases[] = {
        {"small", "6", "r.json:1:1: small: 6 is above the maximum 5"},
        {"small", "1.5", "r.json:1:1: small: expected an integer, got a number"},
        {"count", "-1", "r.json:1:1: count: -1 is below the minimum 0"},
        {"count", "4294967296", "r.json:1:1: count: 4294967296 is above the maximum 4294967295"},
        {"bytes", "-1", "r.json:1:1: bytes: -1 is below the minimum 0"},
        {"big", "null", "r.json:1:1: big: expected an integer, got null"},
        {"mean", "\"x\"", "r.json:1:1: mean: expected a number, got a string"},
        {"ok", "1", "r.json:1:1: ok: expected true or false, got an integer"},
        {"name", "[]", "r.json:1:1: name: expected a string, got a list"},
        {"colour", "\"grey\"", "r.json:1:1: colour: 'grey' is not one of red, green, blue"},
        {"interval", "[1]", "r.json:1:1: interval: expected two numbers"},
        {"inner", "{\"rate\": -1}", "r.json:1:10: inner.rate: -1 is below the minimum 0"},
        {"inner", "{}", "r.json:1:1: inner.rate: missing"},
        {"inner", "3", "r.json:1:1: inner: expected a map, got an integer"},
        {"part", "{}", "r.json:1:1: part.part_n: missing"},
        {"probes", "[{\"rate\": 1}, {\"rate\": true}]",
         "r.json:1:24: probes[1].rate: expected a number, got true or false"},
        {"probes", "{}", "r.json:1:1: probes: expected a list, got a map"},
        {"notes", "[\"a\", 1]", "r.json:1:7: notes[1]: expected a string, got an integer"},
        {"operators", "{\"add\": 1}", "r.json:1:9: operators.add: expected a map, got an integer"},
        {"limits", "{\"e2e\": \"x\"}", "r.json:1:9: limits.e2e: expected a number, got a string"},
        {"rows", "[[1], [\"x\"]]", "r.json:1:8: rows[1]: expected a number, got a string"},
    };
    struct all r;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err_clear(&t->e);
        struct node *map = with(t, cases[i].key, cases[i].value);
        assert_int_equal(fields_read(t->a, &all_fields, map, &r, &t->e), ST_INPUT);
        assert_string_equal(err_cause(&t->e, 0), cases[i].error);
        assert_string_equal(err_hint_text(&t->e), "run it again: its file was edited");
    }
    err_clear(&t->e);
    assert_int_equal(fields_read(t->a, &all_fields, parse(t, "[]"), &r, &t->e), ST_INPUT);
    assert_string_equal(err_cause(&t->e, 0), "r.json:1:1: expected a map, got a list");
    err_clear(&t->e);
    struct node *map = parse(t, full);
    node_remove(map, SV("big"));
    assert_int_equal(fields_read(t->a, &all_fields, map, &r, &t->e), ST_INPUT);
    assert_string_equal(err_cause(&t->e, 0), "r.json:1:1: big: missing");
}

/* The rest is read; of lists, the elements that fit. */
static void a_page_takes_what_fits(void **state)
{
    struct test *t = *state;
    struct all r;
    fields_read_loose(t->a, &all_fields,
                      parse(t, "{\"big\": \"x\", \"mean\": 2, \"colour\": \"grey\","
                               " \"notes\": [\"a\", 1, null, \"b\"], \"inner\": 5, \"part\": 1,"
                               " \"probes\": [1, {\"rate\": 8, \"seed\": []}], \"interval\": [1],"
                               " \"operators\": {\"a\": 1, \"b\": {}}}"),
                      &r);
    assert_true(r.big == 0 && r.mean_s == 2 && r.colour == COLOURS && !r.has_part);
    assert_true(r.n_notes == 2 && r.n_probes == 1 && r.n_operators == 1 && isnan(r.low));
    assert_string_equal(r.notes[1], "b");
    assert_true(r.probes[0].rate == 8 && r.probes[0].seed == 7 && isnan(r.inner.rate));
    assert_string_equal(r.operators[0].name, "b");
    memset(&r, 0xa5, sizeof r);
    fields_read_loose(t->a, &all_fields, NULL, &r);
    assert_true(isnan(r.mean_s) && r.n_probes == 0 && !r.name && isnan(r.metrics[0].rate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_goes_there_and_back),
        TEST(what_is_missing_is_unknown),
        TEST(errors_name_the_path_and_the_remedy),
        TEST(a_page_takes_what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
