#include "support/known_servers.h"

#include <string.h>

#define SEND(text)          \
    {                       \
        FAULT_SEND, text, 0 \
    }
#define EVENT(text)          \
    {                        \
        FAULT_EVENT, text, 0 \
    }
#define STEPS(...)              \
    (const struct fault_step[]) \
    {                           \
        __VA_ARGS__,            \
        {                       \
            FAULT_END, NULL, 0  \
        }                       \
    }
#define STREAM(...) STEPS(SEND(FAULT_STREAM_HEAD), __VA_ARGS__, SEND(FAULT_STREAM_TAIL))
#define ANSWER(status, type, length, text)                                                \
    STEPS(SEND("HTTP/1.1 " status "\r\nContent-Type: " type "\r\nContent-Length: " length \
               "\r\n\r\n" text))
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- transformers serve 5.23, a folder as model, no cache of models ------------------------- */

#define TF_TEXT(t)                                                \
    EVENT("{\"id\":\"6\",\"choices\":[{\"index\":0,\"text\":\"" t \
          "\"}],\"object\":\"text_completion\"}")
#define TF_CHAT(delta)                                            \
    EVENT("{\"id\":\"c\",\"choices\":[{\"delta\":{" delta         \
          "},\"index\":0}],\"object\":\"chat.completion.chunk\"," \
          "\"system_fingerprint\":\"\"}")

static const struct fault transformers[] = {
    {.steps = STREAM(
         TF_TEXT(" er"), TF_TEXT(" er"), TF_TEXT(" er"), TF_TEXT(" er"),
         EVENT(
             "{\"id\":\"6\",\"choices\":[{\"finish_reason\":\"length\",\"index\":0,\"text\":\"\"}],"
             "\"object\":\"text_completion\",\"usage\":{\"completion_tokens\":4,\"prompt_tokens\":"
             "3,"
             "\"total_tokens\":7}}")),
     .on =
         {{"GET /v1/models ", 1}, {"\"ignore_eos\"", 2}, {"\"prompt\":[", 3}, {"\"messages\"", 4}}},
    {.steps = ANSWER("500 Internal Server Error", "text/plain; charset=utf-8", "21",
                     "Internal Server Error")},
    {.steps = ANSWER("422 Unprocessable Entity", "application/json", "61",
                     "{\"detail\":\"Unexpected fields in the request: {'ignore_eos'}\"}")},
    {.steps = ANSWER("400 Bad Request", "application/json", "37",
                     "{\"detail\":\"prompt must be a string.\"}")},
    {.steps = STREAM(
         TF_CHAT("\"role\":\"assistant\""), TF_CHAT("\"content\":\" lor\""),
         TF_CHAT("\"content\":\" lor\""), TF_CHAT("\"content\":\" lor\""),
         TF_CHAT("\"content\":\" lor\""),
         EVENT(
             "{\"id\":\"c\",\"choices\":[{\"delta\":{},\"index\":0,\"finish_reason\":\"length\"}],"
             "\"object\":\"chat.completion.chunk\",\"system_fingerprint\":\"\",\"usage\":{"
             "\"completion_tokens\":4,\"prompt_tokens\":14,\"total_tokens\":18}}"))},
};

/* ---- llama-cpp-python 0.3.36: no usage in a stream; unknown members are ignored ---------------
 */

#define LC_TEXT(t, finish)                                                                     \
    EVENT("{\"id\": \"cmpl-c\", \"object\": \"text_completion\", \"model\": \"tiny\", "        \
          "\"choices\": ["                                                                     \
          "{\"text\": \"" t "\", \"index\": 0, \"logprobs\": null, \"finish_reason\": " finish \
          "}]}")
#define LC_CHAT(delta, finish)                                                                    \
    EVENT("{\"id\": \"chatcmpl-c\", \"model\": \"tiny\", \"object\": \"chat.completion.chunk\", " \
          "\"choices\": [{\"index\": 0, \"delta\": {" delta                                       \
          "}, \"logprobs\": null, \"finish_reason\": " finish "}]}")
#define LC_TEN                                                                        \
    LC_CHAT("\"content\": \"a\"", "null"), LC_CHAT("\"content\": \"b\"", "null"),     \
        LC_CHAT("\"content\": \"c\"", "null"), LC_CHAT("\"content\": \"d\"", "null"), \
        LC_CHAT("\"content\": \"e\"", "null"), LC_CHAT("\"content\": \"f\"", "null"), \
        LC_CHAT("\"content\": \"g\"", "null"), LC_CHAT("\"content\": \"h\"", "null"), \
        LC_CHAT("\"content\": \"i\"", "null"), LC_CHAT("\"content\": \"j\"", "null")
#define LC_MODELS                                                                             \
    "{\"object\":\"list\",\"data\":[{\"id\":\"tiny.gguf\",\"object\":\"model\",\"owned_by\":" \
    "\"me\",\"permissions\":[]}]}"

