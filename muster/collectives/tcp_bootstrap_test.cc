#include "muster/collectives/internal/tcp_bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/secret.h"
#include "muster/collectives/internal/handshake.h"
#include "muster/collectives/internal/point_to_point.h"
#include "muster/collectives/internal/tcp_socket.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::internal {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TcpGroupOptions options_for(MemoryStore& store, int rank, int size) {
  return {.store = &store,
          .rank = rank,
          .size = size,
          .address = "127.0.0.1",
          .prefix = "group/",
          .timeout = 20s};
}

// Sends a number to every peer and takes theirs.
void exchange(const TcpGroupOptions& options) {
  PointToPoint link(options);
  const int32_t own = 100 + options.rank;
  std::vector<int32_t> theirs(static_cast<size_t>(options.size), -1);
  std::vector<std::unique_ptr<Transfer>> transfers;
  const auto end = std::chrono::steady_clock::now() + 10s;
  for (int r = 0; r < options.size; ++r) {
    if (r == options.rank) continue;
    for (const Lane lane : {Lane::kControl, Lane::kBulk}) {
      auto receive = link.receive(
          r, lane, reinterpret_cast<std::byte*>(&theirs[static_cast<size_t>(r)]), 4, 9);
      auto send = link.send(r, lane, reinterpret_cast<const std::byte*>(&own), 4, 9);
      EXPECT_EQ(link.wait(*send, r, lane, end), PointToPoint::End::kDone);
      EXPECT_EQ(link.wait(*receive, r, lane, end), PointToPoint::End::kDone);
      EXPECT_EQ(theirs[static_cast<size_t>(r)], 100 + r);
    }
  }
}

TEST(TcpBootstrap, RanksMeet) {
  for (const int size : {2, 5}) {
    MemoryStore store;
    testing::run_ranks(size, [&](int rank) { exchange(options_for(store, rank, size)); });
  }
}

// Everything that an unauthenticated peer knows: where a rank listens.
std::string address_of_rank(MemoryStore& store, int rank) {
  return store.get("group/at/" + std::to_string(rank), 10s);
}

// Whether a connection to the address is refused.
bool is_refused(const std::string& address) {
  try {
    const FileDescriptor made = start_connect_tcp(address);
    pollfd entry{.fd = made.get(), .events = POLLOUT, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, 30'000), 1);
    int error = 0;
    socklen_t size = sizeof error;
    EXPECT_EQ(getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size), 0);
    return error == ECONNREFUSED;
  } catch (const Error&) {
    return true;
  }
}

TEST(TcpBootstrap, WhoHasMetListensNoMore) {
  MemoryStore store;
  testing::run_ranks(3, [&](int rank) {
    const TcpGroupOptions options = options_for(store, rank, 3);
    const PointToPoint link(options);
    EXPECT_TRUE(is_refused(address_of_rank(store, rank))) << rank;
  });
}

// Hundreds connect and say nothing, or something, while the ranks meet; some hold on until the end.
TEST(TcpBootstrap, UnauthenticatedPeersHoldUpNobody) {
  MemoryStore store;
  std::vector<FileDescriptor> silent;
  std::thread intruders([&] {
    const std::string address = address_of_rank(store, 0);
    for (int i = 0; i < 200; ++i) {
      try {
        silent.push_back(start_connect_tcp(address));
      } catch (const Error&) {
        break;  // the ranks have met
      }
      if (i % 2 == 0) ::send(silent.back().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
    }
    store.set("intruders", "are here");
  });
  try {
    testing::run_ranks(3, [&](int rank) {
      if (rank == 2) store.get("intruders", 10s);
      exchange(options_for(store, rank, 3));
    });
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  intruders.join();
}

// Lets rank 0 take turns only on request.
class Turns {
 public:
  // As TcpGroupOptions::check: is called once in a turn.
  void wait() {
    std::unique_lock lock(mutex_);
    ++taken_;
    changed_.notify_all();
    changed_.wait_for(lock, 20s, [this] { return free_; });
  }
  // Until `n` turns are over.
  void await(int n) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, 20s, [&] { return taken_ >= n; }));
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }
  int taken() {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int taken_ = 0;
  bool free_ = false;
};

