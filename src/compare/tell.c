/* Words of comparisons: the outcome in one line, and what both documents say. */
#include <math.h>
#include <stdio.h>

#include "compare/intern.h"
#include "text/document.h"

const enum document_tone compare_tones[] = {[VERDICT_PASS] = DOCUMENT_GOOD,
                                            [VERDICT_WARN] = DOCUMENT_CLOSE,
                                            [VERDICT_INCONCLUSIVE] = DOCUMENT_OPEN,
                                            [VERDICT_FAIL] = DOCUMENT_BAD,
                                            [VERDICT_NONE] = DOCUMENT_PLAIN};

double compare_known(size_t n)
{
    return (int64_t)n < 0 ? (double)NAN : (double)n;
}

const char *compare_sentence(struct arena *a, const char *clause)
{
    char *text = arena_str(a, clause);
    if (text[0] >= 'a' && text[0] <= 'z')
        text[0] = (char)(text[0] - 'a' + 'A');
    return text;
}

void compare_tell_causes(struct document *d, const struct compare_told *told)
{
    document_section(d, "Why cells are inconclusive");
    for (size_t i = 0; i < told->n_causes; i++) {
        const struct compare_reason *r = &told->causes[i];
        const double cells = compare_known(r->n_cells);
        document_note(d, arena_printf(d->a, "%s: %s cell%s.",
                                      r->text ? compare_sentence(d->a, r->text) : "Unknown",
                                      document_value(d->a, DOCUMENT_COUNT, cells),
                                      cells > 1 ? "s" : ""));
    }
}

const char *compare_outcome(struct arena *a, const struct comparison *c)
{
    char change[WORDS_MAX];
    const char *verdict = verdict_name(c->verdict);
    if (c->verdict == VERDICT_NONE)
        return c->path.is ? "not judged: the difference is what HTTP costs" : verdict;
    if (c->verdict != VERDICT_INCONCLUSIVE) {
        const struct compare_cell *worst = &c->cells[c->worst_metric][c->worst_percentile];
        return arena_printf(a, "%s: largest judged error %s (%s P%.0f%s%s)", verdict,
                            words_change(change, worst->error_percent),
                            compare_metric_title(c->worst_metric),
                            compare_percentiles[c->worst_percentile], worst->excused ? ", " : "",
                            worst->excused ? worst->why : "");
    }
    struct buf text = {0};
    for (size_t i = 0; i < c->n_reasons; i++)
        buf_printf(&text, "%s%s", i ? "; " : "", c->reasons[i].text);
    const char *all = arena_printf(a, "%s: %s", verdict, buf_str(&text));
    buf_free(&text);
    return all;
}
