#include "config/option_rows.h"
#include "server/server.h"

#define SETTINGS struct server_params

static const struct option rows[] = {
    {IN(server, host), .def = "127.0.0.1", .commands = CMD_SERVE,
     .help =
         "numeric address to listen on; others than this machine reach it only if you say so here"},
    {IN(server, port), .def = "8000", .max = 65535, .commands = CMD_SERVE,
     .help = "port to listen on; 0 takes any free one"},
    {IN(server, max_pending), .unit = "requests", .def = "1024", .min = 1, .max = 1 << 20,
     .commands = CMD_SERVE, .help = "requests taken in and not over; more are answered with 429"},
    {IN(server, max_connections), .def = "4096", .min = 1, .max = 1 << 20, .commands = CMD_SERVE,
     .help = "open connections; one more takes the place of one that sent no request yet"},
    {IN(server, max_per_address), .def = "3584", .min = 1, .max = 1 << 20, .commands = CMD_SERVE,
     .help = "the same of one client's address (of IPv6: of its network)"},
    {IN(server, hosts), .commands = CMD_SERVE,
     .help = "names that clients may call this server by (the Host header) besides localhost, its "
             "address and its machine's name; * is any"},
    {IN(server, max_body_bytes), .unit = "bytes", .def = "16777216", .min = 1024, .max = 1 << 30,
     .commands = CMD_SERVE, .help = "largest body of a request; a larger one is answered with 413"},
    {IN(server, max_held_bytes), .unit = "bytes", .def = "268435456", .min = 1024, .max = INFINITY,
     .commands = CMD_SERVE,
     .help = "bodies of all requests that are not read yet; more are answered with 429"},
    {IN(server, api_key_env), .commands = CMD_SERVE,
     .help = "environment variable with the key that clients must send (Authorization: Bearer)"},
    {IN(server, api_key_file), .commands = CMD_SERVE,
     .help = "file with such keys, one a line; blank lines and # comments are skipped"},
    {AT("server.temperature", rules.temperature), .def = "0", .max = 100, .commands = CMD_SERVE,
     .help = "temperature of requests that name none; 0 is greedy (OpenAI's server takes 1)"},
    {IN(server, max_header_bytes), .unit = "bytes", .def = "32768", .min = 4096, .max = 1 << 24,
     .commands = CMD_SERVE, .help = "memory of a connection: what headers must fit into"},
    {IN(server, max_unread_tokens), .unit = "tokens", .def = "4096", .min = 1, .max = 1 << 30,
     .commands = CMD_SERVE, .help = "tokens that may wait for a client that does not read"},
    {IN(server, idle_timeout_s), .unit = "s", .def = "60", .min = 1, .max = 1e6,
     .commands = CMD_SERVE,
     .help = "a connection on which nothing moves that long is closed; a body must be in by then"},
    {IN(server, drain_s), .unit = "s", .def = "30", .max = 1e6, .commands = CMD_SERVE,
     .help = "time that running requests get after SIGTERM"},
    {IN(server, threads), .unit = "threads", .def = "1", .min = 1, .max = 256,
     .commands = CMD_SERVE,
     .help = "threads for connections; long prompts are tokenized by one more"},
    {AT("server.model", rules.model), .commands = CMD_SERVE,
     .help = "name of the model towards clients; model.name when unset"},
};

OPTION_SECTION(server, rows);
