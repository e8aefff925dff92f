/* One suite over every trace format: a sample of each, written here in the published shape, gives
 * known requests; what is written reads back; every fault is told at its place. */
#include "base/clock.h"
#include <zlib.h>

#include "support/support.h"
#include "workload/format.h"

static struct tokenizer *tokenizer;

static const struct workload_params every_second = {
    .arrival_kind = ARRIVAL_FIXED_INTERVAL, .rate = 1, .seed = 1};

static enum st read_as(struct test *t, const struct workload_format *f, const char *text,
                       int64_t max, struct format_result *out)
{
    struct format_params p = {.path = test_write(t, "f", text),
                              .max_requests = max,
                              .tokenizer = tokenizer,
                              .arrivals = &every_second};
    return f->read(t->a, &p, out, &t->e);
}

static const struct workload_format *format(const char *name)
{
    const struct workload_format *f = workload_formats;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    assert_non_null(f->name);
    return f;
}

/* ---- samples ----------------------------------------------------------------------------- */

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define BURST "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
#define IDS3  "[46, 47, 48]"

/* The requests of all samples: arrivals 0, 1.5 and 2 s, lengths below. */
static const struct sample {
    const char *name, *text;
    int64_t left_out;
} samples[] = {
    {"azure",
     AZURE "2023-11-16 23:59:59.5000000,1100,7\n2023-11-17 00:00:01.0000000,3,44\n"
           "2023-11-17 00:00:01.5000000,600,1\n",
     0},
    {"azure",
     AZURE "2024-02-28 23:59:59.500000+00:00,1100,7\n2024-02-29 02:00:01.5+02:00,600,1\r\n"
           "2024-02-29 00:00:01Z,3,44\n2024-02-29 00:00:02+00:00,0,4\n",
     1},
    {"burstgpt",
     BURST "5,ChatGPT,1100,7,1107,Conversation log\n6.5,GPT-4,3,44,47,API log\n"
           "6.6,GPT-4,30,0,30,API log\n7,ChatGPT,600,1,601,Conversation log\n",
     1},
    {"mooncake",
     "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 7, \"hash_ids\": " IDS3 "}\n"
     "{\"timestamp\": 1500, \"input_length\": 3, \"output_length\": 44, \"hash_ids\": [0]}\n\n"
     "{\"timestamp\": 2000, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [46, 9]}\n",
     0},
    {"vidur", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,1100,7\n1.5,3,44\n2.0,600,1\n",
     0},
    {"bailian",
     "{\"chat_id\": 9, \"parent_chat_id\": -1, \"timestamp\": 2.0, \"input_length\": 600, "
     "\"output_length\": 1, \"type\": \"text\", \"turn\": 1}\n"
     "{\"chat_id\": 7, \"parent_chat_id\": -1, \"timestamp\": 0, \"input_length\": 1100, "
     "\"output_length\": 7, \"type\": \"text\", \"turn\": 1}\n"
     "{\"chat_id\": 8, \"parent_chat_id\": 5, \"timestamp\": 1.5, \"input_length\": 3, "
     "\"output_length\": 44, \"type\": \"image\", \"turn\": 2, \"hash_ids\": [4]}\n"
     "{\"chat_id\": 10, \"parent_chat_id\": -1, \"timestamp\": 3, \"input_length\": 3, "
     "\"output_length\": 0}\n",
     1},
    {"vllm",
     "{\"date\": \"20250101-000000\", \"backend\": \"vllm\", \"input_lens\": [600, 1100, 3, 5], "
     "\"output_lens\": [1, 7, 44, 0], \"start_times\": [102.0, 100.0, 101.5, 103], "
     "\"itls\": [[], [0.1, 0.2]], \"generated_texts\": [\"a\", \"\"], "
     "\"errors\": [\"\", \"\", \"\", \"timeout\"], \"p99_ttft_ms\": 1.0}\n",
     1},
};

static void check_requests(const struct workload *w)
{
    static const struct {
        int64_t arrival_ns, prefill, decode;
    } want[] = {{0, 1100, 7}, {1500000000, 3, 44}, {2000000000, 600, 1}};
    assert_int_equal(w->n, 3);
    for (int i = 0; i < 3; i++) {
        const struct workload_request *q = &w->requests[i];
        assert_int_equal(q->request_id, i);
        assert_int_equal(q->arrival_ns, want[i].arrival_ns);
        assert_true(q->arrival_s == (double)want[i].arrival_ns / 1e9);
        assert_int_equal(q->num_prefill_tokens, want[i].prefill);
        assert_int_equal(q->num_decode_tokens, want[i].decode);
    }
}

