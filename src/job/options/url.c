#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(url), .commands = DRIVES, .when = WHEN(IS("engine.kind", "@server")),
     .help = "address of an OpenAI-style server, as http://127.0.0.1:8000"},
    {KEY(chat_template), .def = "none", .allowed = "none|chatml|llama2|model",
     .commands = DRIVES | CMD_SERVE,
     .when = WHEN({"engine.kind", WHEN_IS, "@server", .of = DRIVES}),
     .help = "how a chat becomes a prompt: by the model's own template (serve), or one of these; "
             "completions of engine=openai put their text into it"},
};

OPTION_SECTION(url, rows);
