/* A main for builds without libFuzzer: replays files, and every file of a folder, through the
 * target. */
#include "fuzz.h"

#include "base/fs.h"

enum { MAX_INPUT_BYTES = 64 << 20 };

static int replay_file(const char *path)
{
    struct err e = {0};
    struct arena *a = arena_new();
    struct sv bytes;
    if (fs_read(a, path, MAX_INPUT_BYTES, &bytes, &e) != ST_OK) {
        err_print(&e, "fuzz", stderr);
        arena_free(&a);
        return -1;
    }
    uint8_t *exact = mem_alloc(bytes.n); /* a sanitizer sees one byte too far */
    for (size_t i = 0; i < bytes.n; i++)
        exact[i] = (uint8_t)bytes.p[i];
    LLVMFuzzerTestOneInput(exact, bytes.n);
    mem_free(exact);
    arena_free(&a);
    return 1;
}

/* The number of files replayed, -1 when one cannot be read. */
static int replay(const char *path)
{
    if (!fs_is_dir(path))
        return replay_file(path);
    struct err e = {0};
    struct arena *a = arena_new();
    const char **names;
    size_t n = 0;
    int done = 0;
    if (fs_list(a, path, &names, &n, &e) != ST_OK) {
        err_print(&e, "fuzz", stderr);
        done = -1;
    }
    for (size_t i = 0; i < n && done >= 0; i++) {
        int one = replay(fs_join(a, path, names[i]));
        done = one < 0 ? -1 : done + one;
    }
    arena_free(&a);
    return done;
}

int main(int argc, char **argv)
{
    int files = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0); /* where libFuzzer begins */
    for (int i = 1; i < argc; i++) {
        int n = replay(argv[i]);
        if (n < 0)
            return 1;
        files += n;
    }
    printf("%d inputs replayed\n", files);
    return files ? 0 : 1; /* a corpus that has gone missing is a failure */
}