static void samples_give_their_requests(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct format_result r;
        assert_ok(read_as(t, format(samples[i].name), samples[i].text, 0, &r), t);
        check_requests(&r.w);
        assert_int_equal(r.left_out, samples[i].left_out);
        assert_int_equal(r.n_prompts, 0);
        assert_ok(read_as(t, format(samples[i].name), samples[i].text, 1, &r), t);
        assert_int_equal(r.w.n, 1);
        const bool first_last = strcmp(samples[i].name, "bailian") == 0; /* the file's first */
        assert_int_equal(r.w.requests[0].arrival_ns, first_last ? 2 * NS_PER_S : 0);
    }
}

static enum st read_bytes_as(struct test *t, const struct workload_format *f, struct sv bytes,
                             struct format_result *out)
{
    struct format_params p = {
        .path = test_write_bytes(t, "b", bytes), .tokenizer = tokenizer, .arrivals = &every_second};
    return f->read(t->a, &p, out, &t->e);
}

static struct sv packed(struct test *t, struct sv plain)
{
    const char *path = test_path(t, "b.gz");
    gzFile f = gzopen(path, "wb");
    assert_int_equal(gzwrite(f, plain.p, (unsigned)plain.n), plain.n);
    assert_int_equal(gzclose(f), Z_OK);
    struct sv out;
    assert_ok(fs_read(t->a, path, 1 << 20, &out, &t->e), t);
    return out;
}

/* As they lie about: with a byte-order mark, compressed, or both. */
static void marks_and_gzip_change_nothing(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct format_result r;
        const struct workload_format *f = format(samples[i].name);
        struct sv marked = sv_of(arena_printf(t->a, "\xef\xbb\xbf%s", samples[i].text));
        assert_ok(read_bytes_as(t, f, marked, &r), t);
        check_requests(&r.w);
        assert_ok(read_bytes_as(t, f, packed(t, sv_of(samples[i].text)), &r), t);
        check_requests(&r.w);
        assert_ok(read_bytes_as(t, f, packed(t, marked), &r), t);
        check_requests(&r.w);
    }
}

/* The samples' requests again, the second row last. */
static void rows_in_any_order(void **state)
{
    struct test *t = *state;
    static const struct sample mixed[] = {
        {"mooncake",
         "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 7, \"hash_ids\": " IDS3
         "}\n{\"timestamp\": 2000.0, \"input_length\": 600, \"output_length\": 1, "
         "\"hash_ids\": [46, 9]}\n{\"timestamp\": 1700, \"input_length\": 9, "
         "\"output_length\": 0}\n"
         "{\"timestamp\": 1500, \"input_length\": 3, \"output_length\": 44}\n",
         1},
        {"vidur",
         "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,1100,7\n2.0,600,1\n1.5,3,44\n"
         "1,0,3\n",
         1},
        {"vidur",
         "arrival_time_ns,num_prefill_tokens,num_decode_tokens\n0,1100,7\n2000000000,600,1\n"
         "1500000000,3,44\n",
         0},
    };
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        struct format_result r;
        assert_ok(read_as(t, format(mixed[i].name), mixed[i].text, 0, &r), t);
        check_requests(&r.w);
        assert_int_equal(r.left_out, mixed[i].left_out);
    }
}

static void every_format_has_a_sample(void **state)
{
    (void)state;
    for (const struct workload_format *f = workload_formats; f->name; f++) {
        bool found = f->traits & FORMAT_TEXTS;
        assert_true(f->help && (f->read || f->write));
        for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
            found = found || strcmp(samples[i].name, f->name) == 0;
        assert_true(found);
    }
}

/* Whatever a format writes it reads: lengths and arrivals, or, of texts, the texts and the lengths
 * of answers. */
static void what_is_written_reads_back(void **state)
{
    struct test *t = *state;
    struct format_result r, again;
    const char *const texts[] = {"one \"text\"", "two\n", "three"};
    assert_ok(read_as(t, format("mooncake"), samples[3].text, 0, &r), t);
    for (const struct workload_format *f = workload_formats; f->name; f++) {
        struct buf out = {0};
        if (!f->write)
            continue;
        assert_ok(f->write(&out, &r.w, texts, &t->e), t);
        assert_ok(read_as(t, f, buf_str(&out), 0, &again), t);
        assert_int_equal(again.w.n, 3);
        for (size_t i = 0; i < 3 && f->traits & FORMAT_HOLDS_TEXTS; i++) {
            assert_string_equal(again.prompts[i].text, texts[i]);
            assert_int_equal(again.w.requests[i].num_decode_tokens,
                             r.w.requests[i].num_decode_tokens);
            assert_int_equal(again.w.requests[i].arrival_ns, (int64_t)i * NS_PER_S);
            assert_true(again.w.requests[i].num_prefill_tokens > 0);
        }
        if (f->traits & FORMAT_HOLDS_PREFILLS)
            check_requests(&again.w);
        if (f->traits & FORMAT_HOLDS_HASHES)
            assert_int_equal(again.w.requests[2].hash_ids[1], 9);
        buf_free(&out);
    }
}

