/* What servers of others answer, as they answered it: scripts for a fault_server, so that tests do
 * without them. docs/serving.md says which versions were asked, and how. */
#ifndef SUPPORT_KNOWN_SERVERS_H
#define SUPPORT_KNOWN_SERVERS_H

#include "support/fault_server.h"

/* Names: "transformers" (transformers serve 5.23), "llama_cpp" (llama-cpp-python 0.3.36),
 * "reasoner" (OpenAI's API with a model that wants max_completion_tokens and its own temperature),
 * "short" (8 tokens of any more that are asked for), "whole" (an answer in one chunk), "plain"
 * (chunks without usage); and those that answer a request for 4 tokens well and no other: "dies"
 * (an event without data), "early" ([DONE] and nothing else), "envelope" (an error in the place of
 * a chunk), "more" (three times the prompt's tokens). NULL: no such name. Answers have 4 tokens
 * where not said otherwise. */
const struct fault *known_server(const char *name, size_t *n);

#endif
