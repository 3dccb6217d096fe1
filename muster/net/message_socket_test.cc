#include "muster/net/message_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/net/internal/frame.h"
#include "muster/net/internal/stream.h"
#include "muster/net/internal/testing.h"
#include "muster/net/internal/tls_stream.h"
#include "tests/support/tls_identity.h"

namespace muster::inline v0_1::net {
namespace {

using ::testing::HasSubstr;

std::string noise(size_t bytes, unsigned seed) {
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
  return text;
}

std::string receive_text(MessageSocket& socket, size_t bytes) {
  std::string text(bytes, '\0');
  socket.receive_payload(std::as_writable_bytes(std::span(text)));
  return text;
}

struct Ends {
  FileDescriptor here, there;
};
Ends connected_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {.here = FileDescriptor(ends[0]), .there = FileDescriptor(ends[1])};
}

// Two sockets that are connected to each other, with their connection.
class Sockets {
 public:
  enum class Carrier { kPlain, kTls };

  explicit Sockets(Carrier carrier) {
    Ends ends = connected_pair();
    std::unique_ptr<Stream> here, there;
    if (carrier == Carrier::kPlain) {
      here = plain_stream(std::move(ends.here));
      there = plain_stream(std::move(ends.there));
    } else {
      const TlsContext context(tls_identity_for("ps-0.example"));
      here = context.connected(std::move(ends.here), "ps-0.example");
      there = context.accepted(std::move(ends.there));
    }
    here_ = std::make_unique<MessageSocket>(
        std::move(here), MessageSocketOptions{.peer = "ps 0", .idle_timeout_seconds = kLong});
    there_ = std::make_unique<MessageSocket>(
        std::move(there), MessageSocketOptions{.peer = "worker 1", .idle_timeout_seconds = kLong});
    // As a proof does it, one thread a side: keys are agreed on.
    std::thread answers([&] {
      there_->receive(kLong);
      there_->send("welcome");
    });
    here_->send("hello");
    here_->receive(kLong);
    answers.join();
  }
  MessageSocket& here() { return *here_; }
  MessageSocket& there() { return *there_; }
  void end_here() { here_.reset(); }

