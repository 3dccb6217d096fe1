// Reads requests from any bytes: they are the same however the bytes are cut, a refusal stays, and
// no part exceeds its limit.
#include <tuple>

#include "muster/formats/gzip.h"
#include "muster/serve/internal/request_parser.h"
#include "tests/fuzz/target.h"

namespace {

using muster::fuzz::require;
using muster::serve::internal::RequestParser;
using State = RequestParser::State;

// Small ones, which inputs reach.
constexpr muster::serve::internal::ParserLimits kLimits = {
    .head_bytes = 512, .path_bytes = 64, .body_bytes = 256};

// The requests, and the status with which the last one is refused; 0 if none is.
struct Read {
  std::vector<std::tuple<std::string, std::string, std::string, bool>> requests;
  int refused = 0;
};

Read read_all(std::string_view bytes, size_t piece) {
  Read all;
  RequestParser parser(kLimits);
  while (true) {
    if (parser.state() == State::kWhole) {
      require(parser.body().size() <= kLimits.body_bytes, "a body has no more than its limit");
      require(parser.head().path.size() <= kLimits.path_bytes, "a path has no more than its limit");
      all.requests.emplace_back(parser.head().method, parser.head().path, parser.body(),
                                parser.head().closes);
      parser.next();
    } else if (parser.state() == State::kRefused || bytes.empty()) {
      break;
    } else {
      parser.feed(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
    }
  }
  if (parser.state() != State::kRefused) return all;
  all.refused = parser.refusal().status;
  require(all.refused >= 400 && all.refused <= 505, "a refusal has a status of HTTP's");
  require(!parser.refusal().message.empty(), "a refusal says why");
  parser.feed("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  require(parser.state() == State::kRefused, "nothing follows a refusal");
  return all;
}

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  const std::string packed =
      muster::formats::gzip(muster::bytes_of(std::string_view("{\"a\": 1}")));
  return {"GET /v1/models/m HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
          "POST /a%20b?c HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.0\r\n\r\n",
          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
          "3;a=\"b\"\r\nabc\r\n0a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
          "PUT http://a/b HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: " +
              std::to_string(packed.size()) + "\r\n\r\n" + packed,
          "HEAD / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
          "\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1\r\n\r\n"};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Read one_by_one = read_all(bytes, 1);
  for (const size_t piece : {size_t{7}, size + 1}) {
    const Read other = read_all(bytes, piece);
    require(other.requests == one_by_one.requests, "requests do not depend on pieces");
    require((other.refused != 0) == (one_by_one.refused != 0),
            "nor does whether the last is refused");
  }
  return 0;
}
