/* Checks that a request is not made by a web page of somebody else.
 *
 * A page open in a browser may send requests to any address, this machine's among them, without
 * being asked (a POST of a form's content types), and may read the answers when a name of its own
 * leads to that address (DNS rebinding). So only application/json is taken as JSON, which a page
 * cannot send elsewhere without permission, and Host must name this server. */
#ifndef SERVER_ORIGIN_H
#define SERVER_ORIGIN_H

#include "base/str.h"

/* What Host may name, with or without a port: localhost and loopback addresses; `host`, the address
 * that is listened on, and where that is all of a machine's (0.0.0.0, ::) every numeric address and
 * this machine's name; and `more` names [n], of which "*" is any. value: of the header; NULL, which
 * only HTTP/1.0 may send, is fine. */
bool origin_host_ok(const char *value, const char *host, struct texts more);

/* Content-Type names application/json, with or without parameters. */
bool origin_is_json(const char *content_type);

#endif
