#include "muster/serve/internal/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/formats/input_stream.h"

namespace muster::inline v0_1::serve::internal {
namespace {

namespace http = boost::beast::http;
using BeastText = boost::beast::string_view;
using BeastError = boost::beast::error_code;

constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::string_view kEndOfHead = "\r\n\r\n";
// What is read is moved to the front of the buffer when so much before it is used up.
constexpr size_t kUsedUp = 64 << 10;

std::string string_of(BeastText text) { return {text.data(), text.size()}; }

// Hands on what Beast finds. Fields after the last chunk are read, and dropped.
class Grammar : public http::basic_parser<true> {
 public:
  std::string method, target;
  int version = 0;                                          // 10 or 11
  std::vector<std::pair<std::string, std::string>> fields;  // names in small letters
  std::string body;

 private:
  void on_request_impl(http::verb /*verb*/, BeastText method_text, BeastText target_text,
                       int number, BeastError& /*error*/) override {
    method = string_of(method_text);
    target = string_of(target_text);
    version = number;
  }
  void on_response_impl(int /*code*/, BeastText /*reason*/, int /*version*/,
                        BeastError& /*error*/) override {}
  void on_field_impl(http::field /*field*/, BeastText name, BeastText value,
                     BeastError& /*error*/) override {
    if (!head_ended_) fields.emplace_back(to_lower(string_of(name)), string_of(value));
  }
  void on_header_impl(BeastError& /*error*/) override { head_ended_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         BeastError& /*error*/) override {}
  std::size_t on_body_impl(BeastText bytes, BeastError& /*error*/) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, BeastText /*extensions*/,
                            BeastError& /*error*/) override {}
  std::size_t on_chunk_body_impl(std::uint64_t /*rest*/, BeastText bytes,
                                 BeastError& /*error*/) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(BeastError& /*error*/) override {}

  bool head_ended_ = false;
};

// The path of a request's target; nothing for one that has none.
std::optional<std::string> path_of(const std::string& method, std::string target) {
  if (method == "OPTIONS" && target == "*") return target;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!to_lower(target.substr(0, scheme.size())).starts_with(scheme)) continue;
    const size_t slash = target.find('/', scheme.size());
    target = slash == std::string::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return std::nullopt;
  std::string path;
  for (size_t at = 0; at < target.size() && target[at] != '?'; ++at) {
    if (target[at] != '%') {
      path += target[at];
      continue;
    }
    const auto digit = [&](size_t place) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char letter = place < target.size() ? target[place] : '\0';
      return kDigits.find(letter >= 'A' && letter <= 'F' ? static_cast<char>(letter + 32) : letter);
    };
    const size_t high = digit(at + 1), low = digit(at + 2);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    path += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return path;
}

// What is wrong with bytes that Beast refuses.
Refusal refusal_of(const BeastError& error, std::string_view head) {
  const std::vector<std::string> words = split(head.substr(0, head.find('\r')), ' ');
  if (error == http::error::bad_version && words.size() == 3 && words[2].starts_with("HTTP/"))
    return {505, "the version of HTTP is not 1.1, the only one known here"};
  if (error == http::error::bad_content_length || error == http::error::bad_transfer_encoding) {
    return {400,
            "the head gives more than one Content-Length or Transfer-Encoding, or a length that is "
            "no number"};
  }
  if (error == http::error::bad_chunk || error == http::error::bad_chunk_extension)
    return {400, "the body is not in chunks as its head says"};
  return {400, "the request is not an HTTP/1.1: " + error.message()};
}

}  // namespace

struct RequestParser::Impl {
  explicit Impl(const ParserLimits& given) : limits(given) { begin(); }

  void begin();
  void advance();
  void read_head();
  void read_body();
  void end_body();
  // Each looks at a part of the head, and refuses, or sets what is known.
  bool check_request_line();
  bool check_fields();
  bool check_length();
  bool check_body_form();
  // The value of a field; nothing where it is not there.
  std::optional<std::string> field(std::string_view name) const;
  std::string_view unread() const { return std::string_view(buffer).substr(used); }
  // Whether there is something of a request; half of an empty line in front of it is nothing.
  bool has_begun() const {
    if (state != State::kHead) return state == State::kBody;
    return !unread().empty() && (has_skipped || unread() != kEndOfLine.substr(0, 1));
  }
  // Always false, for checks to return.
  bool refuse(int status, std::string message) { return refuse({status, std::move(message)}); }
  bool refuse(Refusal why) {
    refusal = std::move(why);
    state = State::kRefused;
    return false;
  }
  bool refuse_size() {
    return refuse(413, fmt::format("the body has more than {} bytes", limits.body_bytes));
  }

