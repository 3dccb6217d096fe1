// HTTP/1.1 on one port: connections, their threads and their limits. The protocol itself is
// cpp-httplib's. Thread safety: stop() may come from any thread; the rest from the one that made
// the server.
//
// A connection has a thread while it is open. Beyond max_connections one is told 503 and closed;
// beyond a few such, new ones wait in the kernel. What a client sends is bounded in size
// (max_body_bytes: 413) and in time (request_time: 408).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/serve/http.h"
#include "muster/serve/serving_metrics.h"

namespace muster::inline v0_1::serve {

struct HttpServerOptions {
  std::string host = "127.0.0.1";                    // the address to listen at
  int port = 8501;                                   // 0: one that is free
  int max_connections = 512;                         // open at the same time
  size_t max_body_bytes = 32 << 20;                  // of a request, unpacked
  Duration request_time = std::chrono::seconds(30);  // from the head of a request to its answer
  Duration idle_time = std::chrono::seconds(5);  // until a connection without requests is closed
};

class HttpServer {
 public:
  // Listens, and answers from now on. Throws Unavailable when the port is taken, InvalidArgument
  // for an address that is not one of this machine. `metrics` must outlive the server.
  HttpServer(HttpHandler handler, const HttpServerOptions& options, ServingMetrics& metrics);
  // Stops, and waits for what is being answered.
  ~HttpServer();

  int port() const;

  // Takes no more connections; what is open gets its answers, with "Connection: close". Returns
  // whether all was closed within `time`.
  bool stop(Duration time);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::serve
