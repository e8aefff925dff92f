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

static void labels_keep_what_tells_instances_apart(void **state)
{
    struct test *t = *state;
    static const char *const names[][2] = {
        {"void at::native::elementwise_kernel<128, 4, "
         "at::native::gpu_kernel_impl_nocast<at::native::"
         "neg_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() "
         "const::{lambda()#9}::"
         "operator()() const::{lambda(c10::BFloat16)#1}>(at::TensorIteratorBase&, int const&)::"
         "{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<float>(int)::{lambda(int)#1})",
         "elementwise_kernel<128, 4, gpu_kernel_impl_nocast<neg_kernel_cuda(BFloat16)>(int)>"},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous "
         "namespace)::OpaqueType<2u>, unsigned int, 4, std::array<char*, 2ul> >(float*)",
         "CatArrayBatchedCopy<OpaqueType<2>, unsigned int, 4, array<char*, 2>>"},
        {"void k<(a::kind)3, -2, c10::Half const&, void (*)(int)>(int) [clone .x]",
         "k<(kind)3, -2, Half const&, void >"},
        {"void ns::k<a::b<(int)4> >::run<c>(std::array<char*, 2ul>)", "run<c>"},
        {"nvjet_sm90_hsh_64x8", "nvjet_sm90_hsh_64x8"},
        {"[CUDA memcpy Host-to-Device]", "[CUDA memcpy Host-to-Device]"},
        {"k<a, b", "k<a, b>"},
        {"a>b, c)", "a>b, c)"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(trace_label(t->a, names[i][0]), names[i][1]);
    struct buf b = {0}; /* brackets that never close, and a long name */
    for (int i = 0; i < 20000; i++)
        buf_puts(&b, "a<");
    assert_true(strlen(trace_label(t->a, buf_str(&b))) <= 120);
    buf_free(&b);
}

/* No two alike, whatever their order; the same name has the same label. */
static void labels_of_several_names_differ(void **state)
{
    struct test *t = *state;
    const char *const names[] = {"void k<a(int)::{lambda()#7}>(int)", "void f<4>(int)",
                                 "void k<a(int)::{lambda()#4}>(int)", "void f<4>(int)"};
    const char *const turned[] = {names[2], names[1], names[0]};
    const char **labels = trace_labels(t->a, names, 4);
    assert_string_equal(labels[0], "k<a> #2");
    assert_string_equal(labels[1], "f<4>");
    assert_string_equal(labels[2], "k<a> #1");
    assert_string_equal(labels[3], "f<4>");
    labels = trace_labels(t->a, turned, 3);
    assert_string_equal(labels[0], "k<a> #1");
    assert_string_equal(labels[2], "k<a> #2");
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
    const struct CMUnitTest tests[] = {
        TEST(mangled_names_are_read), TEST(labels_keep_what_tells_instances_apart),
        TEST(labels_of_several_names_differ), TEST(names_that_explode_stay_mangled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
