#include "trace/trace.h"

#include "support/support.h"

static void mangled_names_are_read(void **state)
{
    struct test *t = *state;
    static const char *const names[][3] = {
        {"_Z1fILi4EEvi", "void f<4>(int)", "f"},
        {"_ZN2at6native12_GLOBAL__N_14softEPf", "at::native::(anonymous namespace)::soft(float*)",
         "soft"},
        {"nvjet_sm90_hsh_64x8", "nvjet_sm90_hsh_64x8", "nvjet_sm90_hsh_64x8"},
        {"_Zbroken", "_Zbroken", "_Zbroken"},
        {"void ns::k<a::b<(int)4> >::run<c>(std::array<char*, 2ul>)",
         "void ns::k<a::b<(int)4> >::run<c>(std::array<char*, 2ul>)", "run"},
        {"_ZN1AplEi", "A::operator+(int)", "operator+"},
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *full = trace_demangle(t->a, names[i][0]);
        assert_string_equal(full, names[i][1]);
        assert_string_equal(trace_short_name(t->a, full), names[i][2]);
    }
}

/* Each parameter is a pair of the one before: 2^40 ints in 500 bytes. */
static void names_that_explode_stay_mangled(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    buf_puts(&b, "_Z1f1PIiiES_IS0_S0_E");
    for (int i = 0; i < 38; i++) {
        char id[3] = {0};
        int n = i + 1; /* S1_ is the pair before */
        if (n < 36)
            id[0] = (char)(n < 10 ? '0' + n : 'A' + n - 10);
        else
            id[0] = '1', id[1] = (char)('0' + n - 36);
        buf_printf(&b, "S_IS%s_S%s_E", id, id);
    }
    const char *name = buf_str(&b);
    assert_ptr_equal(trace_demangle(t->a, name), name);
    buf_free(&b);
    for (int i = 0; i < 20000; i++)
        buf_puts(&b, i ? "i" : "_Z1f");
    name = buf_str(&b);
    assert_ptr_equal(trace_demangle(t->a, name), name);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(mangled_names_are_read),
                                       TEST(names_that_explode_stay_mangled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
