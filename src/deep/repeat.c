#include "deep/repeat.h"

#include <math.h>
#include <string.h>

#include "deep/analysis.h"
#include "deep/deep.h"

static const struct deep_kernel_total *named(const struct deep_result *r, const char *name)
{
    for (size_t i = 0; i < r->n_kernel_totals; i++)
        if (strcmp(r->kernel_totals[i].name, name) == 0)
            return &r->kernel_totals[i];
    return NULL;
}

static bool counts(const struct deep_kernel_total *k)
{
    return k && k->share_percent >= DEEP_REPEAT_SHARE;
}

/* Of the collectives of that short name, of all for NULL, in all processes. */
static double waiting_ms(const struct deep_result *r, const char *short_name)
{
    double ms = 0;
    for (size_t i = 0; i < r->n_collectives; i++) {
        const struct deep_collective_row *c = &r->collectives[i];
        if (c->waiting_ms > 0 && (!short_name || strcmp(c->name, short_name) == 0))
            ms += c->waiting_ms;
    }
    return ms;
}

static double change(double before, double now)
{
    return before > 0 ? 100 * (now / before - 1) : (double)NAN;
}

struct repeat_side {
    const struct deep_result *r;
    const struct deep_kernel_total *k;
};

static void add(struct arena *a, struct deep_repeat *r, struct repeat_side before,
                struct repeat_side now)
{
    const char *name = trace_short_name(a, now.k->name);
    const double before_ms = before.k->total_ms - waiting_ms(before.r, name);
    const double ms = now.k->total_ms - waiting_ms(now.r, name);
    double percent = change(before_ms, ms);
    r->rows[r->n_rows++] = (struct deep_repeat_row){.name = now.k->name,
                                                    .short_name = name,
                                                    .calls_before = before.k->calls,
                                                    .calls = now.k->calls,
                                                    .before_ms = before_ms,
                                                    .ms = ms,
                                                    .change_percent = percent};
    r->beyond += !(fabs(percent) <= DEEP_REPEAT_PERCENT);
}

static void add_labels(struct arena *a, struct deep_repeat *r)
{
    const char **names = arena_array(a, const char *, r->n_rows + 1), **labels;
    for (size_t i = 0; i < r->n_rows; i++)
        names[i] = r->rows[i].name;
    labels = trace_labels(a, names, r->n_rows);
    for (size_t i = 0; i < r->n_rows; i++) {
        r->rows[i].label = labels[i];
        if (fabs(r->rows[i].change_percent) <= fabs(r->largest_percent))
            continue;
        r->largest_percent = r->rows[i].change_percent;
        r->largest = labels[i];
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
    if (!before->n_kernel_totals && before->n_kernels) {
        deep_note(a, now,
                  "Not compared with %s: its deep.json is of an older version, without "
                  "kernel_totals; twinfer deep deep.session= makes it anew.",
                  dir);
        return;
    }
    struct deep_repeat *r = arena_one(a, struct deep_repeat);
    const double waited_before = waiting_ms(before, NULL), waited = waiting_ms(now, NULL);
    const double before_ms = before->totals.gpu_ms - waited_before;
    const double ms = now->totals.gpu_ms - waited;
    *r = (struct deep_repeat){.folder = dir,
                              .before_ms = before_ms,
                              .ms = ms,
                              .change_percent = change(before_ms, ms),
                              .waiting_before_ms = waited_before,
                              .waiting_ms = waited,
                              .limit_percent = DEEP_REPEAT_PERCENT,
                              .largest_percent = NAN,
                              .rows =
                                  arena_array(a, struct deep_repeat_row, now->n_kernel_totals + 1)};
    for (size_t i = 0; i < now->n_kernel_totals; i++) {
        const struct deep_kernel_total *k = &now->kernel_totals[i], *old = named(before, k->name);
        if (old && (counts(k) || counts(old)))
            add(a, r, (struct repeat_side){before, old}, (struct repeat_side){now, k});
        else
            r->only_one += counts(k);
    }
    for (size_t i = 0; i < before->n_kernel_totals; i++)
        r->only_one +=
            counts(&before->kernel_totals[i]) && !named(now, before->kernel_totals[i].name);
    add_labels(a, r);
    now->repeat = r;
    now->n_repeat = 1;
}

static const char *change_words(struct arena *a, double percent)
{
    if (fabs(percent) < 0.01)
        return "below 0.01 %";
    return arena_printf(a, fabs(percent) < 0.1 ? "%+.2f %%" : "%+.1f %%", percent);
}

const char *deep_repeat_words(struct arena *a, const struct deep_repeat *r)
{
    struct buf out = {0};
    double all = (double)r->n_rows;
    buf_printf(&out, "GPU time %.3f to %.3f ms (%s).", r->before_ms, r->ms,
               change_words(a, r->change_percent));
    if (r->waiting_before_ms > 0 || r->waiting_ms > 0)
        buf_printf(&out,
                   " That is without the %.3f and %.3f ms in which collectives waited for another "
                   "rank.",
                   r->waiting_before_ms, r->waiting_ms);
    if (r->n_rows)
        buf_printf(&out,
                   " Of the kernels with %.0f %% of it or more, %.0f of %.0f are within %.0f %%; "
                   "the largest change is %s (%s).",
                   DEEP_REPEAT_SHARE, all - r->beyond, all, r->limit_percent,
                   change_words(a, r->largest_percent), r->largest ? r->largest : "?");
    if (r->only_one > 0)
        buf_printf(&out,
                   " %.0f more take%s %.0f %% in one session and less than %.1f %% in the "
                   "other, or nothing.",
                   r->only_one, r->only_one > 1 ? "" : "s", DEEP_REPEAT_SHARE, DEEP_TOTALS_SHARE);
    const char *text = arena_str(a, buf_str(&out));
    buf_free(&out);
    return text;
}
