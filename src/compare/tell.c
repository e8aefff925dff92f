/* Text output of a comparison: the table for the terminal, and summary.md. */
#include <math.h>
#include <stdio.h>

#include "compare/intern.h"
#include "text/document.h"

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

static const char *interval_text(struct arena *a, double low_ns, double high_ns)
{
    char low[WORDS_MAX], high[WORDS_MAX];
    if (isnan(low_ns))
        return "n/a";
    return arena_printf(a, "%s .. %s", words_ms(low, low_ns / 1e9), words_ms(high, high_ns / 1e9));
}

static const char *verdict_text(struct arena *a, const struct compare_cell *c)
{
    return c->why ? arena_printf(a, "%s: %s", verdict_name(c->verdict), c->why)
                  : verdict_name(c->verdict);
}

struct table *compare_table(struct arena *a, const struct comparison *c)
{
    static const char *const header[] = {"metric",
                                         "percentile",
                                         "real, ms",
                                         "simulated, ms",
                                         "error",
                                         "95 % interval of real, ms",
                                         "95 % interval of simulated, ms",
                                         "spread of real",
                                         "verdict"};
    enum { COLUMNS = sizeof header / sizeof *header, SECOND = 3, UNCERTAINTY = 6, SPREAD = 7 };
    bool spread = c->params.n_spread > 0, uncertainty = c->uncertainty.known;
    struct table *t = table_new(a, COLUMNS - !spread - !uncertainty);
    for (int i = 0; i < COLUMNS; i++) {
        const char *title = header[i];
        if (c->path.is && i == SECOND) /* two real runs */
            title = c->path.real_is ? "without HTTP, ms" : "over HTTP, ms";
        if ((i != SPREAD || spread) && (i != UNCERTAINTY || uncertainty))
            table_cell(t, "%s", title);
    }
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            const struct compare_cell *cell = &c->cells[m][p];
            char text[WORDS_MAX];
            table_cell(t, "%s", compare_metric_title(m));
            table_cell(t, "P%.0f", compare_percentiles[p]);
            table_cell(t, "%s", words_ms(text, cell->real_ns / 1e9));
            table_cell(t, "%s", words_ms(text, cell->sim_ns / 1e9));
            table_cell(t, "%s", words_change(text, cell->error_percent));
            table_cell(t, "%s", interval_text(a, cell->real_low_ns, cell->real_high_ns));
            if (uncertainty)
                table_cell(t, "%s", interval_text(a, cell->sim_low_ns, cell->sim_high_ns));
            if (spread)
                table_cell(t, "%s", words_percent(text, cell->spread_percent));
            table_cell(t, "%s", verdict_text(a, cell));
        }
    }
    return t;
}

static void tell_item(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "- %s", name);
    table_markdown_text(out, text);
    buf_puts(out, "\n");
}

static void tell_list(struct buf *out, const char *title, const char *const *s, size_t n)
{
    if (n == 0)
        return;
    buf_printf(out, "\n## %s\n\n", title);
    for (size_t i = 0; i < n; i++)
        tell_item(out, "", s[i]);
}

static void tell_parts(struct arena *a, struct buf *out, const struct comparison *c)
{
    if (c->n_parts == 0)
        return;
    struct table *t = table_new(a, 7);
    static const char *const header[] = {
        "part",         "real, ms", "simulated, ms", "change", "host real / sim, ms",
        "n real / sim", "share"};
    for (size_t i = 0; i < 7; i++)
        table_cell(t, "%s", header[i]);
    for (size_t i = 0; i < c->n_parts; i++) {
        const struct compare_part *p = &c->parts[i];
        char r[WORDS_MAX], s[WORDS_MAX];
        double change = p->real_s > 0 ? 100 * (p->sim_s - p->real_s) / p->real_s : (double)NAN;
        table_cell(t, "%s%s", p->detail ? "- " : "", p->name);
        table_cell(t, "%s", words_ms(r, p->real_s));
        table_cell(t, "%s", words_ms(s, p->sim_s));
        table_cell(t, "%s", words_change(r, change));
        table_cell(t, "%s / %s", words_ms(r, p->real_host_s), words_ms(s, p->sim_host_s));
        table_cell(t, "%s / %s", words_count(r, p->real_n), words_count(s, p->sim_n));
        table_cell(t, "%s", words_share(r, p->share));
    }
    buf_puts(out, "\nMean time of a batch, of like batches at the real run's mix:\n\n");
    table_markdown(out, t);
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

void compare_summary(struct arena *a, struct buf *out, const struct comparison *c)
{
    char text[WORDS_MAX];
    buf_printf(out, "# Comparison: %s\n\n", verdict_name(c->verdict));
    for (size_t i = 0; i < c->n_reasons; i++)
        tell_item(out, c->verdict == VERDICT_INCONCLUSIVE ? "inconclusive: " : "of some cells: ",
                  c->reasons[i].text);
    tell_item(out, "real: ", c->real.dir);
    tell_item(out, "simulated: ", c->sim.dir);
    buf_printf(out, "- requests compared: %s\n", words_count(text, (int64_t)c->n_aligned));
    buf_printf(out, "- limits: pass up to %g %%, warn up to %g %%, P99 from %s requests\n",
               c->params.pass_percent, c->params.warn_percent,
               words_count(text, COMPARE_P99_REQUESTS));
    for (size_t i = 0; i < c->params.n_spread; i++)
        tell_item(out, "spread run: ", c->params.spread_dirs[i]);
    buf_puts(out, "\n");
    table_markdown(out, compare_table(a, c));
    tell_list(out, "What HTTP costs", c->path.lines, c->path.n_lines);
    tell_list(out, "Energy", c->energy.lines, c->energy.n_lines);
    if (c->diagnosed) {
        const struct compare_cell *worst = &c->cells[c->worst_metric][c->worst_percentile];
        tell_list(out,
                  arena_printf(a, "Diagnosis of the largest error: %s P%.0f, %s",
                               compare_metric_title(c->worst_metric),
                               compare_percentiles[c->worst_percentile],
                               words_change(text, worst->error_percent)),
                  c->findings, c->n_findings);
    }
    tell_parts(a, out, c);
    tell_list(out, "Notes", c->notes, c->n_notes);
}