static void a_custom_dataset_holds_texts(void **state)
{
    struct test *t = *state;
    struct format_result r;
    struct buf out = {0};
    const char *const texts[] = {"one \"text\"", "two\n", "three"};
    assert_ok(read_as(t, format("vidur"), samples[4].text, 0, &r), t);
    assert_ok(format("vllm")->write(&out, &r.w, texts, &t->e), t);
    assert_string_equal(buf_str(&out), "{\"prompt\": \"one \\\"text\\\"\", \"output_tokens\": 7}\n"
                                       "{\"prompt\": \"two\\n\", \"output_tokens\": 44}\n"
                                       "{\"prompt\": \"three\", \"output_tokens\": 1}\n");
    assert_true(format("vllm")->has_texts(test_write(t, "d", buf_str(&out))));
    assert_false(format("vllm")->has_texts(test_write(t, "r", samples[6].text)));
    assert_ok(read_as(t, format("vllm"), buf_str(&out), 2, &r), t);
    assert_int_equal(r.w.n, 2);
    buf_free(&out);
}

static void what_is_lost_is_told(void **state)
{
    struct test *t = *state;
    struct format_result r;
    const char *const texts[3] = {"one"}, *const none[3] = {0};
    static const struct {
        const char *name, *lost, *lost_later; /* of the sample; of the same 1,234,567 ns later */
    } rows[] = {
        {"azure", "texts, hash_ids",
         "texts, hash_ids, arrivals below 100 ns, the time before the first arrival, for who reads "
         "it"},
        {"burstgpt", "texts, hash_ids",
         "texts, hash_ids, the time before the first arrival, for who reads it"},
        {"mooncake", "texts", "texts, arrivals below 1 ms"},
        {"vidur", "texts, hash_ids", "texts, hash_ids"},
        {"vllm", "lengths of prompts, hash_ids, arrivals",
         "lengths of prompts, hash_ids, arrivals"},
    };
    assert_ok(read_as(t, format("mooncake"), samples[3].text, 0, &r), t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(workload_format_lost(t->a, format(rows[i].name), &r.w, texts),
                            rows[i].lost);
    for (size_t i = 0; i < r.w.n; i++)
        r.w.requests[i].arrival_ns += 1234567;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(workload_format_lost(t->a, format(rows[i].name), &r.w, texts),
                            rows[i].lost_later);
    assert_ok(read_as(t, format("vidur"), samples[4].text, 0, &r), t);
    assert_string_equal(workload_format_lost(t->a, format("vidur"), &r.w, none), "");
}

/* The shapes that others publish, dates from 1970 on. */
static void logs_are_written_as_they_are_published(void **state)
{
    struct test *t = *state;
    struct format_result r;
    struct buf out = {0};
    assert_ok(read_as(t, format("vidur"), samples[4].text, 0, &r), t);
    r.w.requests[2].arrival_ns = INT64_C(86400) * NS_PER_S + 199;
    assert_ok(format_azure_write(&out, &r.w, NULL, &t->e), t);
    assert_string_equal(buf_str(&out), AZURE "1970-01-01 00:00:00.0000000,1100,7\n"
                                             "1970-01-01 00:00:01.5000000,3,44\n"
                                             "1970-01-02 00:00:00.0000001,600,1\n");
    buf_clear(&out);
    assert_ok(format_burstgpt_write(&out, &r.w, NULL, &t->e), t);
    assert_string_equal(buf_str(&out), BURST "0,twinfer,1100,7,1107,API log\n"
                                             "1.5,twinfer,3,44,47,API log\n"
                                             "2,twinfer,600,1,601,API log\n");
    r.w.requests[2].arrival_ns = INT64_MAX;
    assert_err(format_azure_write(&out, &r.w, NULL, &t->e), ST_USAGE, t,
               "request 2 arrives later than a date can say");
    buf_free(&out);
}

static void a_missing_text_is_told(void **state)
{
    struct test *t = *state;
    struct format_result r;
    struct buf out = {0};
    const char *const texts[3] = {"one"};
    assert_ok(read_as(t, format("vidur"), samples[4].text, 0, &r), t);
    assert_err(format("vllm")->write(&out, &r.w, texts, &t->e), ST_USAGE, t,
               "vLLM's custom dataset holds texts, and request 1 has none\n"
               "hint: export=vidur and export=mooncake hold lengths alone");
    buf_free(&out);
}

/* ---- conversations ------------------------------------------------------------------------ */

static void conversations_give_prompts(void **state)
{
    struct test *t = *state;
    struct format_result r;
    static const char text[] =
        "[{\"id\": \"a_0\", \"conversations\": [{\"from\": \"human\", \"value\": \"Hello there\"}, "
        "{\"from\": \"gpt\", \"value\": \"General\"}, {\"from\": \"human\", \"value\": \"x\"}]},\n"
        " {\"conversations\": [{\"from\": \"human\", \"value\": \"alone\"}]},\n"
        " {\"id\": 7, \"items\": {\"deep\": [1, {\"value\": \"no\"}]}, \"conversations\": []},\n"
        " {\"id\": \"a_0\", \"conversations\": [{\"value\": \"again\", \"from\": \"human\"}, "
        "{\"markdown\": null, \"value\": \"yes\"}]}]";
    assert_ok(read_as(t, format("sharegpt"), text, 0, &r), t);
    assert_int_equal(r.w.n, 2);
    assert_int_equal(r.left_out, 2);
    assert_int_equal(r.n_prompts, 2);
    assert_string_equal(r.prompts[0].id, "a_0");
    assert_string_equal(r.prompts[0].text, "Hello there");
    assert_string_equal(r.prompts[1].id, "a_0#1");
    assert_string_equal(r.w.requests[1].prompt_id, "a_0#1");
    assert_int_equal(r.w.requests[1].arrival_ns, 1000000000);
    struct prompt answers[] = {{"", "Hello there"}, {"", "General"}};
    int64_t *counts;
    assert_ok(workload_count_tokens(t->a, tokenizer, answers, 2, &counts, &t->e), t);
    assert_int_equal(r.w.requests[0].num_prefill_tokens, counts[0]);
    assert_int_equal(r.w.requests[0].num_decode_tokens, counts[1]);
    assert_ok(read_as(t, format("sharegpt"), text, 1, &r), t);
    assert_int_equal(r.w.n, 1);
}

static void check_dialogues(struct test *t, const struct format_result *r)
{
    struct prompt answers[] = {{"", "Hello there"}, {"", "General"}};
    int64_t *counts;
    assert_ok(workload_count_tokens(t->a, tokenizer, answers, 2, &counts, &t->e), t);
    assert_int_equal(r->w.n, 2);
    assert_int_equal(r->left_out, 1);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(r->prompts[i].text, "Hello there");
        assert_int_equal(r->w.requests[i].num_prefill_tokens, counts[0]);
        assert_int_equal(r->w.requests[i].num_decode_tokens, counts[1]);
    }
}

