/* Import and export of public trace formats. One row per format in a table; docs/formats.md has
 * their columns.
 *
 * Reading: requests that no engine could serve (no prompt or no output token, as BurstGPT has for
 * failed ones; conversations without an answer) are left out and counted. Requests are put in order
 * of arrival, those of one time in order of the file, and numbered from 0. Formats with times of
 * day or of some clock begin with their first request at 0. Faults are ST_INPUT at
 * file:line:column.
 *
 * Writing produces bytes: what the format cannot express is dropped, what it requires and the
 * workload lacks is ST_USAGE. */
#ifndef WORKLOAD_FORMAT_H
#define WORKLOAD_FORMAT_H

#include "config/option.h"
#include "workload/workload.h"

struct format_params {
    const char *path;
    int64_t max_requests; /* the first that can be served; 0 = all */
    /* Formats with FORMAT_TEXTS only: */
    const struct tokenizer *tokenizer;
    const struct workload_params *arrivals; /* arrival_* and rates, and the seed */
    /* Mooncake's: */
    int64_t block_tokens;  /* of a hash id; 0 = 512 */
    const char *time_unit; /* "s", "ms", "us", "ns"; NULL = ms, if that can be */
};

struct format_result {
    struct workload w;
    struct prompt *prompts;
    size_t n_prompts;
    int64_t left_out;
};

enum {
    FORMAT_TEXTS = 1 << 0, /* read: holds texts and no arrivals */
    /* written: the parts of a workload it holds beside the lengths of outputs */
    FORMAT_HOLDS_TEXTS = 1 << 1,
    FORMAT_HOLDS_PREFILLS = 1 << 2, /* lengths of prompts */
    FORMAT_HOLDS_HASHES = 1 << 3,
    FORMAT_FROM_ZERO = 1 << 4, /* its readers put the first request at 0 */
    FORMAT_UNITS = 1 << 5,     /* read: workload.import.* say what its numbers are of */
};

struct workload_format {
    const char *name; /* name in options */
    const char *help; /* origin */
    uint32_t traits;
    int64_t tick_ns; /* written: arrivals are rounded down to it; 0 = it holds none */
    /* NULL = only the other way */
    enum st (*read)(struct arena *a, const struct format_params *p, struct format_result *out,
                    struct err *e);
    /* texts[w->n]: of each request, NULL = none */
    enum st (*write)(struct buf *out, const struct workload *w, const char *const *texts,
                     struct err *e);
    const char *import_only; /* reason without `write`, a clause; else NULL */
    /* Of FORMAT_TEXTS: whether that file holds texts, or lengths and arrivals. NULL = it does. */
    bool (*has_texts)(const char *path);
};

extern const struct workload_format workload_formats[];      /* ends with name == NULL */
extern const struct option_capability format_capabilities[]; /* what rows of options ask */

/* The format of that name that can be read (or written); ST_USAGE naming those there are. */
enum st workload_format_find(const char *name, bool write, const struct workload_format **out,
                             struct err *e);

/* What the format loses of that workload: "texts, arrivals below 1 ms"; "" = nothing. */
const char *workload_format_lost(struct arena *a, const struct workload_format *f,
                                 const struct workload *w, const char *const *texts);

/* ---- the rows of the table (format_*.c, bailian.c, mooncake.c)
 * ---------------------------------- */

enum st format_azure_read(struct arena *a, const struct format_params *p, struct format_result *out,
                          struct err *e);
enum st format_azure_write(struct buf *out, const struct workload *w, const char *const *texts,
                           struct err *e);
enum st format_burstgpt_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e);
enum st format_burstgpt_write(struct buf *out, const struct workload *w, const char *const *texts,
                              struct err *e);
enum st format_vidur_read(struct arena *a, const struct format_params *p, struct format_result *out,
                          struct err *e);
enum st format_vidur_write(struct buf *out, const struct workload *w, const char *const *texts,
                           struct err *e);
enum st format_bailian_read(struct arena *a, const struct format_params *p,
                            struct format_result *out, struct err *e);
enum st format_mooncake_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e);
enum st format_mooncake_write(struct buf *out, const struct workload *w, const char *const *texts,
                              struct err *e);
enum st format_sharegpt_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e);
bool format_vllm_has_texts(const char *path);
enum st format_vllm_read(struct arena *a, const struct format_params *p, struct format_result *out,
                         struct err *e);
enum st format_vllm_write(struct buf *out, const struct workload *w, const char *const *texts,
                          struct err *e);

/* Order, numbers and the first arrival at 0: with from_zero, and where it is a time since 1970
 * (from 1973 on), which no trace's start is. No requests is ST_INPUT. */
enum st format_settle(const char *path, struct format_result *r, bool from_zero, struct err *e);

/* Tokens of a text. */
enum st format_count(struct arena *scratch, const struct tokenizer *t, const char *text, int64_t *n,
                     struct err *e);
/* Arrivals of p->arrivals, in the order of the requests. */
enum st format_arrive(const struct format_params *p, struct workload *w, struct err *e);

/* "2023-11-16 18:15:46.6805900", "2024-05-10 00:00:00.009930+00:00": ns since 1970, UTC. False
 * unless it is such a time between 1970 and 2200. */
bool format_time(struct sv text, int64_t *ns);

#endif
