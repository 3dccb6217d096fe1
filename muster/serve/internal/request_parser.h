// Reads requests of HTTP/1.1 from the bytes of one connection. It takes what a request is by the
// letter of RFC 9112 and refuses everything else: a program on the way here that reads such bytes
// in another way would take a part of a body for a request, or the other way round. The grammar is
// Boost.Beast's; what is refused next to it stands in the source. One empty line in front of a
// request is skipped, as the RFC advises: old clients send one after a body. Thread safety: one
// thread.
//
//   parser.feed(bytes);
//   if (parser.state() == RequestParser::State::kWhole) {
//     answer(parser.head(), parser.body());
//     parser.next();
//   }
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace muster::inline v0_1::serve::internal {

// What a request may have. All bytes that come count, not those alone that are kept.
struct ParserLimits {
  // The line of the request and its fields; as well a line between chunks, and the fields after
  // the last chunk.
  size_t head_bytes = 16 << 10;
  size_t path_bytes = 1024;  // path and query
  // The body as it comes, with the lines between its chunks; and once more when it is unpacked.
  size_t body_bytes = 32 << 20;
};

// What a request says in front of its body.
struct RequestHead {
  std::string method;  // GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS
  std::string path;    // percent signs decoded, without a query
  std::string query;   // what follows the first '?', as it came
  std::string host;    // the fields Host and Cookie; empty without them
  std::string cookie;
  bool closes = false;            // the client reads nothing after the answer
  bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
};

// Why a request is refused: the HTTP status, and a sentence for the client.
struct Refusal {
  int status = 400;
  std::string message;
};

class RequestParser {
 public:
  enum class State {
    kHead,     // the head is not there yet
    kBody,     // the head is there, the body is not
    kWhole,    // a request is there
    kRefused,  // nothing that follows on this connection can be understood
  };

  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();

  // Takes the next bytes of the connection. Those after the end of a request wait for next().
  void feed(std::string_view bytes);
  State state() const;
  // Whether some bytes of a request are there that is not whole yet. An empty line in front of it
  // is none of them.
  bool has_begun() const;
  // REQUIRES: kBody or kWhole. When a request is refused, what is known of it: the method may be
  // there.
  const RequestHead& head() const;
  // The body, unpacked; the caller may move it away. REQUIRES: kWhole.
  std::string& body();
  // REQUIRES: kRefused.
  const Refusal& refusal() const;
  // Lets go of the request and begins with the one after it. REQUIRES: kWhole.
  void next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::serve::internal
