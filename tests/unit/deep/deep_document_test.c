/* The sessions in docs/examples: their summary and roofline are what this program makes of their
 * figures. UPDATE=1 writes them. */
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "deep/deep.h"
#include "deep/roofline.h"
#include "support/support.h"
#include "text/document.h"

static void same(struct test *t, const char *path, struct buf *made)
{
    struct sv kept;
    if (getenv("UPDATE"))
        assert_ok(fs_write_atomic(path, made->p, made->n, &t->e), t);
    assert_ok(fs_read(t->a, path, 1 << 24, &kept, &t->e), t);
    if (kept.n != made->n || memcmp(kept.p, made->p, made->n) != 0)
        fail_msg("%s is not what its deep.json gives: %s", path, buf_str(made));
    buf_free(made);
}

/* Nsight Compute measured some of its kernels: a session has a roofline then. */
static bool has_counters(const struct deep_result *r)
{
    for (size_t i = 0; i < r->n_kernels; i++)
        if (r->kernels[i].profiled > 0)
            return true;
    return false;
}

static void examples_are_current(void **state)
{
    struct test *t = *state;
    const char *examples = TW_SOURCE_DIR "/docs/examples", **names;
    size_t n, checked = 0;
    assert_ok(fs_list(t->a, examples, &names, &n, &t->e), t);
    for (size_t i = 0; i < n; i++) {
        const char *dir = fs_join(t->a, examples, names[i]);
        struct deep_result r;
        struct buf summary = {0}, roofline = {0};
        if (!fs_exists(fs_join(t->a, dir, "deep.json")))
            continue;
        assert_ok(deep_result_load(t->a, fs_join(t->a, dir, "deep.json"), &r, &t->e), t);
        document_markdown(&summary, deep_document(t->a, &r, "Deep profile"));
        same(t, fs_join(t->a, dir, "stakeholder_summary.md"), &summary);
        checked++;
        if (!has_counters(&r)) {
            assert_false(fs_exists(fs_join(t->a, dir, "roofline.svg")));
            continue;
        }
        deep_roofline(&roofline, &r, true);
        same(t, fs_join(t->a, dir, "roofline.svg"), &roofline);
    }
    assert_true(checked > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(examples_are_current)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
