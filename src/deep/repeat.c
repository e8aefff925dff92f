#include "deep/repeat.h"

#include <math.h>
#include <string.h>

#include "deep/analysis.h"
#include "deep/deep.h"

static const struct deep_kernel_row *named(const struct deep_result *r, const char *name)
{
    for (size_t i = 0; i < r->n_kernels; i++)
        if (strcmp(r->kernels[i].name, name) == 0)
            return &r->kernels[i];
    return NULL;
}

static bool counts(const struct deep_kernel_row *k)
{
    return k && k->share_percent >= DEEP_REPEAT_SHARE;
}

static double change(double before, double now)
{
    return before > 0 ? 100 * (now / before - 1) : (double)NAN;
}

static void add(struct deep_repeat *r, const struct deep_kernel_row *before,
                const struct deep_kernel_row *now)
{
    double percent = change(before->total_ms, now->total_ms);
    r->rows[r->n_rows++] = (struct deep_repeat_row){.name = now->name,
                                                    .short_name = now->short_name,
                                                    .calls_before = before->calls,
                                                    .calls = now->calls,
                                                    .before_ms = before->total_ms,
                                                    .ms = now->total_ms,
                                                    .change_percent = percent};
    r->beyond += !(fabs(percent) <= DEEP_REPEAT_PERCENT);
    if (!(fabs(percent) <= fabs(r->largest_percent))) {
        r->largest_percent = percent;
        r->largest = now->short_name;
    }
}

void deep_repeat(struct arena *a, const char *dir, const struct deep_result *before,
                 struct deep_result *now)
{
    if (strcmp(before->totals.scope, now->totals.scope) != 0) {
        deep_note(a, now, "Not compared with %s: its figures are of the %s, these of the %s.", dir,
                  before->totals.scope, now->totals.scope);
        return;
    }
    struct deep_repeat *r = arena_one(a, struct deep_repeat);
    *r = (struct deep_repeat){.folder = dir,
                              .before_ms = before->totals.gpu_ms,
                              .ms = now->totals.gpu_ms,
                              .change_percent = change(before->totals.gpu_ms, now->totals.gpu_ms),
                              .limit_percent = DEEP_REPEAT_PERCENT,
                              .largest_percent = NAN,
                              .rows = arena_array(a, struct deep_repeat_row, now->n_kernels + 1)};
    for (size_t i = 0; i < now->n_kernels; i++) {
        const struct deep_kernel_row *k = &now->kernels[i], *old = named(before, k->name);
        if (old && (counts(k) || counts(old)))
            add(r, old, k);
        else
            r->only_one += counts(k);
    }
    for (size_t i = 0; i < before->n_kernels; i++)
        r->only_one += counts(&before->kernels[i]) && !named(now, before->kernels[i].name);
    now->repeat = r;
    now->n_repeat = 1;
}

const char *deep_repeat_words(struct arena *a, const struct deep_repeat *r)
{
    struct buf out = {0};
    double all = (double)r->n_rows;
    buf_printf(&out, "GPU time %.3f to %.3f ms (%+.1f %%).", r->before_ms, r->ms,
               r->change_percent);
    if (r->n_rows)
        buf_printf(&out,
                   " Of the kernels with %.0f %% of it or more, %.0f of %.0f are within %.0f %%; "
                   "the largest change is %+.1f %% (%s).",
                   DEEP_REPEAT_SHARE, all - r->beyond, all, r->limit_percent, r->largest_percent,
                   r->largest ? r->largest : "?");
    if (r->only_one > 0)
        buf_printf(&out, " %.0f more stand%s in one session's table alone.", r->only_one,
                   r->only_one > 1 ? "" : "s");
    const char *text = arena_str(a, buf_str(&out));
    buf_free(&out);
    return text;
}