#define SYSTEM   "{\"from\": \"system\", \"value\": \"Be kind\"}"
#define QUESTION "{\"from\": \"human\", \"value\": \"Hello there\"}"
#define ANSWER   "{\"value\": \"General\", \"from\": \"gpt\"}"
#define FIRST    "{\"id\": \"a\", \"conversations\": [" SYSTEM ", " QUESTION ", " ANSWER "]}"
#define SECOND   "{\"id\": \"b\", \"conversations\": [" QUESTION ", " SYSTEM ", " ANSWER "]}"
#define LONELY   "{\"id\": \"c\", \"conversations\": [" SYSTEM ", " QUESTION "]}"

/* A system prompt is neither the question nor the answer; one object a line is as good as a list.
 */
static void conversations_with_system_turns_and_by_line(void **state)
{
    struct test *t = *state;
    static const char list[] = "\xef\xbb\xbf[" FIRST ", " LONELY ", " SECOND "]";
    static const char lines[] = "\n" FIRST "\n\n" LONELY "\r\n" SECOND;
    struct format_result r;
    assert_ok(read_as(t, format("sharegpt"), list, 0, &r), t);
    check_dialogues(t, &r);
    assert_ok(read_as(t, format("sharegpt"), lines, 0, &r), t);
    check_dialogues(t, &r);
    assert_ok(read_bytes_as(t, format("sharegpt"), packed(t, sv_of(lines)), &r), t);
    check_dialogues(t, &r);
    assert_ok(read_as(t, format("sharegpt"), lines, 1, &r), t);
    assert_int_equal(r.w.n, 1);
}

#define LMSYS                                                                               \
    "{\"conversation_id\": \"a\", \"model\": \"vicuna\", \"conversation\": [{\"content\": " \
    "\"Hello "                                                                              \
    "there\", \"role\": \"user\"}, {\"content\": \"General\", \"role\": \"assistant\"}], "  \
    "\"turn\": 1, "                                                                         \
    "\"openai_moderation\": [{\"flagged\": false}], \"redacted\": false}\n"
#define WILDCHAT                                                                                   \
    "{\"conversation_hash\": \"b\", \"timestamp\": \"2023-04-09 00:02:53+00:00\", "                \
    "\"conversation\": "                                                                           \
    "[{\"content\": \"Hello there\", \"role\": \"user\", \"turn_identifier\": 1, \"state\": "      \
    "null}, "                                                                                      \
    "{\"content\": \"General\", \"role\": \"assistant\", \"turn_identifier\": 1}], \"turn\": 1}\n" \
    "{\"conversation_hash\": \"c\", \"conversation\": [{\"content\": null, \"role\": "             \
    "\"user\"}]}\n"

