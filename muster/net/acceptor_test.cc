#include "muster/net/internal/acceptor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/net/internal/frame.h"
#include "muster/net/internal/testing.h"
#include "tests/support/raw_connection.h"

namespace muster::inline v0_1::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The first bytes from a task of a job.
constexpr std::string_view kOpening = kFrameMagic;

// An acceptor whose connections are kept open until the test ends.
class Hall {
 public:
  explicit Hall(AcceptorLimits limits, bool tls = false)
      : Hall(Listener("127.0.0.1", 0, "here", ""), limits, tls) {}
  ~Hall() {
    acceptor_.stop();
    for (const int fd : kept_) ::close(fd);
  }
  int port() const { return port_; }
  Acceptor& acceptor() { return acceptor_; }
  int taken() const { return taken_; }
  // The acceptor's thread counts them, without a notice.
  void wait_for_taken(int count) {
    for (int i = 0; i < kSoon && taken_ < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(taken_, count);
  }

 private:
  Hall(Listener listener, AcceptorLimits limits, bool tls)
      : port_(listener.port()),
        acceptor_(std::move(listener), limits, "the coordinator", tls, log_,
                  [this](int fd, const Peer&) {
                    kept_.push_back(fd);
                    ++taken_;
                  }) {
    acceptor_.start();
  }

  const int port_;
  RefusalLog log_;
  std::vector<int> kept_;
  std::atomic<int> taken_ = 0;
  Acceptor acceptor_;  // last: its thread uses the members above
};

// Limits for a test that must not run into a timeout.
AcceptorLimits patient(AcceptorLimits limits = {}) {
  limits.seconds = kLong;
  return limits;
}

TEST(Acceptor, PeersThatSpeakInFramesAreTakenAndOthersAreLoggedOnce) {
  const std::string log = log_of([] {
    Hall hall(patient());
    for (int i = 0; i < 3; ++i) {
      RawConnection browser(hall.port(), "127.0.0.2"), secret(hall.port(), "127.0.0.3"),
          noise(hall.port(), "127.0.0.4"), older(hall.port(), "127.0.0.5");
      browser.send("GET / HTTP/1.1\r\n\r\n");
      secret.send("\x16\x03\x01");
      noise.send("hello");
      older.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
      for (RawConnection* intruder : {&browser, &secret, &noise, &older})
        EXPECT_TRUE(intruder->ends_within(kSoon));
    }
    RawConnection slow(hall.port());
    slow.send(kOpening.substr(0, 2));
    EXPECT_FALSE(slow.ends_within(20));
    hall.wait_for_taken(0);
    slow.send(kOpening.substr(2));
    hall.wait_for_taken(1);
  });
  EXPECT_THAT(log, AllOf(HasSubstr("127.0.0.2: it speaks HTTP/1"),
                         HasSubstr("127.0.0.3: it speaks TLS, and this task has no certificates"),
                         HasSubstr("127.0.0.4: its message is not from a task"),
                         HasSubstr("127.0.0.5: it speaks HTTP/2")));
  EXPECT_EQ(std::ranges::count(log, '\n'), 4) << log;
}

TEST(Acceptor, WithCertificatesOnlyTlsIsTaken) {
  const std::string log = log_of([] {
    Hall hall(patient(), /*tls=*/true);
    RawConnection plain(hall.port(), "127.0.0.2"), secret(hall.port());
    plain.send(kOpening);
    EXPECT_TRUE(plain.ends_within(kSoon));
    secret.send("\x16\x03\x01");
    hall.wait_for_taken(1);
  });
  EXPECT_THAT(log, HasSubstr("127.0.0.2: it does not speak TLS, and this job has certificates"));
}

TEST(Acceptor, AConnectionWithoutAProofEndsInTime) {
  Hall hall({.seconds = 0.2});
  RawConnection silent(hall.port()), speaker(hall.port());
  speaker.send(kOpening);
  EXPECT_TRUE(silent.ends_within(kSoon));
  EXPECT_TRUE(speaker.ends_within(kSoon));
}

TEST(Acceptor, AConnectionWithAProofStays) {
  Hall hall({.seconds = 0.2});
  std::optional<RawConnection> member;
  // On a busy machine the time may be over before this test has proved the connection.
  bool proved = false;
  for (int i = 0; i < 100 && !proved; ++i) {
    const int before = hall.taken();
    member.emplace(hall.port());
    member->send(kOpening);
    while (hall.taken() == before && !member->ends_within(1)) {
    }
    proved = hall.taken() > before && hall.acceptor().proved({"127.0.0.1", member->own_port()});
  }
  ASSERT_TRUE(proved);
  EXPECT_FALSE(member->ends_within(300));
}

TEST(Acceptor, AConnectionWithoutAProofSendsLittle) {
  Hall hall(patient({.bytes = 1000}));
  RawConnection at_once(hall.port()), later(hall.port()), member(hall.port());
  const std::string much = std::string(kOpening) + std::string(1000, 'x');
  at_once.send(much);
  EXPECT_TRUE(at_once.ends_within(kSoon));
  hall.wait_for_taken(0);
  for (RawConnection* speaker : {&later, &member}) speaker->send(kOpening);
  hall.wait_for_taken(2);
  hall.acceptor().proved({"127.0.0.1", member.own_port()});
  later.send(much);
  member.send(much);
  EXPECT_TRUE(later.ends_within(kSoon));
  EXPECT_FALSE(member.ends_within(50));
}

// Of two places, the one with more connections loses its oldest.
TEST(Acceptor, AFloodFromOnePlaceDoesNotReachAnother) {
  Hall hall(patient({.connections = 4}));
  RawConnection quiet(hall.port(), "127.0.0.2");
  std::vector<RawConnection> flood;
  for (int i = 0; i < 50; ++i) flood.emplace_back(hall.port(), "127.0.0.3");
  for (int i = 0; i < 47; ++i) EXPECT_TRUE(flood[static_cast<size_t>(i)].ends_within(kSoon)) << i;
  EXPECT_FALSE(flood.back().ends_within(20));
  quiet.send(kOpening);
  hall.wait_for_taken(1);
}

// A task that shares its address with a flood loses nothing once it has shown the token.
TEST(Acceptor, AFloodDoesNotReachWhatIsProvedAtItsAddress) {
  Hall hall(patient({.connections = 4}));
  RawConnection member(hall.port(), "127.0.0.3");
  member.send(kOpening);
  hall.wait_for_taken(1);
  hall.acceptor().proved({"127.0.0.3", member.own_port()});
  std::vector<RawConnection> flood;
  for (int i = 0; i < 50; ++i) flood.emplace_back(hall.port(), "127.0.0.3");
  for (int i = 0; i < 46; ++i) EXPECT_TRUE(flood[static_cast<size_t>(i)].ends_within(kSoon)) << i;
  EXPECT_FALSE(member.ends_within(50));
}

// Runs in a process of its own, which ends with 0 when it went well.
[[noreturn]] void run_out_of_descriptors() {
  Hall hall({});
  const rlimit few{.rlim_cur = 64, .rlim_max = 64};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) std::_Exit(1);
  std::vector<RawConnection> held;
  // The other ends of these have no descriptors left.
  while (held.empty() || held.back().connected()) held.emplace_back(hall.port());
  const bool ended = held.front().ends_within(kSoon);
  held.clear();
  RawConnection after(hall.port());
  after.send(kOpening);
  hall.wait_for_taken(1);
  log::flush();
  std::_Exit(ended && !::testing::Test::HasFailure() ? 0 : 2);
}

