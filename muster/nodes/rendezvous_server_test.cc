#include "muster/nodes/rendezvous_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/file_descriptor.h"
#include "muster/nodes/rendezvous_client.h"

namespace muster::inline v0_1::nodes {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

using Told = NodeReport::State;
using State = RunView::State;

NodeReport launcher(int node, int nodes = 2) {
  return {.node = node,
          .nodes = nodes,
          .host = "host" + std::to_string(node),
          .job_id = "job",
          .flags = {"--workers=1"},
          .state = Told::kReady,
          .addresses = {"127.0.0.1:1"}};
}

RendezvousOptions options_of(int restarts = 0) {
  return {.first = launcher(0),
          .id = 5,
          .join_timeout = 60,
          .restarts = {.restarts = restarts},
          .membership = {.heartbeat_timeout = 1.5, .reconnect_timeout = 0.3, .twins_wait = true}};
}

class Served {
 public:
  explicit Served(int restarts = 0) : server_("127.0.0.1:0", job_, options_of(restarts)) {}
  std::unique_ptr<RendezvousClient> client(NodeReport report, uint64_t process,
                                           const std::string& address = {}) {
    return std::make_unique<RendezvousClient>(
        ClientOptions{.address = address.empty() ? server_.address() : address,
                      .job = job_,
                      .process = process,
                      .limits = {.heartbeat_timeout = 1.5, .reconnect_timeout = 0.3}},
        std::move(report));
  }
  RendezvousServer& server() { return server_; }