/* Whichever of the names is asked for. */
static void conversations_of_lmsys_and_wildchat(void **state)
{
    struct test *t = *state;
    static const char *const names[] = {"lmsys", "wildchat", "sharegpt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct format_result r;
        assert_ok(read_as(t, format(names[i]), LMSYS WILDCHAT, 0, &r), t);
        check_dialogues(t, &r);
        assert_string_equal(r.prompts[0].id, "a");
        assert_string_equal(r.prompts[1].id, "b");
    }
    struct format_result r; /* as Python writes a moderation that has no score */
    assert_ok(read_as(t, format("wildchat"),
                      "{\"x\": NaN, \"conversation\": [{\"content\": \"a\"}, "
                      "{\"content\": \"b\"}]}\n",
                      0, &r),
              t);
    assert_int_equal(r.w.n, 1);
}

/* ---- sessions ----------------------------------------------------------------------------- */

#define CHAT(id, parent, time, input, output, ids)                                  \
    "{\"chat_id\": " #id ", \"parent_chat_id\": " #parent ", \"timestamp\": " #time \
    ", \"input_length\": " #input ", \"output_length\": " #output ids "}\n"

struct turn {
    int64_t session, turn, think_ms, arrival_ms, prefill;
};

static void check_turns(const struct workload *w, const struct turn *want, size_t n)
{
    assert_int_equal(w->n, n);
    for (size_t i = 0; i < n; i++) {
        const struct workload_request *q = &w->requests[i];
        assert_int_equal(q->request_id, i);
        assert_int_equal(q->turn, want[i].turn);
        assert_int_equal(q->turn ? q->session_id : 0, want[i].session);
        assert_int_equal(q->think_ns, want[i].think_ms * NS_PER_MS);
        assert_int_equal(q->arrival_ns, want[i].arrival_ms * NS_PER_MS);
        assert_int_equal(q->num_prefill_tokens, want[i].prefill);
    }
}

/* A chat that goes on from two answers, one from another whose parent is not in the file, lines in
 * no order, a cycle; the arrival of all turns is the first's. */
static void chats_that_go_on_are_sessions(void **state)
{
    struct test *t = *state;
    struct format_result r;
    static const char text[] = CHAT(4, 2, 72.5, 60, 7, ", \"hash_ids\": [1, 2, 7, 8]")
        CHAT(2, -1, 61.114, 21, 13, ", \"hash_ids\": [1, 2]") CHAT(5, 2, 80, 40, 7, "")
            CHAT(6, 99, 75.25, 17, 3, ", \"hash_ids\": [9]") CHAT(7, 4, 90, 90, 1, "")
                CHAT(8, 9, 95, 10, 1, "") CHAT(9, 8, 95, 11, 1, "");
    static const struct turn want[] = {
        {0, 1, 0, 61114, 21}, {0, 2, 11386, 61114, 60}, {0, 3, 17500, 61114, 90},
        {0, 0, 0, 75250, 17}, {0, 0, 0, 80000, 40},     {1, 1, 0, 95000, 10},
        {1, 2, 0, 95000, 11},
    };
    assert_ok(read_as(t, format("bailian"), text, 0, &r), t);
    check_turns(&r.w, want, sizeof want / sizeof *want);
    assert_int_equal(r.w.requests[1].hash_tokens, 16);
    assert_int_equal(r.w.requests[1].hash_ids[3], 8);
    assert_int_equal(r.w.requests[3].hash_ids[0], 9); /* the last, cut piece has none of its own */
    assert_true(r.w.requests[3].hash_ids[1] > 1000000);
}

/* A later turn has the length of what is new in it, unless its ids hold the prompt before. */
static void mooncakes_sessions_go_on(void **state)
{
    struct test *t = *state;
    struct format_result r;
    static const char text[] =
        "{\"session_id\": \"s1\", \"timestamp\": 20, \"input_length\": 300, \"output_length\": "
        "40}\n"
        "{\"session_id\": 2, \"timestamp\": 10, \"input_length\": 600, \"output_length\": 8, "
        "\"hash_ids\": [5, 6]}\n"
        "{\"session_id\": \"s1\", \"delay\": 500.5, \"input_length\": 150, \"output_length\": 20}\n"
        "{\"session_id\": 2, \"timestamp\": 90, \"input_length\": 700, \"output_length\": 8, "
        "\"hash_ids\": [5, 7]}\n"
        "{\"timestamp\": 30, \"input_length\": 1, \"output_length\": 1}\n"
        "{\"session_id\": \"s1\", \"delay\": 1, \"input_length\": 5, \"output_length\": 1}\n";
    assert_ok(read_as(t, format("mooncake"), text, 0, &r), t);
    assert_int_equal(r.w.n, 6);
    static const int64_t prefill[] = {600, 700, 300, 490, 515, 1}, turns[] = {1, 2, 1, 2, 3, 0};
    static const int64_t think_us[] = {0, 80000, 0, 500500, 1000, 0};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(r.w.requests[i].num_prefill_tokens, prefill[i]);
        assert_int_equal(r.w.requests[i].turn, turns[i]);
        assert_int_equal(r.w.requests[i].think_ns, 1000 * think_us[i]);
    }
    assert_int_equal(r.w.requests[4].hash_ids[0], r.w.requests[2].hash_ids[0]);
    assert_int_equal(r.w.requests[1].hash_ids[1], 7);
}