 private:
  std::unique_ptr<MessageSocket> here_, there_;
};

// One end is a message socket, the other whatever bytes a test writes.
struct HalfRaw {
  explicit HalfRaw(double idle_seconds = kLong, size_t most_head = kMaxHeadBytes)
      : HalfRaw(connected_pair(), idle_seconds, most_head) {}
  void write(std::string_view bytes) {
    ASSERT_EQ(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string header(size_t head, int64_t payload) {
    const FrameHeader header = FrameHeader::of(head, payload);
    return {reinterpret_cast<const char*>(&header), sizeof header};
  }

  FileDescriptor raw;
  MessageSocket socket;

 private:
  HalfRaw(Ends ends, double idle_seconds, size_t most_head)
      : raw(std::move(ends.here)),
        socket(plain_stream(std::move(ends.there)), {.peer = "worker 1 (10.0.0.3)",
                                                     .peer_task = "worker:1",
                                                     .idle_timeout_seconds = idle_seconds,
                                                     .most_head_bytes = most_head}) {}
};

class MessageSocketOver : public ::testing::TestWithParam<Sockets::Carrier> {};

std::string name_of(const ::testing::TestParamInfo<Sockets::Carrier>& info) {
  return info.param == Sockets::Carrier::kTls ? "Tls" : "Plain";
}
INSTANTIATE_TEST_SUITE_P(Carriers, MessageSocketOver,
                         ::testing::Values(Sockets::Carrier::kPlain, Sockets::Carrier::kTls),
                         name_of);

// However a payload is cut when it is sent, it can be cut in any way when it is received.
TEST_P(MessageSocketOver, HeadsAndPiecesArriveAsTheyWereSent) {
  Sockets sockets(GetParam());
  const std::vector<size_t> heads = {0, 1, 100, 70'000, kMaxHeadBytes};
  const std::vector<size_t> sizes = {0, 1, 7, 0, 16'383, 16'384, 65'536, 65'537, 300'000, 0};
  std::vector<std::string> texts;
  for (const size_t size : sizes)
    texts.push_back(noise(size, static_cast<unsigned>(texts.size() + 1)));
  std::string whole;
  for (const std::string& text : texts) whole += text;
  std::thread sender([&] {
    std::vector<Bytes> pieces;
    for (const std::string& text : texts) pieces.push_back(bytes_of(text));
    for (const size_t head : heads) {
      sockets.here().send(noise(head, 9), pieces);
      sockets.here().send("nothing behind this");
    }
  });
  size_t cut = 1;
  for (const size_t head : heads) {
    const auto message = sockets.there().receive(kLong);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->text, noise(head, 9));
    ASSERT_EQ(message->payload_bytes, static_cast<int64_t>(whole.size()));
    std::string received;
    for (; received.size() < whole.size(); cut = cut * 7 % 200'003)
      received += receive_text(sockets.there(), std::min(cut, whole.size() - received.size()));
    EXPECT_EQ(received, whole);
    const auto empty = sockets.there().receive(kLong);
    ASSERT_TRUE(empty);
    EXPECT_EQ(empty->text, "nothing behind this");
    EXPECT_EQ(empty->payload_bytes, 0);
    sockets.there().receive_payload({});
  }
  sender.join();
}

// More pieces than the system takes at once.
TEST_P(MessageSocketOver, APayloadMayHaveManyPieces) {
  Sockets sockets(GetParam());
  const std::string text = noise(5000, 3);
  std::vector<Bytes> pieces;
  for (size_t i = 0; i < text.size(); ++i) pieces.push_back(bytes_of(text).subspan(i, 1));
  std::thread sender([&] { sockets.here().send("", pieces); });
  ASSERT_TRUE(sockets.there().receive(kLong));
  EXPECT_EQ(receive_text(sockets.there(), text.size()), text);
  sender.join();
}

TEST_P(MessageSocketOver, BothDirectionsMoveAtOnce) {
  Sockets sockets(GetParam());
  const std::string text = noise(3'000'000, 5);
  const auto send = [&](MessageSocket& socket) {
    for (int i = 0; i < 4; ++i) {
      const Bytes piece = bytes_of(text);
      socket.send("part", {&piece, 1});
    }
  };
  const auto receive = [&](MessageSocket& socket) {
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(socket.receive(kLong));
      EXPECT_TRUE(receive_text(socket, text.size()) == text);
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(send, std::ref(sockets.here()));
  threads.emplace_back(send, std::ref(sockets.there()));
  threads.emplace_back(receive, std::ref(sockets.here()));
  receive(sockets.there());
  for (std::thread& thread : threads) thread.join();
}

TEST_P(MessageSocketOver, CloseEndsWaitsOnBothSides) {
  Sockets sockets(GetParam());
  const std::string much = noise(30'000'000, 1);
  const Bytes piece = bytes_of(much);
  auto sends = std::async(std::launch::async, [&] {
    return error_of([&] { sockets.here().send("much", {&piece, 1}); });
  });
  auto receives = std::async(std::launch::async,
                             [&] { return error_of([&] { sockets.here().receive(kLong); }); });
  ASSERT_TRUE(sockets.there().receive(kLong));
  sockets.here().close();
  for (auto* ended : {&sends, &receives}) {
    const Error error = ended->get();
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("ps 0"));
  }
  EXPECT_EQ(error_of([&] { receive_text(sockets.there(), much.size()); }).kind(),
            ErrorKind::kPeerLost);
  EXPECT_EQ(error_of([&] { sockets.here().send("more"); }).kind(), ErrorKind::kCancelled);
}

TEST_P(MessageSocketOver, MessagesSentBeforeTheEndArrive) {
  Sockets sockets(GetParam());
  sockets.here().send("goodbye");
  sockets.end_here();
  const auto last = sockets.there().receive(kLong);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->text, "goodbye");
  const Error error = error_of([&] { sockets.there().receive(kLong); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.message(), HasSubstr("lost worker 1"));
  // SIGPIPE would end this program.
  EXPECT_EQ(error_of([&] { sockets.there().send("are you there?"); }).kind(), ErrorKind::kPeerLost);
}

TEST_P(MessageSocketOver, APeerThatDoesNotReadIsGivenUpAfterTheIdleTime) {
  Sockets sockets(GetParam());
  // From now on: keys are agreed on, for which a busy machine may need longer.
  sockets.here().set_options({.peer = "ps 0", .idle_timeout_seconds = 0.1});
  const std::string much = noise(30'000'000, 1);
  const Bytes piece = bytes_of(much);
  const Error error = error_of([&] { sockets.here().send("much", {&piece, 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("nothing moved for 0.1 s while sending to ps 0"));
  // Half a message was sent, so nothing may follow it.
  EXPECT_EQ(error_of([&] { sockets.here().send("more"); }).message(), error.message());
}

// --- open files with messages ---

// A file with this text.
FileDescriptor file_of(const std::string& text) {
  FileDescriptor file(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return file;
}

std::string text_of(const FileDescriptor& file) {
  std::string text(100, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::pread(file.get(), text.data(), 100, 0))));
  return text;
}

size_t open_files() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(MessageSocket, AFileTravelsBesideAMessage) {
  Sockets sockets(Sockets::Carrier::kPlain);
  ASSERT_TRUE(sockets.here().carries_files());
  sockets.there().keep_files();
  sockets.here().send("before");
  sockets.here().send_with_file("a file", file_of("what is in it"));
  sockets.here().send("behind");
  EXPECT_EQ(sockets.there().receive(kLong)->text, "before");
  EXPECT_EQ(sockets.there().receive(kLong)->text, "a file");
  EXPECT_EQ(text_of(sockets.there().take_file()), "what is in it");
  EXPECT_EQ(sockets.there().receive(kLong)->text, "behind");
  EXPECT_FALSE(sockets.there().take_file().is_open());
}

TEST(MessageSocket, FilesThatNobodyAskedForAreClosed) {
  Sockets sockets(Sockets::Carrier::kPlain);
  const FileDescriptor file = file_of("text");
  const size_t before = open_files();
  for (int i = 0; i < 3; ++i) sockets.here().send_with_file("a file", file);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sockets.there().receive(kLong)->text, "a file");
  EXPECT_FALSE(sockets.there().take_file().is_open());
  EXPECT_EQ(open_files(), before);
  // Of several files, one is kept.
  sockets.there().keep_files();
  for (int i = 0; i < 3; ++i) sockets.here().send_with_file("a file", file);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sockets.there().receive(kLong)->text, "a file");
  EXPECT_EQ(open_files(), before + 1);
  EXPECT_EQ(text_of(sockets.there().take_file()), "text");
}

// Several files in one control message: the buffer holds one.
TEST(MessageSocket, MoreFilesThanOneAreClosed) {
  HalfRaw half;
  half.socket.keep_files();
  const FileDescriptor file = file_of("text");
  const size_t before = open_files();
  std::string bytes = HalfRaw::header(2, 0) + "hi";
  iovec piece{.iov_base = bytes.data(), .iov_len = bytes.size()};
  constexpr size_t kFiles = 4;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFiles * sizeof(int))> control{};
  msghdr letter{};
  letter.msg_iov = &piece;
  letter.msg_iovlen = 1;
  letter.msg_control = control.data();
  letter.msg_controllen = control.size();
  cmsghdr* const attached = CMSG_FIRSTHDR(&letter);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(kFiles * sizeof(int));
  const std::array<int, kFiles> files{file.get(), file.get(), file.get(), file.get()};
  std::memcpy(CMSG_DATA(attached), files.data(), sizeof files);
  ASSERT_EQ(::sendmsg(half.raw.get(), &letter, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(half.socket.receive(kLong)->text, "hi");
  (void)half.socket.take_file();
  EXPECT_EQ(open_files(), before);
}

TEST(MessageSocket, TlsCarriesNoFiles) {
  Sockets sockets(Sockets::Carrier::kTls);
  EXPECT_FALSE(sockets.here().carries_files());
  EXPECT_EQ(error_of([&] { sockets.here().send_with_file("a file", file_of("text")); }).kind(),
            ErrorKind::kInternal);
}

TEST(MessageSocket, SaysWhoIsThere) {
  HalfRaw half;
  EXPECT_EQ(half.socket.peer(), "worker 1 (10.0.0.3)");
  EXPECT_EQ(half.socket.peer_task(), "worker:1");
}

TEST(MessageSocket, AWaitForAMessageEndsAndCanBeginAgain) {
  HalfRaw half;
  EXPECT_FALSE(half.socket.receive(0));
  EXPECT_FALSE(half.socket.receive(0.01));
  half.write(HalfRaw::header(2, 0) + "hi");
  const auto message = half.socket.receive(0);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->text, "hi");
}

TEST(MessageSocket, AMessageThatStandsStillIsGivenUp) {
  for (const std::string& begun :
       {std::string(kFrameMagic), HalfRaw::header(5, 0), HalfRaw::header(5, 0) + "hell"}) {
    HalfRaw half(/*idle_seconds=*/0.05);
    half.write(begun);
    const Error error = error_of([&] { half.socket.receive(kLong); });
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.message(), HasSubstr("worker 1 (10.0.0.3)"));
  }
}

// The whole takes longer than the idle time, and no pause does. Where a busy machine made one, this
// says nothing, and is tried again.
TEST(MessageSocket, AMessageThatMovesIsNotGivenUp) {
  using Steady = std::chrono::steady_clock;
  constexpr double kIdle = 0.6;
  const std::string bytes = HalfRaw::header(5, 1) + "hello!";
  for (int i = 0; i < 20; ++i) {
    HalfRaw half(kIdle);
    double longest = 0;  // pause, in seconds
    std::thread slow([&] {
      auto last = Steady::now();
      for (size_t at = 0; at < bytes.size(); at += 3) {
        // After too long a pause the bytes are not read any more.
        const std::string piece = bytes.substr(at, 3);
        (void)!::send(half.raw.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
        longest = std::max(longest, std::chrono::duration<double>(Steady::now() - last).count());
        last = Steady::now();
        // The test sends slower than the idle time for all of it, and quicker for each piece.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    });
    std::string text;
    try {
      text = half.socket.receive(kLong).value().text;
      text += receive_text(half.socket, 1);
    } catch (const Error& error) {
      text = error.what();
    }
    slow.join();
    if (longest >= kIdle) continue;
    EXPECT_EQ(text, "hello!");
    return;
  }
  FAIL() << "the machine was too busy";
}

TEST(MessageSocket, ALongHeadIsRefusedOnBothSides) {
  Sockets sockets(Sockets::Carrier::kPlain);
  const Error error = error_of([&] { sockets.here().send(std::string(kMaxHeadBytes + 1, 'x')); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("1048577"));
  sockets.here().send("nothing of it was sent");
  EXPECT_EQ(sockets.there().receive(kLong)->text, "nothing of it was sent");

  HalfRaw half(kLong, /*most_head=*/100);
  half.write(HalfRaw::header(101, 0));
  EXPECT_EQ(error_of([&] { half.socket.receive(kLong); }).kind(), ErrorKind::kCorrupt);
}

TEST(MessageSocket, BytesThatAreNoMessageEndTheConnection) {
  for (const std::string& wrong : {std::string("GET / HTTP/1.1\r\n\r\n"), HalfRaw::header(0, -1),
                                   HalfRaw::header(0, int64_t{1} << 60), noise(100, 4)}) {
    HalfRaw half;
    half.write(wrong);
    const Error error = error_of([&] { half.socket.receive(kLong); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.message(), HasSubstr("worker 1 (10.0.0.3)"));
    EXPECT_EQ(error_of([&] { half.socket.send(""); }).kind(), ErrorKind::kCorrupt);
  }
}

TEST(MessageSocket, APeerThatGoesInTheMiddleOfAPayloadIsLost) {
  HalfRaw half;
  half.write(HalfRaw::header(3, 200'000) + "put" + noise(150'000, 2));
  ASSERT_TRUE(half.socket.receive(kLong));
  receive_text(half.socket, 50'000);
  half.raw = FileDescriptor();
  const Error error = error_of([&] { receive_text(half.socket, 150'000); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.message(),
              HasSubstr("lost worker 1 (10.0.0.3) with 50000 bytes of its message missing"));
  EXPECT_EQ(half.socket.payload_left(), 50'000);
}

TEST(MessageSocket, APayloadIsReadOrSkipped) {
  Sockets sockets(Sockets::Carrier::kPlain);
  const std::string text = noise(100'000, 2);
  const Bytes piece = bytes_of(text);
  sockets.here().send("first", {&piece, 1});
  sockets.here().send("second");
  ASSERT_TRUE(sockets.there().receive(kLong));
  EXPECT_EQ(sockets.there().payload_left(), 100'000);
  EXPECT_EQ(error_of([&] { sockets.there().receive(kLong); }).kind(), ErrorKind::kInternal);
  EXPECT_EQ(error_of([&] { receive_text(sockets.there(), 100'001); }).kind(), ErrorKind::kInternal);
  EXPECT_EQ(receive_text(sockets.there(), 10), text.substr(0, 10));
  sockets.there().skip_payload();
  EXPECT_EQ(sockets.there().payload_left(), 0);
  EXPECT_EQ(sockets.there().receive(kLong)->text, "second");
  sockets.there().skip_payload();
}

}  // namespace
}  // namespace muster::inline v0_1::net