 private:
  cluster::Job job_{.id = "job", .token = "a token of sixteen or more"};
  RendezvousServer server_;
};

void await_state(const RendezvousClient& client, State state, int64_t round = 0) {
  await([&] {
    const RunView view = client.view();
    return view.state == state && view.rendezvous != 0 && (round == 0 || view.round == round);
  });
}

void runs(RendezvousClient& client, int64_t round) {
  const int64_t entry = client.view().entry;
  client.update([&](NodeReport& report) {
    report.state = Told::kRunning, report.round = round, report.entry = entry;
  });
}
void ends(RendezvousClient& client, const NodeOutcome& outcome) {
  client.update([&](NodeReport& report) { report.state = Told::kEnded, report.outcome = outcome; });
}
void ready(RendezvousClient& client) {
  const RunView view = client.view();
  client.update([&](NodeReport& report) {
    report.state = Told::kReady;
    report.outcome = {};
    report.heard_rendezvous = view.rendezvous;
    report.heard_round = view.last_round;
  });
}

// Passes bytes on between clients and a server, until the network between them is cut.
class Relay {
 public:
  explicit Relay(const std::string& to) : to_(std::stoi(to.substr(to.rfind(':') + 1))) {
    listening_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own = address_of(0);
    socklen_t size = sizeof own;
    ::bind(listening_.get(), reinterpret_cast<sockaddr*>(&own), size);
    ::listen(listening_.get(), 8);
    ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    over_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void cut(bool on) { cut_ = on; }

 private:
  static sockaddr_in address_of(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }
  // A cut network carries nothing and closes nothing.
  void run() {
    while (!over_) {
      if (cut_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      std::vector<pollfd> waits{{listening_.get(), POLLIN, 0}};
      for (const auto& pair : pairs_) {
        for (const FileDescriptor& end : pair) waits.push_back({end.get(), POLLIN, 0});
      }
      if (::poll(waits.data(), waits.size(), 5) <= 0) continue;
      if (waits[0].revents != 0) take();
      for (size_t i = 1; i < waits.size(); ++i) {
        if (waits[i].revents != 0) pass(pairs_[(i - 1) / 2], (i - 1) % 2);
      }
      std::erase_if(pairs_, [](const auto& pair) { return !pair[0].is_open(); });
    }
  }
  void take() {
    FileDescriptor in(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    FileDescriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = address_of(to_);
    if (::connect(out.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return;
    pairs_.push_back({std::move(in), std::move(out)});
  }
  static void pass(std::array<FileDescriptor, 2>& pair, size_t from) {
    std::array<char, 4096> bytes;
    if (!pair[from].is_open()) return;
    const ssize_t count = ::recv(pair[from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      (void)::send(pair[1 - from].get(), bytes.data(), static_cast<size_t>(count), MSG_NOSIGNAL);
    } else if (count == 0) {
      pair = {};
    }
  }

  const int to_;
  int port_ = 0;
  FileDescriptor listening_;
  std::vector<std::array<FileDescriptor, 2>> pairs_;
  std::atomic<bool> cut_{false}, over_{false};
  std::thread thread_;
};

TEST(RendezvousServer, LaunchersMeetAndPart) {
  Served served;
  const auto a = served.client(launcher(0), 1), b = served.client(launcher(1), 2);
  for (const auto* client : {&a, &b}) {
    await_state(**client, State::kRunning, 1);
    runs(**client, 1);
    ends(**client, {});
  }
  for (const auto* client : {&a, &b}) {
    await_state(**client, State::kOver);
    (*client)->leave(10);
  }
  EXPECT_TRUE(served.server().wait_for_all(10));
}

TEST(RendezvousServer, AnotherJobIsRefusedByNameOnBothSides) {
  Served served;
  NodeReport other = launcher(1);
  other.job_id = "other";
  const auto client = served.client(other, 2);
  Error heard(ErrorKind::kInternal, "");
  await([&] {
    try {
      client->view();
      return false;
    } catch (const Error& error) {
      heard = error;
      return true;
    }
  });
  EXPECT_EQ(heard.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(heard.message(),
            "node 1 (host1) belongs to job 'other', and the rendezvous of node 0 "
            "(host0) to job 'job'");
}

TEST(RendezvousServer, TwoLaunchersOfOneMachineAreNamed) {
  Served served;
  const auto first = served.client(launcher(1), 2);
  await_state(*first, State::kGathering);
  NodeReport twin = launcher(1);
  twin.host = "host9";
  const auto second = served.client(twin, 3);
  std::string message;
  await([&] {
    try {
      second->view();
    } catch (const Error& error) {
      message = error.message();
    }
    return !message.empty();
  });
  EXPECT_EQ(message, "another launcher is node 1 already: one on host1, and now one on host9");
  EXPECT_NO_THROW(first->view());
}

TEST(RendezvousServer, ACutNetworkIsALossOnBothSidesAndHeals) {
  Served served(/*restarts=*/1);
  Relay relay(served.server().address());
  const auto a = served.client(launcher(0), 1);
  const auto b = served.client(launcher(1), 2, relay.address());
  for (const auto* client : {&a, &b}) {
    await_state(**client, State::kRunning, 1);
    runs(**client, 1);
  }
  relay.cut(true);
  await_state(*a, State::kEnding);
  EXPECT_THAT(a->view().failure, HasSubstr("node 1 (host1) was lost: no heartbeat"));
  await([&] { return b->loss().has_value(); });
  EXPECT_FALSE(b->loss()->ended);
  const NodeOutcome lost{.exit_code = 138, .rank = 5, .reasons = {"lost a peer"}};
  ends(*a, lost);
  await_state(*a, State::kGathering);
  ready(*a);
  ends(*b, lost);  // as the launcher does where the rendezvous is lost
  relay.cut(false);
  await_state(*b, State::kGathering);
  EXPECT_FALSE(b->loss());
  ready(*b);
  for (const auto* client : {&a, &b}) await_state(**client, State::kRunning, 2);
  EXPECT_THAT(a->view().lines, Contains("starting all tasks again (1 of 1)"));
}

TEST(RendezvousServer, ItsEndIsSeen) {
  auto served = std::make_unique<Served>();
  const auto b = served->client(launcher(1), 2);
  await_state(*b, State::kGathering);
  served.reset();
  await([&] { return b->loss().has_value(); });
  EXPECT_TRUE(b->loss()->ended);
}

}  // namespace
}  // namespace muster::inline v0_1::nodes