  const ParserLimits limits;
  State state = State::kHead;
  std::string buffer{};      // what has come
  size_t used = 0;           // bytes of it that are read
  size_t searched = 0;       // bytes after these that are known to hold no end of the head
  bool has_skipped = false;  // an empty line in front of the request
  size_t body_bytes = 0;     // of the body, as they came
  std::optional<Grammar> grammar{};
  RequestHead head;
  std::optional<formats::Compression> packed{};
  Refusal refusal;
};

void RequestParser::Impl::begin() {
  state = State::kHead;
  searched = body_bytes = 0;
  has_skipped = false;
  head = {};
  packed.reset();
  grammar.emplace();
  grammar->header_limit(static_cast<std::uint32_t>(limits.head_bytes + 1));
  grammar->body_limit(limits.body_bytes);
}

void RequestParser::Impl::advance() {
  if (state == State::kHead) read_head();
  if (state == State::kBody) read_body();
  if (used < std::min(buffer.size(), kUsedUp)) return;
  buffer.erase(0, used);
  used = 0;
}

void RequestParser::Impl::read_head() {
  if (!has_skipped && unread().starts_with(kEndOfLine)) {
    used += kEndOfLine.size();
    has_skipped = true;
  }
  if (!has_begun()) return;
  const std::string_view text = unread();
  // What speaks another protocol would wait for an answer as long as a request may take.
  if (const char first = text.front();
      (first < 'A' || first > 'Z') && (first < 'a' || first > 'z')) {
    refuse(400, "what came is not an HTTP/1.1 (https is not spoken here)");
    return;
  }
  const size_t end = text.find(kEndOfHead, searched);
  if (std::min(end, text.size()) > limits.head_bytes - kEndOfHead.size()) {
    const bool in_first_line =
        text.substr(0, limits.head_bytes).find('\r') == std::string_view::npos;
    refuse(in_first_line ? 414 : 431,
           fmt::format("the {} of the request is longer than {} bytes",
                       in_first_line ? "first line" : "head", limits.head_bytes));
    return;
  }
  for (size_t at = text.find('\n', searched); at < end; at = text.find('\n', at + 1)) {
    if (at > 0 && text[at - 1] == '\r') continue;
    refuse(400, "a line of the head ends without a carriage return");
    return;
  }
  if (end == std::string_view::npos) {
    searched = text.size() - std::min(text.size(), kEndOfHead.size() - 1);
    return;
  }
  const std::string_view lines = text.substr(0, end + kEndOfHead.size());
  BeastError error;
  const size_t read = grammar->put({lines.data(), lines.size()}, error);
  head.method = grammar->method;
  // A line that goes on in the next one: some read it as one value, others as two fields.
  if (lines.find("\r\n ") != std::string_view::npos ||
      lines.find("\r\n\t") != std::string_view::npos) {
    refuse(400, "a line of the head begins with a space");
    return;
  }
  if (error == http::error::body_limit) {
    refuse_size();
    return;
  }
  if (error) {
    refuse(refusal_of(error, lines));
    return;
  }
  used += read;
  if (!check_request_line() || !check_fields() || !check_length() || !check_body_form()) return;
  // A client of HTTP/1.0 knows the end of an answer by the end of the connection.
  head.closes = grammar->version < 11 || !grammar->keep_alive();
  grammar->eager(true);
  state = State::kBody;
}

std::optional<std::string> RequestParser::Impl::field(std::string_view name) const {
  for (const auto& [each, value] : grammar->fields) {
    if (each == name) return value;
  }
  return std::nullopt;
}

bool RequestParser::Impl::check_request_line() {
  if (grammar->target.size() > limits.path_bytes) return refuse(414, "the path is too long");
  constexpr std::string_view kMethods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                           "PATCH", "DELETE", "OPTIONS"};
  if (std::ranges::find(kMethods, head.method) == std::end(kMethods)) {
    return refuse(
        501, fmt::format("the method '{}' is unknown here", printable_beginning(head.method, 30)));
  }
  auto path = path_of(head.method, grammar->target);
  if (!path) {
    return refuse(400, fmt::format("'{}' is not a path", printable_beginning(grammar->target)));
  }
  head.path = *std::move(path);
  const size_t mark = grammar->target.find('?');
  if (mark != std::string::npos) head.query = grammar->target.substr(mark + 1);
  return true;
}

