#include "support/fake_document.h"

#include <math.h>

struct fake_row {
    const char *name, *tool;
    double calls, total_ms, change_percent, process;
};

static void fill_name(struct document_table *t, const void *record)
{
    const struct fake_row *r = record;
    document_words(t, "%s", r->name)->remark = r->tool;
}

static const struct document_column columns[] = {
    DOCUMENT_FILLED(fill_name, "Stage", DOCUMENT_WORDS),
    DOCUMENT_COLUMN(struct fake_row, calls, "Calls", DOCUMENT_COUNT, .picture = "dot"),
    DOCUMENT_COLUMN(struct fake_row, total_ms, "Total", DOCUMENT_MS, .series = 2),
    DOCUMENT_COLUMN(struct fake_row, change_percent, "Change", DOCUMENT_CHANGE, .under = true),
    DOCUMENT_COLUMN(struct fake_row, process, "PID", DOCUMENT_ID),
    DOCUMENT_COLUMN(struct fake_row, tool, "Tool", DOCUMENT_LABEL),
};

struct document_table *fake_document_table(struct arena *a)
{
    static const struct fake_row rows[] = {{"prefill", NULL, 1204, 12.5, 4.2, 4711000},
                                           {"a|b<c>", "nsys\x1b[1m", NAN, NAN, NAN, 7}};
    struct document_table *t = document_table_new(a, columns, sizeof columns / sizeof *columns);
    document_group(t, "Run", "first", "2 stages");
    DOCUMENT_ROWS(t, rows, 2);
    t->first->next->cells[0].folded[0] = "A launch: <1>.";
    t->first->next->cells[1].of = "dot";
    t->first->next->cells[3].tone = DOCUMENT_BAD;
    document_group(t, "Run", "second", NULL);
    document_row(t)->detail = true;
    document_words(t, "decode");
    document_words(t, "refused")->tone = DOCUMENT_OPEN;
    document_number(t, 0.25);
    document_words(t, "%s", "");
    document_number(t, 8);
    document_words(t, "none");
    return t;
}

struct document *fake_document(struct arena *a)
{
    struct document *d = document_new(a, "Profile <a>", "prefill\nis slower");
    d->tone = DOCUMENT_BAD;
    document_tile(d, "Elapsed", document_value(a, DOCUMENT_MS, 12.5), "of the *stages*");
    document_tile(d, "GPUs", "2", NULL);
    document_section(d, "Findings");
    document_finding(d, "a * b", "kernel", "It takes <b>all</b>.");
    document_finding(d, NULL, NULL, "It waits.");
    document_section(d, "Empty");
    document_section(d, "Stages");
    document_paragraph(d, "Of %d stages.", 3);
    document_add(d, fake_document_table(a));
    document_remark(d, "A stage includes its sub-stages.");
    document_section(d, "Picture");
    document_figure(d, "picture");
    document_section(d, "Facts");
    document_fact(d, "Model", "a|b");
    document_fact(d, "Roofs", NULL);
    document_fact_of(d, "Host", DOCUMENT_US, 8.03);
    document_fact_of(d, "Unknown", DOCUMENT_US, NAN);
    document_note(d, "One `note`.");
    document_note(d, "Another.");
    document_remark(d, "The end.");
    return d;
}
