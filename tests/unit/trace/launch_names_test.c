/* Names of driver functions that launch work: without versions and forms of per-thread streams. */
#include "trace/launch_names.h"

#include "gpu/abi/cupti.h"
#include "support/support.h"

#define ID(function) CUPTI_DRIVER_TRACE_CBID_##function

static void forms_of_one_function_share_its_name(void **state)
{
    (void)state;
    assert_string_equal(trace_launch_name(ID(cuLaunchKernel)), "cuLaunchKernel");
    assert_string_equal(trace_launch_name(ID(cuLaunchKernel_ptsz)), "cuLaunchKernel");
    assert_string_equal(trace_launch_name(ID(cuMemcpyHtoDAsync_v2)), "cuMemcpyHtoDAsync");
    assert_string_equal(trace_launch_name(ID(cuMemcpyHtoDAsync_v2_ptsz)), "cuMemcpyHtoDAsync");
    assert_string_equal(trace_launch_name(ID(cuMemsetD8_v2_ptds)), "cuMemsetD8");
}

static void names_have_neither_version_nor_form(void **state)
{
    size_t known = 0;
    (void)state;
    for (uint32_t cbid = 0; cbid <= UINT16_MAX; cbid++) {
        const char *name = trace_launch_name((uint16_t)cbid);
        if (!name)
            continue;
        known++;
        assert_memory_equal(name, "cu", 2);
        assert_null(strchr(name, '_'));
    }
    assert_true(known > 40);
}

static void other_functions_have_none(void **state)
{
    (void)state;
    assert_null(trace_launch_name(0));
    assert_null(trace_launch_name(UINT16_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forms_of_one_function_share_its_name),
        TEST(names_have_neither_version_nor_form),
        TEST(other_functions_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
