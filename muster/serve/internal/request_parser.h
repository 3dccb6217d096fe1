// Reads requests of HTTP/1.1 from the bytes of one connection. It accepts requests by the letter of
// RFC 9112 and refuses everything else: a program on the way here that reads such bytes in another
// way would take a part of a body for a request, or the other way round. The grammar is
// Boost.Beast's; the additional refusals are in the source. One empty line in front of a request is
// skipped, as the RFC advises: old clients send one after a body. Thread safety: one thread.
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

// The limits of a request. All received bytes count, not only those that are kept.
struct ParserLimits {
  // The line of the request and its fields; as well a line between chunks, and the fields after the
  // last chunk.
  size_t head_bytes = 16 << 10;
  size_t path_bytes = 1024;  // path and query
  // The body as it comes, with the lines between its chunks; and once more when it is unpacked.
  size_t body_bytes = 32 << 20;
};

// The head of a request, before its body.
struct RequestHead {
  std::string method;             // GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS
  std::string path;               // percent signs decoded, without a query
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
    kHead,     // the head is incomplete
    kBody,     // the head is complete, the body is not
    kWhole,    // a request is complete
    kRefused,  // nothing that follows on this connection can be understood
  };

  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();

  // Takes the next bytes of the connection. Bytes after the end of a request wait for next().
  void feed(std::string_view bytes);
  State state() const;
  // Whether some bytes of an incomplete request have arrived. An empty line before it does not
  // count.
  bool has_begun() const;
  // REQUIRES: kBody or kWhole. For a refused request, the known part: perhaps the method.
  const RequestHead& head() const;
  // The body, unpacked; the caller may move it away. REQUIRES: kWhole.
  std::string& body();
  // REQUIRES: kRefused.
  const Refusal& refusal() const;
  // Releases the request and begins with the one after it. REQUIRES: kWhole.
  void next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::serve::internal