/* ---- units -------------------------------------------------------------------------------- */

static enum st read_mooncake(struct test *t, const char *text, int64_t block, const char *unit,
                             struct format_result *out)
{
    struct format_params p = {
        .path = test_write(t, "f", text), .block_tokens = block, .time_unit = unit};
    return format("mooncake")->read(t->a, &p, out, &t->e);
}

static void mooncakes_units_are_settings(void **state)
{
    struct test *t = *state;
    struct format_result r;
    static const char text[] =
        "{\"timestamp\": 0.5, \"input_length\": 60, \"output_length\": 1, \"hash_ids\": [1, 2]}\n"
        "{\"timestamp\": 1, \"input_length\": 33, \"output_length\": 1, \"hash_ids\": [1, 3]}\n";
    static const struct {
        const char *unit;
        int64_t last_ns;
    } units[] = {{"s", NS_PER_S}, {"ms", NS_PER_MS}, {"us", 1000}, {"ns", 1}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        assert_ok(read_mooncake(t, text, 32, units[i].unit, &r), t);
        assert_int_equal(r.w.requests[1].arrival_ns, units[i].last_ns);
        assert_int_equal(r.w.requests[1].hash_tokens, 32);
    }
    assert_err(
        read_mooncake(t, text, 0, "s", &r), ST_INPUT, t,
        "DIR/f:1:72: hash_ids: 2 ids for a prompt of 60 tokens, expected 1 (one for each 512 "
        "tokens)");
}

/* 2026-07-18 15:51:25 and half a second later: nobody waits 56 years for the first request. */
static void times_since_1970_count_from_the_first(void **state)
{
    struct test *t = *state;
    struct format_result r;
    static const char text[] =
        "{\"timestamp\": 1784389885500, \"input_length\": 3, \"output_length\": 1}\n"
        "{\"timestamp\": 1784389885000, \"input_length\": 4, \"output_length\": 1}\n";
    assert_ok(read_mooncake(t, text, 0, NULL, &r), t);
    assert_int_equal(r.w.requests[0].num_prefill_tokens, 4);
    assert_int_equal(r.w.requests[0].arrival_ns, 0);
    assert_int_equal(r.w.requests[1].arrival_ns, 500 * NS_PER_MS);
    assert_near(r.w.requests[1].arrival_s, 0.5, 0);
}

/* Seconds that are read as milliseconds make a rate that no service has. */
static void times_that_cannot_be_are_refused(void **state)
{
    struct test *t = *state;
    struct format_result r;
    struct buf b = {0};
#define LINE(time) "{\"timestamp\": " time ", \"input_length\": 3, \"output_length\": 1}\n"
    assert_err(read_mooncake(t, LINE("61.114") LINE("72.5") LINE("75.25"), 0, NULL, &r), ST_INPUT,
               t,
               "DIR/f: timestamp: 3 requests within 0.014136 s, if it is in ms, as in Mooncake's "
               "traces\n"
               "hint: workload.import.time_unit=s reads it in s; =ms says that it is so");
    err_clear(&t->e);
    assert_ok(read_mooncake(t, LINE("61") LINE("61") LINE("62"), 0, NULL, &r), t); /* too few */
    assert_ok(read_mooncake(t, LINE("5.5") LINE("5.5"), 0, NULL, &r), t);          /* at once */
    for (int i = 0; i < 300; i++)
        buf_printf(&b, LINE("%d"), i / 2);
    assert_int_equal(read_mooncake(t, buf_str(&b), 0, NULL, &r), ST_INPUT);
    err_clear(&t->e);
    assert_ok(read_mooncake(t, buf_str(&b), 0, "ms", &r), t);
    assert_int_equal(r.w.requests[299].arrival_ns, 149 * NS_PER_MS);
    assert_ok(read_mooncake(t, buf_str(&b), 0, "s", &r), t);
    buf_free(&b);
}

/* ---- faults ------------------------------------------------------------------------------- */