static const struct fault llama_cpp[] = {
    {.steps = STREAM(LC_TEXT("t", "null"), LC_TEXT("", "null"), LC_TEXT("J", "null"),
                     LC_TEXT("z", "null"), LC_TEXT("", "\"length\""), EVENT("[DONE]")),
     .on = {{"GET /v1/models ", 1},
            {"\"prompt\":[", 2},
            {"\"max_completion_tokens\"", 3},
            {"\"messages\"", 4}}},
    {.steps = ANSWER("200 OK", "application/json", "95", LC_MODELS)},
    {.steps =
         ANSWER("500 Internal Server Error", "application/json", "157",
                "{\"error\":{\"message\":\"4 validation errors: ('body', 'prompt', 'str') Input "
                "should be a valid string\",\"type\":\"internal_server_error\",\"param\":null,"
                "\"code\":null}}")},
    /* until its context is full, whoever has gone away in the meantime */
    {.steps = STREAM(LC_CHAT("\"role\": \"assistant\"", "null"), LC_TEN, LC_TEN, LC_TEN, LC_TEN,
                     LC_TEN, LC_TEN, LC_TEN, LC_CHAT("", "\"length\""), EVENT("[DONE]"))},
    {.steps =
         STREAM(LC_CHAT("\"role\": \"assistant\"", "null"), LC_CHAT("\"content\": \"|\"", "null"),
                LC_CHAT("\"content\": \"S\"", "null"), LC_CHAT("\"content\": \"\"", "null"),
                LC_CHAT("\"content\": \"/\"", "null"), LC_CHAT("", "\"length\""), EVENT("[DONE]"))},
};

/* ---- others ---------------------------------------------------------------------------------- */

#define TOKEN EVENT("{\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}")
#define LAST  EVENT("{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]}")
#define USAGE(n) \
    EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":" n "}}")
#define DONE   EVENT("[DONE]")
#define FOUR   STREAM(TOKEN, TOKEN, TOKEN, LAST, USAGE("4"), DONE)
#define MODELS ANSWER("200 OK", "application/json", "24", "{\"data\":[{\"id\":\"some\"}]}")

static const struct fault reasoner[] = {
    {.steps = FOUR, .on = {{"GET /v1/models ", 1}, {"\"max_tokens\"", 2}, {"\"temperature\"", 3}}},
    {.steps = MODELS},
    {.steps =
         ANSWER("400 Bad Request", "application/json", "130",
                "{\"error\":{\"message\":\"Unsupported parameter: 'max_tokens' is not supported "
                "with this model. Use 'max_completion_tokens' instead.\"}}")},
    {.steps = ANSWER(
         "400 Bad Request", "application/json", "92",
         "{\"error\":{\"message\":\"Unsupported value: 'temperature' does not support 0 with "
         "this model.\"}}")},
};
static const struct fault eight[] = {
    {.steps = STREAM(TOKEN, TOKEN, TOKEN, TOKEN, TOKEN, TOKEN, TOKEN, LAST, USAGE("8"), DONE),
     .on = {{"GET /v1/models ", 1}, {"\"max_tokens\":4,", 2}}},
    {.steps = MODELS},
    {.steps = FOUR},
};
static const struct fault whole[] = {
    {.steps = STREAM(LAST, USAGE("4"), DONE), .on = {{"GET /v1/models ", 1}}},
    {.steps = MODELS},
};
static const struct fault plain[] = {
    {.steps = STREAM(TOKEN, TOKEN, TOKEN, LAST, DONE), .on = {{"GET /v1/models ", 1}}},
    {.steps = MODELS},
};

/* What a short request does not show. */
#define LATER(...)                                                                                \
    {                                                                                             \
        {.steps = STREAM(__VA_ARGS__), .on = {{"GET /v1/models ", 1}, {"\"max_tokens\":4,", 2}}}, \
            {.steps = MODELS}, {.steps = FOUR},                                                   \
    }
static const struct fault dies[] =
    LATER(TOKEN, TOKEN, SEND("1c\r\nevent: error\n: worker died\n\n\r\n"), DONE);
static const struct fault early[] = LATER(TOKEN, TOKEN, DONE);
static const struct fault envelope[] =
    LATER(TOKEN, EVENT("{\"code\":1302,\"message\":\"rate limit\",\"success\":false}"), DONE);
static const struct fault more[] =
    LATER(TOKEN, TOKEN, TOKEN, TOKEN, TOKEN, LAST,
          EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":24,\"completion_tokens\":6}}"), DONE);

const struct fault *known_server(const char *name, size_t *n)
{
    static const struct {
        const char *name;
        const struct fault *faults;
        size_t n;
    } rows[] = {
        {"transformers", transformers, COUNT(transformers)},
        {"llama_cpp", llama_cpp, COUNT(llama_cpp)},
        {"reasoner", reasoner, COUNT(reasoner)},
        {"short", eight, COUNT(eight)},
        {"whole", whole, COUNT(whole)},
        {"plain", plain, COUNT(plain)},
        {"dies", dies, COUNT(dies)},
        {"early", early, COUNT(early)},
        {"envelope", envelope, COUNT(envelope)},
        {"more", more, COUNT(more)},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0) {
            *n = rows[i].n;
            return rows[i].faults;
        }
    return NULL;
}
