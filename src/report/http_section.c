/* Sections of a run over HTTP, and the failures of any run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/outcome.h"
#include "report/page.h"

static const char *ms_text(char out[WORDS_MAX], double ms)
{
    return words_duration(out, ms / 1e3);
}

void page_server(struct arena *a, struct buf *out, const struct node *meta)
{
    const char *url = page_value(a, meta, "http.url");
    const char *served = page_value(a, meta, "http.served_model");
    if (!url)
        return;
    page_tag(out, "p", NULL, "Server: %s%s%s", url, served ? ", which calls the model " : "",
             served ? served : "");
}

void page_client(struct arena *a, struct buf *out, const struct node *meta)
{
    struct client_record c;
    fields_read_loose(a, &client_record_fields, node_find(meta, "client"), &c);
    char p50[WORDS_MAX], p99[WORDS_MAX], most[WORDS_MAX], limit[WORDS_MAX], text[WORDS_MAX];
    if (!c.verdict)
        return;
    const bool healthy = strcmp(c.verdict, "healthy") == 0;
    page_section(out, "The client");
    buf_printf(out, "<p><span class=\"badge %s\"><b aria-hidden=\"true\">%s</b> ",
               healthy ? "pass" : "fail", healthy ? "✓" : "×");
    page_text(out, "%s", c.verdict);
    buf_puts(out, "</span> ");
    page_text(out, "%s",
              healthy ? "It kept its schedule: the latencies are the server's."
                      : "It did not keep its schedule: the latencies are the client's too.");
    buf_puts(out, "</p>\n<dl class=\"tiles\">\n");
    page_tile(out, "Sent later than planned, P99", ms_text(p99, c.schedule_delay_p99_ms),
              arena_printf(a, "P50 %s, most %s; limit %s", ms_text(p50, c.schedule_delay_p50_ms),
                           ms_text(most, c.schedule_delay_max_ms), ms_text(limit, c.limit_ms)));
    page_tile(out, "Requests sent", page_count(text, (double)c.h.sent),
              arena_printf(a, "%s late, %s dropped, %s held back, %s retried",
                           page_count(p50, (double)c.h.late), page_count(p99, (double)c.h.dropped),
                           page_count(most, (double)c.h.held),
                           page_count(limit, (double)c.h.retried)));
    page_tile(out, "Streams at once, most", page_count(text, (double)c.h.peak_concurrency),
              arena_printf(a, "%s connections", page_count(p50, (double)c.h.connections)));
    page_tile(out, "Core of the client", words_percent(text, 100 * c.cpu_fraction),
              arena_printf(a, "%s in %s", words_duration(p50, c.h.cpu_s),
                           words_duration(p99, c.h.wall_s)));
    buf_puts(out, "</dl>\n</section>\n");
}

/* ---- failures ---- */

struct failure_cause {
    const char *name, *message; /* of the first; NULL = none */
    int64_t first_ns;           /* arrival */
    size_t n;
};

static int by_number(const void *pa, const void *pb)
{
    const struct failure_cause *a = pa, *b = pb;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    return strcmp(a->name, b->name);
}

void page_failures(struct buf *out, const struct run *run)
{
    enum { MAX_CAUSES = 20 };
    static const struct page_column columns[] = {{.head = "cause"},
                                                 {.head = "requests"},
                                                 {.head = "of all"},
                                                 {.head = "first planned at"},
                                                 {.head = "its message", .look = PAGE_WORDS}};
    struct failure_cause causes[MAX_CAUSES];
    char text[WORDS_MAX], all[WORDS_MAX];
    size_t n = 0, failed = 0;
    struct page_table t;
    for (size_t i = 0; i < run->n_requests; i++) {
        const struct run_request *r = &run->requests[i];
        const char *name = r->error_type ? r->error_type : run_status_name(r->status);
        size_t k = 0;
        if (r->status == RUN_OK)
            continue;
        failed++;
        while (k < n && strcmp(causes[k].name, name) != 0)
            k++;
        if (k == MAX_CAUSES)
            continue;
        if (k == n)
            causes[n++] = (struct failure_cause){name, r->error_msg, r->arrival_ns, 0};
        causes[k].n++;
        if (r->arrival_ns < causes[k].first_ns) {
            causes[k].first_ns = r->arrival_ns;
            causes[k].message = r->error_msg;
        }
    }
    if (!failed)
        return;
    qsort(causes, n, sizeof *causes, by_number);
    page_section(out, "Failures");
    page_tag(out, "p", NULL, "%s of %s requests did not end well, warm-up included.",
             words_count(text, (int64_t)failed), words_count(all, (int64_t)run->n_requests));
    PAGE_TABLE(&t, out, columns);
    for (size_t k = 0; k < n; k++) {
        page_row(&t);
        page_cell(&t, causes[k].name);
        page_cell_count(&t, (double)causes[k].n);
        page_cell_percent(&t, 100 * (double)causes[k].n / (double)run->n_requests);
        page_cell_duration(&t, (double)causes[k].first_ns / 1e9);
        page_cell(&t, causes[k].message ? causes[k].message : "");
    }
    page_table_end(&t);
    if (n == MAX_CAUSES)
        page_tag(out, "p", "small", "The first %d causes; request_metrics.csv has all.",
                 (int)MAX_CAUSES);
    buf_puts(out, "</section>\n");
}
