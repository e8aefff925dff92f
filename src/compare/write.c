/* The files of comparisons/<id>/. */
#include "compare/intern.h"
#include "text/json.h"

static void percentile_rows(struct csv_writer *w, const struct comparison *c, enum metric m)
{
    csv_put_str(w, "metric");
    csv_put_str(w, "real_ns");
    csv_put_str(w, "sim_ns");
    csv_end_row(w);
    for (int p = 0; p < COMPARE_PERCENTILES; p++) {
        csv_put_str(w, compare_percentile_name(p));
        csv_put_double(w, c->cells[m][p].real_ns);
        csv_put_double(w, c->cells[m][p].sim_ns);
        csv_end_row(w);
    }
}

static enum st write_tables(const struct artifact *art, const struct comparison *c, struct err *e)
{
    struct csv_writer w = {0};
    for (enum metric m = 0; m < METRICS; m++) {
        const char *name = arena_printf(art->a, "tables/%s_percentiles.csv", metric_name(m));
        TRY(artifact_create_file(art, name, &w.f, e));
        percentile_rows(&w, c, m);
        TRY(artifact_close_file(art, name, &w.f, e));
    }
    return ST_OK;
}

static enum st write_figures(const struct artifact *art, const struct curves *curves,
                             struct buf *scratch, struct err *e)
{
    for (int i = 0; i < CURVES_FIGURES; i++) {
        buf_clear(scratch);
        if (curves_figure(curves, i, scratch))
            TRY(artifact_write(art, arena_printf(art->a, "figs/%s.svg", curves_figure_name(i)),
                               scratch, e));
    }
    return ST_OK;
}

enum st compare_write_texts(const struct artifact *art, const struct buf *summary,
                            const struct buf *json, const struct curves *curves, struct err *e)
{
    struct buf scratch = {0};
    TRY(fs_mkdirs(artifact_path(art->a, art, "tables"), e));
    TRY(fs_mkdirs(artifact_path(art->a, art, "figs"), e));
    TRY(artifact_write(art, "summary.md", summary, e));
    TRY(artifact_write(art, "compare.json", json, e));
    TRY(curves_write(art, curves, e));
    enum st st = write_figures(art, curves, &scratch, e);
    buf_free(&scratch);
    return st;
}

enum st compare_write(const struct artifact *art, const struct comparison *c, struct err *e)
{
    struct buf summary = {0}, json = {0};
    const struct comparison shown = compare_shown(art->a, c);
    document_markdown(&summary, compare_document(art->a, &shown, "Comparison"));
    json_write(&json, compare_node(art->a, c), 2, true);
    enum st st = compare_write_texts(art, &summary, &json, c->curves, e);
    if (st == ST_OK)
        st = write_tables(art, c, e);
    buf_free(&summary);
    buf_free(&json);
    return st;
}
