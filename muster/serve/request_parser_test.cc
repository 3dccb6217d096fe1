// The parser's results for bytes, without a connection.
#include "muster/serve/internal/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::serve {
namespace {

using internal::ParserLimits;
using internal::RequestParser;
using State = RequestParser::State;
using ::testing::HasSubstr;

TEST(RequestParserTest, RequestsFollowEachOtherHoweverTheyAreCut) {
  const std::string bytes =
      "POST /a%2Fb?query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
      "1;x=y\r\nc\r\n0\r\n\r\n"
      "GET / HTTP/1.1\r\nhost:a\r\nConnection: close\r\n\r\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    RequestParser parser({});
    EXPECT_FALSE(parser.has_begun());
    std::string_view rest = bytes;
    const auto read = [&] {
      while (parser.state() != State::kWhole && !rest.empty()) {
        parser.feed(rest.substr(0, piece));
        rest.remove_prefix(std::min(piece, rest.size()));
      }
      return parser.state() == State::kWhole;
    };
    ASSERT_TRUE(read());
    EXPECT_EQ(parser.head().method, "POST");
    EXPECT_EQ(parser.head().path, "/a/b");
    EXPECT_FALSE(parser.head().closes);
    EXPECT_EQ(parser.body(), "abc");
    parser.next();
    ASSERT_TRUE(read());
    EXPECT_EQ(parser.head().path, "/");
    EXPECT_TRUE(parser.head().closes);
    EXPECT_EQ(parser.body(), "");
    parser.next();
    EXPECT_EQ(parser.state(), State::kHead);
    EXPECT_FALSE(parser.has_begun());
  }
}

TEST(RequestParserTest, AnEmptyLineInFrontOfARequestIsSkipped) {
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t piece = 1; piece <= 3; ++piece) {
    RequestParser parser({});
    for (int request = 0; request < 2; ++request) {
      parser.feed(std::string_view("\r\n").substr(0, piece));
      EXPECT_FALSE(parser.has_begun());
      if (piece == 1) parser.feed("\n");
      EXPECT_EQ(parser.state(), State::kHead);
      EXPECT_FALSE(parser.has_begun());
      parser.feed(get);
      ASSERT_EQ(parser.state(), State::kWhole);
      EXPECT_EQ(parser.head().path, "/");
      parser.next();
    }
  }
  for (const char* front : {"\r\n\r\n", "\r\n\r", "\r", "\n", "\r\r\n", " \r\n"}) {
    RequestParser parser({});
    parser.feed(front + get);
    EXPECT_EQ(parser.state(), State::kRefused) << ::testing::PrintToString(front);
  }
}

TEST(RequestParserTest, LimitsAreExact) {
  const ParserLimits limits = {.head_bytes = 100, .path_bytes = 10, .body_bytes = 5};
  const auto status = [&](const std::string& bytes) {
    RequestParser parser(limits);
    parser.feed(bytes);
    if (parser.state() == State::kWhole) return 200;
    return parser.state() == State::kRefused ? parser.refusal().status : 0;
  };
  const auto head_of = [](size_t bytes) {
    const std::string head = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
    return head + std::string(bytes - head.size() - 4, 'x') + "\r\n\r\n";
  };
  EXPECT_EQ(status(head_of(100)), 200);
  EXPECT_EQ(status(head_of(101)), 431);
  EXPECT_EQ(status("GET /" + std::string(9, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
  EXPECT_EQ(status("GET /" + std::string(10, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(status(post + "Content-Length: 5\r\n\r\nabcde"), 200);
  EXPECT_EQ(status(post + "Content-Length: 6\r\n\r\n"), 413);
  // Chunks pay for their lines: "0\r\n\r\n" has five bytes.
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 200);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n00\r\n\r\n"), 413);
}

TEST(RequestParserTest, ARefusalNamesWhatIsWrong) {
  const auto message = [](const std::string& bytes) {
    RequestParser parser({});
    parser.feed(bytes);
    return parser.state() == State::kRefused ? parser.refusal().message : "taken";
  };
  EXPECT_EQ(message("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), "the method 'BREW' is unknown here");
  EXPECT_EQ(message("GET / HTTP/1.1\r\n\r\n"), "the head has no Host");
  EXPECT_EQ(message("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            "the head gives more than one host");
  EXPECT_THAT(message("\x16\x03\x01"), HasSubstr("https is not spoken here"));
  EXPECT_THAT(message("GET / HTTP/1.3\r\n\r\n"), HasSubstr("the version of HTTP is not 1.1"));
  EXPECT_EQ(message("GET /%g0 HTTP/1.1\r\nHost: a\r\n\r\n"), "'/%g0' is not a path");
}

}  // namespace
}  // namespace muster::inline v0_1::serve
