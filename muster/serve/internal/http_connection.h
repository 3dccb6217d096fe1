// One connection of a client: its requests, one after another, and their answers.
// Thread safety: each connection has one thread.
#pragma once

#include <atomic>

#include "muster/base/file_descriptor.h"
#include "muster/serve/http.h"
#include "muster/serve/http_server.h"
#include "muster/serve/serving_metrics.h"

namespace muster::inline v0_1::serve::internal {

// The state that all connections of a server share.
struct ConnectionContext {
  const HttpHandler& handler;
  const HttpServerOptions& options;
  ServingMetrics& metrics;
  const std::atomic<bool>& stopping;  // from then on each answer is the last of its connection
};

// Answers the requests over a socket that does not block, until one side ends the connection. It
// ends after every answer that the handler did not give. Throws nothing.
void serve_connection(const FileDescriptor& socket, const ConnectionContext& context);

// The answer {"error": message}, with Retry-After for 503.
HttpAnswer error_answer(int status, std::string_view message);

// The bytes of an answer. With `close` they say that the connection ends after it; without
// `with_body` the body is left out, as HEAD requires.
std::string bytes_of_answer(const HttpAnswer& answer, bool close, bool with_body);

}  // namespace muster::inline v0_1::serve::internal