static const struct bad {
    const char *name, *text, *error;
} bads[] = {
    {"azure", "", "DIR/f: empty, expected a header line"},
    {"azure", AZURE, "DIR/f: has no requests"},
    {"azure", "TIMESTAMP,ContextTokens\n",
     "DIR/f:1: no column 'GeneratedTokens' among: TIMESTAMP, ContextTokens"},
    {"azure", AZURE "2023-11-16 18:15,1,1\n",
     "DIR/f:2:1: TIMESTAMP: expected a time as 2024-05-10 00:00:00.123, got '2023-11-16 18:15'"},
    {"azure", AZURE "2023-13-16 18:15:00,1,1\n",
     "DIR/f:2:1: TIMESTAMP: expected a time as 2024-05-10 00:00:00.123, got '2023-13-16 18:15:00'"},
    {"azure", AZURE "2023-11-16 18:15:00.,1,1\n",
     "DIR/f:2:1: TIMESTAMP: expected a time as 2024-05-10 00:00:00.123, got "
     "'2023-11-16 18:15:00.'"},
    {"azure", AZURE "2023-11-16 18:15:00,-1,1\n",
     "DIR/f:2:2: ContextTokens: -1 is below the minimum 0"},
    {"azure", AZURE "2023-11-16 18:15:00,1,0\n",
     "DIR/f: all 1 requests lack a prompt or an output token"},
    {"burstgpt", BURST "x,ChatGPT,1,1,2,API log\n",
     "DIR/f:2:1: Timestamp: expected a number, got 'x'"},
    {"burstgpt", BURST "1,ChatGPT,1,1.5,2,API log\n",
     "DIR/f:2:4: Response tokens: expected an integer, got '1.5'"},
    {"burstgpt", BURST "1,ChatGPT,1\n", "DIR/f:2: 3 cells where the header has 6"},
    {"mooncake", "{\"timestamp\": 1, \"input_length\": 3}\n", "DIR/f:1:1: output_length: missing"},
    {"mooncake", "\n", "DIR/f: has no requests"},
    {"vidur", "arrived_at\n", "DIR/f:1: no column 'num_prefill_tokens' among: arrived_at"},
    {"vllm", "[]", "DIR/f:1:1: expected an object: a benchmark result"},
    {"vllm", "{\"input_lens\": 3}", "DIR/f:1:16: input_lens: expected a list of numbers"},
    {"vllm", "{\"input_lens\": [3, \"4\"]}",
     "DIR/f:1:20: input_lens: expected numbers from 0 to 2147483647"},
    {"vllm", "{\"input_lens\": [2.5]}",
     "DIR/f:1:17: input_lens: expected numbers from 0 to 2147483647"},
    {"vllm", "{\"input_lens\": [3], \"output_lens\": [1]}",
     "DIR/f: start_times has 0 values, input_lens 1\n"
     "hint: vllm bench serve writes them all with --save-result --save-detailed"},
    {"vllm", "{\"errors\": {}}", "DIR/f:1:12: errors: expected a list"},
    {"vllm", "{\"a\": [1", "DIR/f:1:9: the text ends where ',' or ']' was expected"},
    {"vllm", "{} x", "DIR/f:1:4: expected nothing more, got 'x'"},
    {"vllm", "{}", "DIR/f: has no requests"},
    {"sharegpt", "3", "DIR/f:1:1: expected a list of conversations"},
    {"sharegpt", "{}",
     "DIR/f: no conversation has the member conversations, or conversation, among: nothing"},
    {"sharegpt", FIRST "\n[]\n", "DIR/f:2:1: expected a conversation: an object"},
    {"sharegpt", FIRST "\n\n{\"conversations\": 5}\n",
     "DIR/f:3:19: conversations: expected a list of turns"},
    {"sharegpt", FIRST FIRST, "DIR/f:1:151: expected nothing more, got '{'"},
    {"sharegpt", "{\n\"id\": \"a\"}", "DIR/f:1:2: the text ends where a key or '}' was expected"},
    {"sharegpt", "[1]", "DIR/f:1:2: expected a conversation: an object"},
    {"sharegpt", "[{\"conversations\": {}}]",
     "DIR/f:1:20: conversations: expected a list of turns"},
    {"sharegpt", "[{\"conversations\": [\n3]}]",
     "DIR/f:2:1: expected a turn: an object with value"},
    {"sharegpt", "[{\"id\": \"a\"}]",
     "DIR/f: no conversation has the member conversations, or conversation, among: id"},
    {"lmsys", "[{\"id\": \"a\", \"messages\": [1]}]",
     "DIR/f: no conversation has the member conversations, or conversation, among: id, messages"},
    {"sharegpt", "[{\"conversations\": [{\"from\": \"human\", \"text\": \"a\"}]}]",
     "DIR/f: no turn has the member value, or content, among: text"},
    {"sharegpt", "[{\"conversations\": []}]",
     "DIR/f: all 1 requests lack a prompt or an output token"},
    {"bailian", "{\"timestamp\": 1, \"input_length\": 3, \"output_length\": 1}\n",
     "DIR/f:1:1: chat_id: missing"},
    {"bailian", "{\"chat_id\": 1, \"input_length\": 3, \"output_length\": 1}\n",
     "DIR/f:1:1: timestamp: missing"},
    {"mooncake",
     "{\"chat_id\": 1, \"timestamp\": 61.1, \"input_length\": 3, \"output_length\": 1}\n",
     "DIR/f:1:13: chat_id: this is a Bailian trace, whose times are in s and whose hash_ids are of "
     "16 "
     "tokens\nhint: twinfer workload import=bailian reads it"},
    {"mooncake", "{\"session_id\": 1, \"delay\": 3, \"input_length\": 3, \"output_length\": 1}\n",
     "DIR/f:1:1: timestamp: missing"},
    {"mooncake",
     "{\"session_id\": 1, \"timestamp\": 9, \"input_length\": 3, \"output_length\": 1}\n"
     "{\"session_id\": 1, \"timestamp\": 8, \"input_length\": 3, \"output_length\": 1}\n",
     "DIR/f:2:32: timestamp: before that of the turn above it in its session"},
    {"vllm", "{\"output_lens\": [1]}",
     "DIR/f: input_lens: missing\n"
     "hint: vllm bench serve writes it with --save-result --save-detailed"},
    {"vllm", "{\"prompt\": \"a\"}\n", "DIR/f:1:1: output_tokens: missing"},
    {"sharegpt", "[]", "DIR/f: has no requests"},
    {"sharegpt", "[{\"id\": \"a\",]", "DIR/f:1:13: expected a key in quotes, got ']'"},
};