FileDescriptor connected(const std::string& address) {
  FileDescriptor made = start_connect_tcp(address);
  pollfd entry{.fd = made.get(), .events = POLLOUT, .revents = 0};
  EXPECT_EQ(poll(&entry, 1, 30'000), 1);
  return made;
}

// A peer that has said hello keeps its place, however many connect after it before rank 0 looks
// again.
TEST(TcpBootstrap, AFloodDoesNotWashAwayThePeers) {
  constexpr int kFlood = 300;
  MemoryStore store;
  Turns turns;
  TcpGroupOptions options = options_for(store, 0, 2);
  options.check = [&] { turns.wait(); };
  std::thread rank_0([&] {
    try {
      connect_tcp_group(options);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  });
  const std::string address = address_of_rank(store, 0), secret = store.get("group/secret", 10s);
  turns.await(1);
  std::vector<Handshake> peers;
  std::vector<FileDescriptor> silent;
  for (const Lane lane : {Lane::kControl, Lane::kBulk}) {
    peers.emplace_back(connected(address), secret, 1, 0, lane);
    EXPECT_EQ(peers.back().advance(), Handshake::State::kRunning);  // it has said hello
    for (int i = 0; i < kFlood / 2; ++i) silent.push_back(connected(address));
  }
  const int before = turns.taken();
  turns.go_on();
  const auto end = std::chrono::steady_clock::now() + 20s;
  for (Handshake& peer : peers) {
    // A handshake is asked again and again; it has no event to wait for.
    while (peer.advance() == Handshake::State::kRunning && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(peer.advance(), Handshake::State::kDone) << peer.reason();
  }
  rank_0.join();
  EXPECT_GT(turns.taken() - before, 3) << "all were accepted at once";
}

// A rank that is dropped does not become a flood itself.
TEST(TcpBootstrap, ARankThatIsDroppedPausesBeforeItComesAgain) {
  MemoryStore store;
  const TcpListener full = listen_tcp("127.0.0.1");
  store.set("group/at/0", full.address);
  store.set("group/secret", random_secret());
  TcpGroupOptions options = options_for(store, 1, 2);
  options.timeout = 300ms;
  int came = 0;
  // On a busy machine the time may be over before it has come again.
  for (int attempt = 0; attempt < 10 && came <= 2; ++attempt) {
    came = 0;
    std::thread rank_1([&] { EXPECT_THROW(connect_tcp_group(options), Error); });
    const auto end = std::chrono::steady_clock::now() + 400ms;
    while (std::chrono::steady_clock::now() < end) {
      if (accept_tcp(full.socket)) ++came;  // and is dropped
    }
    rank_1.join();
    EXPECT_LE(came, 2 * (300 / 20 + 1) + 2);
  }
  EXPECT_GT(came, 2) << "it does not come again";
}

TEST(TcpSocket, OnlyWhatEndsTheListenerEndsTheWait) {
  for (const int code : {EAGAIN, EINTR, ECONNABORTED, ENETDOWN, EPROTO, ENOPROTOOPT, EHOSTDOWN,
                         ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH}) {
    EXPECT_TRUE(spares_the_listener(code)) << code;
  }
  for (const int code : {EMFILE, ENFILE, EBADF, EINVAL, ENOMEM}) {
    EXPECT_FALSE(spares_the_listener(code)) << code;
  }
}

// A peer without the secret can neither join nor be joined.
TEST(TcpBootstrap, TheSecretDecides) {
  TcpListener listener = listen_tcp("127.0.0.1");
  for (const bool knows : {true, false}) {
    const std::string secret = random_secret();
    Handshake client(start_connect_tcp(listener.address), secret, 1, 0, Lane::kBulk);
    std::optional<AcceptedSocket> accepted;
    while (!accepted) accepted = accept_tcp(listener.socket);
    Handshake host(std::move(accepted->socket), knows ? secret : random_secret(), 0,
                   accepted->host);
    auto client_state = Handshake::State::kRunning, server_state = client_state;
    // Neither side has an event to wait for: a handshake is asked again and again.
    for (int i = 0; i < 1000; ++i) {
      client_state = client.advance();
      server_state = host.advance();
      std::this_thread::sleep_for(1ms);
      if (client_state != Handshake::State::kRunning && server_state != Handshake::State::kRunning)
        break;
      if (client_state == Handshake::State::kFailed) break;
    }
    if (knows) {
      EXPECT_EQ(client_state, Handshake::State::kDone);
      EXPECT_EQ(server_state, Handshake::State::kDone);
      EXPECT_EQ(host.peer_rank(), 1);
      EXPECT_EQ(host.lane(), Lane::kBulk);
    } else {
      // The client sees first that the other side proves nothing, and reveals nothing.
      EXPECT_EQ(client_state, Handshake::State::kFailed);
      EXPECT_TRUE(client.is_unauthenticated());
      EXPECT_EQ(server_state, Handshake::State::kRunning);
    }
  }
}

TEST(TcpBootstrap, AProofOfAnotherConnectionIsNoProof) {
  // An unauthenticated peer that has listened to one handshake plays it back.
  TcpListener listener = listen_tcp("127.0.0.1");
  const std::string secret = random_secret();
  const auto connect = [&] {
    FileDescriptor made = start_connect_tcp(listener.address);
    pollfd entry{.fd = made.get(), .events = POLLOUT, .revents = 0};
    poll(&entry, 1, 30'000);
    return made;
  };
  const auto accept = [&] {
    std::optional<AcceptedSocket> accepted;
    while (!accepted) accepted = accept_tcp(listener.socket);
    return std::move(accepted->socket);
  };
  const auto take = [](const FileDescriptor& socket, size_t bytes) {
    std::string text(bytes, '\0');
    pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
    poll(&entry, 1, 30'000);
    EXPECT_EQ(recv(socket.get(), text.data(), bytes, 0), static_cast<ssize_t>(bytes));
    return text;
  };
  // Both sides of an honest one, with the intruder in the middle.
  Handshake honest(start_connect_tcp(listener.address), secret, 1, 0, Lane::kControl);
  const FileDescriptor from_honest = accept();
  honest.advance();
  char hello[256];
  pollfd entry{.fd = from_honest.get(), .events = POLLIN, .revents = 0};
  poll(&entry, 1, 30'000);
  const ssize_t hello_bytes = recv(from_honest.get(), hello, sizeof(hello), 0);
  ASSERT_GT(hello_bytes, 0);
  const auto play = [&](const std::string& proof) {
    const FileDescriptor intruder = connect();
    Handshake host(accept(), secret, 0, "127.0.0.1");
    EXPECT_EQ(::send(intruder.get(), hello, static_cast<size_t>(hello_bytes), 0), hello_bytes);
    while (host.advance() == Handshake::State::kRunning) {
      pollfd reply{.fd = intruder.get(), .events = POLLIN, .revents = 0};
      if (poll(&reply, 1, 1) > 0) break;
    }
    const std::string challenge = take(intruder, 96);
    if (proof.empty()) {  // handed to the honest one, which answers it
      ::send(from_honest.get(), challenge.data(), challenge.size(), 0);
      honest.advance();
      return take(from_honest, 32);
    }
    ::send(intruder.get(), proof.data(), proof.size(), 0);
    // The bytes of the intruder take a moment from socket to socket, and a handshake has no event
    // to wait for: it is asked again and again.
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (host.advance() == Handshake::State::kRunning && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(host.advance(), Handshake::State::kFailed);
    EXPECT_TRUE(host.is_unauthenticated());
    return std::string();
  };
  const std::string heard = play("");
  ASSERT_EQ(heard.size(), 32u);
  play(heard);
}

TEST(TcpBootstrap, AFailureThatTheCallerKnowsOfEndsTheWait) {
  MemoryStore store;
  store.set("group/at/1", "127.0.0.1:1");
  TcpGroupOptions options = options_for(store, 0, 2);
  const auto start = std::chrono::steady_clock::now();
  options.check = [&] {
    if (std::chrono::steady_clock::now() - start > 200ms)
      throw Error(ErrorKind::kPeerLost, "worker 1 was lost");
  };
  try {
    connect_tcp_group(options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  }
}

TEST(TcpBootstrap, ARankThatDoesNotConnectIsNamed) {
  MemoryStore store;
  TcpGroupOptions options = options_for(store, 0, 3);
  options.timeout = 100ms;
  options.shown_ranks = {4, 5, 6};
  try {
    connect_tcp_group(options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("rank 4 of 3 waits at 127.0.0.1:"));
    EXPECT_THAT(error.what(), HasSubstr("rank 5, rank 6 did not appear within 100 ms"));
  }
}

TEST(TcpBootstrap, APeerThatIsGoneIsNamed) {
  MemoryStore store;
  {
    const TcpListener gone = listen_tcp("127.0.0.1");
    store.set("group/at/0", gone.address);
  }
  store.set("group/secret", random_secret());
  try {
    connect_tcp_group(options_for(store, 1, 2));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 could not connect to rank 0 at 127.0.0.1:"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::internal