bool RequestParser::Impl::check_fields() {
  for (const std::string_view name : {"host", "content-length", "transfer-encoding", "content-type",
                                      "content-encoding", "expect"}) {
    const auto count =
        std::ranges::count(grammar->fields, name, &std::pair<std::string, std::string>::first);
    if (count > 1) return refuse(400, fmt::format("the head gives more than one {}", name));
  }
  if (grammar->version > 10 && !field("host")) return refuse(400, "the head has no Host");
  head.host = field("host").value_or("");
  head.cookie = field("cookie").value_or("");
  const std::string expected = to_lower(field("expect").value_or(""));
  if (expected.empty() || grammar->version < 11) return true;
  if (expected != "100-continue")
    return refuse(417, "the Expect is not '100-continue', the only one known here");
  head.expects_continue = true;
  return true;
}

bool RequestParser::Impl::check_length() {
  const bool takes_body = head.method == "POST" || head.method == "PUT" || head.method == "PATCH";
  const auto length = field("content-length");
  if (const auto encoding = field("transfer-encoding")) {
    if (to_lower(*encoding) != "chunked")
      return refuse(501, "the Transfer-Encoding is not 'chunked', the only one known here");
    if (grammar->version < 11) return refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  } else if (length) {
    // Beast takes lists of equal lengths.
    if (!std::ranges::all_of(*length, [](char c) { return c >= '0' && c <= '9'; }))
      return refuse(400, "the Content-Length is not a number");
    if (*grammar->content_length() == 0) return true;
  } else {
    if (!takes_body) return true;
    return refuse(411, "the head says nothing of the body's size; give a Content-Length");
  }
  if (takes_body || head.method == "DELETE") return true;
  return refuse(400, fmt::format("a {} request has no body here", head.method));
}

bool RequestParser::Impl::check_body_form() {
  if (to_lower(field("content-type").value_or("")).starts_with("multipart/"))
    return refuse(415, "the body is a form of several parts; JSON was expected");
  const std::string encoding = to_lower(field("content-encoding").value_or("identity"));
  if (encoding == "identity") return true;
  if (encoding == "gzip" || encoding == "x-gzip") {
    packed = formats::Compression::kGzip;
  } else if (encoding == "deflate") {
    packed = formats::Compression::kZlib;
  } else {
    return refuse(415, fmt::format("the Content-Encoding is '{}'; gzip, deflate or none was "
                                   "expected",
                                   printable_beginning(encoding, 30)));
  }
  return true;
}

void RequestParser::Impl::read_body() {
  while (!grammar->is_done() && !unread().empty()) {
    BeastError error;
    const size_t read = grammar->put({unread().data(), unread().size()}, error);
    used += read;
    body_bytes += read;
    if (error && error != http::error::need_more) {
      if (error == http::error::body_limit) {
        refuse_size();
      } else {
        refuse(refusal_of(error, ""));
      }
      return;
    }
    const size_t rest = grammar->is_done() ? 0 : unread().size();
    if (body_bytes + rest > limits.body_bytes) {
      refuse_size();
      return;
    }
    if (rest > limits.head_bytes) {
      refuse(400, fmt::format("a line between the chunks of the body is longer than {} bytes",
                              limits.head_bytes));
      return;
    }
    if (error) return;
  }
  if (grammar->is_done()) end_body();
}

void RequestParser::Impl::end_body() {
  state = State::kWhole;
  if (!packed) return;
  const std::string bytes = std::exchange(grammar->body, {});
  auto stream = formats::InputStream::open(memory_reader(bytes_of(bytes), "the body"), *packed);
  while (stream.ok()) {
    const Result<Bytes> piece = stream.value()->peek(1);
    if (!piece.ok()) {
      refuse(400, "the body is not packed as its head says: " + piece.error().message());
      return;
    }
    if (piece.value().empty()) return;
    grammar->body.append(text_of(piece.value()));
    if (grammar->body.size() > limits.body_bytes) {
      refuse_size();
      return;
    }
    stream.value()->consume(piece.value().size());
  }
  refuse(400, "the body is not packed as its head says: " + stream.error().message());
}

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

void RequestParser::feed(std::string_view bytes) {
  if (impl_->state == State::kRefused) return;
  impl_->buffer.append(bytes);
  impl_->advance();
}

RequestParser::State RequestParser::state() const { return impl_->state; }

bool RequestParser::has_begun() const { return impl_->has_begun(); }

const RequestHead& RequestParser::head() const { return impl_->head; }
std::string& RequestParser::body() { return impl_->grammar->body; }
const Refusal& RequestParser::refusal() const { return impl_->refusal; }

void RequestParser::next() {
  impl_->begin();
  impl_->advance();
}

}  // namespace muster::inline v0_1::serve::internal
