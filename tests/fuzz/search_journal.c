/* Any bytes as the journal of a search: what is kept reads back as the same results. */
#include "search/search_journal.h"

#include "fuzz.h"

enum { N = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct node *results[N] = {0}, *again[N] = {0};
    size_t keep, keep_again;
    const char *p = (const char *)data;
    search_journal_parse(a, (struct sv){p, size}, "s", results, N, &keep);
    REQUIRE(keep <= size);
    search_journal_parse(a, (struct sv){p, keep}, "s", again, N, &keep_again);
    REQUIRE(keep_again == keep);
    for (int i = 0; i < N; i++)
        REQUIRE(!results[i] == !again[i]);
    arena_free(&a);
    return 0;
}