TEST(AcceptorDeathTest, ContinuesWhenThereAreDescriptorsAgain) {
#ifdef __SANITIZE_ADDRESS__
  // Its check of types opens a pipe to look at memory, and reports memory that it cannot look at as
  // an error.
  GTEST_SKIP() << "the sanitizer of undefined behaviour needs descriptors itself";
#endif
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(run_out_of_descriptors(), ::testing::ExitedWithCode(0), "cannot accept a connection");
}

TEST(RefusalLogTest, HasOneLineOfEachAnd256OfAll) {
  ::testing::internal::CaptureStderr();
  RefusalLog log;
  for (int turn = 0; turn < 2; ++turn) {
    for (int host = 0; host < 300; ++host) log.tell("host " + std::to_string(host) + " is refused");
  }
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(told, '\n'), 256);
  EXPECT_EQ(log.last(), "host 299 is refused");
}

TEST(Peer, HasANeighbourhood) {
  EXPECT_EQ(neighbourhood({"2001:db8:1:2:3:4:5:6", 1}), "2001:db8:1:2::");
  EXPECT_EQ(neighbourhood({"10.0.0.1", 1}), "10.0.0.1");
}

// The reason is the system's, for IPv6 too.
TEST(Listener, WhereAnotherListensTheReasonAndTheHintAreGiven) {
  for (const std::string host : {"127.0.0.1", "localhost", "0.0.0.0", "::1"}) {
    const std::string where = host == "::1" ? "::1" : "127.0.0.1";
    std::optional<Listener> first;
    try {
      first.emplace(where, 0, "first", "");
    } catch (const Error&) {
      ASSERT_EQ(where, "::1") << "only IPv6 may be missing";
      continue;
    }
    const Error error = error_of([&] { Listener(host, first->port(), "chief:0 at here", "move"); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << host;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("chief:0 at here"), HasSubstr("in use"))) << host;
    EXPECT_EQ(error.hint(), "move");
  }
}

// A numeric address of this machine binds that one alone.
TEST(Listener, ListensAtItsAddressAlone) {
  Listener listener("127.0.0.2", 0, "here", "");
  EXPECT_FALSE(RawConnection(listener.port()).connected());
  Listener all("0.0.0.0", 0, "here", "");
  EXPECT_TRUE(RawConnection(all.port()).connected());
}

}  // namespace
}  // namespace muster::inline v0_1::net
