/* Section on the kinds of batches of a run and their shares of its time. */
#include <math.h>

#include "metrics/metrics.h"
#include "report/page.h"

enum iteration_kind { PREFILL, DECODE, MIXED, ALL, KINDS };

static const char *const titles[KINDS] = {"prompts alone", "decodes alone", "mixed", "all"};

struct kind_sums {
    double *ns; /* durations, sorted in the end */
    size_t n;
    double sum_ns, host_ns, sequences;
    bool host_known;
};

static enum iteration_kind kind_of(const struct run_batch *b)
{
    return b->num_decode_tokens == 0 ? PREFILL : b->num_prefill_tokens == 0 ? DECODE : MIXED;
}

static void add(struct kind_sums *k, const struct run_batch *b)
{
    k->ns[k->n++] = (double)b->duration_ns;
    k->sum_ns += (double)b->duration_ns;
    k->sequences += (double)b->batch_size;
    k->host_known = k->host_known && b->host_ns != RUN_NONE;
    k->host_ns += (double)b->host_ns;
}

static void put_kind(struct arena *a, struct page_table *t, const char *title,
                     const struct kind_sums *k, double all_ns)
{
    double n = (double)k->n;
    page_row(t);
    page_cell(t, title);
    page_cell_count(t, n);
    page_cell_percent(t, 100 * k->sum_ns / all_ns);
    for (int i = 0; i < 2; i++)
        page_cell_duration(t, stats_percentile(k->ns, k->n, i ? 99 : 50) / 1e9);
    page_cell(t, arena_printf(a, "%.1f", k->sequences / n));
    page_cell_percent(t, k->host_known ? 100 * k->host_ns / k->sum_ns : (double)NAN);
}

void page_iterations(struct arena *a, struct buf *out, const struct run *run)
{
    static const struct page_column columns[] = {
        {.head = ""},    {.head = "n"},         {.head = "time"},     {.head = "P50"},
        {.head = "P99"}, {.head = "sequences"}, {.head = "host part"}};
    struct page_table t;
    struct kind_sums of[KINDS];
    for (int i = 0; i < KINDS; i++)
        of[i] =
            (struct kind_sums){.ns = arena_array(a, double, run->n_batches), .host_known = true};
    for (size_t i = 0; i < run->n_batches; i++) {
        const struct run_batch *b = &run->batches[i];
        if (b->stage != 0) /* count each batch once */
            continue;
        add(&of[kind_of(b)], b);
        add(&of[ALL], b);
    }
    if (of[ALL].n == 0)
        return;
    double *scratch = mem_alloc(of[ALL].n * sizeof *scratch);
    page_section(out, "Iterations");
    PAGE_TABLE(&t, out, columns);
    for (int i = 0; i < KINDS; i++) {
        if (of[i].n == 0)
            continue;
        stats_sort(of[i].ns, scratch, of[i].n);
        put_kind(a, &t, titles[i], &of[i], of[ALL].sum_ns);
    }
    mem_free(scratch);
    page_table_end(&t);
    page_tag(out, "p", "small", "P50 and P99 are of the durations%s; sequences is the mean.",
             run->n_batches > of[ALL].n ? " on the first pipeline stage" : "");
    buf_puts(out, "\n</section>\n");
}
