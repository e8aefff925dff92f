/* Any bytes as prompts.jsonl: prompts with unique ids and texts in UTF-8, or an error that names
 * the file. */
#include "folder.h"
#include "workload/workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct prompt *p;
    size_t n;
    const char *path = folder_put(a, "prompts.jsonl", data, size);
    if (prompts_load(a, path, &p, &n, &e) == ST_OK) {
        for (size_t i = 0; i < n; i++) {
            size_t bytes = strlen(p[i].text);
            REQUIRE(p[i].id[0] && bytes > 0);
            REQUIRE(str_utf8_valid(p[i].text, bytes) == bytes);
            REQUIRE(i == 0 || strcmp(p[i].id, p[i - 1].id) != 0);
        }
    } else {
        REQUIRE(e.st == ST_INPUT && strstr(err_cause(&e, 0), path));
    }
    arena_free(&a);
    return 0;
}