static void every_fault_is_told_at_its_place(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct format_result r;
        err_clear(&t->e);
        assert_err(read_as(t, format(bads[i].name), bads[i].text, 0, &r), ST_INPUT, t,
                   bads[i].error);
    }
}

static void unknown_formats_are_told(void **state)
{
    struct test *t = *state;
    const struct workload_format *f;
    assert_err(workload_format_find("azur", false, &f, &t->e), ST_USAGE, t,
               "there is no format 'azur' to import\n"
               "hint: formats: azure, bailian, burstgpt, lmsys, mooncake, sharegpt, vidur, vllm, "
               "wildchat");
    err_clear(&t->e);
    assert_err(workload_format_find("made_up", true, &f, &t->e), ST_USAGE, t,
               "there is no format 'made_up' to export\nhint: formats: azure, burstgpt, mooncake, "
               "vidur, vllm");
    err_clear(&t->e);
    assert_err(workload_format_find("sharegpt", true, &f, &t->e), ST_USAGE, t,
               "format sharegpt can be imported only: it says an output length by the text of an "
               "answer, and a workload has no answers\nhint: formats: azure, burstgpt, mooncake, "
               "vidur, vllm");
    for (f = workload_formats; f->name; f++) /* one or the other */
        assert_int_equal(f->write == NULL, f->import_only != NULL);
}

/* Days by `date -u -d ... +%s`. */
static void times_of_day_are_exact(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"1970-01-01 00:00:00", 0},
        {"2000-02-29T12:34:56.000000001Z", INT64_C(951827696000000001)},
        {"2023-11-16 18:15:46.6805900", INT64_C(1700158546680590000)},
        {"2024-12-31 23:59:59.9999999999+00:00", INT64_C(1735689599999999999)},
        {"2024-05-10 00:00:00-0530", INT64_C(1715319000000000000)},
    };
    static const char *const wrong[] = {"",
                                        "2023-11-16",
                                        "2023-11-16 18:15:46 ",
                                        "2023-11-16 24:00:00",
                                        "1969-12-31 00:00:00",
                                        "2023-00-16 18:15:46",
                                        "2023-02-30 18:15:46",
                                        "2023-11-16 18:15:46+2",
                                        "2023/11/16 18:15:46"};
    (void)state;
    int64_t ns;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(format_time(sv_of(rows[i].text), &ns));
        assert_int_equal(ns, rows[i].ns);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(format_time(sv_of(wrong[i]), &ns));
}

int main(void)
{
    struct err e = {0};
    if (tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &e) !=
        ST_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(samples_give_their_requests),
        TEST(marks_and_gzip_change_nothing),
        TEST(rows_in_any_order),
        TEST(every_format_has_a_sample),
        TEST(what_is_written_reads_back),
        TEST(a_custom_dataset_holds_texts),
        TEST(what_is_lost_is_told),
        TEST(logs_are_written_as_they_are_published),
        TEST(a_missing_text_is_told),
        TEST(conversations_give_prompts),
        TEST(conversations_with_system_turns_and_by_line),
        TEST(conversations_of_lmsys_and_wildchat),
        TEST(chats_that_go_on_are_sessions),
        TEST(mooncakes_sessions_go_on),
        TEST(mooncakes_units_are_settings),
        TEST(times_since_1970_count_from_the_first),
        TEST(times_that_cannot_be_are_refused),
        TEST(every_fault_is_told_at_its_place),
        TEST(unknown_formats_are_told),
        TEST(times_of_day_are_exact),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_free(&tokenizer);
    return failed;
}
