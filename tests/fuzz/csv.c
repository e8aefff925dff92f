/* Any bytes as a CSV file: rows of as many cells as the header has, or a named error. */
#include "fuzz.h"

#include <math.h>

#include "text/csv.h"

static void read_cells(struct csv_reader *r)
{
    for (int i = 0; i < csv_columns(r); i++) {
        struct sv s = csv_cell(r, i);
        struct err e = {0};
        int64_t n = -1;
        double d = NAN;
        REQUIRE(str_utf8_valid(s.p, s.n) == s.n);
        REQUIRE(csv_empty(r, i) == (s.n == 0));
        if (csv_int(r, i, 0, 1000, &n, &e) == ST_OK)
            REQUIRE(n >= 0 && n <= 1000);
        else
            REQUIRE(e.st == ST_INPUT);
        if (csv_double(r, i, -1e9, 1e9, &d, &e) == ST_OK)
            REQUIRE(fabs(d) <= 1e9);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct csv_reader *r;
    struct err e = {0};
    int column;
    enum st st = csv_open_bytes(&r, "fuzz", (struct sv){(const char *)data, size}, &e);
    if (st == ST_OK) {
        REQUIRE(csv_columns(r) > 0);
        REQUIRE(csv_require(r, csv_column_name(r, 0), &column, &e) == ST_OK && column == 0);
        csv_require(r, "request_id", &column, &e);
        long line = 1;
        while ((st = csv_next(r, &e)) == ST_OK) {
            REQUIRE(csv_line(r) > line);
            line = csv_line(r);
            read_cells(r);
        }
    }
    REQUIRE(st == ST_END || (st == ST_INPUT && err_cause(&e, 0)));
    csv_close(&r);
    return 0;
}
