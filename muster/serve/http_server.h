// HTTP/1.1 on one port: connections, their threads and their limits. Thread safety: stop() may come
// from any thread; the rest from the one that made the server.
//
// A connection has a thread while it is open. Beyond max_connections one is told 503 and closed.
// What a client sends is bounded in size (max_body_bytes: 413; 16 KiB of a head: 431) and in time
// (request_time: 408); all bytes of a request count, those of its head and between its chunks too.
// What is not a request by the letter of RFC 9112 is refused, and its connection is closed: what
// follows on it might be taken for another request than the client, or a proxy, sent.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/serve/http.h"
#include "muster/serve/serving_metrics.h"

namespace muster::inline v0_1::serve {

// Where a server listens, and the limits of what it takes.
struct HttpServerOptions {
  std::string host = "127.0.0.1";    // the address to listen at
  int port = 8501;                   // 0: one that is free
  int max_connections = 512;         // open at the same time
  size_t max_body_bytes = 32 << 20;  // of a request, as it comes and unpacked
  // From the first byte of a request to its answer; as much again for the client to take that.
  Duration request_time = std::chrono::seconds(30);
  Duration idle_time = std::chrono::seconds(5);  // until a connection without requests is closed
};

class HttpServer {
 public:
  // Listens, and answers from now on. Throws Unavailable when the port is taken, InvalidArgument
  // for an address that is not one of this machine. `metrics` must outlive the server. `handler`
  // throws nothing.
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
